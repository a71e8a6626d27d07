// How the browser's decoder keeps up.

import { median } from "./format.js";
import { Growth } from "./rates.js";

/** Frames that the receiver lets into the decoder at a time; further ones wait outside (crates/session, `IN_DECODER`). */
export const MOST = 4;
/** Milliseconds over which the decoder is judged. */
const SPAN = 2000;

export class Decoding {
  /** When each frame inside went in. */
  #inside = new Map<number, number>();
  #times: number[] = [];
  #count = 0;
  /** Time spent full up to the last change, in ms. */
  #fullMs = 0;
  #changed = 0;
  readonly #full = new Growth(SPAN);
  readonly #decoded = new Growth(SPAN);

  submitted(at: number, frame: number): void {
    this.#settle(at);
    this.#inside.set(frame, at);
  }

  /** A frame came out; earlier ones that have not are lost. */
  returned(at: number, frame: number): void {
    this.#settle(at);
    const since = this.#inside.get(frame);
    if (since !== undefined) {
      this.#times.push(at - since);
      this.#count += 1;
    }
    for (const other of this.#inside.keys()) {
      if (other <= frame) {
        this.#inside.delete(other);
      }
    }
  }

  /** The decoder is another one: what was inside is lost. */
  cleared(at: number): void {
    this.#settle(at);
    this.#inside.clear();
  }

  #settle(at: number): void {
    this.#fullMs += this.#inside.size >= MOST ? at - this.#changed : 0;
    this.#changed = at;
  }

  /** How it goes; decode times are those since the last look, from handing a frame in to getting it back. */
  look(at: number): { timeMs: number; oldestMs: number; full: number; decoded: number } {
    this.#settle(at);
    this.#full.note(at, this.#fullMs);
    this.#decoded.note(at, this.#count);
    const [oldest = at] = this.#inside.values();
    const full = this.#full.perSecond / 1000;
    return {
      timeMs: median(this.#times.splice(0)),
      oldestMs: at - oldest,
      full: Number.isFinite(full) ? full : 0,
      decoded: this.#decoded.perSecond,
    };
  }
}
