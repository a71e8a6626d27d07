// What to watch, as the page's address says it: `?delays=live,30s#camera`.

import type { DelayClass, Stream } from "./facts.js";

/** As many players as stand side by side. */
export const PLAYERS = 2;

export interface Address {
  /** The stream's name; empty where the page may choose. */
  stream: string;
  /** Names of delays, one for each player; none where the page may choose. */
  delays: string[];
}

export function readAddress(search: string, fragment: string): Address {
  const delays = (new URLSearchParams(search).get("delays") ?? "")
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
  return { stream: unescaped(fragment.replace(/^#/, "")), delays: delays.slice(0, PLAYERS) };
}

/** The address's part from the question mark on; whatever else it asked stays. */
export function writeAddress(address: Address, search: string): string {
  const fields = new URLSearchParams(search);
  fields.delete("delays");
  const delays = address.delays.map(encodeURIComponent).join(",");
  const query = [fields.toString(), delays === "" ? "" : `delays=${delays}`].filter((part) => part !== "");
  const fragment = address.stream === "" ? "" : `#${encodeURIComponent(address.stream)}`;
  return `${query.length === 0 ? "" : `?${query.join("&")}`}${fragment}`;
}

/** The stream to watch: the one asked for, else the first that goes on, else the first. */
export function chooseStream(asked: string, streams: Stream[]): string {
  return asked === "" ? ((streams.find(({ ended }) => !ended) ?? streams[0])?.name ?? "") : asked;
}

export interface Choice {
  /** A class for each player. */
  classes: DelayClass[];
  /** Names asked for that the stream does not have. */
  unknown: string[];
}

/** The delays to watch at: those asked for, as far as there are such; else the shortest and the longest. */
export function chooseDelays(asked: string[], classes: DelayClass[]): Choice {
  const found = asked.flatMap((name) => classes.find((known) => known.name === name) ?? []);
  const unknown = asked.filter((name) => !classes.some((known) => known.name === name));
  return { classes: found.length > 0 ? found : extremes(classes), unknown };
}

function extremes(classes: DelayClass[]): DelayClass[] {
  const sorted = [...classes].sort((a, b) => a.delay - b.delay);
  return sorted.length > 1 ? [...sorted.slice(0, 1), ...sorted.slice(-1)] : sorted;
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
