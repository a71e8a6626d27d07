// A player with what stands around it: the choice of its delay, its figures, its timeline.

import type { DelayClass, Index, Segment } from "./facts.js";
import {
  clock,
  counts,
  delay,
  describe,
  endOf,
  held,
  likeness,
  merge,
  seconds,
  segmentAt,
  summarize,
} from "./history.js";
import { Player, type Report } from "./player.js";
import { leastLikeness, Timeline } from "./timeline.js";

/** Shorter waits for media are not worth a word, in ms. */
const LONG_WAIT = 500;

export class Panel {
  readonly element: HTMLElement;
  readonly #player: Player;
  readonly #video: HTMLVideoElement;
  readonly #select: HTMLSelectElement;
  readonly #timeline: Timeline;
  #index: Index | undefined;
  #chosen: DelayClass | undefined;
  #history: Segment[] = [];
  #behind = Number.NaN;
  #starvedSince = Number.NaN;

  /** A panel made of the page's template; `choose` hears the name of another delay that is wanted. */
  constructor(template: HTMLTemplateElement, title: string, choose: (name: string) => void) {
    this.element = (template.content.cloneNode(true) as DocumentFragment).firstElementChild as HTMLElement;
    this.element.setAttribute("aria-label", title);
    this.#video = this.#get("video");
    this.#select = this.#get("select");
    this.#timeline = new Timeline(this.#get(".bars"), this.#get(".likeness"));
    this.#player = new Player(this.#video);
    this.#select.addEventListener("change", () => choose(this.#select.value));
    this.#get(".pause").addEventListener("click", () => this.#player.pause(!this.#player.paused));
    this.#get(".full").addEventListener("click", () => {
      // Where a browser forbids it, the button does nothing.
      this.#get(".picture")
        .requestFullscreen()
        .catch(() => undefined);
    });
  }

  /** The delay it plays at. */
  get chosen(): DelayClass | undefined {
    return this.#chosen;
  }

  /** Media time up to which there are segments, in s; -Infinity if there is none. */
  get end(): number {
    return endOf(this.#history, this.#index?.interval ?? 0);
  }

  /** The lowest SSIM that a chart of it must show. */
  get least(): number {
    return leastLikeness(this.#history);
  }

  get report(): Report {
    const { time, segments, errors, frames } = this.#player;
    return {
      delay: this.#chosen?.name ?? "",
      mediaTime: Number.isFinite(time) ? time : null,
      behind: Number.isFinite(this.#behind) ? this.#behind : null,
      segments,
      errors: [...errors],
      frames: [...frames],
    };
  }

  /** Takes what the endpoint says of the stream: `fresh` if another stream begins, or the same anew. */
  take(index: Index, chosen: DelayClass, history: Segment[], fresh: boolean): void {
    if (fresh || chosen.name !== this.#chosen?.name) {
      this.clear();
    }
    this.#index = index;
    this.#chosen = chosen;
    const merged = merge(this.#history, history);
    // What has not changed is not drawn anew: the pointer may rest on it.
    if (JSON.stringify(merged) !== JSON.stringify(this.#history)) {
      this.#history = merged;
    }
    this.#video.width = index.width;
    this.#video.height = index.height;
    this.#offer(index.classes, chosen);
  }

  /** Plays, or tries again, what the endpoint has at this address, once there is something. */
  play(playlist: string): void {
    if (this.#player.playing) {
      this.#player.retry();
    } else if (this.#history.length > 0 && this.#index !== undefined) {
      const begins = (number: number) =>
        this.#history.find((segment) => segment.number === number)?.begins ?? Number.NaN;
      this.#player.play({ playlist, date: this.#index.date, begins });
    }
  }

  /** Ends playing, and forgets what was known. */
  clear(): void {
    this.#player.stop();
    this.#history = [];
    this.#chosen = undefined;
  }

  /**
   * Shows how it stands when the endpoint's clock says `now`, in ms, the chart ending at media time `end` and
   * SSIM beginning at `least`.
   */
  show(now: number, end: number, least: number): void {
    const { interval = 0, date = Number.NaN } = this.#index ?? {};
    const { time, paused, over } = this.#player;
    const segment = segmentAt(this.#history, time, interval);
    // A stream that is over falls no further behind.
    this.#behind = over ? Number.NaN : (now - date) / 1000 - time;
    const summary = summarize(this.#history, interval);
    this.#put(".behind", delay(this.#behind));
    this.#put(".shown", describe(segment, interval));
    this.#put(".at", clock(time));
    this.#put(".ssim", likeness(segment?.ssim ?? Number.NaN, 1));
    this.#put(".mean", likeness(summary.ssim, summary.rated / summary.total));
    this.#put(".counts", counts(summary));
    this.#put(".pause", paused ? "Play" : "Pause");
    this.#get(".pause").setAttribute("aria-pressed", String(paused));
    this.#get(".bars").setAttribute("aria-label", `What became of each segment: ${counts(summary)}`);
    const known = Number.isFinite(summary.ssim);
    this.#get(".rated").hidden = !known;
    this.#get(".key.ssim-line").hidden = !known;
    this.#put(".least", String(least));
    this.#put(".half", String((1 + least) / 2));
    this.#get(".likeness").setAttribute(
      "aria-label",
      `SSIM of each segment, mean ${likeness(summary.ssim, 1)}`,
    );
    this.#timeline.draw(this.#history, interval, least);
    this.#timeline.scroll(end, time);
    this.#tell(segment, interval);
  }

  /** Says over the picture why it stands still, and below it what is wrong. */
  #tell(segment: Segment | undefined, interval: number): void {
    const { starved, paused, over, trouble, playing } = this.#player;
    const now = performance.now();
    this.#starvedSince = starved
      ? Number.isFinite(this.#starvedSince)
        ? this.#starvedSince
        : now
      : Number.NaN;
    const starvedFor = now - this.#starvedSince;
    let words = held(this.#history, segment, interval);
    this.#get(".overlay").classList.toggle("held", words !== "");
    if (!playing) {
      words = `Nothing yet: at this delay pictures come ${seconds(this.#chosen?.delay ?? 0)} after the camera, and a segment later`;
    } else if (over) {
      words = "Played to its end";
    } else if (paused) {
      words = "Paused";
    } else if (starvedFor > LONG_WAIT) {
      words = `Waiting for the next segment for ${seconds(starvedFor / 1000)}`;
    }
    this.#put(".overlay", words);
    this.#get(".overlay").hidden = words === "";
    this.element.classList.toggle("paused", paused);
    this.#put(".trouble", trouble);
  }

  /** Fills the list with the delays there are, unless they are in it. */
  #offer(classes: DelayClass[], chosen: DelayClass): void {
    const wanted = classes.map(({ name }) => name);
    const offered = [...this.#select.options].map(({ value }) => value);
    if (wanted.join() !== offered.join()) {
      this.#select.replaceChildren(...classes.map((known) => new Option(label(known), known.name)));
    }
    this.#select.value = chosen.name;
  }

  #get<T extends Element = HTMLElement>(selector: string): T {
    const found = this.element.querySelector<T>(selector);
    if (found === null) {
      throw new Error(`the panel has no ${selector}`);
    }
    return found;
  }

  /** Says something, unless it is said: what is set anew is read aloud anew. */
  #put(selector: string, words: string): void {
    const element = this.#get(selector);
    if (element.textContent !== words) {
      element.textContent = words;
    }
  }
}

/** A delay as it is offered: its name, and how long it is where the name does not say it. */
function label({ name, delay }: DelayClass): string {
  const long = seconds(delay);
  return name.replace(/\s/g, "") === long.replace(" ", "") ? long : `${name} (${long})`;
}
