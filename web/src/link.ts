// The WebTransport session: datagrams both ways and the control stream.

import { hashBytes } from "./settings.js";

/** The longest datagram there is (crates/wire, `MAX_DATAGRAM`). */
const DATAGRAM = 1500;
/** How long a connection may take to be made, in ms: a few round trips of the worst path, or five lost packets. */
const PATIENCE = 8_000;

export interface LinkEvents {
  datagram(bytes: Uint8Array): void;
  stream(bytes: Uint8Array): void;
  closed(): void;
}

/** What the types of browsers do not name yet. */
interface DatagramStream {
  readable: ReadableStream<Uint8Array>;
  writable?: WritableStream<Uint8Array>;
  createWritable?: () => WritableStream<Uint8Array>;
}

export class Link {
  readonly #transport: WebTransport;
  readonly #datagrams: WritableStreamDefaultWriter<Uint8Array>;
  readonly #control: WritableStreamDefaultWriter<Uint8Array>;

  private constructor(
    transport: WebTransport,
    datagrams: WritableStreamDefaultWriter<Uint8Array>,
    control: WritableStreamDefaultWriter<Uint8Array>,
  ) {
    this.#transport = transport;
    this.#datagrams = datagrams;
    this.#control = control;
  }

  /** Connects; fails where the server is not there, or its certificate has another hash. */
  static async open(url: string, hash: string, events: LinkEvents): Promise<Link> {
    // Without a hash the certificate must be one that the browser trusts anyway.
    const hashes = hash === "" ? [] : [{ algorithm: "sha-256", value: hashBytes(hash) }];
    const transport = new WebTransport(url, {
      ...(hashes.length > 0 && { serverCertificateHashes: hashes }),
      congestionControl: "low-latency",
    });
    const timer = setTimeout(() => transport.close(), PATIENCE);
    try {
      await transport.ready;
    } finally {
      clearTimeout(timer);
    }
    transport.closed.then(events.closed, events.closed);
    const stream = await transport.createBidirectionalStream();
    const datagrams = transport.datagrams as unknown as DatagramStream;
    const writable = datagrams.createWritable?.() ?? datagrams.writable;
    if (writable === undefined) {
      throw new Error("this browser's WebTransport sends no datagrams");
    }
    readBytes(stream.readable, 4096, events.stream).then(events.closed, events.closed);
    readBytes(datagrams.readable, DATAGRAM, events.datagram).then(events.closed, events.closed);
    return new Link(transport, writable.getWriter(), stream.writable.getWriter());
  }

  /** Sends a datagram, now or never. */
  send(bytes: Uint8Array<ArrayBuffer>): void {
    this.#datagrams.write(bytes).catch(ignore);
  }

  /** Says something on the control stream. */
  say(bytes: Uint8Array<ArrayBuffer>): void {
    this.#control.write(bytes).catch(ignore);
  }

  close(): void {
    this.#transport.close();
  }
}

/** Whoever waits for the session's end hears of it. */
function ignore(): void {}

/** Reads a stream to its end, into one buffer over and over where the browser can. */
async function readBytes(
  stream: ReadableStream<Uint8Array>,
  length: number,
  take: (bytes: Uint8Array) => void,
): Promise<void> {
  let reader: ReadableStreamBYOBReader;
  try {
    reader = stream.getReader({ mode: "byob" });
  } catch {
    return readChunks(stream, take);
  }
  let buffer = new ArrayBuffer(length);
  for (;;) {
    const { value, done } = await reader.read(new Uint8Array(buffer));
    if (value !== undefined) {
      take(value);
      buffer = value.buffer;
    }
    if (done) {
      return;
    }
  }
}

async function readChunks(
  stream: ReadableStream<Uint8Array>,
  take: (bytes: Uint8Array) => void,
): Promise<void> {
  const reader = stream.getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) {
      return;
    }
    take(value);
  }
}
