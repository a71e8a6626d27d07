// Receives, decodes, draws and answers, away from the page's own thread.

import wasm from "viewer.wasm?url";
import { badProtocol, type Failure, internal, lost, noCodec, notConnected, refused } from "./failure.js";
import { median } from "./format.js";
import { Link } from "./link.js";
import type { FromWorker, Shown, Start, ToWorker, Wish } from "./messages.js";
import { Picture } from "./picture.js";
import { Growth, Ring } from "./rates.js";
import { readFacts } from "./settings.js";
import { type Due, type News, type Status, Viewer } from "./viewer.js";

/** Milliseconds between two sets of figures. */
const FIGURES = 200;
/** Milliseconds between questions for the sender's clock: often at first, to be good soon. */
const CLOCK_FIRST = 100;
const CLOCK_LATER = 1000;
const CLOCK_FIRST_QUESTIONS = 8;
/** Milliseconds over which rates are taken. */
const SECOND = 1000;
/** Frames remembered for scripts: 36 minutes of 30 a second. */
const LOG = 65_536;

const NO_STATUS: Status = {
  session: 0,
  controller: "",
  trouble: "",
  paused: false,
  maxBps: 0,
  estimateBps: Number.NaN,
  rttMs: Number.NaN,
  packets: 0,
  lost: 0,
  captured: 0,
  skipped: 0,
};

function post(message: FromWorker): void {
  self.postMessage(message);
}

class Player {
  readonly #viewer: Viewer;
  readonly #picture: Picture;
  #link: Link | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #reports: ReturnType<typeof setInterval> | undefined;
  #status = NO_STATUS;
  #delays: number[] = [];
  #questions = 0;
  #playing = false;
  #over = false;
  readonly #log = new Ring<Shown>(LOG);
  readonly #bytes = new Growth(SECOND);
  readonly #frames = new Growth(SECOND);
  readonly #sent = new Growth(SECOND);
  readonly #lost = new Growth(SECOND);

  constructor(viewer: Viewer, start: Start) {
    this.#viewer = viewer;
    this.#picture = new Picture(viewer, start.canvas, start.barcode, {
      progress: () => this.#pump(),
      unsupported: (codec) => this.fail(noCodec(codec)),
    });
  }

  get log(): Shown[] {
    return this.#log.items;
  }

  async play(start: Start): Promise<void> {
    try {
      this.#link = await Link.open(start.url, start.hash, {
        datagram: (bytes) => {
          this.#viewer.datagram(performance.now(), bytes);
          this.#pump();
        },
        stream: (bytes) => this.#hear(bytes),
        closed: () => this.fail(lost()),
      });
    } catch {
      this.fail(notConnected(start.hash, await servedHash()));
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
      this.#picture.decode(coded);
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
    const picture = this.#picture.show(due);
    if (picture === undefined) {
      return;
    }
    const now = performance.now();
    const delay = this.#viewer.age(now, due.captured);
    const at = performance.timeOrigin + now;
    this.#delays.push(delay);
    this.#log.push({ session: this.#picture.session, frame: due.frame, picture, at, delay });
    this.#viewer.saw(due.frame, picture, at, Number.isFinite(delay) ? delay : 0);
    if (!this.#playing) {
      this.#playing = true;
      post({ kind: "playing" });
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
        post({ kind: "ready" });
        this.#askClock();
        this.#reports = setInterval(() => this.#report(), FIGURES);
        break;
      case "refused":
        this.fail(refused(news.code, news.text));
        break;
      case "status":
        this.#status = news.status;
        break;
      case "bye":
        this.#end(news.text);
        break;
      case "reload":
        this.fail(lost());
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
    if (this.#over) {
      return;
    }
    const at = performance.now();
    const counts = this.#viewer.figures(at);
    const status = this.#status;
    this.#bytes.note(at, counts.bytes ?? 0);
    this.#frames.note(at, counts.displayed ?? 0);
    this.#sent.note(at, status.packets);
    this.#lost.note(at, status.lost);
    const delays = this.#delays.splice(0);
    post({
      kind: "figures",
      figures: {
        at,
        delayMs: median(delays),
        delayErrorMs: counts.clockErrorMs ?? Number.NaN,
        bitrate: this.#bytes.perSecond * 8,
        estimate: status.estimateBps > 0 ? status.estimateBps : Number.NaN,
        queueMs: counts.queueMs ?? Number.NaN,
        loss: this.#sent.growth > 0 ? this.#lost.growth / this.#sent.growth : 0,
        rttMs: status.rttMs,
        fps: this.#frames.perSecond,
        ...(this.#playing ? this.#picture.size : { width: 0, height: 0 }),
        shown: counts.displayed ?? 0,
        abandoned: counts.abandoned ?? 0,
        skipped: status.skipped,
        controller: status.controller,
        paused: status.paused,
        maxBps: status.maxBps,
        trouble: status.trouble,
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
    this.#link?.say(this.#viewer.wish(wish));
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
    this.#picture.close();
    this.#link?.close();
  }
}

/** The certificate's hash by the server's own word, if it still answers. */
async function servedHash(): Promise<string | undefined> {
  try {
    const answer = await fetch("/server.json");
    return readFacts(await answer.json())?.hash;
  } catch {
    return undefined;
  }
}

let player: Player | undefined;

async function begin(start: Start): Promise<void> {
  player = new Player(await Viewer.load(fetch(wasm)), start);
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
      break;
  }
};

// A broken promise or a trap of the receiver ends the show with words.
self.addEventListener("unhandledrejection", (event) => player?.fail(internal(event.reason)));
self.addEventListener("error", (event) => player?.fail(internal(event.error ?? event.message)));
