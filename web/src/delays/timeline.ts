// A timeline of segments: each a bar of what became of its frames, and below it how good they were.

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

export interface Line {
  /** Some of its frames' SSIM is not known, as that of frames that are missing. */
  partly: boolean;
  /** Media time in s, and 0 (alike) to 1 (`least`). */
  points: [number, number][];
}

/** Where the line of SSIM runs, in pieces. A segment of which nothing is known leaves a gap. */
export function likenessLines(segments: Segment[], interval: number, least: number): Line[] {
  const lines: Line[] = [];
  let line: Line | undefined;
  for (const { begins, frames, ssim, rated } of segments) {
    if (rated === 0) {
      line = undefined;
      continue;
    }
    const partly = rated < frames;
    if (line?.partly !== partly) {
      // Two pieces that follow each other meet.
      line = { partly, points: line === undefined ? [] : line.points.slice(-1) };
      lines.push(line);
    }
    const y = (1 - ssim) / (1 - least);
    line.points.push([begins, y], [begins + frames * interval, y]);
  }
  return lines;
}

/**
 * A drawing whose width is the charted span in seconds and whose height is 1, stretched to where it stands.
 */
export class Timeline {
  readonly #bars: SVGSVGElement;
  readonly #lines: SVGSVGElement;
  /** Where the player is, in either drawing. */
  readonly #heads: SVGElement[];
  #drawn: Segment[] = [];
  #least = Number.NaN;

  constructor(bars: SVGSVGElement, lines: SVGSVGElement) {
    this.#bars = bars;
    this.#lines = lines;
    this.#heads = [bars, lines].map(() => element("line", { class: "head", y1: 0, y2: 1 }));
  }

  /** Draws the segments, SSIM from `least` to 1, unless they are drawn so already. */
  draw(segments: Segment[], interval: number, least: number): void {
    if (segments === this.#drawn && least === this.#least) {
      return;
    }
    this.#drawn = segments;
    this.#least = least;
    const [head, other] = this.#heads as [SVGElement, SVGElement];
    this.#bars.replaceChildren(...segments.map((segment) => bar(segment, interval)), head);
    const lines = likenessLines(segments, interval, least);
    this.#lines.replaceChildren(
      ...lines.flatMap(area),
      ...lines.map(({ partly, points }) =>
        element("polyline", { class: shade(partly), points: path(points) }),
      ),
      ...segments.map((segment) => told(segment, interval)),
      other,
    );
  }

  /** Has the charted span end at media time `end`, with a line where the player is, `now`. */
  scroll(end: number, now: number): void {
    for (const drawing of [this.#bars, this.#lines]) {
      drawing.setAttribute("viewBox", `${Number.isFinite(end) ? end - SPAN : 0} 0 ${SPAN} 1`);
    }
    const x = String(Number.isFinite(now) ? now : -SPAN);
    for (const head of this.#heads) {
      head.setAttribute("x1", x);
      head.setAttribute("x2", x);
    }
  }
}

/** What lies below a line. */
function area({ partly, points }: Line): SVGElement[] {
  const [first, last] = [points[0], points.at(-1)];
  if (first === undefined || last === undefined) {
    return [];
  }
  return [
    element("polygon", { class: shade(partly), points: path([[first[0], 1], ...points, [last[0], 1]]) }),
  ];
}

function shade(partly: boolean): string {
  return partly ? "partly" : "wholly";
}

function path(points: [number, number][]): string {
  return points.map(([x, y]) => `${x},${y}`).join(" ");
}

/** Nothing to be seen, over the whole height of a segment, that says in words what is drawn. */
function told(segment: Segment, interval: number): SVGElement {
  const { begins, frames } = segment;
  const place = element("rect", { class: "told", x: begins, width: frames * interval, y: 0, height: 1 });
  place.append(title(segment, interval));
  return place;
}

function title(segment: Segment, interval: number): SVGElement {
  const made = element("title", {});
  made.textContent = words(segment, interval);
  return made;
}

function bar(segment: Segment, interval: number): SVGElement {
  const group = element("g", {});
  // A sliver stays free between two bars.
  const width = Math.max(segment.frames * interval * 0.92, 0);
  const rectangles = parts(segment).map(({ kind, y, height }) =>
    element("rect", { class: kind, x: segment.begins, width, y, height }),
  );
  group.append(title(segment, interval), ...rectangles);
  return group;
}

function words(segment: Segment, interval: number): string {
  const shares = KINDS.map((kind) => `${kind} ${seconds(segment[kind] * interval)}`);
  return `at ${clock(segment.begins)}: ${shares.join(", ")}; SSIM ${likeness(segment.ssim, segment.rated / segment.frames)}`;
}

function element(name: string, attributes: Record<string, string | number>): SVGElement {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, String(value));
  }
  return made;
}
