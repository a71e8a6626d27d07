// Numbers as people read them.

const UNKNOWN = "–";

/** Three digits at most: 0, 0.42, 8.1, 42, 420. */
export function number(value: number): string {
  if (!Number.isFinite(value)) {
    return UNKNOWN;
  }
  const size = Math.abs(value);
  return value.toFixed(size >= 9.995 || size === 0 ? 0 : size >= 0.995 ? 1 : 2);
}

export function mbps(bps: number): string {
  return Number.isFinite(bps) ? `${number(bps / 1e6)} Mbit/s` : UNKNOWN;
}

export function ms(value: number): string {
  return Number.isFinite(value) ? `${number(value)} ms` : UNKNOWN;
}

export function delay(value: number, error: number): string {
  return Number.isFinite(value) ? `${Math.round(value)} ± ${number(error)} ms` : UNKNOWN;
}

export function percent(share: number): string {
  return Number.isFinite(share) ? `${number(share * 100)} %` : UNKNOWN;
}

export function size(width: number, height: number): string {
  return width > 0 ? `${width} × ${height}` : UNKNOWN;
}

/** `value`, and as many as there could be, if that is known. */
export function outOf(value: number, most: number): string {
  return Number.isFinite(value) && Number.isFinite(most)
    ? `${number(value)} of ${number(most)}`
    : number(value);
}

/** How often and for how long; unknown where nothing could have happened yet. */
export function times(count: number, ms: number): string {
  return count === 0 ? "none" : `${count}, ${(ms / 1000).toFixed(1)} s`;
}

/** A number that counts or names, and has no fraction. */
export function whole(value: number): string {
  return Number.isFinite(value) ? value.toFixed(0) : UNKNOWN;
}

/** What each track has given, first track first: 812 + 31. */
export function sum(counts: number[]): string {
  return counts.length === 0 ? UNKNOWN : counts.join(" + ");
}

/** What goes on, and how often that has changed, if ever. */
export function mode(name: string, changes: number): string {
  const times = changes === 1 ? "1 change" : `${changes} changes`;
  return name === "" || changes === 0 ? text(name) : `${name}, ${times}`;
}

export function text(value: string): string {
  return value === "" ? UNKNOWN : value;
}

export function median(values: number[]): number {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
