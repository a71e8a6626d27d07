// ViXNN in a browser: a network decodes what came of each frame.

import { expect, test } from "@playwright/test";
import { LossyPath } from "./lossy.js";
import { Server } from "./server.js";

/** Of these many packets of media one is lost. */
const LOST = 10;
const SECONDS = 8;

test("plays 640 x 360 by ViXNN through a link that loses every tenth packet", async ({ page }) => {
  const complaints: string[] = [];
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  const look = ["--size", "640x360", "--fps", "20", "--max", "4mbit"];
  const server = await Server.start("--codec", "vixnn", "--recovery", "none", ...look);
  const path = await LossyPath.to(await server.media(), 10, LOST);
  try {
    await page.goto(`${server.address}&barcode${path.fragment}`);
    await expect(page.locator("#state")).toHaveText("Playing", { timeout: 20_000 });
    // A server that is too busy to encode that sends fewer rows for a while.
    await expect(page.locator("#f-size")).toHaveText(/^\d+ × \d+$/);
    await expect(page.locator("#f-size")).toHaveAttribute("title", "codec: vixnn");
    const log = () => page.evaluate(() => window.framewire.log());
    const before = await log();
    const [from, began] = [before.at(-1), Date.now()];
    await page.waitForTimeout(1000 * SECONDS);
    const shown = (await log()).slice(before.length);
    const seconds = (Date.now() - began) / 1000;

    // Most frames are shown, in their order; how many a second, a busy machine decides, too.
    const captured = (shown.at(-1)?.frame ?? 0) - (from?.frame ?? 0);
    const figure = (name: string) => page.locator(`#f-${name}`).textContent();
    const [size, decode] = [await figure("size"), await figure("decode")];
    console.log(
      `${(shown.length / seconds).toFixed(1)} frames/s of ${size} shown, ${shown.length} of ${captured}; ` +
        `decode time ${decode}, ${path.lost} packets lost`,
    );
    expect(shown.length).toBeGreaterThan(captured / 2);
    expect(shown.length).toBeGreaterThan(2 * SECONDS);
    expect(shown.every(({ frame }, at) => at === 0 || frame > (shown[at - 1]?.frame ?? frame))).toBe(true);
    expect(path.lost).toBeGreaterThan(SECONDS);
    expect(complaints).toEqual([]);
  } finally {
    path.close();
    await server.stop();
  }
});

test("says so when the server does not hand out the network", async ({ page }) => {
  const server = await Server.start("--codec", "vixnn");
  try {
    await page.route(/vixnn\.safetensors$/, (route) => route.fulfill({ status: 404 }));
    await page.goto(server.address);
    await expect(page.getByRole("alert")).toContainText("fails again and again", { timeout: 20_000 });
    await expect(page.getByRole("alert")).toContainText("does not hand out the network");
  } finally {
    await server.stop();
  }
});
