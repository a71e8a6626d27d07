// What the page and its worker tell each other.

import type { Failure } from "./failure.js";
import type { State } from "./state.js";
import type { TrackCounts } from "./viewer.js";

/** How to reach the server, and what to ask of it. */
export interface Start {
  canvas: OffscreenCanvas;
  /** https://ADDRESS:PORT/watch */
  url: string;
  /** SHA-256 of the server's certificate, in hexadecimal digits. */
  hash: string;
  token: string;
  /** When frames are shown, as `framewire playouts` lists it; empty: each when it is ready. */
  playout: string;
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
  /** Which coding of the frame it was: a number from 0. */
  track: number;
  frame: number;
  /** The number burnt into it, or -1. */
  picture: number;
  /** Milliseconds since 1970. */
  at: number;
  /** Since its capture, in ms; NaN before the clocks are known. */
  delay: number;
}

/** What was measured lately; NaN where nothing was. */
export interface Numbers {
  /** Median delay from capture to canvas, and how far it may be off, in ms. */
  delayMs: number;
  delayErrorMs: number;
  /** Received, in bit/s. */
  bitrate: number;
  /** What the controller advises, in bit/s. */
  estimate: number;
  /** Mean time in queues, above the emptiest seen, in ms. */
  queueMs: number;
  rttMs: number;
  /** Share of the packets sent in the last second that did not arrive, by their numbers. */
  loss: number;
  /** Frames shown a second, and as many as the source has. */
  fps: number;
  sourceFps: number;
  /** Share of the frames of the last second that were given up, of the first track where there are several. */
  dropped: number;
}

/** Figures of the last fifth of a second. */
export interface Figures extends Numbers {
  /** performance.now() of the worker, in ms. */
  at: number;
  state: State;
  /** Median time in a decoder, in ms. */
  decodeMs: number;
  /** Stalls since the first picture, and how long they took together. */
  stalls: { count: number; totalMs: number };
  width: number;
  height: number;
  /** The track of the picture on the canvas, NaN before the first, and how far each of them has come. */
  track: number;
  tracks: TrackCounts[];
  /** What the server is doing. */
  controller: string;
  trouble: string;
  /** What its strategy is at, empty if that is not known, and how often that has changed. */
  mode: string;
  modeChanges: number;
}

export type FromWorker =
  | { kind: "ready" }
  | { kind: "figures"; figures: Figures }
  | { kind: "log"; log: Shown[] }
  | { kind: "ended"; text: string }
  | { kind: "failed"; failure: Failure };

/** A frame for the worker that decodes ViXNN: the packets that came, as the viewer hands them out. */
export interface ToNetwork {
  id: number;
  packets: Uint8Array<ArrayBuffer>;
}

export type FromNetwork =
  /** Its timestamp is the frame's id. */
  | { kind: "picture"; picture: VideoFrame }
  /** The frame makes no picture; the next one may. */
  | { kind: "undecodable"; id: number; why: string }
  /** No further frame will. */
  | { kind: "broken"; why: string };
