import { expect, describe as group, test } from "vitest";
import { describe, type State, seconds, stallAfter, Watch, type Work } from "../src/state.js";

const IDLE: Work = { oldestMs: 0, full: 0, decoded: 25, arrived: 25 };
/** Milliseconds: 25 frames a second. */
const INTERVAL = 40;

/** A viewer that has seen a second of video, from 0 to 1000 ms. */
function playing(): Watch {
  const watch = new Watch(0);
  watch.interval = INTERVAL;
  for (let frame = 0; frame <= 25; frame += 1) {
    watch.heard(frame * INTERVAL);
    watch.shown(frame * INTERVAL);
  }
  return watch;
}

group("a stall", () => {
  test.each([
    [Number.NaN, 150],
    [40, 190],
    [100, 300],
  ])("of frames %d ms apart begins after %d ms, as in every other figure", (interval, after) => {
    expect(stallAfter(interval)).toBeCloseTo(after);
  });

  test("is told with its length, and is over with the next picture", () => {
    const watch = playing();
    expect(watch.look(1180, IDLE)).toEqual({ kind: "playing" });
    expect(watch.look(1191, IDLE)).toMatchObject({ kind: "stalled", forMs: 191 });
    expect(watch.stalls(1191)).toEqual({ count: 1, totalMs: 191 });
    watch.heard(4190);
    watch.shown(4200);
    expect(watch.look(4210, IDLE)).toEqual({ kind: "playing" });
    expect(watch.stalls(4210)).toEqual({ count: 1, totalMs: 3200 });
  });

  test("has the reason that can be seen from here", () => {
    const watch = playing();
    const why = (work: Work) => {
      const state = watch.look(4200, work);
      return state.kind === "stalled" ? state.why : state;
    };
    expect(why(IDLE)).toEqual({ kind: "silent" });
    watch.heard(4190);
    expect(why(IDLE)).toEqual({ kind: "incomplete" });
    expect(why({ ...IDLE, oldestMs: 900 })).toEqual({ kind: "decoder" });
    watch.failed("no memory");
    expect(why(IDLE)).toEqual({ kind: "failed", text: "no memory" });
    // What was wrong before a picture says nothing of what comes after it.
    watch.shown(4200);
    expect(watch.look(9000, IDLE)).toMatchObject({ why: { kind: "silent" } });
  });

  test("is none while paused, nor of the pause when it goes on", () => {
    const watch = playing();
    watch.pause(1100, true);
    expect(watch.look(9000, IDLE)).toEqual({ kind: "paused" });
    watch.pause(9000, false);
    expect(watch.look(9100, IDLE)).toEqual({ kind: "playing" });
    watch.shown(9150);
    expect(watch.stalls(9150)).toEqual({ count: 0, totalMs: 0 });
    expect(watch.look(9999, IDLE)).toMatchObject({ kind: "stalled" });
  });

  test("is none before the first picture: that is waited for", () => {
    const watch = new Watch(100);
    expect(watch.look(400, IDLE)).toEqual({ kind: "waiting", forMs: 300, why: { kind: "silent" } });
    watch.heard(3000);
    expect(watch.look(3100, IDLE)).toMatchObject({ forMs: 3000, why: { kind: "incomplete" } });
    watch.shown(3100);
    expect(watch.stalls(3100)).toEqual({ count: 0, totalMs: 0 });
  });
});

group("a machine that is too slow", () => {
  const busy: Work = { oldestMs: 90, full: 0.95, decoded: 11, arrived: 30 };

  test("is told so", () => {
    expect(playing().look(1100, busy)).toEqual({ kind: "slow", decoded: 11, arrived: 30 });
  });

  test("is one whose decoder is full and falls behind: not one with a long pipeline, nor one behind a slow network", () => {
    expect(playing().look(1100, { ...busy, decoded: 30 })).toEqual({ kind: "playing" });
    expect(playing().look(1100, { ...busy, full: 0.1 })).toEqual({ kind: "playing" });
    expect(playing().look(1100, { ...busy, arrived: Number.NaN, decoded: Number.NaN })).toEqual({
      kind: "playing",
    });
  });
});

group("in words", () => {
  const stalled: State = { kind: "stalled", forMs: 3210, why: { kind: "silent" } };

  test.each<[State, string, string]>([
    [{ kind: "connecting" }, "Connecting", "idle"],
    [{ kind: "waiting", forMs: 300, why: { kind: "silent" } }, "Waiting for the first picture", "idle"],
    [
      { kind: "waiting", forMs: 4000, why: { kind: "silent" } },
      "Waiting for 4.0 s for the first picture: nothing arrives from the server",
      "warn",
    ],
    [{ kind: "playing" }, "Playing", "good"],
    [
      { kind: "slow", decoded: 10.6, arrived: 29.8 },
      "Playing, but this machine decodes too slowly: 11 of 30 frames a second",
      "warn",
    ],
    [{ kind: "paused" }, "Paused", "idle"],
    [stalled, "Stalled for 3.2 s: nothing arrives from the server", "bad"],
    [
      { ...stalled, why: { kind: "incomplete" } },
      "Stalled for 3.2 s: packets arrive, but no frame that can be decoded",
      "bad",
    ],
    [{ ...stalled, why: { kind: "decoder" } }, "Stalled for 3.2 s: this machine decodes too slowly", "bad"],
    [
      { ...stalled, why: { kind: "failed", text: "no memory" } },
      "Stalled for 3.2 s: the browser's decoder failed (no memory)",
      "bad",
    ],
    [{ kind: "ended" }, "Ended", "idle"],
    [{ kind: "failed" }, "Not playing", "bad"],
  ])("%j", (state, whole, tone) => {
    expect(describe(state)).toMatchObject({ whole, tone });
    // The line beside the title has room for so many letters.
    expect(describe(state).text.length).toBeLessThan(30);
  });

  test("what is spoken does not count along", () => {
    const later: State = { ...stalled, forMs: 5000 };
    expect(describe(stalled).text).toBe("Stalled for 3.2 s");
    expect(describe(later).text).toBe("Stalled for 5.0 s");
    expect(describe(later).spoken).toBe(describe(stalled).spoken);
  });

  test.each([
    [190, "0.2 s"],
    [59_949, "59.9 s"],
    [59_960, "60 s"],
    [600_000, "600 s"],
  ])("%d ms are %s", (ms, text) => {
    expect(seconds(ms)).toBe(text);
  });
});
