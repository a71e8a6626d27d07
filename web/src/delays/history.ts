// What became of a stream's segments, summed up and in words.

import type { Segment } from "./facts.js";

/** How much of the past is kept and charted, in s. */
export const SPAN = 180;

/** A picture that is held for less, in s, is not worth a word. */
const LONG = 0.2;

/** Seconds of video by what became of them. */
export interface Summary {
  total: number;
  arrived: number;
  repaired: number;
  missing: number;
  /** Mean over the frames of which it is known; NaN if it is of none. */
  ssim: number;
  /** Those whose SSIM is known. */
  rated: number;
}

/**
 * What is known of the segments of the last `SPAN` seconds: `known` before, and what the endpoint says now,
 * which wins.
 * A segment that has left the endpoint's window stays until it is too old to be charted.
 */
export function merge(known: Segment[], fresh: Segment[]): Segment[] {
  const byNumber = new Map([...known, ...fresh].map((segment) => [segment.number, segment]));
  const all = [...byNumber.values()].sort((a, b) => a.number - b.number);
  const newest = Math.max(...all.map(({ begins }) => begins));
  return all.filter(({ begins }) => begins > newest - SPAN);
}

/** Media time of the end of the last segment, in s; -Infinity if there is none. */
export function endOf(segments: Segment[], interval: number): number {
  return Math.max(Number.NEGATIVE_INFINITY, ...segments.map((one) => one.begins + one.frames * interval));
}

export function summarize(segments: Segment[], interval: number): Summary {
  const sum = (part: (segment: Segment) => number) =>
    segments.reduce((total, segment) => total + part(segment), 0);
  const rated = sum(({ rated }) => rated);
  return {
    total: sum(({ frames }) => frames) * interval,
    arrived: sum(({ arrived }) => arrived) * interval,
    repaired: sum(({ repaired }) => repaired) * interval,
    missing: sum(({ missing }) => missing) * interval,
    ssim: rated > 0 ? sum(({ ssim, rated }) => (rated > 0 ? ssim * rated : 0)) / rated : Number.NaN,
    rated: rated * interval,
  };
}

/** The segment that is shown at a media time, if it is a known one. */
export function segmentAt(segments: Segment[], time: number, interval: number): Segment | undefined {
  // A player's clock and the endpoint's dates agree to a millisecond: half a frame is on the safe side.
  const at = time + interval / 2;
  return segments.find(({ begins, frames }) => begins <= at && at < begins + frames * interval);
}

/** What the counts come to: repaired 22 s of 150 s; missing 0 s. */
export function counts({ total, repaired, missing }: Summary): string {
  return total > 0
    ? `repaired ${seconds(repaired)} of ${seconds(total)}; missing ${seconds(missing)}`
    : "no segment yet";
}

/** What is shown of a segment, in words. */
export function describe(segment: Segment | undefined, interval: number): string {
  if (segment === undefined || segment.frames === 0) {
    return "–";
  }
  const { frames, repaired, missing } = segment;
  const whole = seconds(frames * interval);
  const parts = [
    ...(repaired > 0 ? [`${some(repaired * interval)} repaired`] : []),
    ...(missing > 0 ? [`${some(missing * interval)} missing`] : []),
  ];
  return parts.length === 0 ? "as first sent" : `${parts.join(", ")} of ${whole}`;
}

/** A length above nothing, in s: a frame or two are not 0 s. */
function some(value: number): string {
  return value < 0.05 ? "<0.1 s" : seconds(value);
}

/** Why the picture stands still in this one of the segments, in words; empty if it need not. */
export function held(segments: Segment[], segment: Segment | undefined, interval: number): string {
  if (segment === undefined || segment.missing * interval < LONG) {
    return "";
  }
  return isEmpty(segment)
    ? `Nothing arrived for these ${seconds(emptyAround(segments, segment) * interval)}: the picture is held`
    : `${seconds(segment.missing * interval)} of these ${seconds(segment.frames * interval)} did not arrive: the picture is held meanwhile`;
}

/** Frames of the stretch of segments around an empty one of which nothing arrived. */
function emptyAround(segments: Segment[], segment: Segment): number {
  const at = segments.indexOf(segment);
  const isFull = (other: Segment) => !isEmpty(other);
  const from = segments.slice(0, at).findLastIndex(isFull) + 1;
  const length = segments.slice(at).findIndex(isFull);
  const stretch = segments.slice(from, length < 0 ? segments.length : at + length);
  return stretch.reduce((total, { frames }) => total + frames, 0);
}

function isEmpty({ missing, frames }: Segment): boolean {
  return missing === frames;
}

/** A length of time, in s, as people read it: 0 s, 0.4 s, 22 s, 5 min 2 s. */
export function seconds(value: number): string {
  if (!Number.isFinite(value)) {
    return "–";
  }
  const rounded = Math.abs(value) < 9.95 ? Number(value.toFixed(1)) : Math.round(value);
  return `${rounded === 0 ? 0 : rounded} s`;
}

/** A delay, in s, to a tenth: 31.4 s, and in minutes from two on. */
export function delay(value: number): string {
  if (!Number.isFinite(value)) {
    return "–";
  }
  const whole = Math.round(value);
  return Math.abs(value) < 120
    ? `${value.toFixed(1)} s`
    : `${Math.trunc(whole / 60)} min ${Math.abs(whole % 60)} s`;
}

/** A media time, in s, as a clock shows it: 0:07, 12:03, 1:02:03. */
export function clock(value: number): string {
  if (!Number.isFinite(value) || value < 0) {
    return "–";
  }
  const whole = Math.floor(value);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (part: number) => String(part).padStart(2, "0");
  return hours > 0 ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/**
 * A mean SSIM with three digits, and of which part of the video it is the mean, unless that is all of it; a dash
 * where it is not known.
 */
export function likeness(ssim: number, part: number): string {
  if (!Number.isFinite(ssim)) {
    return "–";
  }
  const percent = Math.min(99, Math.round(part * 100));
  return part >= 1 ? ssim.toFixed(3) : `${ssim.toFixed(3)} of ${percent === 0 ? "<1" : percent} %`;
}
