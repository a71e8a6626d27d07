// The page that watches an upload at chosen delays.

import { type Address, chooseDelays, chooseStream, PLAYERS, readAddress, writeAddress } from "./address.js";
import { EndpointClock } from "./clock.js";
import { Endpoint, Trouble } from "./endpoint.js";
import type { DelayClass, Index, Stream } from "./facts.js";
import { Panel } from "./panel.js";
import type { Report } from "./player.js";

/** Between two questions to the endpoint, in ms: the players must not be ahead of what is known of segments. */
const ASK_EVERY = 500;
/** Between two looks at the players, in ms. */
const SHOW_EVERY = 250;
/** Dates of media time zero that differ by more are those of two streams, in ms. */
const ANOTHER = 1000;

/** What `window.framewire` is on this page. */
export interface Scripts {
  players(): Report[];
}

function get<T extends HTMLElement>(id: string): T {
  const element = document.getElementById(id);
  if (element === null) {
    throw new Error(`the page has no ${id}`);
  }
  return element as T;
}

const template = get<HTMLTemplateElement>("panel");
const chooser = get<HTMLSelectElement>("stream");
const both = get<HTMLButtonElement>("both");

const endpoint = new Endpoint(document.baseURI);
const clock = new EndpointClock();
let wanted = readAddress(location.search, location.hash);
const panels: Panel[] = [];
let index: Index | undefined;
let timer = 0;
/** Counts changes of what is wanted: an answer to what was wanted before is no news. */
let wish = 0;

type Tone = "idle" | "good" | "warn" | "bad";

function tell(words: string, tone: Tone, title = ""): void {
  const state = get("state");
  if (state.textContent !== words) {
    state.textContent = words;
  }
  document.body.dataset.tone = tone;
  document.title = title === "" ? "Framewire" : `${title} – Framewire`;
}

function trouble(words: string): void {
  if (get("trouble").textContent !== words) {
    get("trouble").textContent = words;
  }
}

/** Asks the endpoint how it stands, now and from now on. */
async function follow(): Promise<void> {
  clearTimeout(timer);
  const mine = wish;
  try {
    await ask(() => mine === wish);
  } catch (error) {
    if (!(error instanceof Trouble)) {
      throw error;
    }
    if (mine === wish) {
      tell("No answer", "bad", "No answer");
      trouble(error.message);
    }
  } finally {
    if (mine === wish) {
      timer = window.setTimeout(() => void follow(), ASK_EVERY);
    }
  }
}

async function ask(still: () => boolean): Promise<void> {
  const streams = await endpoint.streams();
  const name = chooseStream(wanted.stream, streams);
  const asked = Date.now();
  const answer = name === "" ? undefined : await endpoint.index(name);
  const came = Date.now();
  if (!still()) {
    return;
  }
  offer(streams, name);
  if (answer === undefined) {
    empty(name);
    return;
  }
  clock.take(answer.now, asked, came);
  const { classes, unknown } = chooseDelays(wanted.delays, answer.classes);
  const histories = await Promise.all(classes.map(({ history }) => endpoint.history(name, history)));
  if (!still()) {
    return;
  }
  const fresh = isAnother(answer);
  index = answer;
  arrange(classes.length);
  panels.forEach((panel, place) => {
    const chosen = classes[place] as DelayClass;
    panel.take(answer, chosen, histories[place] ?? [], fresh);
    panel.play(endpoint.address(name, chosen.playlist));
  });
  describe(answer, name);
  trouble(
    unknown.length === 0
      ? ""
      : `There is no delay “${unknown.join("”, “")}”: this stream has ${answer.classes.map(({ name }) => name).join(", ")}.`,
  );
}

/** Whether this index is of another stream than the one before it, or of the same name begun anew. */
function isAnother(answer: Index): boolean {
  return (
    index === undefined ||
    answer.name !== index.name ||
    Math.abs(answer.date - index.date) > ANOTHER ||
    (index.ended && !answer.ended)
  );
}

/** Shows that there is no such stream. */
function empty(name: string): void {
  index = undefined;
  arrange(0);
  get("ended").hidden = true;
  tell(name === "" ? "Nothing is uploaded yet" : `There is no stream “${name}” yet`, "idle", "Waiting");
  trouble("It is shown here as soon as it begins.");
}

function describe(answer: Index, name: string): void {
  const { ended, movie } = answer;
  tell(ended ? `${name} has ended` : `${name} is being uploaded`, ended ? "idle" : "good", name);
  get("ended").hidden = !ended || movie === "";
  get<HTMLAnchorElement>("movie").href = endpoint.address(name, movie);
}

/** Has this many players on the page. */
function arrange(count: number): void {
  for (const panel of panels.splice(count)) {
    panel.clear();
    panel.element.remove();
  }
  while (panels.length < count) {
    const place = panels.length;
    const panel = new Panel(template, `Player ${place + 1}`, (name) => chooseDelay(place, name));
    panels.push(panel);
    get("panels").append(panel.element);
  }
  both.setAttribute("aria-pressed", String(panels.length === PLAYERS));
  both.disabled = panels.length === 0;
}

/** Fills the list with the streams there are; it shows only where there is a choice. */
function offer(streams: Stream[], chosen: string): void {
  const there = streams.some(({ name }) => name === chosen);
  const all = there || chosen === "" ? streams : [{ name: chosen, ended: false }, ...streams];
  const options = all.map(({ name, ended }) => new Option(ended ? `${name} (ended)` : name, name));
  const text = (list: Iterable<HTMLOptionElement>) => [...list].map((option) => option.text).join("\n");
  if (text(chooser.options) !== text(options)) {
    chooser.replaceChildren(...options);
  }
  chooser.value = chosen;
  get("streams").hidden = all.length < 2;
}

/** Wants something else, and says so in the page's address. */
function want(part: Partial<Address>): void {
  wanted = { ...wanted, ...part };
  history.replaceState(null, "", `${location.pathname}${writeAddress(wanted, location.search)}`);
  wish += 1;
  void follow();
}

/** Names of the delays that are played. */
function played(): string[] {
  return panels.flatMap(({ chosen }) => chosen?.name ?? []);
}

function chooseDelay(place: number, name: string): void {
  want({ delays: played().map((known, other) => (other === place ? name : known)) });
}

function toggleBoth(): void {
  const [first, second] = played();
  if (first === undefined || index === undefined) {
    return;
  }
  const others = chooseDelays([], index.classes).classes.filter(({ name }) => name !== first);
  want({ delays: second === undefined ? [first, others.at(-1)?.name ?? first] : [first] });
}

function show(): void {
  const end = Math.max(...panels.map((panel) => panel.end));
  // One scale for all, so that delays can be compared.
  const least = Math.min(...panels.map((panel) => panel.least));
  const now = clock.at(Date.now());
  for (const panel of panels) {
    panel.show(now, end, least);
  }
}

chooser.addEventListener("change", () => want({ stream: chooser.value }));
both.addEventListener("click", toggleBoth);
window.addEventListener("hashchange", () => {
  const { stream } = readAddress(location.search, location.hash);
  if (stream !== wanted.stream) {
    want({ stream });
  }
});
window.addEventListener("pagehide", () => {
  clearTimeout(timer);
  wish += 1;
  arrange(0);
});
window.addEventListener("pageshow", (event) => event.persisted && void follow());

/** For scripts: what each player has shown, the left one first. */
(window as unknown as { framewire: Scripts }).framewire = {
  players: () => panels.map((panel) => panel.report),
};

setInterval(show, SHOW_EVERY);
void follow();
