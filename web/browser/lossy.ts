// A path between page and server that delays what it carries and loses what a test says.

import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { setTimeout as after } from "node:timers";

/** Datagrams of at least this many bytes carry media: acknowledgements and what the page is told are shorter. */
const MEDIA_BYTES = 400;

export class LossyPath {
  readonly #near: Socket;
  readonly #far: Socket;
  readonly #delayMs: number;
  /** The page's browser, once it has sent something. */
  #page: number | undefined;
  #losing = 0;
  #lost = 0;
  #media = 0;

  private constructor(near: Socket, far: Socket, delayMs: number, every: number) {
    this.#near = near;
    this.#far = far;
    this.#delayMs = delayMs;
    near.on("message", (bytes, { port }) => {
      this.#page = port;
      this.#later(() => far.send(bytes));
    });
    far.on("message", (bytes) => {
      if (bytes.length >= MEDIA_BYTES) {
        this.#media += 1;
        const asked = this.#losing > 0;
        this.#losing -= asked ? 1 : 0;
        if (asked || this.#media % every === 0) {
          this.#lost += 1;
          return;
        }
      }
      this.#later(() => this.#page !== undefined && near.send(bytes, this.#page, "127.0.0.1"));
    });
    // What is sent to a server that has ended is lost, as on any path.
    far.on("error", () => undefined);
  }

  /** A path to a port of this machine, `delayMs` long each way, which loses one in `every` datagrams of media. */
  static async to(port: number, delayMs: number, every = Number.POSITIVE_INFINITY): Promise<LossyPath> {
    const [near, far] = [createSocket("udp4"), createSocket("udp4")];
    near.bind(0, "127.0.0.1");
    far.connect(port, "127.0.0.1");
    await Promise.all([once(near, "listening"), once(far, "connect")]);
    return new LossyPath(near, far, delayMs, every);
  }

  /** Datagrams of media that were lost so far. */
  get lost(): number {
    return this.#lost;
  }

  /** For the page's address: media this way. */
  get fragment(): string {
    return `&at=127.0.0.1:${this.#near.address().port}`;
  }

  /** The next so many datagrams of media to the page are lost. */
  lose(datagrams: number): void {
    this.#losing += datagrams;
  }

  #later(deliver: () => void): void {
    after(() => {
      // A path that has been closed carries nothing.
      if (this.#open) {
        deliver();
      }
    }, this.#delayMs);
  }

  #open = true;

  close(): void {
    this.#open = false;
    this.#near.close();
    this.#far.close();
  }
}
