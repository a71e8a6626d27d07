// What decodes a track: the browser's decoder, or for ViXNN, which no browser has, a network in a worker of its own.

import type { FromNetwork, ToNetwork } from "./messages.js";
import type { Coded } from "./viewer.js";

/** As crates/viewer names it. */
const VIXNN = "vixnn";

export interface TrackDecoder {
  readonly state: CodecState;
  /** Begins a frame. Its picture has the frame's id for a timestamp. */
  decode(coded: Coded): void;
  close(): void;
}

export interface DecoderEvents {
  output(picture: VideoFrame): void;
  /** A frame makes no picture; the next one may. */
  undecodable(id: number, why: string): void;
  /** The decoder has given up. */
  error(error: unknown): void;
  /** The browser has no such decoder. */
  unsupported(): void;
}

/** A decoder for a track of this codec. */
export function decoderOf(codec: string, events: DecoderEvents): TrackDecoder {
  return codec === VIXNN ? new NetworkDecoder(events) : new BrowserDecoder(codec, events);
}

class BrowserDecoder implements TrackDecoder {
  readonly #inner: VideoDecoder;

  constructor(codec: string, events: DecoderEvents) {
    this.#inner = new VideoDecoder({ output: events.output, error: events.error });
    const config: VideoDecoderConfig = { codec, optimizeForLatency: true };
    this.#inner.configure(config);
    VideoDecoder.isConfigSupported(config).then(
      ({ supported }) => supported === true || events.unsupported(),
      () => events.unsupported(),
    );
  }

  get state(): CodecState {
    return this.#inner.state;
  }

  decode({ id, key, bytes }: Coded): void {
    const type = key ? "key" : "delta";
    this.#inner.decode(new EncodedVideoChunk({ type, timestamp: id, data: bytes }));
  }

  close(): void {
    this.#inner.close();
  }
}

class NetworkDecoder implements TrackDecoder {
  readonly #worker: Worker;
  state: CodecState = "configured";

  constructor(events: DecoderEvents) {
    this.#worker = new Worker(new URL("./network-worker.ts", import.meta.url), { type: "module" });
    this.#worker.onmessage = ({ data }: MessageEvent<FromNetwork>) => {
      switch (data.kind) {
        case "picture":
          events.output(data.picture);
          break;
        case "undecodable":
          events.undecodable(data.id, data.why);
          break;
        case "broken":
          events.error(data.why);
          break;
      }
    };
    this.#worker.onerror = ({ message }) => events.error(message || "its script does not run");
  }

  decode({ id, bytes }: Coded): void {
    this.#worker.postMessage({ id, packets: bytes } satisfies ToNetwork, [bytes.buffer]);
  }

  close(): void {
    this.state = "closed";
    this.#worker.terminate();
  }
}
