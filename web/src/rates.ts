// Figures over time: what was counted becomes what happens per second.

/** A counter's growth over the last while. */
export class Growth {
  readonly #span: number;
  #points: { at: number; value: number }[] = [];

  /** Over the last `span` milliseconds. */
  constructor(span: number) {
    this.#span = span;
  }

  /** Takes the counter's value. One that went back has begun anew. */
  note(at: number, value: number): void {
    const last = this.#points.at(-1);
    if (last !== undefined && value < last.value) {
      this.#points = [];
    }
    this.#points.push({ at, value });
    while (this.#points.length > 2 && at - (this.#points[1]?.at ?? at) >= this.#span) {
      this.#points.shift();
    }
  }

  /** Growth over the span. */
  get growth(): number {
    return (this.#points.at(-1)?.value ?? 0) - (this.#points[0]?.value ?? 0);
  }

  /** Growth a second; NaN while there are not two points. */
  get perSecond(): number {
    const elapsed = (this.#points.at(-1)?.at ?? 0) - (this.#points[0]?.at ?? 0);
    return elapsed > 0 ? (this.growth * 1000) / elapsed : Number.NaN;
  }
}

/** The last `length` of something, oldest first. */
export class Ring<T> {
  readonly #length: number;
  #items: T[] = [];
  #next = 0;

  constructor(length: number) {
    this.#length = length;
  }

  push(item: T): void {
    this.#items[this.#next] = item;
    this.#next = (this.#next + 1) % this.#length;
  }

  get items(): T[] {
    const full = this.#items.length === this.#length;
    return full ? [...this.#items.slice(this.#next), ...this.#items.slice(0, this.#next)] : [...this.#items];
  }

  clear(): void {
    this.#items = [];
    this.#next = 0;
  }
}
