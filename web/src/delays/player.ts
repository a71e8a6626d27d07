// A player of one delay: hls.js on a video element, and what it has shown so far.

import Hls, { type ErrorData, type Fragment } from "hls.js/light";

/** Frames and errors that are remembered. */
const FRAMES = 2000;
const ERRORS = 100;
/** Attempts to go on with what is loaded, before all is loaded anew. */
const ATTEMPTS = 3;

/** What a player has done so far, for scripts. */
export interface Report {
  /** Name of the delay it plays at. */
  delay: string;
  /** Media time of the picture shown, in s; null before the first one. */
  mediaTime: number | null;
  /** How long ago the camera took it, in s. */
  behind: number | null;
  /** Segments that were loaded. */
  segments: number;
  /** What went wrong, the latest last, at most 100. */
  errors: string[];
  /** Media times of the frames shown, in s, the latest last, at most 2000. */
  frames: number[];
}

/** What a player plays. */
export interface Source {
  playlist: string;
  /** Unix time of media time zero, in ms. */
  date: number;
  /**
   * Media time of the beginning of a segment by its number, in s, for playlists without dates; NaN if
   * unknown.
   */
  begins: (number: number) => number;
}

const CONFIG = {
  // The segments come in fMP4 and are handed on as they are: nothing to do for a worker.
  enableWorker: false,
  liveSyncDurationCount: 2,
  liveMaxLatencyDurationCount: 6,
  maxLiveSyncPlaybackRate: 1.1,
  backBufferLength: 30,
  maxBufferLength: 20,
};

export class Player {
  readonly #video: HTMLVideoElement;
  #hls: Hls | undefined;
  #source: Source = { playlist: "", date: 0, begins: () => Number.NaN };
  /** Media time of the stream less the video element's. */
  #shift = Number.NaN;
  #trouble = "";
  #broken: ErrorData | undefined;
  #attempts = 0;
  #paused = false;
  segments = 0;
  errors: string[] = [];
  frames: number[] = [];

  constructor(video: HTMLVideoElement) {
    this.#video = video;
    this.#watch();
  }

  /** Plays a source, from its newest part on. */
  play(source: Source): void {
    this.stop();
    this.#source = source;
    if (!Hls.isSupported()) {
      this.#trouble =
        "This browser can't play it: it has no Media Source Extensions. Use a current Chromium, Firefox or Safari.";
      return;
    }
    const hls = new Hls(CONFIG);
    this.#hls = hls;
    hls.on(Hls.Events.FRAG_CHANGED, (_, { frag }) => this.#place(frag));
    hls.on(Hls.Events.FRAG_BUFFERED, (_, { frag }) => this.#loaded(frag));
    hls.on(Hls.Events.ERROR, (_, error) => this.#failed(error));
    hls.loadSource(source.playlist);
    hls.attachMedia(this.#video);
    this.#start();
  }

  /** Ends playing; what was counted stays. */
  stop(): void {
    this.#hls?.destroy();
    this.#hls = undefined;
    this.#shift = Number.NaN;
    this.#trouble = "";
    this.#broken = undefined;
    this.#attempts = 0;
  }

  get playing(): boolean {
    return this.#hls !== undefined;
  }

  /** What keeps it from playing, with its remedy; empty if nothing does. */
  get trouble(): string {
    return this.#trouble;
  }

  get paused(): boolean {
    return this.#paused;
  }

  /** Whether it has shown all there is and will be. */
  get over(): boolean {
    return this.#video.ended;
  }

  /** Whether it waits for media that is not there yet. */
  get starved(): boolean {
    const { readyState, ended } = this.#video;
    return !this.#paused && !ended && readyState < HTMLMediaElement.HAVE_FUTURE_DATA;
  }

  /** Media time of the picture shown, in s; NaN before the first one. */
  get time(): number {
    return this.#video.readyState >= HTMLMediaElement.HAVE_CURRENT_DATA
      ? this.#video.currentTime + this.#shift
      : (this.frames.at(-1) ?? Number.NaN);
  }

  /** Holds the picture, or goes on at the newest part. */
  pause(paused: boolean): void {
    this.#paused = paused;
    if (paused) {
      this.#video.pause();
      this.#hls?.stopLoad();
    } else {
      this.#hls?.startLoad(-1);
      this.#start();
    }
  }

  /** After a failure that ended it: tries again, the further the longer it has failed. */
  retry(): void {
    const broken = this.#broken;
    if (this.#hls === undefined || broken === undefined) {
      return;
    }
    this.#broken = undefined;
    this.#attempts += 1;
    const begun = this.#hls.latestLevelDetails !== null;
    if (broken.type === Hls.ErrorTypes.MEDIA_ERROR && this.#attempts <= ATTEMPTS) {
      this.#hls.recoverMediaError();
      this.#start();
    } else if (broken.type === Hls.ErrorTypes.NETWORK_ERROR && begun && this.#attempts <= ATTEMPTS) {
      this.#hls.startLoad();
    } else {
      const trouble = this.#trouble;
      this.play(this.#source);
      this.#trouble = trouble;
    }
  }

  #start(): void {
    // Muted video may start by itself; where a browser still forbids it, the button does it.
    this.#paused = false;
    this.#video.play().catch((error: DOMException) => {
      this.#paused = this.#paused || error.name === "NotAllowedError";
    });
  }

  #place(fragment: Fragment): void {
    const { programDateTime, sn, start } = fragment;
    const begins =
      programDateTime !== null
        ? (programDateTime - this.#source.date) / 1000
        : this.#source.begins(Number(sn));
    if (Number.isFinite(begins)) {
      this.#shift = begins - start;
    }
  }

  #loaded(fragment: Fragment): void {
    if (fragment.sn !== "initSegment") {
      this.segments += 1;
      this.#attempts = 0;
      this.#trouble = "";
      if (!Number.isFinite(this.#shift)) {
        this.#place(fragment);
      }
    }
  }

  #failed(error: ErrorData): void {
    if (!error.fatal) {
      return;
    }
    this.errors = [...this.errors, `${error.details}: ${error.error.message}`].slice(-ERRORS);
    this.#broken = error;
    this.#trouble = words(error);
  }

  #watch(): void {
    this.#video.requestVideoFrameCallback((_, { mediaTime }) => {
      const time = mediaTime + this.#shift;
      if (Number.isFinite(time)) {
        this.frames.push(time);
      }
      if (this.frames.length > FRAMES) {
        this.frames.splice(0, this.frames.length - FRAMES);
      }
      this.#watch();
    });
  }
}

function words(error: ErrorData): string {
  const { BUFFER_INCOMPATIBLE_CODECS_ERROR, MANIFEST_INCOMPATIBLE_CODECS_ERROR } = Hls.ErrorDetails;
  if ([BUFFER_INCOMPATIBLE_CODECS_ERROR, MANIFEST_INCOMPATIBLE_CODECS_ERROR].includes(error.details)) {
    return "This browser can't decode the video. Use another browser.";
  }
  return error.type === Hls.ErrorTypes.NETWORK_ERROR
    ? "The segments do not come. Is “framewire ingest” still running? This page tries again by itself."
    : `The browser fails to play it (${error.details}). This page tries again; if that does not help, use another browser.`;
}
