// From pictures to the canvas.

import { BARCODE, type Viewer } from "./viewer.js";

export class Picture {
  readonly #viewer: Viewer;
  readonly #canvas: OffscreenCanvas;
  readonly #context: OffscreenCanvasRenderingContext2D;
  readonly #barcode: boolean;

  constructor(viewer: Viewer, canvas: OffscreenCanvas, barcode: boolean) {
    const context = canvas.getContext("2d", {
      alpha: false,
      desynchronized: !barcode,
      willReadFrequently: barcode,
    });
    if (context === null) {
      throw new Error("this browser can't draw on a canvas outside the page");
    }
    this.#viewer = viewer;
    this.#canvas = canvas;
    this.#context = context;
    this.#barcode = barcode;
  }

  get size(): { width: number; height: number } {
    return { width: this.#canvas.width, height: this.#canvas.height };
  }

  /** Draws a picture and closes it; the number burnt into it, or -1 if none was read. */
  show(picture: VideoFrame): number {
    const { displayWidth: width, displayHeight: height } = picture;
    if (this.#canvas.width !== width || this.#canvas.height !== height) {
      this.#canvas.width = width;
      this.#canvas.height = height;
    }
    this.#context.drawImage(picture, 0, 0);
    picture.close();
    return this.#barcode ? this.#readBarcode() : -1;
  }

  #readBarcode(): number {
    return this.#viewer.barcode(this.#context.getImageData(0, 0, BARCODE.width, BARCODE.height).data);
  }
}
