import { describe, expect, test } from "vitest";
import { hashBytes, readAddress, readFacts, transportUrl } from "../src/settings.js";

const HASH = "ab".repeat(32);
const FACTS = {
  port: 4433,
  hash: HASH,
  controller: "sqp",
  rate: "live",
  strategy: "backup",
  recovery: "retransmit",
  codec: "h264",
  playout: "at-once",
  maxBps: 1e8,
  controllers: [{ name: "sqp", about: "the default", rate: "live" }],
};

describe("the page's address", () => {
  test("says the token and, for relays and tests, where to go instead", () => {
    const address = readAddress("#token=a%20b&at=127.0.0.1:9&hash=AB:CD&playout=fixed:delay=80ms&barcode");
    const playout = "fixed:delay=80ms";
    expect(address).toEqual({ token: "a b", at: "127.0.0.1:9", hash: "abcd", playout, barcode: true });
    expect(readAddress("")).toEqual({ token: "", at: "", hash: "", playout: "", barcode: false });
  });

  test("leads to the server's own port unless it names another", () => {
    const facts = { ...FACTS };
    expect(transportUrl(readAddress(""), facts, "127.0.0.1")).toBe("https://127.0.0.1:4433/watch");
    expect(transportUrl(readAddress("#at=[::1]:9"), facts, "127.0.0.1")).toBe("https://[::1]:9/watch");
  });
});

describe("the server's facts", () => {
  test("are taken as they are, without what is no controller", () => {
    const controllers = [...FACTS.controllers, { name: 3 }, null];
    expect(readFacts({ ...FACTS, controllers })).toEqual(FACTS);
  });

  test("name no hash where the certificate is one that browsers trust anyway", () => {
    expect(readFacts({ ...FACTS, hash: "" })?.hash).toBe("");
  });

  test.each([
    null,
    "text",
    { ...FACTS, port: "4433" },
    { ...FACTS, hash: HASH.slice(2) },
    { ...FACTS, hash: `${HASH.slice(2)}zz` },
    { ...FACTS, controllers: undefined },
    { ...FACTS, rate: 1 },
    { ...FACTS, strategy: undefined },
    { ...FACTS, recovery: 0 },
    { ...FACTS, codec: 1 },
    { ...FACTS, playout: null },
    { ...FACTS, maxBps: null },
  ])("are refused where their shape is another: %j", (value) => {
    expect(readFacts(value)).toBeUndefined();
  });
});

test("a hash becomes bytes", () => {
  expect([...hashBytes("00ff1a")]).toEqual([0, 255, 26]);
});
