// A server for the tests: the real command, with a log of what it sent.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export interface Captured {
  event: "captured";
  session: number;
  frame: number;
  picture: number;
  at_us: number;
}

export interface Seen {
  event: "seen";
  session: number;
  frame: number;
  picture: number | null;
  at_us: number;
  delay_us: number;
}

/** How sending goes, ten times a second. */
export interface Sent {
  event: "sent";
  session: number;
  /** What the strategy is at, and what it has been at so far: frames captured meanwhile, times begun. */
  mode: string;
  modes: { mode: string; frames: number; entered: number }[];
}

export type Line = Captured | Seen | Sent;

const target = resolve(process.env.CARGO_TARGET_DIR ?? "../target");
const command = process.env.FRAMEWIRE_COMMAND ?? join(target, "release/framewire");

export class Server {
  readonly #process: ChildProcess;
  readonly #folder: string;
  /** The address it prints, token and all. */
  readonly address: string;

  private constructor(process: ChildProcess, folder: string, address: string) {
    this.#process = process;
    this.#folder = folder;
    this.address = address;
  }

  /** Flags go before the usual ones. */
  static async start(...more: string[]): Promise<Server> {
    const folder = mkdtempSync(join(tmpdir(), "framewire-"));
    const usual = { "--size": "320x180", "--fps": "30", "--max": "3mbit" };
    const look = Object.entries(usual).filter(([flag]) => !more.includes(flag));
    const clip = ["--input", "synthetic", "--barcode", ...look.flat()];
    const place = [
      "--cc",
      "sqp",
      "--listen",
      "127.0.0.1:0",
      "--token",
      "secret",
      "--log",
      join(folder, "log"),
    ];
    const page = ["--web", join(target, "web")];
    const child = spawn(command, ["serve", ...clip, ...place, ...page, ...more], {
      stdio: ["ignore", "inherit", "pipe"],
    });
    const address = await new Promise<string>((resolve, reject) => {
      let text = "";
      child.stderr?.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
        const found = /open (http:\S+) in a browser/.exec(text)?.[1];
        if (found !== undefined) {
          resolve(found);
        }
      });
      child.once("error", reject);
      child.once("exit", () => reject(new Error(`the server ended: ${text}`)));
    });
    return new Server(child, folder, address);
  }

  /** The UDP port of the media. */
  async media(): Promise<number> {
    const answer = await fetch(new URL("/server.json", this.address));
    return ((await answer.json()) as { port: number }).port;
  }

  /** What it has logged so far, whole lines only. */
  log(): Line[] {
    const text = readFileSync(join(this.#folder, "log"), "utf8");
    return text
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Line);
  }

  /** Holds it still, as a network does that carries nothing, or lets it go on. */
  freeze(frozen: boolean): void {
    this.#process.kill(frozen ? "SIGSTOP" : "SIGCONT");
  }

  /** Ends it at once, as a crash would, or in good order. */
  async stop(signal: "SIGKILL" | "SIGTERM" = "SIGTERM"): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      const exited = new Promise((resolve) => this.#process.once("exit", resolve));
      this.#process.kill(signal);
      await exited;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
