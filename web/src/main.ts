// The page: what is shown beside the picture, and what the person may do.

import { Chart, type Point } from "./chart.js";
import { badFacts, type Failure, missing, sentence, serverGone } from "./failure.js";
import { delay, mbps, mode, ms, outOf, percent, size, sum, text, times, whole } from "./format.js";
import type { Figures, FromWorker, Shown, Start, ToWorker, Wish } from "./messages.js";
import { Ring } from "./rates.js";
import { type Facts, readAddress, readFacts, transportUrl } from "./settings.js";
import { describe, type State } from "./state.js";

/** The chart's minute, at five figures a second. */
const MINUTE = 60_000;
const POINTS = 320;
/** How long a worker may take to close its connection, in ms. */
const LEAVE_WITHIN = 1000;
/** Shorter stalls are told beside the title, but not over the picture, in ms. */
const LONG_STALL = 500;
/** Caps offered, in Mbit/s; those beyond the server's own are left out. */
const CAPS = [1, 2, 4, 8, 16, 32];

function get<T extends HTMLElement>(id: string): T {
  const element = document.getElementById(id);
  if (element === null) {
    throw new Error(`the page has no ${id}`);
  }
  return element as T;
}

const state = get("state");
const said = get("said");
const overlay = get("overlay");
const notice = get("notice");
const pause = get<HTMLButtonElement>("pause");
const controller = get<HTMLSelectElement>("controller");
const cap = get<HTMLSelectElement>("cap");
const keys = get<HTMLDialogElement>("keys");

const delayChart = new Chart(
  get<HTMLCanvasElement>("chart-delay"),
  [
    { colour: "--delay", filled: false },
    { colour: "--queue", filled: true },
  ],
  MINUTE,
  20,
);
const rateChart = new Chart(
  get<HTMLCanvasElement>("chart-rate"),
  [
    { colour: "--bitrate", filled: true },
    { colour: "--estimate", filled: false },
  ],
  MINUTE,
  1,
);
const delays = new Ring<Point>(POINTS);
const rates = new Ring<Point>(POINTS);

let worker: Worker | undefined;
/** The rate policy of each controller here. */
let policies = new Map<string, string>();
/** What the server makes of each captured frame, and does about lost packets. */
let strategy = { name: "", recovery: "" };
/** What it codes pictures with. */
let codec = "";
/** The state as it was last said. */
let spoken = "";
let wish: Wish = { paused: false, maxBps: 0, controller: "" };
const waiting: ((log: Shown[]) => void)[] = [];

/** Says something to ears; the same again is not said again. */
function say(words: string): void {
  if (said.textContent !== words) {
    said.textContent = words;
  }
}

/** Shows how it stands, beside the title and over the picture, and says it when it is another state. */
function tell(now: State): void {
  const words = describe(now);
  state.textContent = words.text;
  document.body.dataset.tone = words.tone;
  document.body.dataset.state = now.kind;
  document.title = now.kind === "playing" ? "Framewire" : `${words.spoken} – Framewire`;
  const long = now.kind !== "stalled" || now.forMs >= LONG_STALL;
  overlay.hidden = !(long && ["waiting", "stalled", "slow", "paused"].includes(now.kind));
  overlay.textContent = words.whole;
  if (words.spoken !== spoken) {
    spoken = words.spoken;
    say(spoken);
  }
}

function showNotice(title: string, advice: string, alarm: boolean, token: boolean): void {
  get("notice-title").textContent = title;
  get("notice-advice").textContent = advice;
  get("token-form").hidden = !token;
  notice.classList.toggle("alarm", alarm);
  notice.setAttribute("role", alarm ? "alert" : "status");
  notice.hidden = false;
  (token ? get("token") : get("retry")).focus();
}

function fail(failure: Failure): void {
  leave();
  document.body.dataset.cause = failure.cause;
  tell({ kind: "failed" });
  showNotice(failure.title, failure.advice, true, failure.cause === "refused");
}

/** Closes the connection, so that its place is free at once. What was measured is no more. */
function leave(): void {
  const leaving = worker;
  worker = undefined;
  leaving?.postMessage({ kind: "stop" } satisfies ToWorker);
  // It ends by itself, unless it is what is broken.
  setTimeout(() => leaving?.terminate(), LEAVE_WITHIN);
  enable(false);
  for (const figure of document.querySelectorAll("#figures dd")) {
    figure.textContent = text("");
  }
}

/** What can be asked of the sender, it can be asked only while there is one. */
function enable(connected: boolean): void {
  for (const control of [pause, controller, cap]) {
    control.disabled = !connected;
  }
}

/** A canvas can be handed to a worker only once, so each connection has a new one. */
function freshCanvas(): OffscreenCanvas {
  const old = get<HTMLCanvasElement>("picture");
  const fresh = old.cloneNode() as HTMLCanvasElement;
  old.replaceWith(fresh);
  return fresh.transferControlToOffscreen();
}

async function askFacts(): Promise<Facts | undefined> {
  let answer: Response;
  try {
    answer = await fetch("/server.json");
  } catch {
    fail(serverGone());
    return undefined;
  }
  const facts = answer.ok ? readFacts(await answer.json().catch(() => undefined)) : undefined;
  if (facts === undefined) {
    fail(badFacts());
  }
  return facts;
}

async function connect(): Promise<void> {
  leave();
  notice.hidden = true;
  delete document.body.dataset.cause;
  tell({ kind: "connecting" });
  const lack = missing(window);
  if (lack !== undefined) {
    fail(lack);
    return;
  }
  const facts = await askFacts();
  if (facts === undefined) {
    return;
  }
  offer(facts);
  const address = readAddress(location.hash);
  const start: Start = {
    canvas: freshCanvas(),
    url: transportUrl(address, facts, location.hostname),
    hash: address.hash === "" ? facts.hash : address.hash,
    token: address.token,
    playout: address.playout === "" ? facts.playout : address.playout,
    barcode: address.barcode,
  };
  wish = { paused: false, maxBps: 0, controller: "" };
  showWish();
  worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
  const mine = worker;
  worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
    // One that was told to stop may have said something before it heard of it.
    if (mine === worker) {
      take(data);
    }
  };
  worker.postMessage({ kind: "start", start } satisfies ToWorker, [start.canvas]);
}

/** Fills the lists with what this server has. */
function offer(facts: Facts): void {
  policies = new Map(facts.controllers.map(({ name, rate }) => [name, rate]));
  policies.set(facts.controller, facts.rate);
  strategy = { name: facts.strategy, recovery: facts.recovery };
  codec = facts.codec;
  const known = facts.controllers.map(({ name, about }) => {
    const option = new Option(name, name);
    option.title = about;
    return option;
  });
  if (!facts.controllers.some(({ name }) => name === facts.controller)) {
    known.unshift(new Option(facts.controller, facts.controller));
  }
  controller.replaceChildren(...known);
  controller.value = facts.controller;
  const caps = CAPS.filter((mbit) => mbit * 1e6 < facts.maxBps);
  cap.replaceChildren(
    ...caps.map((mbit) => new Option(`at most ${mbit} Mbit/s`, String(mbit * 1e6))),
    new Option("no limit", "0"),
  );
  cap.value = "0";
}

function take(message: FromWorker): void {
  switch (message.kind) {
    case "ready":
      enable(true);
      tell({ kind: "waiting", forMs: 0, why: { kind: "silent" } });
      break;
    case "figures":
      show(message.figures);
      break;
    case "log":
      for (const resolve of waiting.splice(0)) {
        resolve(message.log);
      }
      break;
    case "ended":
      leave();
      tell({ kind: "ended" });
      showNotice("The show is over", sentence(message.text || "the server has ended it"), false, false);
      break;
    case "failed":
      fail(message.failure);
      break;
  }
}

function show(figures: Figures): void {
  const put = (id: string, words: string) => {
    get(id).textContent = words;
  };
  tell(figures.state);
  put("f-delay", delay(figures.delayMs, figures.delayErrorMs));
  put("f-bitrate", mbps(figures.bitrate));
  put("f-estimate", mbps(figures.estimate));
  put("f-queue", ms(figures.queueMs));
  put("f-rtt", ms(figures.rttMs));
  put("f-loss", percent(figures.loss));
  put("f-fps", outOf(figures.fps, figures.sourceFps));
  put("f-dropped", percent(figures.dropped));
  put("f-decode", ms(figures.decodeMs));
  put("f-stalls", figures.width > 0 ? times(figures.stalls.count, figures.stalls.totalMs) : text(""));
  put("f-size", size(figures.width, figures.height));
  get("f-size").title = `codec: ${codec}`;
  const { tracks } = figures;
  put("f-track", whole(figures.track));
  put("f-pictures", sum(tracks.map(({ shown }) => shown)));
  get("f-pictures").title = tracks
    .map(({ track, shown, decoded }) => `track ${track}: ${shown} shown of ${decoded} decoded`)
    .join("; ");
  put("f-controller", text(figures.controller));
  get("f-controller").title = figures.controller;
  put("f-rate", text(policies.get(figures.controller) ?? ""));
  put("f-strategy", text(strategy.name));
  get("f-strategy").title = `recovery: ${strategy.recovery}`;
  put("f-mode", mode(figures.mode, figures.modeChanges));
  put("trouble", figures.trouble);
  const marked = figures.state.kind === "stalled";
  delays.push({ at: figures.at, values: [figures.delayMs, figures.queueMs], marked });
  rates.push({ at: figures.at, values: [figures.bitrate / 1e6, figures.estimate / 1e6], marked });
  if (!document.body.classList.contains("bare")) {
    delayChart.draw(delays.items);
    rateChart.draw(rates.items);
  }
}

function change(part: Partial<Wish>): void {
  wish = { ...wish, ...part };
  showWish();
  worker?.postMessage({ kind: "wish", wish } satisfies ToWorker);
}

function showWish(): void {
  pause.textContent = wish.paused ? "Play" : "Pause";
  pause.setAttribute("aria-pressed", String(wish.paused));
  document.body.classList.toggle("paused", wish.paused);
}

function togglePause(): void {
  if (pause.disabled) {
    return;
  }
  change({ paused: !wish.paused });
}

function chooseController(): void {
  change({ controller: controller.value });
  say(`Controller ${controller.value}`);
}

function chooseCap(): void {
  change({ maxBps: Number(cap.value) });
  say(`Quality ${cap.selectedOptions[0]?.text ?? ""}`);
}

function stepCap(step: number): void {
  if (cap.disabled) {
    return;
  }
  const index = Math.min(Math.max(cap.selectedIndex + step, 0), cap.length - 1);
  if (index !== cap.selectedIndex) {
    cap.selectedIndex = index;
    chooseCap();
  }
}

function toggleFigures(): void {
  const bare = document.body.classList.toggle("bare");
  get("figures").hidden = bare;
  get("charts").hidden = bare;
  get("toggle").setAttribute("aria-pressed", String(!bare));
}

function toggleFull(): void {
  const change =
    document.fullscreenElement === null ? get("stage").requestFullscreen() : document.exitFullscreen();
  // Where a browser forbids it, the button does nothing, and says so by doing nothing.
  change.catch(() => undefined);
}

const SHORTCUTS: Record<string, () => void> = {
  " ": togglePause,
  c: () => controller.focus(),
  "[": () => stepCap(-1),
  "]": () => stepCap(1),
  i: toggleFigures,
  f: toggleFull,
  "?": () => keys.showModal(),
};

function onKey(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  const busy = keys.open || ["INPUT", "SELECT"].includes(target.tagName);
  // Space presses the button that has the focus; that must not happen twice.
  const pressing = event.key === " " && target.tagName === "BUTTON";
  if (busy || pressing || event.ctrlKey || event.altKey || event.metaKey) {
    return;
  }
  const action = SHORTCUTS[event.key.toLowerCase()];
  if (action !== undefined) {
    event.preventDefault();
    action();
  }
}

pause.addEventListener("click", togglePause);
controller.addEventListener("change", chooseController);
cap.addEventListener("change", chooseCap);
get("toggle").addEventListener("click", toggleFigures);
get("full").addEventListener("click", toggleFull);
get("help").addEventListener("click", () => keys.showModal());
get("retry").addEventListener("click", () => void connect());
get("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const fields = new URLSearchParams(location.hash.slice(1));
  fields.set("token", get<HTMLInputElement>("token").value);
  // The token is a secret: it stays out of the history.
  history.replaceState(null, "", `#${fields}`);
  void connect();
});
document.addEventListener("keydown", onKey);
window.addEventListener("hashchange", () => void connect());
window.addEventListener("pagehide", leave);
// A page that comes back from the browser's cache, or from a sleep that cost it its connection, plays again.
window.addEventListener("pageshow", (event) => event.persisted && void connect());
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && document.body.dataset.cause === "lost") {
    void connect();
  }
});

declare global {
  interface Window {
    framewire: { log(): Promise<Shown[]> };
  }
}

/** For scripts: what was shown, frame by frame. */
window.framewire = {
  log: () =>
    new Promise((resolve) => {
      if (worker === undefined) {
        resolve([]);
        return;
      }
      waiting.push(resolve);
      worker.postMessage({ kind: "log" } satisfies ToWorker);
    }),
};

void connect();
