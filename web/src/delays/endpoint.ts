// Questions to the endpoint.

import { type Index, readHistory, readIndex, readStreams, type Segment, type Stream } from "./facts.js";

/** How long an answer may take, in ms. */
const PATIENCE = 5000;

/** Why there is no answer: one line, with what to do about it. */
export class Trouble extends Error {}

export class Endpoint {
  readonly #base: string;

  /** The endpoint whose page is at the address `base`. */
  constructor(base: string) {
    this.#base = base;
  }

  /** The address of a file of a stream. */
  address(stream: string, file: string): string {
    return new URL(`${encodeURIComponent(stream)}/${file}`, this.#base).href;
  }

  async streams(): Promise<Stream[]> {
    return understood(readStreams(await answer(new URL("streams.json", this.#base).href)));
  }

  /** The index of a stream; none if there is no such stream. */
  async index(stream: string): Promise<Index | undefined> {
    const value = await answer(this.address(stream, "index.json"));
    return value === undefined ? undefined : understood(readIndex(value));
  }

  /** What became of the segments; none before the first one is there. */
  async history(stream: string, file: string): Promise<Segment[]> {
    const value = await answer(this.address(stream, file));
    return value === undefined ? [] : understood(readHistory(value));
  }
}

/** What a file holds; undefined if it is not there. */
async function answer(address: string): Promise<unknown> {
  let response: Response;
  let body: string;
  try {
    response = await fetch(address, { cache: "no-cache", signal: AbortSignal.timeout(PATIENCE) });
    body = await response.text();
  } catch {
    throw new Trouble(
      "The endpoint does not answer. Is “framewire ingest” still running? This page tries again by itself.",
    );
  }
  if (response.status === 404) {
    return undefined;
  }
  if (!response.ok) {
    throw new Trouble(
      `The endpoint answers ${response.status} to ${new URL(address).pathname}: see what “framewire ingest” printed. This page tries again by itself.`,
    );
  }
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}

function understood<T>(value: T | undefined): T {
  if (value === undefined) {
    throw new Trouble(
      "The endpoint says something this page does not understand. Build both anew, and reload the page.",
    );
  }
  return value;
}
