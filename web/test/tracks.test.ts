// Decoders and pictures of several tracks, with a decoder that does what a test says.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { FromNetwork, ToNetwork } from "../src/messages.js";
import { MOST_DECODERS, Tracks } from "../src/tracks.js";
import type { Coded } from "../src/viewer.js";

/** A picture that knows whether it was closed. */
interface FakePicture {
  timestamp: number;
  open: boolean;
  close(): void;
}

class FakeDecoder {
  static made: FakeDecoder[] = [];
  static unsupported = new Set<string>();
  static isConfigSupported = async ({ codec }: VideoDecoderConfig) => ({
    supported: !FakeDecoder.unsupported.has(codec),
  });
  state = "unconfigured";
  codec = "";
  inside: number[] = [];
  readonly init: VideoDecoderInit;

  constructor(init: VideoDecoderInit) {
    this.init = init;
    FakeDecoder.made.push(this);
  }

  configure({ codec }: VideoDecoderConfig): void {
    this.state = "configured";
    this.codec = codec;
  }

  decode({ timestamp }: { timestamp: number }): void {
    this.inside.push(timestamp);
  }

  close(): void {
    this.state = "closed";
  }

  /** Gives the oldest frame back. */
  output(): FakePicture {
    const picture = {
      timestamp: this.inside.shift() ?? -1,
      open: true,
      close() {
        this.open = false;
      },
    };
    this.init.output(picture as unknown as VideoFrame);
    return picture;
  }
}

/** The worker of a network, which says what a test says. */
class FakeWorker {
  static made: FakeWorker[] = [];
  onmessage: (message: { data: FromNetwork }) => void = () => undefined;
  onerror: (event: { message: string }) => void = () => undefined;
  inside: number[] = [];
  ended = false;

  constructor() {
    FakeWorker.made.push(this);
  }

  postMessage({ id }: ToNetwork): void {
    this.inside.push(id);
  }

  terminate(): void {
    this.ended = true;
  }

  say(data: FromNetwork): void {
    this.onmessage({ data });
  }
}

let told: string[];
let wanted: boolean;
let tracks: Tracks;

beforeEach(() => {
  vi.stubGlobal("VideoDecoder", FakeDecoder);
  vi.stubGlobal("Worker", FakeWorker);
  vi.stubGlobal(
    "EncodedVideoChunk",
    class {
      timestamp: number;
      constructor(init: EncodedVideoChunkInit) {
        this.timestamp = init.timestamp;
      }
    },
  );
  [FakeDecoder.made, FakeDecoder.unsupported, told, wanted] = [[], new Set(), [], true];
  FakeWorker.made = [];
  const viewer = {
    decoded: (_: number, id: number) => {
      told.push(`decoded ${id}`);
      return wanted;
    },
    undecodable: (_: number, id: number) => void told.push(`undecodable ${id}`),
    decoderFailed: (_: number, track: number) => void told.push(`failed ${track}`),
  };
  tracks = new Tracks(viewer, {
    progress: () => undefined,
    unsupported: (codec) => void told.push(`unsupported ${codec}`),
    failed: (text) => void told.push(text),
  });
});

afterEach(() => vi.unstubAllGlobals());

/** A key frame of a track, with its codec. */
function key(id: number, track: number, codec = "avc1.42E01E"): Coded {
  return { id, track, frame: id, session: 7, key: true, codec, bytes: new Uint8Array(1) };
}

function predicted(id: number, track: number): Coded {
  return { ...key(id, track), key: false, codec: undefined };
}

describe("a track", () => {
  test("gets a decoder with its first key frame, and keeps it", () => {
    tracks.decode(key(0, 0));
    tracks.decode(key(1, 1, "avc1.42E01F"));
    tracks.decode(predicted(2, 0));
    tracks.decode(key(3, 1, "avc1.42E01F"));
    tracks.decode({ ...key(4, 0), codec: undefined });
    expect(FakeDecoder.made.map(({ codec, inside }) => [codec, inside])).toEqual([
      ["avc1.42E01E", [0, 2, 4]],
      ["avc1.42E01F", [1, 3]],
    ]);
    expect(told).toEqual([]);
  });

  test("without a key frame, or one that names no codec, has none", () => {
    tracks.decode(predicted(0, 0));
    tracks.decode({ ...key(1, 0), codec: undefined });
    expect(FakeDecoder.made).toEqual([]);
    expect(told.filter((word) => word === "failed 0").length).toBe(2);
  });

  test("of another codec gets another decoder", () => {
    tracks.decode(key(0, 0));
    tracks.decode(key(1, 0, "avc1.42E01F"));
    expect(FakeDecoder.made.map(({ state }) => state)).toEqual(["closed", "configured"]);
    // What the first one still gives back nobody waits for.
    expect(FakeDecoder.made[0]?.output().open).toBe(false);
    expect(told).toEqual([]);
  });

  test("that fails leaves the others alone, and begins anew with a key frame", () => {
    tracks.decode(key(0, 0));
    tracks.decode(key(1, 1));
    const [first, second] = FakeDecoder.made;
    const picture = second?.output();
    second?.init.error(new DOMException("it broke"));
    expect(told).toEqual(["decoded 1", "it broke", "failed 1"]);
    expect([first?.state, second?.state, picture?.open]).toEqual(["configured", "closed", true]);
    // It says so once, whatever else it says.
    second?.init.error(new DOMException("it broke"));
    tracks.decode(key(2, 1));
    expect([told.length, FakeDecoder.made.length]).toEqual([3, 3]);
  });
});

describe("a track of ViXNN", () => {
  const frame = (id: number): Coded => key(id, 0, "vixnn");
  const picture = (id: number) => {
    const made = {
      timestamp: id,
      open: true,
      close() {
        this.open = false;
      },
    };
    return made as unknown as VideoFrame & { open: boolean };
  };

  test("has a worker of its own, whose pictures are shown as others are", () => {
    tracks.decode(frame(0));
    tracks.decode(frame(1));
    const [worker] = FakeWorker.made;
    expect([FakeWorker.made.length, FakeDecoder.made.length, worker?.inside]).toEqual([1, 0, [0, 1]]);
    const first = picture(0);
    worker?.say({ kind: "picture", picture: first });
    expect(told).toEqual(["decoded 0"]);
    expect(tracks.take(0)).toBe(first);
    tracks.close();
    expect(worker?.ended).toBe(true);
  });

  test("goes on after a frame that makes no picture", () => {
    tracks.decode(frame(0));
    tracks.decode(frame(1));
    const [worker] = FakeWorker.made;
    worker?.say({ kind: "undecodable", id: 0, why: "it is torn" });
    worker?.say({ kind: "picture", picture: picture(1) });
    expect(told).toEqual(["it is torn", "undecodable 0", "decoded 1"]);
    expect([worker?.ended, tracks.decoding.look(performance.now()).oldestMs]).toEqual([false, 0]);
  });

  test("begins anew with the next frame if its worker broke", () => {
    tracks.decode(frame(0));
    const [worker] = FakeWorker.made;
    worker?.say({ kind: "broken", why: "no network" });
    expect([told, worker?.ended]).toEqual([["no network", "failed 0"], true]);
    const late = picture(0);
    worker?.say({ kind: "picture", picture: late });
    expect(late.open).toBe(false);
    tracks.decode(frame(1));
    FakeWorker.made[1]?.onerror({ message: "" });
    expect(told.slice(2)).toEqual(["its script does not run", "failed 0"]);
  });
});

test("no more decoders are made than a capture may have tracks", () => {
  for (let track = 0; track < 256; track += 1) {
    tracks.decode(key(track, track));
    tracks.decode(key(256 + track, track));
  }
  expect(FakeDecoder.made.length).toBe(MOST_DECODERS);
  expect(told.filter((word) => word.startsWith("failed")).length).toBe(2 * (256 - MOST_DECODERS));
  expect(told).not.toContain("failed 0");
});

describe("pictures", () => {
  test("wait until they are taken or freed", () => {
    for (const id of [0, 1, 2]) {
      tracks.decode(key(id, id % 2));
    }
    const [first, second] = FakeDecoder.made;
    const [a, b, c] = [first?.output(), second?.output(), first?.output()];
    expect([told, tracks.waiting]).toEqual([["decoded 0", "decoded 1", "decoded 2"], 3]);
    expect(tracks.take(2)).toBe(c);
    tracks.free(0);
    tracks.free(0);
    expect([a?.open, b?.open, c?.open, tracks.waiting]).toEqual([false, true, true, 1]);
    expect(tracks.take(0)).toBeUndefined();
  });

  test("that nobody wants are closed at once", () => {
    tracks.decode(key(0, 0));
    wanted = false;
    expect(FakeDecoder.made[0]?.output().open).toBe(false);
    expect(tracks.waiting).toBe(0);
  });

  test("and decoders go with their session", () => {
    tracks.decode(key(0, 0));
    tracks.decode(key(1, 1));
    const picture = FakeDecoder.made[0]?.output();
    tracks.decode({ ...key(0, 0), session: 8 });
    expect(FakeDecoder.made.map(({ state }) => state)).toEqual(["closed", "closed", "configured"]);
    expect([picture?.open, tracks.waiting, tracks.session]).toEqual([false, 0, 8]);
    tracks.close();
    expect(FakeDecoder.made[2]?.state).toBe("closed");
  });
});

describe("a codec that the browser lacks", () => {
  const settle = () => new Promise((resolve) => setTimeout(resolve, 0));

  test("ends the show only where no track has another", async () => {
    FakeDecoder.unsupported.add("avc1.F4001E");
    tracks.decode(key(0, 0));
    tracks.decode(key(1, 1, "avc1.F4001E"));
    await settle();
    expect(told).toEqual([]);
    tracks.decode({ ...key(2, 0, "avc1.F4001E"), session: 8 });
    await settle();
    expect(told).toEqual(["unsupported avc1.F4001E"]);
  });

  test("of a session that is over is nobody's concern", async () => {
    FakeDecoder.unsupported.add("avc1.F4001E");
    tracks.decode(key(0, 0, "avc1.F4001E"));
    tracks.decode({ ...key(1, 0), session: 8 });
    await settle();
    expect(told).toEqual([]);
  });
});
