// From coded frames to the canvas: the browser's decoder, and the frames that wait to be shown.

import { Decoding } from "./decoding.js";
import { BARCODE, type Coded, type Due, type Viewer } from "./viewer.js";

export interface PictureEvents {
  /** The decoder has done something; the receiver may have something to show. */
  progress(): void;
  /** The browser has no decoder for this. */
  unsupported(codec: string): void;
  /** The decoder gave up; the receiver has asked for a key frame. */
  failed(text: string): void;
}

export class Picture {
  readonly #viewer: Viewer;
  readonly #events: PictureEvents;
  readonly #canvas: OffscreenCanvas;
  readonly #context: OffscreenCanvasRenderingContext2D;
  readonly #barcode: boolean;
  /** How the decoder keeps up. */
  readonly decoding = new Decoding();
  #decoder: VideoDecoder | undefined;
  #codec = "";
  #session = 0;
  /** Decoded frames by their numbers; the receiver lets at most a few wait. */
  #decoded = new Map<number, VideoFrame>();

  constructor(viewer: Viewer, canvas: OffscreenCanvas, barcode: boolean, events: PictureEvents) {
    const context = canvas.getContext("2d", {
      alpha: false,
      desynchronized: !barcode,
      willReadFrequently: barcode,
    });
    if (context === null) {
      throw new Error("this browser can't draw on a canvas outside the page");
    }
    this.#viewer = viewer;
    this.#events = events;
    this.#canvas = canvas;
    this.#context = context;
    this.#barcode = barcode;
  }

  get size(): { width: number; height: number } {
    return { width: this.#canvas.width, height: this.#canvas.height };
  }

  /** The session of what is decoded. */
  get session(): number {
    return this.#session;
  }

  /** Hands a frame to the decoder. */
  decode(coded: Coded): void {
    const wanted = coded.key ? (coded.codec ?? this.#codec) : this.#codec;
    const broken = this.#decoder === undefined || this.#decoder.state === "closed";
    if (coded.session !== this.#session || wanted !== this.#codec || broken) {
      this.#session = coded.session;
      this.#begin(wanted);
    }
    try {
      const type = coded.key ? "key" : "delta";
      this.#decoder?.decode(new EncodedVideoChunk({ type, timestamp: coded.frame, data: coded.bytes }));
      this.decoding.submitted(performance.now(), coded.frame);
    } catch (error) {
      // A decoder just begun takes no frame that needs another; the receiver asks for a key frame.
      this.#fail(this.#decoder, error);
    }
  }

  #begin(codec: string): void {
    this.close();
    this.#codec = codec;
    if (codec === "") {
      return;
    }
    const decoder = new VideoDecoder({
      output: (frame) => this.#take(decoder, frame),
      error: (error) => this.#fail(decoder, error),
    });
    this.#decoder = decoder;
    const config: VideoDecoderConfig = { codec, optimizeForLatency: true };
    decoder.configure(config);
    VideoDecoder.isConfigSupported(config).then(
      ({ supported }) => supported === true || this.#events.unsupported(codec),
      () => this.#events.unsupported(codec),
    );
  }

  #take(from: VideoDecoder, frame: VideoFrame): void {
    if (from !== this.#decoder) {
      frame.close();
      return;
    }
    this.#decoded.get(frame.timestamp)?.close();
    this.#decoded.set(frame.timestamp, frame);
    this.decoding.returned(performance.now(), frame.timestamp);
    this.#viewer.decoded(performance.now(), frame.timestamp);
    this.#events.progress();
  }

  #fail(decoder: VideoDecoder | undefined, error: unknown): void {
    if (decoder === this.#decoder) {
      this.close();
      this.#events.failed(error instanceof Error ? error.message : String(error));
      this.#viewer.decoderFailed(performance.now());
      this.#events.progress();
    }
  }

  /** Draws a frame; the number burnt into it, -1 if none was read, or undefined if it is not there. */
  show(due: Due): number | undefined {
    const frame = this.#decoded.get(due.frame);
    for (const [number, other] of this.#decoded) {
      if (number < due.frame) {
        other.close();
        this.#decoded.delete(number);
      }
    }
    if (frame === undefined) {
      return undefined;
    }
    this.#decoded.delete(due.frame);
    const { displayWidth: width, displayHeight: height } = frame;
    if (this.#canvas.width !== width || this.#canvas.height !== height) {
      this.#canvas.width = width;
      this.#canvas.height = height;
    }
    this.#context.drawImage(frame, 0, 0);
    frame.close();
    return this.#barcode ? this.#readBarcode() : -1;
  }

  #readBarcode(): number {
    return this.#viewer.barcode(this.#context.getImageData(0, 0, BARCODE.width, BARCODE.height).data);
  }

  close(): void {
    if (this.#decoder !== undefined && this.#decoder.state !== "closed") {
      this.#decoder.close();
    }
    this.#decoder = undefined;
    this.decoding.cleared(performance.now());
    for (const frame of this.#decoded.values()) {
      frame.close();
    }
    this.#decoded.clear();
  }
}
