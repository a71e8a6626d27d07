// How the browser's decoders keep up.

import { median } from "./format.js";
import { Growth } from "./rates.js";

/** Frames that the receiver lets into a decoder at a time; further ones wait outside (crates/session, `IN_DECODER`). */
export const MOST = 4;
/** Milliseconds over which the decoders are judged. */
const SPAN = 2000;

export class Decoding {
  /** The track of each frame inside and when it went in, by the id of its picture, in that order. */
  #inside = new Map<number, { track: number; since: number }>();
  #times: number[] = [];
  #count = 0;
  /** Time that a decoder was full up to the last change, in ms. */
  #fullMs = 0;
  #changed = 0;
  readonly #fullFor = new Growth(SPAN);
  readonly #decoded = new Growth(SPAN);

  submitted(at: number, track: number, id: number): void {
    this.#settle(at);
    this.#inside.set(id, { track, since: at });
  }

  /** A frame came out; earlier ones of its track that have not are lost. */
  returned(at: number, track: number, id: number): void {
    this.#settle(at);
    const inside = this.#inside.get(id);
    if (inside !== undefined) {
      this.#times.push(at - inside.since);
      this.#count += 1;
    }
    this.#drop((other, of) => of === track && other <= id);
  }

  /** A frame makes no picture. */
  dropped(at: number, id: number): void {
    this.#settle(at);
    this.#inside.delete(id);
  }

  /** The decoder of a track is another one: what was inside is lost. */
  cleared(at: number, track: number): void {
    this.#settle(at);
    this.#drop((_, of) => of === track);
  }

  #drop(which: (id: number, track: number) => boolean): void {
    for (const [id, { track }] of this.#inside) {
      if (which(id, track)) {
        this.#inside.delete(id);
      }
    }
  }

  /** The decoder of some track holds as much as it may. */
  get #full(): boolean {
    const counts = new Map<number, number>();
    for (const { track } of this.#inside.values()) {
      counts.set(track, (counts.get(track) ?? 0) + 1);
    }
    return Math.max(0, ...counts.values()) >= MOST;
  }

  #settle(at: number): void {
    this.#fullMs += this.#full ? at - this.#changed : 0;
    this.#changed = at;
  }

  /** How it goes; decode times are those since the last look, from handing a frame in to getting it back. */
  look(at: number): { timeMs: number; oldestMs: number; full: number; decoded: number } {
    this.#settle(at);
    this.#fullFor.note(at, this.#fullMs);
    this.#decoded.note(at, this.#count);
    const [oldest = { since: at }] = this.#inside.values();
    const full = this.#fullFor.perSecond / 1000;
    return {
      timeMs: median(this.#times.splice(0)),
      oldestMs: at - oldest.since,
      full: Number.isFinite(full) ? full : 0,
      decoded: this.#decoded.perSecond,
    };
  }
}
