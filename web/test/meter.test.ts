import { describe, expect, test } from "vitest";
import { Decoding, MOST } from "../src/decoding.js";
import { mbps, ms, number, outOf, percent, text, times } from "../src/format.js";
import { Meter } from "../src/meter.js";
import type { Status } from "../src/viewer.js";

const NOTHING = {
  packets: 0,
  bytes: 0,
  assembled: 0,
  displayed: 0,
  abandoned: 0,
  expected: 0,
  queueMs: Number.NaN,
  clockErrorMs: Number.NaN,
  intervalMs: Number.NaN,
};
const STATUS: Status = {
  session: 7,
  controller: "sqp",
  trouble: "",
  paused: false,
  maxBps: 0,
  estimateBps: 4e6,
  rttMs: 42,
  packets: 0,
  lost: 0,
  captured: 0,
  skipped: 0,
  mode: "live",
  modeChanges: 0,
};

/** Looks every fifth of a second at counters that grow by so much each time. */
function run(meter: Meter, looks: number, step: Record<string, number>, from = NOTHING, start = 0) {
  let counts: Record<string, number> = { ...from };
  let figures = meter.look({ at: start, counts, status: undefined, statusAt: 0, delays: [] });
  for (let look = 1; look <= looks; look += 1) {
    counts = Object.fromEntries(
      Object.entries(counts).map(([name, value]) => [name, value + (step[name] ?? 0)]),
    );
    const at = start + look * 200;
    figures = meter.look({ at, counts, status: STATUS, statusAt: at, delays: [50, 60, 70] });
  }
  return { figures, counts };
}

describe("figures", () => {
  test("of what was not measured are all dashes", () => {
    const meter = new Meter();
    for (const at of [0, 200, 400, 3000]) {
      const look = {
        at,
        counts: NOTHING,
        status: { ...STATUS, estimateBps: 0, rttMs: 0 },
        statusAt: at,
        delays: [],
      };
      const figures = meter.look(look);
      expect(Object.values(figures).map(number)).toEqual(Object.values(figures).map(() => "–"));
    }
  });

  test("are what happened in the last second", () => {
    const step = { packets: 90, expected: 100, bytes: 100_000, assembled: 6, displayed: 5, abandoned: 1 };
    const { figures } = run(new Meter(), 10, step, { ...NOTHING, intervalMs: 1000 / 30 });
    expect(figures.bitrate).toBeCloseTo(4e6);
    expect(figures.loss).toBeCloseTo(0.1);
    expect(figures.fps).toBeCloseTo(25);
    expect(figures.sourceFps).toBeCloseTo(30);
    expect(figures.dropped).toBeCloseTo(1 / 6);
    expect([figures.delayMs, figures.estimate, figures.rttMs]).toEqual([60, 4e6, 42]);
  });

  test("of a stall: what is lost is seen from the gap when packets come again, and nothing is claimed before", () => {
    const meter = new Meter();
    const before = run(meter, 10, { packets: 100, expected: 100, bytes: 100_000, displayed: 6 });
    expect(before.figures.loss).toBe(0);
    // 3 s of silence: no packets, no news from the server.
    let figures = before.figures;
    for (let at = 2200; at <= 5000; at += 200) {
      figures = meter.look({ at, counts: before.counts, status: STATUS, statusAt: 2000, delays: [] });
    }
    expect([figures.bitrate, figures.fps]).toEqual([0, 0]);
    expect([figures.loss, figures.delayMs, figures.rttMs, figures.estimate].map(number)).toEqual(
      Array(4).fill("–"),
    );
    // Of 60 packets sent meanwhile, the last 6 come.
    const counts = { ...before.counts };
    counts.expected = (counts.expected ?? 0) + 60;
    counts.packets = (counts.packets ?? 0) + 6;
    figures = meter.look({ at: 5200, counts, status: STATUS, statusAt: 5200, delays: [9] });
    expect(figures.loss).toBeCloseTo(0.9);
  });

  test("are not upset by packets that pass each other, nor by another session", () => {
    const meter = new Meter();
    run(meter, 5, { packets: 101, expected: 100, bytes: 1 });
    const { figures } = run(meter, 1, { packets: 10, expected: 10, bytes: 1 }, NOTHING, 1200);
    expect(figures.loss).toBe(0);
  });

  test("have words for nothing, and a whole to be seen against", () => {
    expect([percent(Number.NaN), ms(Number.NaN), mbps(Number.NaN), text("")]).toEqual(["–", "–", "–", "–"]);
    expect([outOf(24.2, 30), outOf(24.2, Number.NaN), outOf(Number.NaN, 30)]).toEqual([
      "24 of 30",
      "24",
      "–",
    ]);
    expect([times(0, 0), times(3, 4120)]).toEqual(["none", "3, 4.1 s"]);
  });
});

describe("decoders", () => {
  /** Takes a frame each 33 ms as long as fewer than four are inside, and needs `work` ms for each. */
  function decode(work: number): ReturnType<Decoding["look"]> {
    const decoding = new Decoding();
    const inside: number[] = [];
    let [ready, look] = [Number.POSITIVE_INFINITY, decoding.look(0)];
    for (let at = 0; at <= 4000; at += 1) {
      if (at >= ready) {
        decoding.returned(at, 0, inside.shift() ?? -1);
        ready = inside.length > 0 ? at + work : Number.POSITIVE_INFINITY;
      }
      if (at % 33 === 0 && inside.length < MOST) {
        inside.push(at);
        decoding.submitted(at, 0, at);
        ready = Math.min(ready, at + work);
      }
      if (at % 200 === 0) {
        look = decoding.look(at);
      }
    }
    return look;
  }

  test("that is quick is never full", () => {
    expect(decode(8)).toMatchObject({ full: 0, timeMs: 8 });
    expect(decode(8).decoded).toBeCloseTo(30, -1);
  });

  test("that is too slow is full all the time, and falls behind", () => {
    const look = decode(100);
    expect(look.full).toBeGreaterThan(0.6);
    expect(look.decoded).toBeCloseTo(10, 0);
    expect(look.timeMs).toBeGreaterThan(300);
  });

  test("that hangs says since when, and one that was replaced holds nothing", () => {
    const decoding = new Decoding();
    decoding.submitted(100, 0, 1);
    decoding.submitted(133, 0, 2);
    expect(decoding.look(1100).oldestMs).toBe(1000);
    expect(decoding.look(1100).timeMs).toBeNaN();
    decoding.cleared(1200, 0);
    expect(decoding.look(1300)).toMatchObject({ oldestMs: 0, full: 0 });
  });

  test("that leaves a frame out has lost it", () => {
    const decoding = new Decoding();
    decoding.submitted(0, 0, 1);
    decoding.submitted(33, 0, 2);
    decoding.returned(50, 0, 2);
    expect(decoding.look(60)).toMatchObject({ oldestMs: 0, timeMs: 17 });
  });

  test("of several tracks are each full, late or replaced alone", () => {
    const decoding = new Decoding();
    decoding.look(0);
    for (let id = 0; id < MOST; id += 1) {
      decoding.submitted(0, id % 2, id);
    }
    expect(decoding.look(1000).full).toBe(0);
    // What the second track gives back says nothing of the first.
    decoding.returned(1000, 1, 3);
    expect(decoding.look(1000).oldestMs).toBe(1000);
    decoding.cleared(1000, 0);
    expect(decoding.look(1000).oldestMs).toBe(0);
    for (let id = 10; id < 10 + MOST; id += 1) {
      decoding.submitted(1000, 1, id);
    }
    expect(decoding.look(2000).full).toBeCloseTo(0.5);
  });
});
