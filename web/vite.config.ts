import { resolve } from "node:path";
import { defineConfig } from "vitest/config";

// What cargo and vite build lies in one place, so that nothing but `target` is to be ignored and cleaned.
const target = resolve(process.env.CARGO_TARGET_DIR ?? "../target");
const module = (name: string) => resolve(target, `wasm32-unknown-unknown/page/framewire_${name}.wasm`);

export default defineConfig({
  base: "./",
  resolve: {
    alias: [
      { find: /^viewer\.wasm/, replacement: module("viewer") },
      { find: /^vixnn\.wasm/, replacement: module("viewer_vixnn") },
    ],
  },
  build: {
    outDir: resolve(target, "web"),
    emptyOutDir: true,
    target: "es2022",
    // The page's policy allows no data: addresses for code, and one file more costs nothing on the way.
    assetsInlineLimit: 0,
    modulePreload: false,
    // What is bundled is passed on with its licence.
    license: { fileName: "licences.txt" },
    // Two pages that share no script: who opens the one loads nothing of the other.
    rolldownOptions: { input: ["index.html", "delays.html"] },
  },
  worker: { format: "es" },
  test: { include: ["test/*.test.ts"] },
});
