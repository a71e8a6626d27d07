import { expect, type Page, test } from "@playwright/test";
import type { Shown } from "../src/messages.js";
import { type Captured, type Seen, Server } from "./server.js";

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
  await expect(page.locator("#state")).toHaveText(/^Quality at most/);

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
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(page.getByRole("alert")).toContainText("The server does not answer");
});

test("says so when the browser has no WebTransport", async ({ page }) => {
  await page.addInitScript(() => Reflect.deleteProperty(window, "WebTransport"));
  await open(page);
  await expect(page.getByRole("alert")).toContainText("This browser has no WebTransport");
});

function isCaptured(line: Captured | Seen): line is Captured {
  return line.event === "captured";
}

function isSeen(line: Captured | Seen): line is Seen {
  return line.event === "seen";
}
