// Why nothing plays, in words that say what to do.

export type Cause =
  | "insecure"
  | "webtransport"
  | "webcodecs"
  | "server"
  | "facts"
  | "hash"
  | "connect"
  | "refused"
  | "lost"
  | "codec"
  | "playout"
  | "decoder"
  | "protocol"
  | "internal";

export interface Failure {
  cause: Cause;
  title: string;
  advice: string;
}

/** Numbers of the server's refusals (crates/wire, `Refusal`). */
const TOKEN = 2;
const BUSY = 3;

function failure(cause: Cause, title: string, advice: string): Failure {
  return { cause, title, advice };
}

/** What the browser lacks, if anything. */
export function missing(scope: {
  isSecureContext: boolean;
  WebTransport?: unknown;
  VideoDecoder?: unknown;
  OffscreenCanvas?: unknown;
}): Failure | undefined {
  if (!scope.isSecureContext) {
    return failure(
      "insecure",
      "This address is not trusted by the browser",
      "WebTransport works only on https pages and on this machine itself. Open the page as http://127.0.0.1:PORT.",
    );
  }
  if (scope.WebTransport === undefined) {
    return failure(
      "webtransport",
      "This browser has no WebTransport",
      "Use a current Chromium, Chrome or Edge.",
    );
  }
  if (scope.VideoDecoder === undefined || scope.OffscreenCanvas === undefined) {
    return failure("webcodecs", "This browser has no WebCodecs", "Use a current Chromium, Chrome or Edge.");
  }
  return undefined;
}

export function serverGone(): Failure {
  return failure(
    "server",
    "The server does not answer",
    "Is “framewire serve” still running? Start it, open the address that it prints, or try again.",
  );
}

export function badFacts(): Failure {
  return failure(
    "facts",
    "The server's description makes no sense",
    "Page and server are of different versions: build both anew and reload the page.",
  );
}

/** `used` is the hash we connected with, `served` the one the server tells now, if it still answers. */
export function notConnected(used: string, served: string | undefined): Failure {
  if (served === undefined) {
    return serverGone();
  }
  if (used !== served) {
    return failure(
      "hash",
      "The certificate's hash does not fit",
      `This page was told ${short(used)}, the server says ${short(served)}. It was started anew, or the address is an old one: open the address that “framewire serve” prints now.`,
    );
  }
  return failure(
    "connect",
    "No connection to the server",
    "The page comes through, but WebTransport does not: does a firewall or proxy block UDP to the server's port?",
  );
}

export function refused(code: number, text: string): Failure {
  if (code === TOKEN) {
    return failure(
      "refused",
      "The token is wrong",
      "Open the address that “framewire serve” prints, with everything after the #, or enter the token here.",
    );
  }
  const title = code === BUSY ? "The server is full" : "The server refuses";
  return failure("refused", title, sentence(text));
}

export function lost(): Failure {
  return failure(
    "lost",
    "The connection is gone",
    "The server still answers: the network between it and this page broke for a while, or this tab was put to sleep. Try again.",
  );
}

export function noPlayout(name: string): Failure {
  return failure(
    "playout",
    `There is no playout policy “${name}”`,
    "Leave “playout” out of the page's address, or write one of those that “framewire playouts” lists.",
  );
}

export function noCodec(codec: string): Failure {
  return failure(
    "codec",
    "This browser can't decode the video",
    `It is H.264 (${codec}), which some builds of Chromium and Firefox leave out. Use another browser.`,
  );
}

/** `text` is the browser's. */
export function brokenDecoder(text: string): Failure {
  return failure(
    "decoder",
    "The browser's decoder fails again and again",
    `It says: ${sentence(text)} Try again, or use another browser.`,
  );
}

export function badProtocol(): Failure {
  return failure(
    "protocol",
    "The server says something this page does not understand",
    "Page and server are of different versions: build both anew and reload the page.",
  );
}

export function internal(error: unknown): Failure {
  const text = error instanceof Error ? error.message : String(error);
  return failure("internal", "Something in this page broke", `${sentence(text)} Reload the page.`);
}

function short(hash: string): string {
  return hash.length > 16 ? `${hash.slice(0, 8)}…${hash.slice(-4)}` : hash || "nothing";
}

/** Words as a sentence. */
export function sentence(text: string): string {
  const trimmed = text.trim().replace(/\.$/, "");
  return trimmed === "" ? "" : `${trimmed[0]?.toUpperCase()}${trimmed.slice(1)}.`;
}
