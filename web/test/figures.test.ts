import { describe, expect, test } from "vitest";
import { niceTop, pieces, stretches } from "../src/chart.js";
import { delay, mbps, median, mode, number, percent, sum, whole } from "../src/format.js";
import { Growth, Ring } from "../src/rates.js";

describe("numbers", () => {
  test.each([
    [0, "0"],
    [0.004, "0.00"],
    [0.42, "0.42"],
    [0.996, "1.0"],
    [9.94, "9.9"],
    [9.996, "10"],
    [420.4, "420"],
    [-3.125, "-3.1"],
    [Number.NaN, "–"],
    [Number.POSITIVE_INFINITY, "–"],
  ])("%d is %s", (value, text) => {
    expect(number(value)).toBe(text);
  });

  test("carry their units", () => {
    expect(mbps(8.04e6)).toBe("8.0 Mbit/s");
    expect(percent(0.015)).toBe("1.5 %");
    expect(delay(48.6, 0.42)).toBe("49 ± 0.42 ms");
    expect(delay(Number.NaN, 1)).toBe("–");
    expect([whole(1), whole(0), whole(Number.NaN)]).toEqual(["1", "0", "–"]);
    expect([sum([]), sum([812]), sum([812, 31])]).toEqual(["–", "812", "812 + 31"]);
  });

  test("tell a mode and its changes", () => {
    expect([mode("live", 0), mode("recovery", 1), mode("normal", 14), mode("", 3)]).toEqual([
      "live",
      "recovery, 1 change",
      "normal, 14 changes",
      "–",
    ]);
  });

  test("have a middle", () => {
    expect(median([5, Number.NaN, 1, 3])).toBe(3);
    expect(median([])).toBeNaN();
  });
});

describe("a counter", () => {
  test("becomes growth over the last while", () => {
    const growth = new Growth(1000);
    expect(growth.perSecond).toBeNaN();
    for (let at = 0; at <= 3000; at += 200) {
      growth.note(at, at < 2000 ? at : 2000 + (at - 2000) * 3);
    }
    expect(growth.growth).toBe(3000);
    expect(growth.perSecond).toBe(3000);
  });

  test("that goes back begins anew", () => {
    const growth = new Growth(1000);
    growth.note(0, 500);
    growth.note(200, 10);
    expect(growth.growth).toBe(0);
    growth.note(400, 30);
    expect(growth.perSecond).toBe(100);
  });
});

test("a ring keeps the newest, oldest first", () => {
  const ring = new Ring<number>(3);
  for (const item of [1, 2]) {
    ring.push(item);
  }
  expect(ring.items).toEqual([1, 2]);
  for (const item of [3, 4, 5]) {
    ring.push(item);
  }
  expect(ring.items).toEqual([3, 4, 5]);
});

describe("a chart", () => {
  test.each([
    [0, 20],
    [Number.NaN, 20],
    [19, 20],
    [21, 50],
    [50, 50],
    [101, 200],
    [950, 1000],
  ])("of %d reaches up to %d", (value, top) => {
    expect(niceTop(value, 20)).toBe(top);
  });

  test("leaves a gap where nothing is known, and forgets what is older than it", () => {
    const values = [9, 1, 2, Number.NaN, 40];
    const points = values.map((value, index) => ({ at: index * 100, values: [value] }));
    expect(pieces(points, 0, 400, 300, 10)).toEqual([
      [
        { x: 0, y: 0.1 },
        { x: expect.closeTo(1 / 3), y: 0.2 },
      ],
      [{ x: 1, y: 1 }],
    ]);
    expect(pieces([], 0, 400, 300, 10)).toEqual([]);
  });

  test("shades stretches of what is marked, each from the point before it", () => {
    const marks = [true, false, true, true, false, true];
    const points = marks.map((marked, index) => ({ at: index * 100, values: [], marked }));
    expect(stretches(points, 500, 500)).toEqual([
      { from: expect.closeTo(0.2), to: expect.closeTo(0.6) },
      { from: expect.closeTo(0.8), to: 1 },
    ]);
    expect(stretches([], 500, 500)).toEqual([]);
  });
});
