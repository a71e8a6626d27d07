import { expect, type Page, test } from "@playwright/test";
import type { Shown } from "../src/messages.js";
import { LossyPath } from "./lossy.js";
import { type Captured, type Line, type Seen, type Sent, Server } from "./server.js";

let server: Server;

test.beforeEach(async () => {
  server = await Server.start();
});

test.afterEach(async () => {
  await server.stop();
});

async function open(page: Page, fragment = "&barcode"): Promise<void> {
  await page.goto(server.address + fragment);
}

async function frames(page: Page, least: number): Promise<Shown[]> {
  let log: Shown[] = [];
  await expect
    .poll(
      async () => {
        log = await page.evaluate(() => window.framewire.log());
        return log.length;
      },
      { timeout: 20_000 },
    )
    .toBeGreaterThanOrEqual(least);
  return log;
}

function increases(numbers: number[]): boolean {
  return numbers.every((number, index) => index === 0 || number > (numbers[index - 1] ?? number));
}

test("plays, and what the page shows is what the server sent", async ({ page }) => {
  const complaints: string[] = [];
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  await open(page);
  await expect(page.locator("#state")).toHaveText("Playing", { timeout: 20_000 });
  const log = await frames(page, 90);

  // The numbers burnt into the pictures, as read back from the canvas, increase.
  const pictures = log.map((shown) => shown.picture);
  expect(pictures.filter((picture) => picture < 0)).toEqual([]);
  expect(increases(pictures)).toBe(true);
  expect(increases(log.map((shown) => shown.frame))).toBe(true);

  // Each is the picture that the server captured as that frame, and no earlier.
  const sent = new Map(
    server
      .log()
      .filter(isCaptured)
      .map((line) => [line.frame, line]),
  );
  for (const shown of log) {
    const captured = sent.get(shown.frame);
    expect(captured?.picture).toBe(shown.picture);
    expect(captured?.session).toBe(shown.session);
    expect(shown.at * 1000).toBeGreaterThan(captured?.at_us ?? Number.POSITIVE_INFINITY);
  }

  // And the server has been told the same.
  await expect.poll(() => server.log().filter(isSeen).length).toBeGreaterThanOrEqual(90);
  const told = server.log().filter(isSeen).slice(0, 90);
  const own = log.slice(0, 90);
  expect(told.map((line) => [line.frame, line.picture])).toEqual(own.map((s) => [s.frame, s.picture]));

  await expect(page.locator("#f-size")).toHaveText("320 × 180");
  await expect(page.locator("#f-delay")).toHaveText(/^\d+ ± [\d.]+ ms$/);
  await expect(page.locator("#f-bitrate")).toHaveText(/ Mbit\/s$/);
  await expect(page.locator("#f-controller")).toHaveText("sqp");
  await expect(page.locator("#f-rate")).toHaveText("live");
  await expect(page.locator("#f-fps")).toHaveText(/^\d+ of 30$/);
  await expect(page.locator("#f-decode")).toHaveText(/^[\d.]+ ms$/);
  await expect(page.locator("#f-loss")).toHaveText(/^[\d.]+ %$/);
  expect(complaints).toEqual([]);
});

test("is ruled by keys: pause, quality, another controller while playing", async ({ page }) => {
  await open(page);
  await frames(page, 30);

  await page.keyboard.press("Space");
  await expect(page.locator("#state")).toHaveText("Paused");
  await expect(page.locator("#pause")).toHaveText("Play");
  await expect.poll(async () => (await still(page)).length).toBe(1);
  await page.keyboard.press("Space");
  const before = await page.evaluate(() => window.framewire.log());
  await frames(page, before.length + 30);

  await page.keyboard.press("[");
  await expect(page.locator("#said")).toHaveText(/^Quality at most/);

  await page.keyboard.press("c");
  await expect(page.locator("#controller")).toBeFocused();
  await page.locator("#controller").selectOption("copa");
  await expect(page.locator("#f-controller")).toHaveText("copa");
  const now = await page.evaluate(() => window.framewire.log());
  const log = await frames(page, now.length + 60);
  expect(new Set(log.map((shown) => shown.session)).size).toBe(2);
  expect(increases(log.map((shown) => shown.picture))).toBe(true);

  await page.keyboard.press("Escape");
  await page.locator("#help").focus();
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog")).toBeVisible();
});

/** Lengths of the log at three moments half a second apart, without repetition. */
async function still(page: Page): Promise<number[]> {
  const lengths = new Set<number>();
  for (let look = 0; look < 3; look += 1) {
    lengths.add((await page.evaluate(() => window.framewire.log())).length);
    await page.waitForTimeout(500);
  }
  return [...lengths];
}

test("says so when the certificate's hash is wrong", async ({ page }) => {
  await open(page, `&hash=${"0".repeat(64)}`);
  await expect(page.getByRole("alert")).toContainText("The certificate's hash does not fit");
  await expect(page.getByRole("alert")).toContainText("00000000…0000");
});

test("says so when the token is wrong, and takes another", async ({ page }) => {
  await page.goto(server.address.replace("secret", "wrong"));
  await expect(page.getByRole("alert")).toContainText("The token is wrong");
  await page.getByLabel("Token").fill("secret");
  await page.keyboard.press("Enter");
  await expect(page.locator("#state")).toHaveText("Playing", { timeout: 20_000 });
});

test("says so when the server is gone", async ({ page }) => {
  await open(page);
  await frames(page, 10);
  await server.stop("SIGTERM");
  await expect(page.locator("#notice")).toBeVisible();
  await expect(page.getByRole("alert")).toContainText("The server does not answer");
  // What was measured before says nothing of now.
  await expect(page.locator("#state")).toHaveText("Not playing");
  expect(new Set(await page.locator("#figures dd").allTextContents())).toEqual(new Set(["–"]));
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(page.getByRole("alert")).toContainText("The server does not answer");
});

test("says that it has stalled, for how long, and what is known meanwhile", async ({ page }) => {
  await open(page);
  await frames(page, 60);
  server.freeze(true);
  const state = page.locator("#state");
  const overlay = page.locator("#overlay");
  await expect(state).toHaveText(/^Stalled for [12]\.\d s$/);
  await expect(overlay).toBeVisible();
  await expect(overlay).toHaveText(/^Stalled for \d\.\d s: nothing arrives from the server$/);
  await expect(page.locator("#said")).toHaveText("Stalled: nothing arrives from the server");
  await expect(page).toHaveTitle(/^Stalled/);
  await expect(page.locator("#f-fps")).toHaveText("0 of 30");
  for (const figure of ["delay", "loss", "rtt", "estimate", "decode"]) {
    await expect(page.locator(`#f-${figure}`)).toHaveText("–");
  }
  server.freeze(false);
  await expect(state).toHaveText("Playing");
  await expect(overlay).toBeHidden();
  await expect(page.locator("#f-stalls")).toHaveText(/^\d+, \d+\.\d s$/);
});

/** What a decoder that needs `ms` for each frame is to the page: put before its worker's script. */
function slowDecoder(ms: number): string {
  return `{
    const Quick = self.VideoDecoder;
    self.VideoDecoder = class {
      static isConfigSupported = (config) => Quick.isConfigSupported(config);
      #free = 0;
      constructor({ output, error }) {
        const late = (frame) => {
          this.#free = Math.max(this.#free, performance.now()) + ${ms};
          setTimeout(() => output(frame), this.#free - performance.now());
        };
        this.inner = new Quick({ output: late, error });
      }
      get state() { return this.inner.state; }
      configure(config) { this.inner.configure(config); }
      decode(chunk) { this.inner.decode(chunk); }
      close() { this.inner.close(); }
    };
  }\n`;
}

test("says that the machine is too slow to decode", async ({ page }) => {
  await page.route(/worker.*\.js$/, async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, body: slowDecoder(90) + (await answer.text()) });
  });
  await open(page);
  await expect(page.locator("#overlay")).toHaveText(
    /this machine decodes too slowly(: \d+ of \d+ frames a second)?$/,
    { timeout: 20_000 },
  );
  await expect(page.locator("#overlay")).toBeVisible();
});

test("a tab that is closed makes room at once", async ({ page, context }) => {
  await server.stop();
  server = await Server.start("--viewers", "1");
  await open(page);
  await frames(page, 10);
  const late = await context.newPage();
  await open(late);
  await expect(late.getByRole("alert")).toContainText("The server is full");
  await expect(late.getByRole("alert")).toContainText("The server has 1 viewers, as many as it takes.");
  await page.close();
  // Far less than a server takes to miss somebody who has said nothing.
  const closed = Date.now();
  await expect(async () => {
    await late.getByRole("button", { name: "Try again" }).click();
    await expect(late.locator("#state")).toHaveText("Playing", { timeout: 1000 });
  }).toPass({ timeout: 20_000 });
  expect(Date.now() - closed).toBeLessThan(5000);
});

test("decodes both tracks of a capture, and shows one picture of each frame", async ({ page }) => {
  const complaints: string[] = [];
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  await server.stop();
  server = await Server.start("--strategy", "backup", "--recovery", "none");
  await open(page);
  await expect(page.locator("#state")).toHaveText("Playing", { timeout: 20_000 });
  const log = await frames(page, 90);

  // Never back in time, and each picture is the one captured as that frame, whichever coding of it was shown.
  const pictures = log.map((shown) => shown.picture);
  expect(pictures.filter((picture) => picture < 0)).toEqual([]);
  expect(increases(pictures)).toBe(true);
  expect(increases(log.map((shown) => shown.frame))).toBe(true);
  const sent = new Map(
    server
      .log()
      .filter(isCaptured)
      .map((line) => [line.frame, line.picture]),
  );
  expect(log.map((shown) => shown.picture)).toEqual(log.map((shown) => sent.get(shown.frame)));
  expect(log.filter((shown) => shown.track !== 0 && shown.track !== 1)).toEqual([]);

  // Both are decoded, and what is said of them agrees with what was shown.
  const counts = page.locator("#f-pictures");
  const decoded = /^track 0: \d+ shown of (\d+) decoded; track 1: \d+ shown of (\d+) decoded$/;
  await expect(counts).toHaveAttribute("title", decoded);
  const [, first, second] = decoded.exec((await counts.getAttribute("title")) ?? "") ?? [];
  expect(Number(first)).toBeGreaterThan(30);
  expect(Number(second)).toBeGreaterThan(30);
  await expect(counts).toHaveText(/^\d+ \+ \d+$/);
  await expect(page.locator("#f-track")).toHaveText(/^[01]$/);
  await expect(page.locator("#f-strategy")).toHaveText("backup");
  await expect(page.locator("#f-strategy")).toHaveAttribute("title", "recovery: none");
  expect(complaints).toEqual([]);
});

test("plays through losses with Prism, and tells the sender's mode", async ({ page }) => {
  const complaints: string[] = [];
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  await server.stop();
  server = await Server.start("--strategy", "prism");
  const path = await LossyPath.to(await server.media(), 30);
  try {
    await open(page, `&barcode${path.fragment}`);
    await expect(page.locator("#state")).toHaveText("Playing", { timeout: 20_000 });
    await expect(page.locator("#f-strategy")).toHaveText("prism");
    await expect(page.locator("#f-mode")).toHaveText(/^(normal|recovery)(, \d+ changes?)?$/);
    await frames(page, 30);
    // A whole frame and more, until a picture of the second track was on the canvas.
    await expect(async () => {
      path.lose(20);
      await page.waitForTimeout(700);
      expect((await page.evaluate(() => window.framewire.log())).some(({ track }) => track === 1)).toBe(true);
    }).toPass({ timeout: 15_000 });
    const log = await frames(page, (await page.evaluate(() => window.framewire.log())).length + 30);
    expect(path.lost).toBeGreaterThanOrEqual(20);

    // Never back in time, and each picture is the one captured as that frame, from whichever track it came.
    expect(increases(log.map((shown) => shown.frame))).toBe(true);
    expect(increases(log.map((shown) => shown.picture))).toBe(true);
    const captured = server.log().filter(isCaptured);
    const sent = new Map(captured.map((line) => [line.frame, line.picture]));
    expect(log.map((shown) => shown.picture)).toEqual(log.map((shown) => sent.get(shown.frame)));

    // The server's records: a key frame is coded in the recovery only, and the predicted track is shown again.
    const last = server.log().filter(isSent).at(-1);
    const of = (name: string) => last?.modes.find(({ mode }) => mode === name);
    expect(of("recovery")?.entered).toBeGreaterThan(0);
    const keys = log.filter(({ track }) => track === 1);
    expect(keys.length).toBeGreaterThan(0);
    expect(keys.length).toBeLessThanOrEqual(of("recovery")?.frames ?? 0);
    expect(log.at(-1)?.track).toBe(0);
    expect(new Set(log.map(({ session }) => session))).toEqual(new Set([last?.session]));

    // What the page says of the mode, the server has written down: the same mode after as many changes.
    const said = /^(\w+), (\d+) changes?$/;
    await expect(page.locator("#f-mode")).toHaveText(said);
    const [, mode, changes] = said.exec((await page.locator("#f-mode").textContent()) ?? "") ?? [];
    const changed = ({ modes }: Sent) => modes.reduce((sum, { entered }) => sum + entered, -1);
    const written = server.log().filter(isSent);
    expect(written.map((line) => `${line.mode}, ${changed(line)}`)).toContain(`${mode}, ${changes}`);
    await expect(page.locator("#f-mode")).toHaveText(/^normal/);

    // And so of pictures: as many of the second track as the page's figures say, none outside a recovery.
    const shown = /track 1: (\d+) shown of (\d+) decoded$/;
    const [, some, all] = shown.exec((await page.locator("#f-pictures").getAttribute("title")) ?? "") ?? [];
    const recovered = server
      .log()
      .filter(isSent)
      .at(-1)
      ?.modes.find((at) => at.mode === "recovery");
    expect(Number(some)).toBeGreaterThanOrEqual(keys.length);
    expect(Number(some)).toBeLessThanOrEqual(Number(all));
    expect(Number(all)).toBeLessThanOrEqual(recovered?.frames ?? 0);
    expect(complaints).toEqual([]);
  } finally {
    path.close();
  }
});

test("shows the rate policy, and what does not go with it", async ({ page }) => {
  await server.stop();
  server = await Server.start("--rate", "vidaptive-paper");
  await open(page);
  await expect(page.locator("#f-rate")).toHaveText("vidaptive-paper");
  await expect(page.locator("#trouble")).toContainText("finds less of the link than there is");
  await page.locator("#controller").selectOption("gcc");
  await expect(page.locator("#trouble")).toHaveText("");
});

for (const [width, height] of [
  [1280, 720],
  [1920, 1080],
  [390, 844],
] as const) {
  test(`fits a window of ${width} by ${height}`, async ({ page }) => {
    await page.setViewportSize({ width, height });
    await open(page);
    await expect(page.locator("#state")).toHaveText("Playing", { timeout: 20_000 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    expect(wide).toBeLessThanOrEqual(width);
    const box = async (of: string) =>
      (await page.locator(of).boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
    const charts = [await box("#chart-delay"), await box("#chart-rate")];
    for (const chart of charts) {
      expect(chart.height).toBeGreaterThanOrEqual(84);
      expect(chart.width).toBeGreaterThanOrEqual(300);
    }
    const [stage, figures, footer] = [await box("#stage"), await box("#figures"), await box("footer")];
    if (width < 960) {
      expect(stage.width).toBeGreaterThanOrEqual(width - 30);
      return;
    }
    // Everything at once, without scrolling, and hardly anything empty.
    expect(await page.evaluate(() => document.documentElement.scrollHeight)).toBeLessThanOrEqual(height);
    const areas = [stage, figures, footer, await box("header"), await box("#charts")];
    const used = areas.reduce((sum, area) => sum + area.width * area.height, 0);
    expect(used / (width * height)).toBeGreaterThan(0.9);
  });
}

test("says so when the browser has no WebTransport", async ({ page }) => {
  await page.addInitScript(() => Reflect.deleteProperty(window, "WebTransport"));
  await open(page);
  await expect(page.getByRole("alert")).toContainText("This browser has no WebTransport");
});

function isCaptured(line: Line): line is Captured {
  return line.event === "captured";
}

function isSeen(line: Line): line is Seen {
  return line.event === "seen";
}

function isSent(line: Line): line is Sent {
  return line.event === "sent";
}
