// What the page says of itself: whether pictures come, since when not, and why.

/**
 * Why no picture comes.
 *
 * - silent: nothing arrives.
 * - incomplete: packets arrive, but no frame that can be decoded: parts are missing, or a key frame is.
 * - decoder: frames are complete and with the decoder, which gives them back too slowly or not at all.
 * - failed: the decoder gave up; the text is its own.
 */
export type Why =
  | { kind: "silent" }
  | { kind: "incomplete" }
  | { kind: "decoder" }
  | { kind: "failed"; text: string };

export type State =
  | { kind: "connecting" }
  /** Let in, and nothing was shown yet. */
  | { kind: "waiting"; forMs: number; why: Why }
  | { kind: "playing" }
  /** Playing, but the decoder is full most of the time: rates are frames a second. */
  | { kind: "slow"; decoded: number; arrived: number }
  | { kind: "paused" }
  | { kind: "stalled"; forMs: number; why: Why }
  | { kind: "ended" }
  | { kind: "failed" };

/** As a light beside the words: nothing to see yet, all is well, look here, over. */
export type Tone = "idle" | "good" | "warn" | "bad";

export interface Words {
  /** In a few words, for the line beside the title. */
  text: string;
  /** With the reason, for the line over the picture. */
  whole: string;
  /** The same for ears, without what changes five times a second. */
  spoken: string;
  tone: Tone;
}

/** What the decoder is doing, for {@link Watch.look}. */
export interface Work {
  /** How long the oldest frame has been inside, in ms; 0 if there is none. */
  oldestMs: number;
  /** Share of the last two seconds in which no further frame could be handed in. */
  full: number;
  /** Frames a second out of the decoder, and complete ones out of the network. */
  decoded: number;
  arrived: number;
}

/**
 * A decoder that is full for more than this share of the time makes frames wait. One that is too slow is not full all the time: frames
 * that waited too long break the chain, and until the key frame comes it has nothing to do.
 */
const FULL = 0.2;
/** Below this share of what arrives, pictures are lost to the decoder and not just late by it. */
const KEEPS_UP = 0.9;
/** Waiting for the first picture gets a duration after this long, in ms. */
const PATIENCE = 1000;

/** Watches for stalls: gaps between shown frames longer than {@link stallAfter}. */
export class Watch {
  #begun: number;
  /** When a picture was last shown, or playing last began. */
  #last: number;
  #heard = Number.NEGATIVE_INFINITY;
  #shown = false;
  #paused = false;
  #trouble = "";
  #interval = Number.NaN;
  #count = 0;
  #total = 0;

  /** Begins when the server has let us in. */
  constructor(at: number) {
    this.#begun = at;
    this.#last = at;
  }

  /** Time between frames in ms, once it is known. */
  set interval(ms: number) {
    this.#interval = ms;
  }

  /** Media arrived. */
  heard(at: number): void {
    this.#heard = at;
  }

  /** A picture was shown. */
  shown(at: number): void {
    if (this.#shown && !this.#paused && at - this.#last > stallAfter(this.#interval)) {
      this.#count += 1;
      this.#total += at - this.#last;
    }
    this.#shown = true;
    this.#last = at;
    this.#trouble = "";
  }

  /** The person paused it, or went on. */
  pause(at: number, paused: boolean): void {
    if (this.#paused && !paused) {
      this.#last = at;
      this.#begun = at;
    }
    this.#paused = paused;
  }

  /** The decoder gave up. */
  failed(text: string): void {
    this.#trouble = text;
  }

  /** Stalls so far and how long they took together in ms, with the one at hand. */
  stalls(at: number): { count: number; totalMs: number } {
    const stalled = this.#stalled(at);
    const gap = stalled ? at - this.#last : 0;
    return { count: this.#count + (stalled ? 1 : 0), totalMs: this.#total + gap };
  }

  #stalled(at: number): boolean {
    return this.#shown && !this.#paused && at - this.#last > stallAfter(this.#interval);
  }

  look(at: number, work: Work): State {
    if (this.#paused) {
      return { kind: "paused" };
    }
    if (!this.#shown) {
      return { kind: "waiting", forMs: at - this.#begun, why: this.#why(at, work) };
    }
    if (this.#stalled(at)) {
      return { kind: "stalled", forMs: at - this.#last, why: this.#why(at, work) };
    }
    if (work.full > FULL && work.decoded < KEEPS_UP * work.arrived) {
      return { kind: "slow", decoded: work.decoded, arrived: work.arrived };
    }
    return { kind: "playing" };
  }

  #why(at: number, work: Work): Why {
    if (this.#trouble !== "") {
      return { kind: "failed", text: this.#trouble };
    }
    if (work.oldestMs > stallAfter(this.#interval) || work.full > FULL) {
      return { kind: "decoder" };
    }
    return { kind: at - this.#heard > stallAfter(this.#interval) ? "silent" : "incomplete" };
  }
}

/**
 * The gap in ms after which the picture has stalled, for frames `interval` ms apart: max(3 I, I + 150 ms), as in every other
 * figure of Framewire (docs/json.md, `stalls`) and as WebRTC counts freezes (W3C webrtc-stats, `freezeCount`).
 */
export function stallAfter(interval: number): number {
  const known = Number.isFinite(interval) ? interval : 0;
  return Math.max(3 * known, known + 150);
}

const WHY: Record<Exclude<Why["kind"], "failed">, string> = {
  silent: "nothing arrives from the server",
  incomplete: "packets arrive, but no frame that can be decoded",
  decoder: "this machine decodes too slowly",
};

function because(why: Why): string {
  return why.kind === "failed" ? `the browser's decoder failed (${why.text})` : WHY[why.kind];
}

/** 0.4 s, 3.2 s, 75 s. */
export function seconds(ms: number): string {
  const value = ms / 1000;
  return `${value.toFixed(value < 59.95 ? 1 : 0)} s`;
}

/** A state in words. */
export function describe(state: State): Words {
  const same = (text: string, tone: Tone): Words => ({ text, whole: text, spoken: text, tone });
  switch (state.kind) {
    case "connecting":
      return same("Connecting", "idle");
    case "waiting": {
      if (state.forMs < PATIENCE) {
        return same("Waiting for the first picture", "idle");
      }
      const [text, why] = [`Waiting for ${seconds(state.forMs)}`, because(state.why)];
      const spoken = `Waiting for the first picture: ${why}`;
      return { text, whole: `${text} for the first picture: ${why}`, spoken, tone: "warn" };
    }
    case "playing":
      return same("Playing", "good");
    case "slow": {
      const spoken = "Playing, but this machine decodes too slowly";
      const rates = `${Math.round(state.decoded)} of ${Math.round(state.arrived)} frames a second`;
      return { text: "Decoding too slowly", whole: `${spoken}: ${rates}`, spoken, tone: "warn" };
    }
    case "paused":
      return same("Paused", "idle");
    case "stalled": {
      const [text, why] = [`Stalled for ${seconds(state.forMs)}`, because(state.why)];
      return { text, whole: `${text}: ${why}`, spoken: `Stalled: ${why}`, tone: "bad" };
    }
    case "ended":
      return same("Ended", "idle");
    case "failed":
      return same("Not playing", "bad");
  }
}
