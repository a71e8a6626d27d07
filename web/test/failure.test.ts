import { describe, expect, test } from "vitest";
import { brokenDecoder, internal, lost, missing, notConnected, refused } from "../src/failure.js";

const WHOLE = { isSecureContext: true, WebTransport: {}, VideoDecoder: {}, OffscreenCanvas: {} };

describe("what the browser lacks", () => {
  test.each([
    [{ ...WHOLE, isSecureContext: false, WebTransport: undefined }, "insecure"],
    [{ ...WHOLE, WebTransport: undefined }, "webtransport"],
    [{ ...WHOLE, VideoDecoder: undefined }, "webcodecs"],
    [{ ...WHOLE, OffscreenCanvas: undefined }, "webcodecs"],
  ])("is named (%#)", (scope, cause) => {
    expect(missing(scope)?.cause).toBe(cause);
  });

  test("is nothing in a whole one", () => {
    expect(missing(WHOLE)).toBeUndefined();
  });
});

describe("a connection that fails", () => {
  const [used, served] = ["a".repeat(64), "b".repeat(64)];

  test("is the server's where that does not answer, the hash's where they differ, else the network's", () => {
    expect(notConnected(used, undefined).cause).toBe("server");
    expect(notConnected(used, served).cause).toBe("hash");
    expect(notConnected(used, served).advice).toContain("aaaaaaaa…aaaa");
    expect(notConnected(used, used).cause).toBe("connect");
  });

  test("by refusal says what to do about the token, and else what the server said", () => {
    expect(refused(2, "whatever").title).toBe("The token is wrong");
    expect(refused(3, "the server has 4 viewers").title).toBe("The server is full");
    expect(refused(3, "the server has 4 viewers").advice).toBe("The server has 4 viewers.");
    expect(refused(7, "").advice).toBe("");
  });
});

test("a decoder's own words, and a server that still answers, are told", () => {
  expect(brokenDecoder("decoding error").advice).toBe(
    "It says: Decoding error. Try again, or use another browser.",
  );
  expect(lost().advice).toMatch(/^The server still answers/);
});

test("what nobody thought of is told as it is", () => {
  expect(internal(new Error("no memory")).advice).toBe("No memory. Reload the page.");
  expect(internal("odd").advice).toBe("Odd. Reload the page.");
});
