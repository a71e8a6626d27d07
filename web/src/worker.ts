// Receives, decodes, draws and answers, away from the page's own thread.

import wasm from "viewer.wasm?url";
import {
  badProtocol,
  brokenDecoder,
  type Failure,
  internal,
  lost,
  noCodec,
  noPlayout,
  notConnected,
  refused,
  serverGone,
} from "./failure.js";
import { Link } from "./link.js";
import type { FromWorker, Shown, Start, ToWorker, Wish } from "./messages.js";
import { Meter, STALE } from "./meter.js";
import { Picture } from "./picture.js";
import { Ring } from "./rates.js";
import { readFacts } from "./settings.js";
import { Watch } from "./state.js";
import { Tracks } from "./tracks.js";
import { type Due, type News, type Status, Viewer } from "./viewer.js";

/** Milliseconds between two sets of figures. */
const FIGURES = 200;
/** Milliseconds between questions for the sender's clock: often at first, to be good soon. */
const CLOCK_FIRST = 100;
const CLOCK_LATER = 1000;
const CLOCK_FIRST_QUESTIONS = 8;
/** Frames remembered for scripts: 36 minutes of 30 a second. */
const LOG = 65_536;
/** A decoder that fails so often without a picture in between will not play this. */
const DECODER_FAILURES = 8;
/** How long a server that ends may still answer, and how long one may take that is there, in ms. */
const ENDS_WITHIN = 500;
const ANSWER_WITHIN = 3000;

function post(message: FromWorker): void {
  self.postMessage(message);
}

class Player {
  readonly #viewer: Viewer;
  readonly #picture: Picture;
  readonly #tracks: Tracks;
  #link: Link | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #reports: ReturnType<typeof setInterval> | undefined;
  #watch: Watch | undefined;
  readonly #meter = new Meter();
  #status: Status | undefined;
  #statusAt = 0;
  #delays: number[] = [];
  #questions = 0;
  #failures = 0;
  #shown = false;
  /** The track of the picture on the canvas. */
  #track = Number.NaN;
  #over = false;
  readonly #log = new Ring<Shown>(LOG);

  constructor(viewer: Viewer, start: Start) {
    this.#viewer = viewer;
    this.#picture = new Picture(viewer, start.canvas, start.barcode);
    this.#tracks = new Tracks(viewer, {
      progress: () => this.#pump(),
      unsupported: (codec) => this.fail(noCodec(codec)),
      failed: (text) => this.#decoderFailed(text),
    });
  }

  get log(): Shown[] {
    return this.#log.items;
  }

  async play(start: Start): Promise<void> {
    try {
      this.#link = await Link.open(start.url, start.hash, {
        datagram: (bytes) => {
          const now = performance.now();
          this.#watch?.heard(now);
          this.#viewer.datagram(now, bytes);
          this.#pump();
        },
        stream: (bytes) => this.#hear(bytes),
        closed: () => void this.#lost(),
      });
    } catch {
      this.fail(notConnected(start.hash, await servedHash()));
      return;
    }
    if (this.#over) {
      this.#link.close();
      return;
    }
    this.#link.say(this.#viewer.open(start.token));
  }

  /** Does all there is to do, and asks to be woken when there is more. */
  #pump(): void {
    if (this.#over) {
      return;
    }
    for (let coded = this.#viewer.coded(); coded !== undefined; coded = this.#viewer.coded()) {
      this.#tracks.decode(coded);
    }
    for (let id = this.#viewer.discarded(); id !== undefined; id = this.#viewer.discarded()) {
      this.#tracks.free(id);
    }
    for (let due = this.#viewer.shown(); due !== undefined; due = this.#viewer.shown()) {
      this.#show(due);
    }
    const now = performance.now();
    for (let out = this.#viewer.transmit(now); out !== undefined; out = this.#viewer.transmit(now)) {
      this.#link?.send(out);
    }
    clearTimeout(this.#timer);
    const wait = this.#viewer.nextWake(now);
    if (Number.isFinite(wait)) {
      this.#timer = setTimeout(() => this.#wake(), Math.ceil(wait));
    }
  }

  #wake(): void {
    this.#viewer.wake(performance.now());
    this.#pump();
  }

  #show(due: Due): void {
    const decoded = this.#tracks.take(due.id);
    if (decoded === undefined) {
      return;
    }
    const picture = this.#picture.show(decoded);
    const now = performance.now();
    const delay = this.#viewer.age(now, due.captured);
    const at = performance.timeOrigin + now;
    this.#delays.push(delay);
    const { track, frame } = due;
    this.#log.push({ session: this.#tracks.session, track, frame, picture, at, delay });
    this.#track = track;
    this.#viewer.saw(due.frame, picture, at, Number.isFinite(delay) ? delay : 0);
    this.#watch?.shown(now);
    this.#failures = 0;
    if (!this.#shown) {
      this.#shown = true;
      this.#report();
    }
  }

  #decoderFailed(text: string): void {
    this.#watch?.failed(text);
    this.#failures += 1;
    if (this.#failures >= DECODER_FAILURES) {
      this.fail(brokenDecoder(text));
    }
  }

  #hear(bytes: Uint8Array): void {
    for (const news of this.#viewer.hear(performance.now(), bytes)) {
      this.#take(news);
    }
    this.#pump();
  }

  #take(news: News): void {
    switch (news.kind) {
      case "ready":
        this.#watch = new Watch(performance.now());
        post({ kind: "ready" });
        this.#askClock();
        this.#reports = setInterval(() => this.#report(), FIGURES);
        break;
      case "refused":
        this.fail(refused(news.code, news.text));
        break;
      case "status":
        this.#status = news.status;
        this.#statusAt = performance.now();
        break;
      case "bye":
        this.#end(news.text);
        break;
      case "reload":
        void this.#lost();
        break;
      case "nonsense":
        this.fail(badProtocol());
        break;
      case "clock":
        break;
    }
  }

  #askClock(): void {
    if (this.#over) {
      return;
    }
    this.#link?.say(this.#viewer.askClock(performance.now()));
    this.#questions += 1;
    const wait = this.#questions < CLOCK_FIRST_QUESTIONS ? CLOCK_FIRST : CLOCK_LATER;
    setTimeout(() => this.#askClock(), wait);
  }

  /** Tells the page how it goes, and the server what was seen. */
  #report(): void {
    const watch = this.#watch;
    if (this.#over || watch === undefined) {
      return;
    }
    const at = performance.now();
    const counts = this.#viewer.figures(at);
    const [status, statusAt, delays] = [this.#status, this.#statusAt, this.#delays.splice(0)];
    const numbers = this.#meter.look({ at, counts, status, statusAt, delays });
    const { timeMs, ...work } = this.#tracks.decoding.look(at);
    watch.interval = counts.intervalMs ?? Number.NaN;
    post({
      kind: "figures",
      figures: {
        ...numbers,
        at,
        state: watch.look(at, { ...work, arrived: this.#meter.arrived }),
        decodeMs: timeMs,
        stalls: watch.stalls(at),
        ...(this.#shown ? this.#picture.size : { width: 0, height: 0 }),
        track: this.#track,
        tracks: this.#viewer.tracks(),
        controller: status?.controller ?? "",
        trouble: status?.trouble ?? "",
        mode: at - statusAt > STALE ? "" : (status?.mode ?? ""),
        modeChanges: status?.modeChanges ?? 0,
      },
    });
    const seen = this.#viewer.seen();
    if (seen !== undefined) {
      this.#link?.say(seen);
    }
    if (counts.finished === 1) {
      this.#end("The clip has ended.");
    }
  }

  wish(wish: Wish): void {
    this.#watch?.pause(performance.now(), wish.paused);
    this.#link?.say(this.#viewer.wish(wish));
    this.#report();
  }

  /** The connection has ended without a word: whether the server has too, it can say itself. */
  async #lost(): Promise<void> {
    if (!this.#over) {
      this.stop();
      // A server that ends closes its sessions first, and answers for a moment more.
      await new Promise((resolve) => setTimeout(resolve, ENDS_WITHIN));
      const failure = (await servedHash()) === undefined ? serverGone() : lost();
      post({ kind: "failed", failure });
    }
  }

  #end(text: string): void {
    if (!this.#over) {
      this.stop();
      post({ kind: "ended", text });
    }
  }

  fail(failure: Failure): void {
    if (!this.#over) {
      this.stop();
      post({ kind: "failed", failure });
    }
  }

  stop(): void {
    this.#over = true;
    clearTimeout(this.#timer);
    clearInterval(this.#reports);
    this.#tracks.close();
    this.#link?.close();
  }
}

/** The certificate's hash by the server's own word, if it still answers. */
async function servedHash(): Promise<string | undefined> {
  try {
    const answer = await fetch("/server.json", { signal: AbortSignal.timeout(ANSWER_WITHIN) });
    return readFacts(await answer.json())?.hash;
  } catch {
    return undefined;
  }
}

let player: Player | undefined;

async function begin(start: Start): Promise<void> {
  const viewer = await Viewer.load(fetch(wasm));
  player = new Player(viewer, start);
  if (start.playout !== "" && !viewer.playout(start.playout)) {
    player.fail(noPlayout(start.playout));
    return;
  }
  await player.play(start);
}

self.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  switch (data.kind) {
    case "start":
      begin(data.start).catch((error: unknown) => post({ kind: "failed", failure: internal(error) }));
      break;
    case "wish":
      player?.wish(data.wish);
      break;
    case "log":
      post({ kind: "log", log: player?.log ?? [] });
      break;
    case "stop":
      player?.stop();
      self.close();
      break;
  }
};

// A broken promise or a trap of the receiver ends the show with words.
self.addEventListener("unhandledrejection", (event) => player?.fail(internal(event.reason)));
self.addEventListener("error", (event) => player?.fail(internal(event.error ?? event.message)));
