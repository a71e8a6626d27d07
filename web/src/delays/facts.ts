// What the endpoint says of its streams, and the checks of it: all of this comes from outside.

/** The longest list taken from the endpoint; what is beyond it is left out. */
const MOST = 4096;

export interface Stream {
  name: string;
  ended: boolean;
}

/** One of the delays at which a stream can be watched. */
export interface DelayClass {
  name: string;
  /** How long after its capture a picture is shown at the earliest, in s. */
  delay: number;
  /** Names of files beside the index. */
  playlist: string;
  history: string;
}

/** What the endpoint tells in `/NAME/index.json`. */
export interface Index {
  name: string;
  width: number;
  height: number;
  /** Between two frames, in s. */
  interval: number;
  /** Length of a segment, in s. */
  segment: number;
  /** Unix time of media time zero by the endpoint's clock, in ms. */
  date: number;
  /** The endpoint's clock when it answered, in ms; NaN where it does not say. */
  now: number;
  ended: boolean;
  classes: DelayClass[];
  /** The file of the whole stream beside the index; empty if there is none. */
  movie: string;
}

/** What became of the frames that were captured in one segment. */
export interface Segment {
  number: number;
  /** Media time of its beginning, in s. */
  begins: number;
  /** Frames captured, of which the following three are parts. */
  frames: number;
  /** None was there in time. */
  missing: number;
  /** Shown in a version that was sent again. */
  repaired: number;
  /** Shown as first sent. */
  arrived: number;
  /** Mean SSIM of the frames of which it is known, 0 to 1; NaN if it is of none. */
  ssim: number;
  /** How many those are, among the frames shown. */
  rated: number;
}

/** The streams, if `value` has their shape. */
export function readStreams(value: unknown): Stream[] | undefined {
  const list = (value as { streams?: unknown } | null)?.streams;
  return Array.isArray(list) ? list.slice(0, MOST).filter(isStream).map(toStream) : undefined;
}

/** The index, if `value` has its shape. A class that makes no sense is left out. */
export function readIndex(value: unknown): Index | undefined {
  if (typeof value !== "object" || value === null) {
    return undefined;
  }
  const fields = value as Record<string, unknown>;
  const { name, width, height, interval_s, segment_s, date_ms, now_ms, ended, classes, movie } = fields;
  if (!isName(name) || !isPositive(width) || !isPositive(height) || typeof ended !== "boolean") {
    return undefined;
  }
  if (!isPositive(interval_s) || !isPositive(segment_s) || !isNumber(date_ms) || !Array.isArray(classes)) {
    return undefined;
  }
  const known = classes.slice(0, MOST).flatMap((value) => readClass(value) ?? []);
  if (known.length === 0) {
    return undefined;
  }
  return {
    name,
    width,
    height,
    interval: interval_s,
    segment: segment_s,
    date: date_ms,
    now: isNumber(now_ms) ? now_ms : Number.NaN,
    ended,
    classes: known,
    movie: isFile(movie) ? movie : "",
  };
}

/** The segments in order, if `value` has their shape. One whose parts exceed its frames is left out. */
export function readHistory(value: unknown): Segment[] | undefined {
  const list = (value as { segments?: unknown } | null)?.segments;
  if (!Array.isArray(list)) {
    return undefined;
  }
  const segments = list.slice(-MOST).flatMap((value) => readSegment(value) ?? []);
  return segments.sort((a, b) => a.number - b.number);
}

function readClass(value: unknown): DelayClass | undefined {
  const { name, delay_s, playlist, history } = (value ?? {}) as Record<string, unknown>;
  const fine = isName(name) && isNumber(delay_s) && delay_s >= 0 && isFile(playlist) && isFile(history);
  return fine ? { name, delay: delay_s, playlist, history } : undefined;
}

function readSegment(value: unknown): Segment | undefined {
  const { number, begins_s, frames, missing, repaired, arrived, ssim, rated } = (value ?? {}) as Record<
    string,
    unknown
  >;
  if (!isCount(number) || !isNumber(begins_s) || !isCount(frames)) {
    return undefined;
  }
  if (!isCount(missing) || !isCount(repaired) || !isCount(arrived) || missing + repaired + arrived > frames) {
    return undefined;
  }
  const shown = repaired + arrived;
  // Without a word on how many it is the mean of, it is that of all that are shown.
  const known = rated === undefined ? shown : rated;
  const isRated = isNumber(ssim) && ssim >= 0 && ssim <= 1 && isCount(known) && known > 0 && known <= shown;
  const quality = isRated ? { ssim, rated: known } : { ssim: Number.NaN, rated: 0 };
  return { number, begins: begins_s, frames, missing, repaired, arrived, ...quality };
}

function isStream(value: unknown): value is Stream {
  const stream = value as Partial<Stream> | null;
  return isName(stream?.name) && typeof stream?.ended === "boolean";
}

function toStream({ name, ended }: Stream): Stream {
  return { name, ended };
}

function isNumber(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

function isPositive(value: unknown): value is number {
  return isNumber(value) && value > 0;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Something that can be shown and stand in an address. */
function isName(value: unknown): value is string {
  return typeof value === "string" && value.length > 0 && value.length <= 200;
}

/** The name of a file beside the index: it leads nowhere else. */
function isFile(value: unknown): value is string {
  return typeof value === "string" && /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$/.test(value);
}
