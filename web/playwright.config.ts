import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { defineConfig } from "@playwright/test";

const target = resolve(process.env.CARGO_TARGET_DIR ?? "../target");
const known = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const browser = process.env.FRAMEWIRE_BROWSER ?? known.find((path) => existsSync(path)) ?? "chromium";

export default defineConfig({
  testDir: "browser",
  outputDir: resolve(target, "playwright"),
  // One at a time: each wants a core for its encoder and one for its browser.
  workers: 1,
  timeout: 60_000,
  reporter: "list",
  use: {
    viewport: { width: 1280, height: 760 },
    launchOptions: {
      executablePath: browser,
      args: [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        // A script that a test has changed does not come from this machine, to Chromium, and may not connect to it.
        "--disable-features=LocalNetworkAccessChecks",
      ],
    },
  },
});
