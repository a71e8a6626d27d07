// Where to connect: what the page's address says, and what its server says.

/** What stands after the # of the page's address. */
export interface Address {
  token: string;
  /** HOST:PORT of WebTransport instead of the server's own, as of a relay. */
  at: string;
  /** Certificate hash instead of the one the server tells. */
  hash: string;
  /** Playout policy instead of the server's. */
  playout: string;
  barcode: boolean;
}

export interface Controller {
  name: string;
  about: string;
  /** The rate policy that it runs under here, with its options. */
  rate: string;
}

/** What the server tells in /server.json. */
export interface Facts {
  port: number;
  /** The certificate's SHA-256; empty if it is one that browsers trust without being told. */
  hash: string;
  controller: string;
  /** The rate policy of that one. */
  rate: string;
  /** What each captured frame becomes: one track or several. */
  strategy: string;
  /** What is done about lost packets. */
  recovery: string;
  /** What the pictures are coded with. */
  codec: string;
  /** Playout policy: when frames are shown. */
  playout: string;
  maxBps: number;
  controllers: Controller[];
}

export function readAddress(fragment: string): Address {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const get = (name: string) => fields.get(name)?.trim() ?? "";
  return {
    token: get("token"),
    at: get("at"),
    hash: get("hash").toLowerCase().replaceAll(":", ""),
    playout: get("playout"),
    barcode: fields.has("barcode"),
  };
}

/** The facts, if `value` has their shape. */
export function readFacts(value: unknown): Facts | undefined {
  if (typeof value !== "object" || value === null) {
    return undefined;
  }
  const fields = value as Record<string, unknown>;
  const { port, hash, controller, rate, strategy, recovery, codec, playout, maxBps, controllers } = fields;
  if (typeof port !== "number" || typeof hash !== "string" || !(hash === "" || isHash(hash))) {
    return undefined;
  }
  if (
    typeof controller !== "string" ||
    typeof rate !== "string" ||
    typeof strategy !== "string" ||
    typeof recovery !== "string" ||
    typeof codec !== "string" ||
    typeof playout !== "string" ||
    typeof maxBps !== "number" ||
    !Array.isArray(controllers)
  ) {
    return undefined;
  }
  const known = controllers.filter(isController);
  return { port, hash, controller, rate, strategy, recovery, codec, playout, maxBps, controllers: known };
}

function isController(value: unknown): value is Controller {
  const controller = value as Partial<Controller> | null;
  return (
    typeof controller?.name === "string" &&
    typeof controller.about === "string" &&
    typeof controller.rate === "string"
  );
}

export function isHash(text: string): boolean {
  return /^[0-9a-f]{64}$/.test(text);
}

/** Where WebTransport is, for a page from `host` (a host name without its port). */
export function transportUrl(address: Address, facts: Facts, host: string): string {
  return `https://${address.at === "" ? `${host}:${facts.port}` : address.at}/watch`;
}

/** The bytes of a hash in hexadecimal digits. */
export function hashBytes(hash: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(hash.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16));
}
