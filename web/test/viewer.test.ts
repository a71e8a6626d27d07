// The receiver itself, as the browser runs it: the wrapper and crates/viewer agree on their memory.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { BARCODE, Viewer } from "../src/viewer.js";

const target = resolve(process.env.CARGO_TARGET_DIR ?? "../target");
const wasm = readFileSync(resolve(target, "wasm32-unknown-unknown/page/framewire_viewer.wasm"));
let viewer: Viewer;

beforeEach(async () => {
  viewer = await Viewer.load(wasm);
});

const VERSION = 2;
/** A hello of session 7: 320 x 180, 33333 us. */
const HELLO = [0x25, 0, 0, 0, 0, 7, 1, 64, 0, 180, 0, 0, 0x82, 0x35];

/** A media packet of a frame of one packet (docs/wire.md), of a stream of one capture and track. */
function media(packet: number, frame: number, payload: number[], stream = 0): Uint8Array {
  const head = [0x21, frame === 0 ? 4 : 0, 0, 0, 0, 7];
  const rest = [0, 0, 0, 0, packet, 0, 0, 0, 0, 3, 232, 0, 0, 0, stream, 0];
  const place = [0, 0, 0, frame, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 144, 0, frame === 0 ? 0 : 1, 0];
  return Uint8Array.from([...head, ...rest, ...place, ...payload]);
}

const KEY = [0, 0, 0, 1, 0x67, 0x42, 0xe0, 0x1e, 9, 0, 0, 0, 1, 0x65, 1, 2, 3];

describe("the control stream", () => {
  test("begins with who we are", () => {
    const open = [...viewer.open("abc")];
    expect(open.slice(0, 9)).toEqual([0, open.length - 2, 1, VERSION, 1, 3, 97, 98, 99]);
  });

  test("is understood however its bytes come", () => {
    const text = [...new TextEncoder().encode("no")];
    const bytes = Uint8Array.from([0, 4, 2, VERSION, 0, 0, 0, 5, 3, 2, 2, ...text]);
    const news = [...bytes].flatMap((byte) => [...viewer.hear(0, Uint8Array.of(byte))]);
    expect(news).toEqual([{ kind: "ready" }, { kind: "refused", code: 2, text: "no" }]);
    expect([...viewer.hear(0, Uint8Array.of(0, 0))]).toEqual([{ kind: "nonsense" }]);
  });

  test("tells how the sender is, and its mode where it says that", () => {
    const text = (words: string) => [words.length, ...new TextEncoder().encode(words)];
    const counts = [300, 20, 100, 4].flatMap((count) => [0, 0, 0, 0, 0, 0, count >> 8, count & 255]);
    const head = [35, 0, 0, 0, 7, 1, ...Array<number>(16).fill(0), 0, 0, 0x9c, 0x40, ...counts];
    const earlier = [...head, ...text("sqp"), ...text("so")];
    const message = (fields: number[]) => Uint8Array.from([0, fields.length, ...fields]);
    const status = {
      session: 7,
      controller: "sqp",
      trouble: "so",
      paused: true,
      maxBps: 0,
      estimateBps: 0,
      rttMs: 40,
      packets: 300,
      lost: 20,
      captured: 100,
      skipped: 4,
      mode: "",
      modeChanges: 0,
    };
    expect([...viewer.hear(0, message(earlier))]).toEqual([{ kind: "status", status }]);
    const now = message([...earlier, ...text("recovery"), 0, 0, 0, 14]);
    const told = { ...status, mode: "recovery", modeChanges: 14 };
    expect([...viewer.hear(0, now)]).toEqual([{ kind: "status", status: told }]);
  });

  test("gives the clocks' difference", () => {
    expect(viewer.age(100, 0)).toBeNaN();
    const ask = viewer.askClock(100);
    const asked = ask.slice(3, 11);
    const at = (us: number) => [0, 0, 0, 0, 0, 0, us >> 8, us & 255];
    const tell = Uint8Array.from([0, 25, 33, ...asked, ...at(5000), ...at(6000)]);
    expect([...viewer.hear(111, tell)]).toEqual([{ kind: "clock" }]);
    // Asked at 100, heard at 5 and told at 6 there, answered at 111: 5 there is 105 here, give or take 5.
    expect(viewer.age(125, 5000)).toBeCloseTo(20, 1);
    expect(viewer.figures(111).clockErrorMs).toBeCloseTo(5, 1);
  });
});

test("a playout policy is followed from the next session on, if there is one of that name", () => {
  expect(viewer.playout("smooth")).toBe(false);
  expect(viewer.playout("fixed:delay=50ms")).toBe(true);
  viewer.datagram(0, Uint8Array.from(HELLO));
  viewer.datagram(10, media(0, 0, KEY));
  expect(viewer.coded()?.frame).toBe(0);
  viewer.decoded(12, 0);
  expect(viewer.shown()).toBeUndefined();
  expect(viewer.nextWake(12)).toBeLessThan(50);
  viewer.wake(60);
  expect(viewer.shown()?.frame).toBe(0);
});

describe("media", () => {
  test("is handed out, taken back, shown and answered", () => {
    viewer.datagram(0, Uint8Array.from(HELLO));
    expect(viewer.transmit(0)?.[1]).toBe(1);
    viewer.datagram(1, media(0, 0, KEY));
    const coded = viewer.coded();
    expect(coded).toMatchObject({ id: 0, track: 0, frame: 0, session: 7, key: true, codec: "avc1.42E01E" });
    expect([...(coded?.bytes ?? [])]).toEqual(KEY);
    expect(viewer.coded()).toBeUndefined();
    expect(viewer.shown()).toBeUndefined();
    expect(viewer.decoded(5, 1)).toBe(false);
    expect(viewer.decoded(5, 0)).toBe(true);
    expect(viewer.shown()).toEqual({ id: 0, track: 0, frame: 0, captured: 1000, late: false });
    expect(viewer.discarded()).toBeUndefined();
    expect(viewer.tracks()).toEqual([{ track: 0, coded: 1, decoded: 1, shown: 1 }]);
    expect(viewer.transmit(5)?.[0]).toBe(0x22);
    expect(viewer.nextWake(5)).toBeGreaterThanOrEqual(0);
    expect(viewer.figures(5)).toMatchObject({ session: 7, packets: 1, displayed: 1, decodeErrors: 0 });
    expect(viewer.seen()).toBeUndefined();
    viewer.saw(0, 41, 1_000, 12);
    expect(viewer.seen()?.[2]).toBe(36);
  });

  test("of a decoder that failed is asked for anew", () => {
    viewer.datagram(0, media(0, 0, KEY));
    viewer.coded();
    viewer.decoderFailed(1, 0);
    const kinds = [viewer.transmit(2), viewer.transmit(2)].map((out) => (out?.[0] ?? 0) & 15);
    expect(kinds).toContain(4);
  });

  test("whose packets decode alone is handed out as those that came, once the next frame begins", () => {
    const packet = (number: number, frame: number, index: number) => {
      const bytes = media(number, 0, [0x56, 0x58, frame, index]);
      // A key frame's packet that decodes alone, one of two.
      bytes.set([20], 1);
      bytes.set([frame, 0, index, 0, 2, index], 25);
      return bytes;
    };
    viewer.datagram(0, packet(0, 0, 0));
    expect(viewer.coded()).toBeUndefined();
    viewer.datagram(1, packet(2, 1, 0));
    const first = viewer.coded();
    expect(first).toMatchObject({ id: 0, frame: 0, key: true, codec: "vixnn" });
    expect([...(first?.bytes ?? [])]).toEqual([0, 4, 0x56, 0x58, 0, 0]);
    viewer.datagram(2, packet(3, 1, 1));
    const second = viewer.coded();
    expect(second).toMatchObject({ id: 1, frame: 1, key: true, codec: "vixnn" });
    expect([...(second?.bytes ?? [])]).toEqual([0, 4, 0x56, 0x58, 1, 0, 0, 4, 0x56, 0x58, 1, 1]);
    // One makes no picture, which costs the other nothing.
    viewer.undecodable(3, 0);
    expect(viewer.decoded(4, 1)).toBe(true);
    expect(viewer.shown()).toMatchObject({ id: 1, frame: 1 });
    expect(viewer.figures(5)).toMatchObject({ decodeErrors: 1, displayed: 1 });
  });

  test("of another coding of the frame on the canvas is decoded, and freed", () => {
    viewer.datagram(0, media(0, 0, KEY));
    viewer.datagram(1, media(1, 0, KEY, 16));
    expect([viewer.coded()?.track, viewer.coded()?.track]).toEqual([0, 1]);
    // The second track is quicker here; the first one's picture comes too late, more than a frame's interval after it.
    expect(viewer.decoded(2, 1)).toBe(true);
    expect(viewer.shown()).toBeUndefined();
    viewer.wake(40);
    expect(viewer.shown()).toMatchObject({ id: 1, track: 1, frame: 0 });
    expect(viewer.discarded()).toBeUndefined();
    expect(viewer.decoded(41, 0)).toBe(true);
    expect(viewer.shown()).toBeUndefined();
    expect([viewer.discarded(), viewer.discarded()]).toEqual([0, undefined]);
    expect(viewer.tracks()).toEqual([
      { track: 0, coded: 1, decoded: 1, shown: 0 },
      { track: 1, coded: 1, decoded: 1, shown: 1 },
    ]);
  });

  test("of captures that are not on the canvas, and of streams that can't be, is not decoded", () => {
    for (let stream = 0; stream < 256; stream += 1) {
      viewer.datagram(stream, media(stream, 0, KEY, stream));
    }
    const tracks = Array.from({ length: 5 }, () => viewer.coded()?.track);
    expect(tracks).toEqual([0, 1, 2, 3, undefined]);
  });

  test("that is none does no harm", () => {
    viewer.datagram(0, new Uint8Array(0));
    viewer.datagram(
      0,
      Uint8Array.from({ length: 1500 }, (_, index) => (index * 7) & 255),
    );
    expect(viewer.figures(0)).toMatchObject({ packets: 0, refused: 2 });
  });
});

test("a picture without a barcode has none", () => {
  expect(viewer.barcode(new Uint8ClampedArray(BARCODE.width * BARCODE.height * 4))).toBe(-1);
});
