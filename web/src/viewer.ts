// The receiver: Framewire's own, in Rust (crates/viewer), which has a plain C interface. This is all that knows its memory.

interface Exports {
  memory: WebAssembly.Memory;
  input(): number;
  input_length(): number;
  output(): number;
  numbers(): number;
  datagram(now: number, length: number): void;
  playout(length: number): number;
  wake(now: number): void;
  next_wake(now: number): number;
  transmit(now: number): number;
  coded(): number;
  coded_at(): number;
  codec(): number;
  decoded(now: number, id: number): number;
  undecodable(now: number, id: number): void;
  decoder_failed(now: number, track: number): void;
  shown(): number;
  discarded(): number;
  tracks(): number;
  age(now: number, captured: number): number;
  barcode(): number;
  stream(length: number): void;
  event(now: number): number;
  open(length: number): number;
  ask_clock(now: number): number;
  wish(paused: number, maxBps: number, length: number): number;
  saw(frame: number, picture: number, shown: number, delay: number): void;
  seen(): number;
  figures(now: number): void;
  figure_names(): number;
}

/** A frame to be decoded. Its bytes are ours. */
export interface Coded {
  /** What its picture will be called. */
  id: number;
  /** From 0; each track of what is captured has a decoder of its own. */
  track: number;
  frame: number;
  session: number;
  key: boolean;
  /** As WebCodecs names it, or `vixnn`, where the frame says it. */
  codec: string | undefined;
  /** Of `vixnn` the packets that came, each behind its length. */
  bytes: Uint8Array<ArrayBuffer>;
}

/** A frame to be shown. */
export interface Due {
  /** Its picture. */
  id: number;
  track: number;
  frame: number;
  /** On the sender's clock, in microseconds. */
  captured: number;
  late: boolean;
}

/** How far a track has come. */
export interface TrackCounts {
  track: number;
  /** Frames handed out to be decoded, pictures that were decoded, and those of them that were shown. */
  coded: number;
  decoded: number;
  shown: number;
}

export interface Status {
  session: number;
  controller: string;
  trouble: string;
  paused: boolean;
  maxBps: number;
  estimateBps: number;
  rttMs: number;
  packets: number;
  lost: number;
  captured: number;
  skipped: number;
  /** What the sender's strategy is at; empty if it does not say. */
  mode: string;
  /** How often that has changed. */
  modeChanges: number;
}

export type News =
  | { kind: "ready" }
  | { kind: "refused"; code: number; text: string }
  | { kind: "bye"; text: string }
  | { kind: "reload" }
  | { kind: "clock" }
  | { kind: "status"; status: Status }
  | { kind: "nonsense" };

/** Pixels of a barcode: the top left corner of a picture. */
export const BARCODE = { width: 96, height: 32 };

export class Viewer {
  readonly #wasm: Exports;
  readonly #names: string[];

  private constructor(wasm: Exports) {
    this.#wasm = wasm;
    this.#names = this.#text(0, wasm.figure_names()).split(",");
  }

  static async load(module: Promise<Response> | BufferSource): Promise<Viewer> {
    const loaded =
      module instanceof Promise
        ? await WebAssembly.instantiateStreaming(module, {})
        : await WebAssembly.instantiate(module, {});
    return new Viewer(loaded.instance.exports as unknown as Exports);
  }

  // Views are made afresh for each use: the memory may have grown, and old views are void then.

  #numbers(): Float64Array {
    return new Float64Array(this.#wasm.memory.buffer, this.#wasm.numbers(), 32);
  }

  #output(from: number, length: number): Uint8Array<ArrayBuffer> {
    const at = this.#wasm.output() + from;
    return new Uint8Array(this.#wasm.memory.buffer.slice(at, at + length));
  }

  #text(from: number, length: number): string {
    return new TextDecoder().decode(this.#output(from, length));
  }

  #write(bytes: Uint8Array | Uint8ClampedArray): number {
    const length = Math.min(bytes.length, this.#wasm.input_length());
    new Uint8Array(this.#wasm.memory.buffer, this.#wasm.input(), length).set(bytes.subarray(0, length));
    return length;
  }

  /** From the next session on, frames are shown when this policy says; false if there is no such policy. */
  playout(name: string): boolean {
    return this.#wasm.playout(this.#write(new TextEncoder().encode(name))) === 1;
  }

  /** A datagram arrived. */
  datagram(now: number, bytes: Uint8Array): void {
    this.#wasm.datagram(now, this.#write(bytes));
  }

  wake(now: number): void {
    this.#wasm.wake(now);
  }

  /** Milliseconds until it wants to be woken. */
  nextWake(now: number): number {
    return this.#wasm.next_wake(now);
  }

  /** The next datagram to send. */
  transmit(now: number): Uint8Array<ArrayBuffer> | undefined {
    const length = this.#wasm.transmit(now);
    return length > 0 ? this.#output(0, length) : undefined;
  }

  /** The next frame to decode. */
  coded(): Coded | undefined {
    const length = this.#wasm.coded();
    if (length === 0) {
      return undefined;
    }
    const [id = 0, track = 0, frame = 0, session = 0, key = 0] = this.#numbers();
    const at = this.#wasm.coded_at();
    const bytes = new Uint8Array(this.#wasm.memory.buffer.slice(at, at + length));
    const name = key === 1 ? this.#wasm.codec() : 0;
    const codec = name > 0 ? this.#text(0, name) : undefined;
    return { id, track, frame, session, key: key === 1, codec, bytes };
  }

  /** The picture `id` is there; false if nobody wants it. */
  decoded(now: number, id: number): boolean {
    return this.#wasm.decoded(now, id) === 1;
  }

  /** The decoder made no picture `id`, and goes on with the next. */
  undecodable(now: number, id: number): void {
    this.#wasm.undecodable(now, id);
  }

  /** The decoder of a track failed, or can't be had: what it held is lost. */
  decoderFailed(now: number, track: number): void {
    this.#wasm.decoder_failed(now, track);
  }

  /** The next frame to show. */
  shown(): Due | undefined {
    if (this.#wasm.shown() === 0) {
      return undefined;
    }
    const [id = 0, track = 0, frame = 0, captured = 0, late = 0] = this.#numbers();
    return { id, track, frame, captured, late: late === 1 };
  }

  /** The id of the next picture that will never be shown. */
  discarded(): number | undefined {
    return this.#wasm.discarded() === 0 ? undefined : this.#numbers()[0];
  }

  /** The tracks of which frames have come. */
  tracks(): TrackCounts[] {
    const count = this.#wasm.tracks();
    const numbers = this.#numbers();
    return Array.from({ length: count }, (_, track) => {
      const [coded = 0, decoded = 0, shown = 0] = numbers.slice(3 * track);
      return { track, coded, decoded, shown };
    }).filter(({ coded }) => coded > 0);
  }

  /** Milliseconds since the sender captured what it captured at `captured`; NaN before the clocks are known. */
  age(now: number, captured: number): number {
    return this.#wasm.age(now, captured);
  }

  /** The number burnt into a picture's corner (RGBA); -1 if there is none. */
  barcode(corner: Uint8ClampedArray): number {
    this.#write(corner);
    return this.#wasm.barcode();
  }

  /** Bytes of the control stream arrived. */
  *hear(now: number, bytes: Uint8Array): Generator<News> {
    const most = this.#wasm.input_length();
    for (let from = 0; from < bytes.length; from += most) {
      this.#wasm.stream(this.#write(bytes.subarray(from, from + most)));
      for (let news = this.#news(now); news !== undefined; news = this.#news(now)) {
        yield news;
        if (news.kind === "nonsense") {
          return;
        }
      }
    }
  }

  #news(now: number): News | undefined {
    const kind = this.#wasm.event(now);
    const [first = 0, second = 0, ...rest] = this.#numbers();
    switch (kind) {
      case 0:
        return undefined;
      case 1:
        return { kind: "ready" };
      case 2:
        return { kind: "refused", code: second, text: this.#text(0, first) };
      case 3:
        return { kind: "bye", text: this.#text(0, first) };
      case 4:
        return { kind: "reload" };
      case 5:
        return { kind: "clock" };
      case 6:
        return { kind: "status", status: this.#status(first, second, rest) };
      default:
        return { kind: "nonsense" };
    }
  }

  #status(name: number, trouble: number, rest: number[]): Status {
    const [session = 0, paused = 0, maxBps = 0, estimateBps = 0, rttMs = 0] = rest;
    const [packets = 0, lost = 0, captured = 0, skipped = 0, mode = 0, modeChanges = 0] = rest.slice(5);
    return {
      session,
      controller: this.#text(0, name),
      trouble: this.#text(name, trouble),
      paused: paused === 1,
      maxBps,
      estimateBps,
      rttMs,
      packets,
      lost,
      captured,
      skipped,
      mode: this.#text(name + trouble, mode),
      modeChanges,
    };
  }

  /** The first message of the control stream. */
  open(token: string): Uint8Array<ArrayBuffer> {
    return this.#output(0, this.#wasm.open(this.#write(new TextEncoder().encode(token))));
  }

  askClock(now: number): Uint8Array<ArrayBuffer> {
    return this.#output(0, this.#wasm.ask_clock(now));
  }

  wish(wish: { paused: boolean; maxBps: number; controller: string }): Uint8Array<ArrayBuffer> {
    const length = this.#write(new TextEncoder().encode(wish.controller));
    return this.#output(0, this.#wasm.wish(wish.paused ? 1 : 0, wish.maxBps, length));
  }

  /** Notes a frame that was shown at `date`, in milliseconds since 1970. */
  saw(frame: number, picture: number, date: number, delay: number): void {
    this.#wasm.saw(frame, picture, date, delay);
  }

  /** What was noted since the last time, for the server. */
  seen(): Uint8Array<ArrayBuffer> | undefined {
    const length = this.#wasm.seen();
    return length > 0 ? this.#output(0, length) : undefined;
  }

  /** What the receiver has counted; the names are those of crates/viewer, `FIGURES`. */
  figures(now: number): Record<string, number> {
    this.#wasm.figures(now);
    const numbers = this.#numbers();
    return Object.fromEntries(this.#names.map((name, index) => [name, numbers[index] ?? 0]));
  }
}
