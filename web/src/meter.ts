// From counters to figures. What was not measured is NaN, which is shown as a dash.

import { median } from "./format.js";
import type { Numbers } from "./messages.js";
import { Growth } from "./rates.js";
import type { Status } from "./viewer.js";

/** Milliseconds over which rates are taken. */
const SECOND = 1000;
/** The server tells its figures five times a second; older than this, they say nothing about now. */
export const STALE = 1000;

/** What is known when figures are due. */
export interface Look {
  at: number;
  /** The receiver's counters (crates/viewer, `FIGURES`). */
  counts: Record<string, number>;
  /** The server's figures, and when they came. */
  status: Status | undefined;
  statusAt: number;
  /** Delays of the frames shown since the last look, in ms. */
  delays: number[];
}

export class Meter {
  readonly #bytes = new Growth(SECOND);
  readonly #frames = new Growth(SECOND);
  readonly #assembled = new Growth(SECOND);
  readonly #abandoned = new Growth(SECOND);
  readonly #expected = new Growth(SECOND);
  readonly #packets = new Growth(SECOND);

  /** Complete frames a second. */
  get arrived(): number {
    return this.#assembled.perSecond;
  }

  look({ at, counts, status, statusAt, delays }: Look): Numbers {
    const count = (name: string) => counts[name] ?? 0;
    this.#bytes.note(at, count("bytes"));
    this.#frames.note(at, count("displayed"));
    this.#assembled.note(at, count("assembled"));
    this.#abandoned.note(at, count("abandoned"));
    this.#expected.note(at, count("expected"));
    this.#packets.note(at, count("packets"));
    const fresh = status !== undefined && at - statusAt <= STALE ? status : undefined;
    const known = (value: number | undefined) => (value !== undefined && value > 0 ? value : Number.NaN);
    const finished = this.#abandoned.growth + this.#frames.growth;
    return {
      delayMs: median(delays),
      delayErrorMs: counts.clockErrorMs ?? Number.NaN,
      bitrate: count("packets") > 0 ? this.#bytes.perSecond * 8 : Number.NaN,
      estimate: known(fresh?.estimateBps),
      queueMs: counts.queueMs ?? Number.NaN,
      rttMs: known(fresh?.rttMs),
      loss: share(this.#expected.growth - this.#packets.growth, this.#expected.growth),
      fps: count("displayed") > 0 ? this.#frames.perSecond : Number.NaN,
      sourceFps: 1000 / known(counts.intervalMs),
      dropped: share(this.#abandoned.growth, finished),
    };
  }
}

/** `part` of `whole`, at least 0; unknown of nothing. Packets that pass each other are there before those they are counted with. */
function share(part: number, whole: number): number {
  return whole > 0 ? Math.max(0, part / whole) : Number.NaN;
}
