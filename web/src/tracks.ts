// From coded frames to pictures: a decoder for each track, and the pictures that wait to be shown.

import { decoderOf, type TrackDecoder } from "./decoders.js";
import { Decoding } from "./decoding.js";
import type { Coded, Viewer } from "./viewer.js";

/** Decoders at most, as many as a capture may have tracks (crates/session, `TRACKS`): each costs memory, and some a piece of hardware. */
export const MOST_DECODERS = 4;

export interface TracksEvents {
  /** A decoder has done something; the receiver may have something to show. */
  progress(): void;
  /** The browser has no decoder for any of the tracks. */
  unsupported(codec: string): void;
  /** A track's decoder gave up; the receiver has asked for a key frame if that helps. */
  failed(text: string): void;
}

interface Track {
  /** As WebCodecs names it. */
  codec: string;
  decoder: TrackDecoder | undefined;
  supported: boolean;
}

export class Tracks {
  readonly #viewer: Pick<Viewer, "decoded" | "undecodable" | "decoderFailed">;
  readonly #events: TracksEvents;
  /** How the decoders keep up. */
  readonly decoding = new Decoding();
  #session = 0;
  /** By number. A track is here from its first key frame on. */
  #tracks = new Map<number, Track>();
  /** Decoded pictures by their ids, until they are taken or freed. The receiver bounds how many. */
  #pictures = new Map<number, VideoFrame>();

  constructor(viewer: Pick<Viewer, "decoded" | "undecodable" | "decoderFailed">, events: TracksEvents) {
    this.#viewer = viewer;
    this.#events = events;
  }

  /** The session of what is decoded. */
  get session(): number {
    return this.#session;
  }

  /** Pictures that wait. */
  get waiting(): number {
    return this.#pictures.size;
  }

  /** Hands a frame to the decoder of its track. */
  decode(coded: Coded): void {
    if (coded.session !== this.#session) {
      this.close();
      this.#tracks.clear();
      this.#session = coded.session;
    }
    try {
      this.#decoderFor(coded).decode(coded);
      this.decoding.submitted(performance.now(), coded.track, coded.id);
    } catch (error) {
      this.#fail(coded.track, this.#tracks.get(coded.track)?.decoder, error);
    }
  }

  /** The decoder at work on the frame's track; a key frame may begin another. */
  #decoderFor({ track: number, key, codec }: Coded): TrackDecoder {
    const track = this.#tracks.get(number);
    const running = track?.decoder?.state === "closed" ? undefined : track?.decoder;
    if (running !== undefined && (!key || codec === undefined || codec === track?.codec)) {
      return running;
    }
    const wanted = codec ?? track?.codec;
    if (!key || wanted === undefined) {
      throw new Error(`track ${number} has no key frame`);
    }
    if (track === undefined && this.#tracks.size >= MOST_DECODERS) {
      throw new Error(`more than ${MOST_DECODERS} tracks`);
    }
    this.#stop(number);
    const decoder = decoderOf(wanted, {
      output: (frame) => this.#take(number, decoder, frame),
      undecodable: (id, why) => this.#skip(number, decoder, id, why),
      error: (error) => this.#fail(number, decoder, error),
      unsupported: () => this.#refuse(begun),
    });
    const begun: Track = { codec: wanted, decoder, supported: true };
    this.#tracks.set(number, begun);
    return decoder;
  }

  /** The browser has no decoder for a track. With another one there is something to see. */
  #refuse(track: Track): void {
    track.supported = false;
    const tracks = [...this.#tracks.values()];
    if (tracks.includes(track) && tracks.every(({ supported }) => !supported)) {
      this.#events.unsupported(track.codec);
    }
  }

  #take(number: number, from: TrackDecoder, picture: VideoFrame): void {
    if (from !== this.#tracks.get(number)?.decoder) {
      picture.close();
      return;
    }
    const [now, id] = [performance.now(), picture.timestamp];
    this.decoding.returned(now, number, id);
    this.free(id);
    this.#pictures.set(id, picture);
    if (!this.#viewer.decoded(now, id)) {
      this.free(id);
    }
    this.#events.progress();
  }

  /** A frame makes no picture; its decoder goes on with the next. */
  #skip(number: number, from: TrackDecoder, id: number, why: string): void {
    if (from !== this.#tracks.get(number)?.decoder) {
      return;
    }
    const now = performance.now();
    this.decoding.dropped(now, id);
    this.#events.failed(why);
    this.#viewer.undecodable(now, id);
    this.#events.progress();
  }

  #fail(number: number, decoder: TrackDecoder | undefined, error: unknown): void {
    if (decoder !== this.#tracks.get(number)?.decoder) {
      return;
    }
    this.#stop(number);
    this.#events.failed(error instanceof Error ? error.message : String(error));
    this.#viewer.decoderFailed(performance.now(), number);
    this.#events.progress();
  }

  /** The picture `id`, which is the caller's to close from now on. */
  take(id: number): VideoFrame | undefined {
    const picture = this.#pictures.get(id);
    this.#pictures.delete(id);
    return picture;
  }

  /** Closes a picture that will never be shown. */
  free(id: number): void {
    this.take(id)?.close();
  }

  /** Closes the decoder of a track; what is inside is lost. */
  #stop(number: number): void {
    const track = this.#tracks.get(number);
    if (track?.decoder !== undefined) {
      if (track.decoder.state !== "closed") {
        track.decoder.close();
      }
      track.decoder = undefined;
    }
    this.decoding.cleared(performance.now(), number);
  }

  /** Closes all decoders and pictures. */
  close(): void {
    for (const number of this.#tracks.keys()) {
      this.#stop(number);
    }
    for (const picture of this.#pictures.values()) {
      picture.close();
    }
    this.#pictures.clear();
  }
}
