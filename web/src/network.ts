// The decoder of ViXNN: Framewire's own, in Rust (crates/viewer-vixnn), which has a plain C interface. This is all that knows its memory.

interface Exports {
  memory: WebAssembly.Memory;
  input(length: number): number;
  open(): number;
  decode(): number;
  width(): number;
  height(): number;
  output(): number;
  said(): number;
  said_length(): number;
}

/** A picture in the module's memory. */
export interface Pixels {
  width: number;
  height: number;
  /** Red, green, blue and 255 of each pixel, row by row; valid until the next frame is decoded. */
  rgba: Uint8Array<ArrayBuffer>;
}

/** A frame that makes no picture. The next one may. */
export class Undecodable extends Error {}

export class Network {
  readonly #wasm: Exports;

  private constructor(wasm: Exports) {
    this.#wasm = wasm;
  }

  /** The decoder with the network of a file (*.safetensors). */
  static async load(module: Promise<Response> | BufferSource, file: Uint8Array): Promise<Network> {
    const loaded =
      module instanceof Promise
        ? await WebAssembly.instantiateStreaming(module, {})
        : await WebAssembly.instantiate(module, {});
    const network = new Network(loaded.instance.exports as unknown as Exports);
    network.#write(file);
    if (network.#wasm.open() === 0) {
      throw new Error(network.#said());
    }
    return network;
  }

  /** Decodes the packets of a frame, as the viewer hands them out. */
  decode(packets: Uint8Array): Pixels {
    this.#write(packets);
    if (this.#wasm.decode() === 0) {
      throw new Undecodable(this.#said());
    }
    const [width, height] = [this.#wasm.width(), this.#wasm.height()];
    const rgba = new Uint8Array(this.#memory, this.#wasm.output(), 4 * width * height);
    return { width, height, rgba };
  }

  // Asked for afresh each time: the memory may have grown, and the old buffer is void then.
  get #memory(): ArrayBuffer {
    return this.#wasm.memory.buffer as ArrayBuffer;
  }

  #write(bytes: Uint8Array): void {
    const at = this.#wasm.input(bytes.length);
    if (at === 0) {
      throw new Undecodable(`${bytes.length} bytes are more than the decoder takes`);
    }
    new Uint8Array(this.#memory, at, bytes.length).set(bytes);
  }

  #said(): string {
    const at = this.#wasm.said();
    return new TextDecoder().decode(this.#memory.slice(at, at + this.#wasm.said_length()));
  }
}
