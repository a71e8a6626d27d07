import { describe, expect, test } from "vitest";
import { chooseDelays, chooseStream, readAddress, writeAddress } from "../src/delays/address.js";
import { EndpointClock } from "../src/delays/clock.js";
import { readHistory, readIndex, readStreams, type Segment } from "../src/delays/facts.js";
import * as past from "../src/delays/history.js";
import { leastLikeness, likenessLines, parts } from "../src/delays/timeline.js";

const CLASS = {
  name: "live",
  delay_s: 0.5,
  playlist: "live.m3u8",
  manifest: "live.mpd",
  history: "live.json",
};
const INDEX = {
  name: "camera",
  width: 1280,
  height: 720,
  interval_s: 0.04,
  segment_s: 2,
  date_ms: 1e12,
  ended: false,
  classes: [CLASS, { ...CLASS, name: "30s", delay_s: 30 }],
  movie: null,
};
const SEGMENT = { number: 12, begins_s: 24, frames: 50, missing: 3, repaired: 12, arrived: 35 };

/** A segment of 2 s at 25 frames a second; its SSIM is that of all that are shown. */
function segment(number: number, missing: number, repaired: number, ssim = Number.NaN): Segment {
  const rated = Number.isFinite(ssim) ? 50 - missing : 0;
  return {
    number,
    begins: number * 2,
    frames: 50,
    missing,
    repaired,
    arrived: 50 - missing - repaired,
    ssim,
    rated,
  };
}

describe("the list of streams", () => {
  test("is taken without what is no stream", () => {
    const streams = [{ name: "camera", ended: false, more: 1 }, { name: "" }, { name: "x" }, null, 7];
    expect(readStreams({ streams })).toEqual([{ name: "camera", ended: false }]);
  });

  test.each([undefined, null, 3, [], {}, { streams: {} }])("is not %j", (value) => {
    expect(readStreams(value)).toBeUndefined();
  });
});

describe("a stream's index", () => {
  test("is taken field by field", () => {
    expect(readIndex({ ...INDEX, movie: "movie.mp4", now_ms: 1e12 + 5 })).toEqual({
      name: "camera",
      width: 1280,
      height: 720,
      interval: 0.04,
      segment: 2,
      date: 1e12,
      now: 1e12 + 5,
      ended: false,
      classes: [
        { name: "live", delay: 0.5, playlist: "live.m3u8", history: "live.json" },
        { name: "30s", delay: 30, playlist: "live.m3u8", history: "live.json" },
      ],
      movie: "movie.mp4",
    });
  });

  test("needs neither a movie nor the endpoint's clock", () => {
    expect(readIndex(INDEX)).toMatchObject({ movie: "", now: Number.NaN });
  });

  test.each([
    { name: 3 },
    { width: 0 },
    { height: "720" },
    { interval_s: -1 },
    { interval_s: Number.POSITIVE_INFINITY },
    { segment_s: null },
    { date_ms: "now" },
    { ended: 0 },
    { classes: {} },
    { classes: [] },
    { classes: [{ ...CLASS, delay_s: -1 }, null] },
  ])("is none with %j", (wrong) => {
    expect(readIndex({ ...INDEX, ...wrong })).toBeUndefined();
  });

  test.each(["https://elsewhere/live.m3u8", "../live.m3u8", "a/b", "..", ""])("has no file %j", (file) => {
    expect(readIndex({ ...INDEX, classes: [CLASS, { ...CLASS, playlist: file }] })?.classes).toHaveLength(1);
    expect(readIndex({ ...INDEX, classes: [CLASS, { ...CLASS, history: file }] })?.classes).toHaveLength(1);
    expect(readIndex({ ...INDEX, movie: file })?.movie).toBe("");
  });
});

describe("a history", () => {
  test("is taken in order, with the likeness where it is known", () => {
    const read = readHistory({ segments: [{ ...SEGMENT, number: 13, ssim: 0.97 }, SEGMENT] });
    expect(read?.map(({ number, ssim }) => [number, ssim])).toEqual([
      [12, Number.NaN],
      [13, 0.97],
    ]);
    expect(read?.[0]).toMatchObject({ begins: 24, frames: 50, missing: 3, repaired: 12, arrived: 35 });
    expect(read?.map(({ rated }) => rated)).toEqual([0, 47]);
  });

  test.each([
    { number: -1 },
    { number: 1.5 },
    { begins_s: "24" },
    { frames: 49 },
    { missing: -1 },
    { repaired: undefined },
    { arrived: Number.NaN },
  ])("leaves a segment out with %j", (wrong) => {
    expect(readHistory({ segments: [{ ...SEGMENT, ...wrong }] })).toEqual([]);
  });

  test("takes no likeness beyond 0 to 1", () => {
    for (const ssim of [-0.1, 1.1, "1", null]) {
      expect(readHistory({ segments: [{ ...SEGMENT, ssim }] })?.[0]?.ssim).toBeNaN();
    }
  });

  test("says of how many frames the likeness is known, none of which is missing", () => {
    const read = (fields: object) => readHistory({ segments: [{ ...SEGMENT, ...fields }] })?.[0];
    expect(read({ ssim: 0.97, rated: 40 })).toMatchObject({ ssim: 0.97, rated: 40 });
    expect(read({ ssim: null, rated: 0 })).toMatchObject({ ssim: Number.NaN, rated: 0 });
    for (const rated of [48, 0, -1, 1.5, null, "40"]) {
      expect(read({ ssim: 0.97, rated })).toMatchObject({ ssim: Number.NaN, rated: 0 });
    }
  });

  test.each([undefined, [], { segments: 1 }])("is not %j", (value) => {
    expect(readHistory(value)).toBeUndefined();
  });

  test("of an endpoint that floods is bounded", () => {
    const segments = Array.from({ length: 10_000 }, (_, number) => ({ ...SEGMENT, number }));
    const read = readHistory({ segments }) ?? [];
    expect(read.length).toBeLessThan(5000);
    expect(read.at(-1)?.number).toBe(9999);
  });
});

describe("the page's address", () => {
  test("names delays and stream", () => {
    expect(readAddress("?delays=live,%2030s,", "#my%20camera")).toEqual({
      stream: "my camera",
      delays: ["live", "30s"],
    });
    expect(readAddress("", "")).toEqual({ stream: "", delays: [] });
    expect(readAddress("?delays=a,b,c", "#%").delays).toEqual(["a", "b"]);
    expect(readAddress("", "#100%").stream).toBe("100%");
  });

  test("is written as it is read, and keeps what else it says", () => {
    const address = { stream: "my camera", delays: ["live", "30 s"] };
    const written = writeAddress(address, "?x=1&delays=5min");
    expect(written).toBe("?x=1&delays=live,30%20s#my%20camera");
    const [search = "", fragment = ""] = written.split("#");
    expect(readAddress(search, `#${fragment}`)).toEqual(address);
    expect(writeAddress({ stream: "", delays: [] }, "")).toBe("");
  });

  test("leaves the choice of the stream to the page: one that goes on", () => {
    const streams = [
      { name: "a", ended: true },
      { name: "b", ended: false },
    ];
    expect(chooseStream("", streams)).toBe("b");
    expect(chooseStream("", streams.slice(0, 1))).toBe("a");
    expect(chooseStream("", [])).toBe("");
    expect(chooseStream("c", streams)).toBe("c");
  });

  test("leaves the choice of delays to the page: the shortest and the longest", () => {
    const classes = [30, 300, 0.5].map((delay) => ({ name: `${delay}`, delay, playlist: "p", history: "h" }));
    const names = (asked: string[]) => chooseDelays(asked, classes).classes.map(({ name }) => name);
    expect(names([])).toEqual(["0.5", "300"]);
    expect(names(["30"])).toEqual(["30"]);
    expect(names(["300", "300"])).toEqual(["300", "300"]);
    expect(names(["5"])).toEqual(["0.5", "300"]);
    expect(chooseDelays(["30", "5"], classes).unknown).toEqual(["5"]);
    expect(chooseDelays([], classes.slice(0, 1)).classes).toHaveLength(1);
  });
});

describe("the past", () => {
  test("is what the endpoint says last, and goes back three minutes", () => {
    const merged = past.merge(
      [segment(0, 0, 0), segment(99, 50, 0)],
      [segment(99, 0, 50), segment(100, 0, 0)],
    );
    expect(merged.map(({ number, repaired }) => [number, repaired])).toEqual([
      [99, 50],
      [100, 0],
    ]);
    expect(past.merge([], [])).toEqual([]);
    expect(past.endOf(merged, 0.04)).toBe(202);
    expect(past.endOf([], 0.04)).toBe(Number.NEGATIVE_INFINITY);
  });

  test("is summed up in seconds", () => {
    const all = [segment(0, 0, 0, 1), segment(1, 50, 0), segment(2, 0, 25, 0.9)];
    const summary = past.summarize(all, 0.04);
    expect(summary.total).toBeCloseTo(6);
    expect(summary.arrived).toBeCloseTo(3);
    expect(summary.repaired).toBeCloseTo(1);
    expect(summary.missing).toBeCloseTo(2);
    expect(summary.ssim).toBeCloseTo(0.95);
    expect(summary.rated).toBeCloseTo(4);
    expect(past.counts(summary)).toBe("repaired 1 s of 6 s; missing 2 s");
    expect(past.counts(past.summarize([], 0.04))).toBe("no segment yet");
    expect(past.summarize([segment(1, 0, 0)], 0.04).ssim).toBeNaN();
    // Half of a segment counts half, and what is not known not at all.
    const some = past.summarize([segment(0, 0, 0, 1), segment(1, 25, 0, 0.85), segment(2, 0, 0)], 0.04);
    expect(some.ssim).toBeCloseTo(0.95);
    expect(some.rated).toBeCloseTo(3);
  });

  test("says which segment is shown, a frame's rounding aside", () => {
    const all = [segment(1, 0, 0), segment(2, 0, 0)];
    const at = (time: number) => past.segmentAt(all, time, 0.04)?.number;
    expect([at(1.9), at(1.999), at(3.9), at(3.999), at(5.9), at(6)]).toEqual([
      undefined,
      1,
      1,
      2,
      2,
      undefined,
    ]);
    expect(at(Number.NaN)).toBeUndefined();
  });

  test("says what is shown, and why it stands still", () => {
    const words = (one: Segment) => [past.describe(one, 0.04), past.held([one], one, 0.04)];
    expect(words(segment(1, 0, 0))).toEqual(["as first sent", ""]);
    expect(words(segment(1, 0, 25))).toEqual(["1 s repaired of 2 s", ""]);
    expect(words(segment(1, 50, 0))).toEqual([
      "2 s missing of 2 s",
      "Nothing arrived for these 2 s: the picture is held",
    ]);
    expect(words(segment(1, 10, 25))).toEqual([
      "1 s repaired, 0.4 s missing of 2 s",
      "0.4 s of these 2 s did not arrive: the picture is held meanwhile",
    ]);
    expect(words(segment(1, 4, 0))).toEqual(["0.2 s missing of 2 s", ""]);
    expect(words(segment(1, 1, 0))).toEqual(["<0.1 s missing of 2 s", ""]);
    expect(past.describe(undefined, 0.04)).toBe("–");
    expect(past.held([], undefined, 0.04)).toBe("");
  });

  test("says how long nothing arrives, beyond one segment", () => {
    const all = [50, 0, 50, 50, 50, 49, 50].map((missing, number) => segment(number, missing, 0));
    const words = all.map((one) => past.held(all, one, 0.04).replace(/.*these (\d+ s).*/, "$1"));
    expect(words).toEqual(["2 s", "", "6 s", "6 s", "6 s", "2 s", "2 s"]);
  });

  test("is told in times that people read", () => {
    expect([0, 0.04, 0.44, 9.96, 150.4, Number.NaN].map(past.seconds)).toEqual([
      "0 s",
      "0 s",
      "0.4 s",
      "10 s",
      "150 s",
      "–",
    ]);
    expect([0.52, 31.44, 302, Number.NaN].map(past.delay)).toEqual(["0.5 s", "31.4 s", "5 min 2 s", "–"]);
    expect([7.9, 723, 3723, -1].map(past.clock)).toEqual(["0:07", "12:03", "1:02:03", "–"]);
    expect([1, 0.5, 0.999, 0.001].map((part) => past.likeness(0.98765, part))).toEqual([
      "0.988",
      "0.988 of 50 %",
      "0.988 of 99 %",
      "0.988 of <1 %",
    ]);
    expect([0, 1, Number.NaN].map((part) => past.likeness(Number.NaN, part))).toEqual(["–", "–", "–"]);
  });
});

describe("the timeline", () => {
  test("stacks what became of a segment's frames to the full height", () => {
    expect(parts(segment(1, 10, 25))).toEqual([
      { kind: "arrived", y: 0.7, height: 0.3 },
      { kind: "repaired", y: expect.closeTo(0.2), height: 0.5 },
      { kind: "missing", y: expect.closeTo(0), height: 0.2 },
    ]);
    expect(parts(segment(1, 50, 0)).map(({ kind }) => kind)).toEqual(["missing"]);
    expect(parts({ ...segment(1, 0, 0), frames: 0, arrived: 0 })).toEqual([]);
  });

  test("draws likeness where it is known, from 0.9 or lower to 1", () => {
    const all = [segment(1, 0, 0, 0.95), segment(2, 0, 0), segment(3, 0, 0, 1)];
    expect(leastLikeness(all)).toBe(0.9);
    expect(leastLikeness([])).toBe(0.9);
    expect(leastLikeness([segment(1, 0, 0, 0.73)])).toBe(0.7);
    expect(likenessLines(all, 0.04, 0.9)).toEqual([
      {
        partly: false,
        points: [
          [2, expect.closeTo(0.5)],
          [4, expect.closeTo(0.5)],
        ],
      },
      {
        partly: false,
        points: [
          [6, 0],
          [8, 0],
        ],
      },
    ]);
  });

  test("draws the likeness of a part of a segment as such, without a gap", () => {
    const all = [segment(0, 0, 0, 1), segment(1, 25, 0, 0.95), segment(2, 10, 0, 0.95), segment(3, 50, 0)];
    expect(likenessLines(all, 0.04, 0.9)).toEqual([
      {
        partly: false,
        points: [
          [0, 0],
          [2, 0],
        ],
      },
      {
        partly: true,
        points: [
          [2, 0],
          [2, expect.closeTo(0.5)],
          [4, expect.closeTo(0.5)],
          [4, expect.closeTo(0.5)],
          [6, expect.closeTo(0.5)],
        ],
      },
    ]);
  });
});

describe("the endpoint's clock", () => {
  test("is this machine's until the endpoint has told it", () => {
    const clock = new EndpointClock();
    clock.take(Number.NaN, 100, 110);
    expect(clock.at(1000)).toBe(1000);
  });

  test("is told best by the quickest answer", () => {
    const clock = new EndpointClock();
    clock.take(5500, 0, 800);
    clock.take(5105, 100, 110);
    clock.take(5900, 200, 700);
    expect(clock.at(1000)).toBe(6000);
  });

  test("forgets answers that clocks have drifted away from", () => {
    const clock = new EndpointClock();
    clock.take(5000, 0, 0);
    for (let time = 0; time < 40; time += 1) {
      clock.take(7000 + time, time, time);
    }
    expect(clock.at(1000)).toBe(8000);
  });
});
