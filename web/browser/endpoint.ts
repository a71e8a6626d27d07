// An endpoint for the tests of the page of delays: a stream that ffmpeg has made, told as if it were being
// uploaded now.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join, resolve } from "node:path";

const pages = join(resolve(process.env.CARGO_TARGET_DIR ?? "../target"), "web");

/** The stream: so many segments of a second each, at so many frames a second. */
const SEGMENTS = 120;
const RATE = 25;
/** As far back as playlists and histories reach, in segments. */
const WINDOW = 40;

/** What the endpoint sends with every answer. */
const POLICY =
  "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:; style-src 'self'; " +
  "img-src 'self' data:; media-src 'self' blob:; connect-src 'self' https:";

const KINDS: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
  ".json": "application/json",
  ".m3u8": "application/vnd.apple.mpegurl",
  ".m4s": "video/iso.segment",
  ".mp4": "video/mp4",
};

/** Whether this machine can make a stream. */
export function hasFfmpeg(): boolean {
  try {
    return execFileSync("ffmpeg", ["-hide_banner", "-encoders"], { stdio: "pipe" }).includes("libx264");
  } catch {
    return false;
  }
}

/** Encodes the stream into a new folder: init.mp4 and 0.m4s, 1.m4s, ... */
export function makeStream(): string {
  const folder = mkdtempSync(join(tmpdir(), "framewire-delays-"));
  const clip = ["-f", "lavfi", "-i", `testsrc2=size=320x180:rate=${RATE}:duration=${SEGMENTS}`];
  const codec = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", `${RATE}`];
  const list = ["-f", "hls", "-hls_time", "1", "-hls_list_size", "0", "-hls_segment_type", "fmp4"];
  const names = ["-hls_segment_filename", join(folder, "%d.m4s"), join(folder, "made.m3u8")];
  execFileSync("ffmpeg", ["-loglevel", "error", ...clip, ...codec, "-sc_threshold", "0", ...list, ...names]);
  return folder;
}

interface Delay {
  name: string;
  delay: number;
}

export class Endpoint {
  readonly #folder: string;
  #server: Server | undefined;
  #port = 0;
  /** Unix time of media time zero, in ms. */
  readonly date: number;
  readonly delays: Delay[] = [
    { name: "live", delay: 0.5 },
    { name: "10s", delay: 10 },
  ];
  streams = ["camera"];
  /** The number of the last segment, once the stream has ended. */
  last: number | undefined;

  /** Tells the stream in `folder` as one whose upload began `age` seconds ago. */
  constructor(folder: string, age: number) {
    this.#folder = folder;
    this.date = Date.now() - age * 1000;
  }

  get address(): string {
    return `http://127.0.0.1:${this.#port}/`;
  }

  /** Answers from now on, at the same address as before. */
  async start(): Promise<void> {
    const server = createServer((request, response) => {
      const path = decodeURIComponent(new URL(request.url ?? "/", this.address).pathname);
      this.#answer(path, response);
    });
    this.#server = server;
    await new Promise<void>((done) => server.listen(this.#port, "127.0.0.1", done));
    this.#port = (server.address() as AddressInfo).port;
  }

  /** Goes away, connections and all. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    server?.closeAllConnections();
    await new Promise((done) => (server === undefined ? done(undefined) : server.close(done)));
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #answer(path: string, response: ServerResponse): void {
    const body = this.#told(path) ?? this.#stored(path);
    const headers = { "Content-Security-Policy": POLICY, "Cache-Control": "no-cache" };
    if (body === undefined) {
      response.writeHead(404, headers).end();
      return;
    }
    const kind = KINDS[extname(path === "/" ? "a.html" : path)] ?? "application/octet-stream";
    response.writeHead(200, { ...headers, "Content-Type": kind }).end(body);
  }

  /** What is made up for the moment: lists, histories. */
  #told(path: string): string | undefined {
    if (path === "/streams.json") {
      const ended = this.last !== undefined;
      return JSON.stringify({ streams: this.streams.map((name) => ({ name, ended })) });
    }
    const [, stream = "", file = ""] = path.split("/");
    if (!this.streams.includes(stream)) {
      return undefined;
    }
    if (file === "index.json") {
      return JSON.stringify(this.#index(stream));
    }
    const delay = this.delays.find(({ name }) => file === `${name}.m3u8` || file === `${name}.json`);
    if (delay === undefined) {
      return undefined;
    }
    return file.endsWith(".json")
      ? JSON.stringify({ segments: this.#history(delay) })
      : this.#playlist(delay);
  }

  /** Files of the page and of the stream. */
  #stored(path: string): Buffer | undefined {
    const number = /^\/[^/]+\/s\/(\d{6})-1\.m4s$/.exec(path)?.[1];
    const media = path.endsWith("/init.mp4") ? "init.mp4" : `${Number(number)}.m4s`;
    const ours = number !== undefined || media === "init.mp4";
    const file = ours ? join(this.#folder, media) : join(pages, path === "/" ? "delays.html" : path);
    try {
      return readFileSync(file);
    } catch {
      return undefined;
    }
  }

  #index(name: string): object {
    return {
      name,
      width: 320,
      height: 180,
      interval_s: 1 / RATE,
      segment_s: 1,
      date_ms: this.date,
      now_ms: Date.now(),
      ended: this.last !== undefined,
      classes: this.delays.map(({ name, delay }) => ({
        name,
        delay_s: delay,
        playlist: `${name}.m3u8`,
        manifest: `${name}.mpd`,
        history: `${name}.json`,
      })),
      movie: this.last === undefined ? null : "movie.mp4",
    };
  }

  /** Numbers of the segments that are there at a delay, those of the window. */
  #numbers({ delay }: Delay): number[] {
    const age = (Date.now() - this.date) / 1000 - delay;
    const count = Math.min(Math.floor(age), (this.last ?? SEGMENTS) + 1, SEGMENTS);
    const first = Math.max(0, count - WINDOW);
    return Array.from({ length: Math.max(0, count - first) }, (_, index) => first + index);
  }

  #playlist(delay: Delay): string {
    const numbers = this.#numbers(delay);
    const lines = numbers.flatMap((number) => [
      `#EXT-X-PROGRAM-DATE-TIME:${new Date(this.date + number * 1000).toISOString()}`,
      "#EXTINF:1.000,",
      `s/${String(number).padStart(6, "0")}-1.m4s`,
    ]);
    const head = ["#EXTM3U", "#EXT-X-VERSION:7", "#EXT-X-TARGETDURATION:1", '#EXT-X-MAP:URI="init.mp4"'];
    const over = this.last !== undefined && numbers.at(-1) === this.last;
    const sequence = `#EXT-X-MEDIA-SEQUENCE:${numbers[0] ?? 0}`;
    return `${[...head, sequence, ...lines, ...(over ? ["#EXT-X-ENDLIST"] : [])].join("\n")}\n`;
  }

  /**
   * Of four segments one is missing as it comes, and half of another; ten seconds later all of it is
   * repaired.
   */
  #history(delay: Delay): object[] {
    return this.#numbers(delay).map((number) => {
      const late = number % 4 === 2 ? RATE : number % 4 === 3 ? 12 : 0;
      const [missing, repaired] = delay.delay >= 10 ? [0, late] : [late, 0];
      const ssim = 0.97 + 0.02 * Math.sin(number);
      const likeness = delay.delay >= 10 ? { ssim, rated: RATE } : { ssim: null, rated: 0 };
      return { number, begins_s: number, frames: RATE, missing, repaired, arrived: RATE - late, ...likeness };
    });
  }
}
