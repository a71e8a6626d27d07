// The programs of an upload for the tests: the real endpoint, link and uploader, and a look at what they leave.

import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";

const target = resolve(process.env.CARGO_TARGET_DIR ?? "../target");
const command = process.env.FRAMEWIRE_COMMAND ?? join(target, "release/framewire");

/** A packet of 1500 bytes, in kbit. */
const PACKET = 12;
/** How long a program may take to end once it is told to, in ms. */
const PATIENCE = 10_000;

/** What `framewire upload --json` says. */
export interface Uploaded {
  frames: { captured: number; left_out: number; shed: number; repaired: number };
}

/** What `framewire ingest --json` says. */
export interface Ingested {
  streams: { name: string; dropped: number }[];
}

/** One segment in a history, as the endpoint tells it. */
export interface Told {
  number: number;
  begins_s: number;
  frames: number;
  missing: number;
  repaired: number;
  arrived: number;
}

/** A program that runs until it is done or told to end. */
class Program {
  readonly #process: ChildProcess;
  readonly #ended: Promise<void>;
  #out = "";
  #error = "";

  constructor(...words: string[]) {
    this.#process = spawn(command, words, { stdio: ["ignore", "pipe", "pipe"] });
    this.#process.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
      this.#out += chunk;
    });
    this.#process.stderr?.setEncoding("utf8").on("data", (chunk: string) => {
      this.#error += chunk;
    });
    this.#ended = new Promise((resolve) => {
      this.#process.once("close", () => resolve());
      this.#process.once("error", (error) => {
        this.#error += error.message;
        resolve();
      });
    });
  }

  /** What it says on standard error in the parentheses of `pattern`, once it does. */
  async says(pattern: RegExp): Promise<string> {
    const over = this.#ended.then(() => true);
    for (;;) {
      const found = pattern.exec(this.#error)?.[1];
      if (found !== undefined) {
        return found;
      }
      if (await Promise.race([over, later(20)])) {
        throw new Error(`${this.#process.spawnargs.join(" ")} ended: ${this.#error}`);
      }
    }
  }

  /** What it says on standard output in all, once it is done. */
  async report<T>(): Promise<T> {
    await this.#ended;
    if (this.#process.exitCode !== 0) {
      throw new Error(`${this.#process.spawnargs.join(" ")} failed: ${this.#error}`);
    }
    return JSON.parse(this.#out) as T;
  }

  /** Ends it in good order, or else at once. */
  async stop(): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      this.#process.kill("SIGTERM");
      const kill = setTimeout(() => this.#process.kill("SIGKILL"), PATIENCE);
      await this.#ended;
      clearTimeout(kill);
    }
  }
}

/** What is uploaded, over what, and how it is watched. */
export interface Film {
  /** The clip, as the uploader's flags say it. */
  clip: string[];
  /** How long is filmed, in s. */
  duration: number;
  /** What the link carries, in kbit/s, and between which two seconds it carries nothing. */
  rate: number;
  outage: [number, number];
  /** Delays of the two classes, as the endpoint's flags say them. */
  delays: string;
  /** Who watches how late, as the uploader's flags say it. */
  viewers: string;
}

/** An uploader whose link carries nothing for a while, and the endpoint it uploads to. */
export class Upload {
  readonly #folder: string;
  /** In the order they are told to end. */
  readonly #programs: Program[];
  readonly #ingest: Program;
  readonly #upload: Program;
  /** The endpoint's page. */
  readonly address: string;
  /** What the uploader's packets cross. */
  readonly over: string;

  private constructor(folder: string, programs: Program[], over: string, address: string) {
    this.#folder = folder;
    this.#programs = programs;
    [this.#upload, this.#ingest] = [programs.at(0) as Program, programs.at(-1) as Program];
    this.over = over;
    this.address = address;
  }

  /** Films, and watches over it. */
  static async start(film: Film): Promise<Upload> {
    const folder = mkdtempSync(join(tmpdir(), "framewire-upload-"));
    const trace = join(folder, "trace");
    writeFileSync(trace, mahimahi(film));
    const watched = ["--delays", film.delays, "--segment", "1s", "--web", join(target, "web")];
    const places = ["--http", "127.0.0.1:0", "--out", join(folder, "out"), "--json"];
    const filmed = [...film.clip, "--barcode", "--duration", `${film.duration}s`, "--delays", film.viewers];
    const linked = hasLinks();
    const ingest = new Program("ingest", "--listen", listen(linked), ...places, ...watched);
    const address = await ingest.says(/watch at (http:\S+)/);
    const port = await ingest.says(/listening on \w+:\S*:(\d+)/);
    if (linked) {
      const pin = await ingest.says(/pin (\S+)/);
      const token = await ingest.says(/token (\S+)/);
      const far = `quic://$FRAMEWIRE_OUTSIDE:${port}?pin=${pin}`;
      const words = ["upload", far, "--token", token, ...filmed, "--json"].map((word) => `"${word}"`);
      const link = ["link", "--trace", trace, "--delay", "10ms", "-q", "--", "sh", "-c"];
      const upload = new Program(...link, `exec "${command}" ${words.join(" ")}`);
      return new Upload(folder, [upload, ingest], "framewire link, QUIC", address);
    }
    const way = ["--listen", "127.0.0.1:0", "--to", `udp://127.0.0.1:${port}`];
    const relay = new Program("relay", ...way, "--trace", trace, "--delay", "10ms");
    const near = await relay.says(/^(udp:\S+) -> link/m);
    const upload = new Program("upload", near, ...filmed, "--json");
    return new Upload(
      folder,
      [upload, relay, ingest],
      "framewire relay, UDP (no right to make a link)",
      address,
    );
  }

  /** Whether the endpoint has this file of the stream. */
  async has(file: string): Promise<boolean> {
    return (await fetch(new URL(`upload/${file}`, this.address))).ok;
  }

  /** What became of the segments in a delay's playlist. */
  async history(delay: string): Promise<Told[]> {
    const answer = await fetch(new URL(`upload/${delay}.json`, this.address));
    return ((await answer.json()) as { segments: Told[] }).segments;
  }

  /** What the uploader says once it is done. */
  async uploaded(): Promise<Uploaded> {
    return this.#upload.report();
  }

  /** Ends the endpoint, and tells what it says. */
  async ingested(): Promise<Ingested> {
    await this.#ingest.stop();
    return this.#ingest.report();
  }

  /** A file of the stream, such as `movie.mp4` or a playlist. */
  file(name: string): string {
    return join(this.#folder, "out/upload", name);
  }

  async remove(): Promise<void> {
    for (const program of this.#programs) {
      await program.stop();
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Where an endpoint listens: to uploaders on this machine, or to those behind an emulated link as well. */
function listen(linked: boolean): string {
  return linked ? "quic://0.0.0.0:0" : "udp://127.0.0.1:0";
}

/** Whether this machine lets us make an emulated link. */
function hasLinks(): boolean {
  return spawnSync(command, ["link", "-q", "--", "true"], { stdio: "ignore" }).status === 0;
}

/** A link's trace of two minutes: a line for each packet that it carries, with the millisecond. */
function mahimahi({ rate, outage: [from, to] }: Film): string {
  const apart = PACKET / rate;
  const times = Array.from({ length: Math.floor(120 / apart) }, (_, index) =>
    Math.ceil((index + 1) * apart * 1000),
  );
  return `${times.filter((ms) => ms <= from * 1000 || ms > to * 1000).join("\n")}\n`;
}

/** Whether this machine has ffmpeg. */
export function hasFfmpeg(): boolean {
  try {
    execFileSync("ffmpeg", ["-version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** Blocks of a barcode across and down, and a block's side in pixels (crates/media/src/barcode.rs). */
const [ACROSS, DOWN, SIDE] = [12, 4, 8];

/** The numbers burned into a film's pictures, in order; undefined for one that can't be read. */
export function barcodes(file: string): (number | undefined)[] {
  // Each block's mean becomes one pixel.
  const corner = `crop=${ACROSS * SIDE}:${DOWN * SIDE}:0:0,scale=${ACROSS}:${DOWN}:flags=area,format=gray`;
  const made = ["-vf", corner, "-fps_mode", "passthrough", "-f", "rawvideo", "-"];
  const pixels = execFileSync("ffmpeg", ["-loglevel", "fatal", "-i", file, ...made], { maxBuffer: 1 << 26 });
  const size = ACROSS * DOWN;
  const count = Math.floor(pixels.length / size);
  return Array.from({ length: count }, (_, index) =>
    number(pixels.subarray(index * size, (index + 1) * size)),
  );
}

/** 32 bits of number, then 16 of checksum. */
function number(blocks: Buffer): number | undefined {
  const bits = [...blocks].map((level) => (level > 126 ? "1" : "0")).join("");
  const [id, sum] = [Number.parseInt(bits.slice(0, 32), 2), Number.parseInt(bits.slice(32), 2)];
  return checksum(id) === sum ? id : undefined;
}

/** CRC-16/CCITT-FALSE of the four bytes. */
function checksum(id: number): number {
  let crc = 0xffff;
  for (const shift of [24, 16, 8, 0]) {
    crc ^= ((id >>> shift) & 0xff) << 8;
    for (let bit = 0; bit < 8; bit += 1) {
      crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : crc << 1;
    }
  }
  return crc;
}

function later(ms: number): Promise<false> {
  return new Promise((resolve) => setTimeout(() => resolve(false), ms));
}

/** Plays a playlist to its end by ffmpeg; what it complained of, nothing without ffmpeg. */
export async function play(address: string): Promise<string> {
  if (!hasFfmpeg()) {
    return "";
  }
  const player = spawn("ffmpeg", [
    "-v",
    "error",
    "-live_start_index",
    "0",
    "-i",
    address,
    "-fps_mode",
    "passthrough",
    "-enc_time_base",
    "1:90000",
    "-f",
    "null",
    "-",
  ]);
  let said = "";
  player.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    said += chunk;
  });
  const code = await new Promise((resolve) => player.once("close", resolve));
  return code === 0 ? said : `${said} ended with ${code}`;
}

/** SSIM of each frame of a film held against its source by ffmpeg's filter, below the rows of the barcode. */
export function ssims(film: string, source: string, rate: number): number[] {
  const log = join(mkdtempSync(join(tmpdir(), "framewire-ssim-")), "log");
  const same = `fps=${rate}:round=near,crop=iw:ih-${DOWN * SIDE}:0:${DOWN * SIDE},setpts=N`;
  const graph = `[0:v]${same}[a];[1:v]${same}[b];[a][b]ssim=stats_file=${log}:shortest=1`;
  execFileSync("ffmpeg", ["-v", "fatal", "-i", film, "-i", source, "-lavfi", graph, "-f", "null", "-"]);
  const lines = readFileSync(log, "utf8");
  rmSync(dirname(log), { recursive: true });
  return [...lines.matchAll(/ All:(\S+)/g)].map(([, all]) => Number(all));
}

/** A clip of 1280x720 at 30 Hz, of a real one again and again, in a file beside the tests' results. */
export function clip720(seconds: number): string {
  const made = join(mkdtempSync(join(tmpdir(), "framewire-clip-")), "clip.mp4");
  const input = existsSync(REAL)
    ? ["-stream_loop", "-1", "-i", REAL]
    : ["-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=30"];
  const coded = ["-an", "-c:v", "libx264", "-preset", "veryfast", "-crf", "14", "-pix_fmt", "yuv420p"];
  execFileSync("ffmpeg", [
    "-v",
    "fatal",
    ...input,
    "-t",
    `${seconds}`,
    "-vf",
    "fps=30,scale=1280:720",
    ...coded,
    made,
  ]);
  return made;
}

/** The folder of real clips, where there is one; then a real clip. */
const DATA = process.env.FRAMEWIRE_DATA ?? resolve("../../shared/data");
const REAL = join(DATA, "video/talking-head/liveportrait_s18_720p30.mp4");

/** Whether there is that clip; else a test picture stands in for it. */
export function hasClip(): boolean {
  return existsSync(REAL);
}
