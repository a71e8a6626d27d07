// The decoder of ViXNN, as a page's worker runs it: the wrapper and crates/viewer-vixnn agree on their memory.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { Network, Undecodable } from "../src/network.js";

const target = resolve(process.env.CARGO_TARGET_DIR ?? "../target");
const wasm = readFileSync(resolve(target, "wasm32-unknown-unknown/page/framewire_viewer_vixnn.wasm"));
const weights = readFileSync("../crates/vixnn/weights/fast-mdc-0.3.safetensors");

/** The low bits of a file's CRC-32 (IEEE 802.3), which name a network in its packets. */
function fingerprint(file: Uint8Array): number[] {
  let crc = 0xffffffff;
  for (const byte of file) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) {
      crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
    }
  }
  return [(~crc >>> 8) & 255, ~crc & 255];
}

/** A packet (docs/wire.md) of a descriptor of a picture of 32 x 16, behind its length. */
function packet(descriptor: number, network = fingerprint(weights)): number[] {
  return [0, 16, 0x56, 0x58, ...network, 0, 32, 0, 16, descriptor, 0, 0, 0, 0x5a, 0xc3, 0x0f, 0x71];
}

test("makes pictures of the packets that came", async () => {
  const network = await Network.load(wasm, weights);
  const whole = network.decode(Uint8Array.from([0, 1, 2, 3, 4, 5, 6, 7].flatMap((d) => packet(d))));
  expect([whole.width, whole.height, whole.rgba.length]).toEqual([32, 16, 2048]);
  expect(whole.rgba.filter((_, index) => index % 4 === 3).every((alpha) => alpha === 255)).toBe(true);
  const before = whole.rgba.slice();
  const some = network.decode(Uint8Array.from([1, 4].flatMap((d) => packet(d))));
  expect([...some.rgba]).not.toEqual([...before]);
});

test("refuses what makes none, and goes on", async () => {
  const network = await Network.load(wasm, weights);
  const decode = (...bytes: number[]) => network.decode(Uint8Array.from(bytes));
  expect(() => decode()).toThrow(Undecodable);
  expect(() => decode(0, 4, 0x56, 0x58)).toThrow("torn");
  expect(() => decode(...packet(0, [0, 0]))).toThrow(
    "the frames are of the network 0000, and the server gave",
  );
  expect(() => network.decode(new Uint8Array((16 << 20) + 1))).toThrow("more than the decoder takes");
  expect(decode(...packet(3)).width).toBe(32);
});

test("needs a network", async () => {
  await expect(Network.load(wasm, weights.subarray(0, 1000))).rejects.toThrow("no whole safetensors file");
});
