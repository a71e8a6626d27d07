import { expect, type Page, test } from "@playwright/test";
import type { Scripts } from "../src/delays/main.js";
import type { Report } from "../src/delays/player.js";
import { Endpoint, hasFfmpeg, makeStream } from "./endpoint.js";

const able = hasFfmpeg();
if (!able) {
  console.log("skipped: the page of delays, for want of ffmpeg with libx264");
}
test.skip(!able, "for want of ffmpeg with libx264");

let folder: string;
let endpoint: Endpoint;

test.beforeAll(() => {
  folder = able ? makeStream() : "";
});

test.beforeEach(async () => {
  endpoint = new Endpoint(folder, 30);
  await endpoint.start();
});

test.afterEach(async () => {
  await endpoint?.stop();
});

test.afterAll(() => endpoint?.remove());

async function reports(page: Page): Promise<Report[]> {
  return page.evaluate(() => (window as unknown as { framewire: Scripts }).framewire.players());
}

/** What the players say once each has shown so many frames. */
async function played(page: Page, players: number, frames: number): Promise<Report[]> {
  let all: Report[] = [];
  await expect
    .poll(
      async () => {
        all = await reports(page);
        return all.length === players ? Math.min(...all.map((report) => report.frames.length)) : -1;
      },
      { timeout: 30_000 },
    )
    .toBeGreaterThanOrEqual(frames);
  return all;
}

function complaints(page: Page): string[] {
  const all: string[] = [];
  page.on("console", (message) => message.type() === "error" && all.push(message.text()));
  page.on("pageerror", (error) => all.push(error.message));
  return all;
}

test("plays at two delays, each as far behind the camera as it says", async ({ page }) => {
  const wrong = complaints(page);
  await page.goto(endpoint.address);
  const all = await played(page, 2, 50);
  expect(all.map(({ delay }) => delay)).toEqual(["live", "10s"]);
  for (const { frames, errors, segments } of all) {
    expect(frames.every((time, index) => index === 0 || time > (frames[index - 1] ?? time))).toBe(true);
    // Frames are shown at the media times at which they were captured.
    expect(frames.filter((time) => Math.abs(time * 25 - Math.round(time * 25)) > 0.1)).toEqual([]);
    expect(segments).toBeGreaterThan(1);
    expect(errors).toEqual([]);
  }

  const [live, late] = (await reports(page)) as [Report, Report];
  const age = (Date.now() - endpoint.date) / 1000;
  for (const report of [live, late]) {
    expect(Math.abs((report.mediaTime ?? 0) + (report.behind ?? 0) - age)).toBeLessThan(1);
  }
  // A segment must have been captured whole before it can be played.
  expect(live.behind).toBeGreaterThan(0.5);
  expect(live.behind).toBeLessThan(8);
  expect(late.behind).toBeGreaterThan(10);
  expect(late.behind).toBeLessThan(18);
  await expect(page.locator(".behind").first()).toHaveText(/^\d\.\d s$/);
  await expect(page.locator(".behind").last()).toHaveText(/^1\d\.\d s$/);
  await expect(page.locator("#state")).toHaveText("camera is being uploaded");
  expect(wrong).toEqual([]);
});

test("charts what became of the segments, and says when the picture is held", async ({ page }) => {
  const wrong = complaints(page);
  await page.goto(endpoint.address);
  await played(page, 2, 25);
  const [live, late] = [page.locator(".panel").first(), page.locator(".panel").last()];
  await expect(live.locator(".counts")).toHaveText(/^repaired 0 s of \d+ s; missing [1-9]\d* s$/);
  await expect(late.locator(".counts")).toHaveText(/^repaired [\d.]+ s of \d+ s; missing 0 s$/);
  expect(await live.locator("rect.missing").count()).toBeGreaterThan(5);
  expect(await late.locator("rect.missing").count()).toBe(0);
  expect(await late.locator("rect.repaired").count()).toBeGreaterThan(3);
  const box = await live.locator("rect.arrived").last().boundingBox();
  expect(box?.height).toBeGreaterThan(20);
  await expect(late.locator(".likeness polyline")).toHaveCount(1);
  await expect(late.locator(".tick")).toHaveText(["1", "0.95", "0.9"]);
  expect((await late.locator(".likeness polygon").boundingBox())?.height).toBeGreaterThan(20);
  await expect(late.locator(".key.ssim-line")).toBeVisible();
  await expect(late.locator(".mean")).toHaveText(/^0\.9\d\d$/);
  await expect(live.locator(".likeness")).toBeHidden();
  await expect(live.locator(".key.ssim-line")).toBeHidden();
  await expect(live.locator(".mean")).toHaveText("–");

  const overlay = live.locator(".overlay");
  await expect(overlay).toHaveText("Nothing arrived for these 1 s: the picture is held", { timeout: 15_000 });
  await expect(live.locator(".shown")).toHaveText("as first sent", { timeout: 15_000 });
  await expect(overlay).toBeHidden();
  await expect(late.locator(".shown")).toHaveText("1 s repaired of 1 s", { timeout: 15_000 });
  expect(wrong).toEqual([]);
});

test("plays what the address says, and the address says what is chosen", async ({ page }) => {
  endpoint.streams = ["camera", "drone"];
  await page.goto(`${endpoint.address}?delays=10s#drone`);
  expect((await played(page, 1, 10))[0]?.delay).toBe("10s");
  await expect(page.getByLabel("Stream")).toHaveValue("drone");

  await page.getByLabel("Delay").focus();
  await page.keyboard.press("Home");
  await expect(page).toHaveURL(/\?delays=live#drone$/);
  await expect.poll(async () => (await reports(page))[0]?.delay).toBe("live");

  await page.getByRole("button", { name: "Two delays" }).press("Enter");
  await expect(page).toHaveURL(/\?delays=live,10s#drone$/);
  await played(page, 2, 10);

  await page.getByLabel("Stream").selectOption("camera");
  await expect(page).toHaveURL(/#camera$/);
  await expect(page.locator("#state")).toHaveText("camera is being uploaded");

  await page.goto(`${endpoint.address}?delays=5min`);
  await expect(page.locator("#trouble")).toHaveText("There is no delay “5min”: this stream has live, 10s.");
});

test("holds the picture while paused, and goes on at the newest part", async ({ page }) => {
  await page.goto(`${endpoint.address}?delays=live`);
  await played(page, 1, 25);
  await page.getByRole("button", { name: "Pause" }).click();
  await expect(page.locator(".overlay")).toHaveText("Paused");
  const before = (await reports(page))[0]?.frames.length;
  await page.waitForTimeout(10_000);
  expect(((await reports(page))[0]?.behind ?? 0) > 10).toBe(true);
  expect((await reports(page))[0]?.frames.length).toBeLessThanOrEqual((before ?? 0) + 2);
  await page.getByRole("button", { name: "Play" }).click();
  await expect.poll(async () => (await reports(page))[0]?.behind, { timeout: 15_000 }).toBeLessThan(8);
});

test("says that the endpoint is gone, and goes on when it is back", async ({ page }) => {
  await page.goto(endpoint.address);
  await played(page, 2, 25);
  await endpoint.stop();
  await expect(page.locator("#trouble")).toHaveText(/^The endpoint does not answer\. Is “framewire ingest”/);
  await expect(page.locator("#state")).toHaveText("No answer");
  await expect(page.locator(".overlay").first()).toHaveText(/^Waiting for the next segment for /, {
    timeout: 20_000,
  });
  await endpoint.start();
  await expect(page.locator("#trouble")).toHaveText("");
  const before = (await reports(page)).map(({ frames }) => frames.at(-1) ?? 0);
  await expect
    .poll(
      async () => {
        const now = (await reports(page)).map(({ frames }) => frames.at(-1) ?? 0);
        return Math.min(...now.map((time, player) => time - (before[player] ?? 0)));
      },
      { timeout: 30_000 },
    )
    .toBeGreaterThan(2);
  await expect.poll(async () => (await reports(page))[0]?.behind, { timeout: 15_000 }).toBeLessThan(10);
});

test("says when the stream has ended, and where the whole of it is", async ({ page }) => {
  await page.goto(`${endpoint.address}?delays=live`);
  await played(page, 1, 25);
  await expect(page.locator("#ended")).toBeHidden();
  endpoint.last = Math.floor((Date.now() - endpoint.date) / 1000) + 1;
  await expect(page.locator("#state")).toHaveText("camera has ended");
  await expect(page.getByRole("link")).toHaveAttribute("href", `${endpoint.address}camera/movie.mp4`);
  await expect(page.locator(".overlay")).toHaveText("Played to its end", { timeout: 30_000 });
  await expect(page.locator(".behind")).toHaveText("–");
});

test("waits for a stream that is not there yet", async ({ page }) => {
  endpoint.streams = [];
  await page.goto(endpoint.address);
  await expect(page.locator("#state")).toHaveText("Nothing is uploaded yet");
  endpoint.streams = ["camera"];
  await played(page, 2, 5);
});
