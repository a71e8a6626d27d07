// A timeline of segments: each a bar of what became of its frames, and below it how alike they were.

import type { Segment } from "./facts.js";
import { clock, likeness, SPAN, seconds } from "./history.js";

const SVG = "http://www.w3.org/2000/svg";
/** What a bar is made of, from the bottom up. */
const KINDS = ["arrived", "repaired", "missing"] as const;

export interface Part {
  kind: (typeof KINDS)[number];
  /** From 0, the top, to 1. */
  y: number;
  height: number;
}

/**
 * The parts of a segment's bar that there are, from the bottom up. Frames that nothing is said of leave a gap
 * on top.
 */
export function parts(segment: Segment): Part[] {
  let top = 1;
  return KINDS.flatMap((kind) => {
    const height = segment.frames > 0 ? segment[kind] / segment.frames : 0;
    top -= height;
    return height > 0 ? [{ kind, y: Math.max(0, top), height }] : [];
  });
}

/** The likeness at the bottom of its chart: 0.9, or a tenth below the least there is. */
export function leastLikeness(segments: Segment[]): number {
  const known = segments.map(({ ssim }) => ssim).filter(Number.isFinite);
  return Math.min(0.9, Math.floor(Math.min(1, ...known) * 10) / 10);
}

/**
 * Where the line of likeness runs, in pieces: media time, and 0 (alike) to 1 (`least`). Unknown ones leave a
 * gap.
 */
export function likenessLines(segments: Segment[], interval: number, least: number): [number, number][][] {
  const lines: [number, number][][] = [];
  let line: [number, number][] = [];
  for (const { begins, frames, ssim } of segments) {
    if (Number.isFinite(ssim)) {
      const y = (1 - ssim) / (1 - least);
      line.push([begins, y], [begins + frames * interval, y]);
    } else if (line.length > 0) {
      lines.push(line);
      line = [];
    }
  }
  return line.length > 0 ? [...lines, line] : lines;
}

/**
 * A drawing whose width is the charted span in seconds and whose height is 1, stretched to where it stands.
 */
export class Timeline {
  readonly #bars: SVGSVGElement;
  readonly #lines: SVGSVGElement;
  readonly #head: SVGElement;
  #drawn: Segment[] = [];

  constructor(bars: SVGSVGElement, lines: SVGSVGElement) {
    this.#bars = bars;
    this.#lines = lines;
    this.#head = element("line", { class: "head", y1: 0, y2: 1 });
  }

  /** Draws the segments, unless they are the ones drawn. */
  draw(segments: Segment[], interval: number): void {
    if (segments === this.#drawn) {
      return;
    }
    this.#drawn = segments;
    this.#bars.replaceChildren(...segments.map((segment) => bar(segment, interval)), this.#head);
    const least = leastLikeness(segments);
    const lines = likenessLines(segments, interval, least);
    this.#lines.replaceChildren(
      ...lines.map((line) => element("polyline", { points: line.map(([x, y]) => `${x},${y}`).join(" ") })),
    );
  }

  /** Has the charted span end at media time `end`, with a line where the player is, `now`. */
  scroll(end: number, now: number): void {
    for (const drawing of [this.#bars, this.#lines]) {
      drawing.setAttribute("viewBox", `${Number.isFinite(end) ? end - SPAN : 0} 0 ${SPAN} 1`);
    }
    const x = String(Number.isFinite(now) ? now : -SPAN);
    this.#head.setAttribute("x1", x);
    this.#head.setAttribute("x2", x);
  }
}

function bar(segment: Segment, interval: number): SVGElement {
  const group = element("g", {});
  const title = element("title", {});
  title.textContent = words(segment, interval);
  // A sliver stays free between two bars.
  const width = Math.max(segment.frames * interval * 0.92, 0);
  const rectangles = parts(segment).map(({ kind, y, height }) =>
    element("rect", { class: kind, x: segment.begins, width, y, height }),
  );
  group.append(title, ...rectangles);
  return group;
}

function words(segment: Segment, interval: number): string {
  const shares = KINDS.map((kind) => `${kind} ${seconds(segment[kind] * interval)}`);
  return `at ${clock(segment.begins)}: ${shares.join(", ")}; SSIM ${likeness(segment.ssim)}`;
}

function element(name: string, attributes: Record<string, string | number>): SVGElement {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, String(value));
  }
  return made;
}
