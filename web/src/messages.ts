// What the page and its worker tell each other.

import type { Failure } from "./failure.js";

/** How to reach the server, and what to ask of it. */
export interface Start {
  canvas: OffscreenCanvas;
  /** https://ADDRESS:PORT/watch */
  url: string;
  /** SHA-256 of the server's certificate, in hexadecimal digits. */
  hash: string;
  token: string;
  /** Read the numbers burnt into the pictures back from the canvas. */
  barcode: boolean;
}

/** What the person wants. */
export interface Wish {
  paused: boolean;
  /** bit/s; 0: none. */
  maxBps: number;
  /** Empty: the one at work. */
  controller: string;
}

export type ToWorker =
  | { kind: "start"; start: Start }
  | { kind: "wish"; wish: Wish }
  | { kind: "log" }
  | { kind: "stop" };

/** A frame that was shown. */
export interface Shown {
  session: number;
  frame: number;
  /** The number burnt into it, or -1. */
  picture: number;
  /** Milliseconds since 1970. */
  at: number;
  /** Since its capture, in ms; NaN before the clocks are known. */
  delay: number;
}

/** Figures of the last fifth of a second. */
export interface Figures {
  /** performance.now() of the worker, in ms. */
  at: number;
  /** Median delay from capture to canvas, and how far it may be off, in ms. */
  delayMs: number;
  delayErrorMs: number;
  /** Received, in bit/s. */
  bitrate: number;
  /** What the controller advises, in bit/s. */
  estimate: number;
  /** Mean time in queues, above the emptiest seen, in ms. */
  queueMs: number;
  /** Share of the packets sent in the last second that were lost. */
  loss: number;
  rttMs: number;
  /** Frames shown a second. */
  fps: number;
  width: number;
  height: number;
  /** Totals of the session. */
  shown: number;
  abandoned: number;
  skipped: number;
  /** What the server is doing. */
  controller: string;
  paused: boolean;
  maxBps: number;
  trouble: string;
}

export type FromWorker =
  | { kind: "ready" }
  | { kind: "playing" }
  | { kind: "figures"; figures: Figures }
  | { kind: "log"; log: Shown[] }
  | { kind: "ended"; text: string }
  | { kind: "failed"; failure: Failure };
