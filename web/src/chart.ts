// A chart that scrolls: lines over the last minute.

export interface Point {
  at: number;
  values: number[];
  /** To be shaded, as where the picture stalled. */
  marked?: boolean;
}

/** A line's colour and whether what is below it is filled. */
export interface Line {
  /** Name of a custom property of the style sheet. */
  colour: string;
  filled: boolean;
}

/** The smallest of 1, 2, 5, 10, 20, ... that is at least `value`, and at least `least`. */
export function niceTop(value: number, least: number): number {
  const wanted = Math.max(value, least);
  if (!Number.isFinite(wanted) || wanted <= 0) {
    return least;
  }
  const decade = 10 ** Math.floor(Math.log10(wanted) + 1e-9);
  const steps = [1, 2, 5, 10].map((step) => step * decade);
  return steps.find((step) => step >= wanted * (1 - 1e-9)) ?? wanted;
}

/** Where the line `index` runs, in pieces (what is not known leaves a gap), x and y from 0 to 1, y upwards. */
export function pieces(
  points: Point[],
  index: number,
  now: number,
  span: number,
  top: number,
): { x: number; y: number }[][] {
  const all: { x: number; y: number }[][] = [];
  let piece: { x: number; y: number }[] = [];
  for (const point of points) {
    const value = point.values[index] ?? Number.NaN;
    const x = 1 - (now - point.at) / span;
    if (Number.isFinite(value) && x >= 0) {
      piece.push({ x, y: Math.min(value / top, 1) });
    } else if (piece.length > 0) {
      all.push(piece);
      piece = [];
    }
  }
  return piece.length > 0 ? [...all, piece] : all;
}

/** Stretches of marked points, from 0 to 1. Each point stands for the time since the one before. */
export function stretches(points: Point[], now: number, span: number): { from: number; to: number }[] {
  const all: { from: number; to: number }[] = [];
  points.forEach((point, index) => {
    const before = points[index - 1];
    if (point.marked !== true || before === undefined) {
      return;
    }
    const [from, to] = [before.at, point.at].map((at) => Math.max(0, 1 - (now - at) / span)) as [
      number,
      number,
    ];
    const last = all.at(-1);
    if (last !== undefined && points[index - 1]?.marked === true) {
      last.to = to;
    } else {
      all.push({ from, to });
    }
  });
  return all.filter(({ from, to }) => to > from);
}

export class Chart {
  readonly #canvas: HTMLCanvasElement;
  readonly #lines: Line[];
  readonly #span: number;
  readonly #least: number;

  /** A chart of the last `span` milliseconds that reaches up to `least` or more. */
  constructor(canvas: HTMLCanvasElement, lines: Line[], span: number, least: number) {
    this.#canvas = canvas;
    this.#lines = lines;
    this.#span = span;
    this.#least = least;
  }

  draw(points: Point[]): void {
    const context = this.#canvas.getContext("2d");
    const now = points.at(-1)?.at;
    if (context === null || now === undefined) {
      return;
    }
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const density = window.devicePixelRatio;
    this.#canvas.width = Math.round(width * density);
    this.#canvas.height = Math.round(height * density);
    context.scale(density, density);
    const recent = points.filter((point) => now - point.at <= this.#span);
    const values = recent.flatMap((point) => point.values).filter(Number.isFinite);
    const top = niceTop(Math.max(0, ...values), this.#least);
    const style = getComputedStyle(this.#canvas);
    context.fillStyle = style.getPropertyValue("--stall");
    for (const { from, to } of stretches(recent, now, this.#span)) {
      context.fillRect(from * width, 0, Math.max(1, (to - from) * width), height);
    }
    this.#drawGrid(context, style, width, height, top);
    this.#lines.forEach((line, index) => {
      context.strokeStyle = style.getPropertyValue(line.colour);
      context.fillStyle = context.strokeStyle;
      for (const piece of pieces(recent, index, now, this.#span, top)) {
        drawPiece(context, piece, line.filled, width, height);
      }
    });
  }

  #drawGrid(
    context: CanvasRenderingContext2D,
    style: CSSStyleDeclaration,
    width: number,
    height: number,
    top: number,
  ): void {
    context.strokeStyle = style.getPropertyValue("--edge");
    context.fillStyle = style.getPropertyValue("--soft");
    context.font = "11px system-ui, sans-serif";
    context.lineWidth = 1;
    for (const share of [0, 0.5, 1]) {
      const y = Math.round(height - 1 - share * (height - 14)) + 0.5;
      context.beginPath();
      context.moveTo(0, y);
      context.lineTo(width, y);
      context.stroke();
      if (share > 0) {
        context.fillText(String(top * share), 0, y - 3);
      }
    }
  }
}

function drawPiece(
  context: CanvasRenderingContext2D,
  piece: { x: number; y: number }[],
  filled: boolean,
  width: number,
  height: number,
): void {
  const at = (point: { x: number; y: number }): [number, number] => [
    point.x * width,
    height - 1 - point.y * (height - 14),
  ];
  const [first, last] = [piece[0], piece.at(-1)];
  if (first === undefined || last === undefined) {
    return;
  }
  context.beginPath();
  context.moveTo(...at(first));
  for (const point of piece.slice(1)) {
    context.lineTo(...at(point));
  }
  context.lineWidth = 1.75;
  context.lineJoin = "round";
  context.stroke();
  if (filled) {
    context.lineTo(last.x * width, height);
    context.lineTo(first.x * width, height);
    context.globalAlpha = 0.15;
    context.fill();
    context.globalAlpha = 1;
  }
}
