// Decodes ViXNN, away from the receiver: a picture takes as long as some hundred datagrams.

import wasm from "vixnn.wasm?url";
import type { FromNetwork, ToNetwork } from "./messages.js";
import { Network, Undecodable } from "./network.js";

/** The network of the server's encoder decodes as well. */
const WEIGHTS = "/vixnn.safetensors";

function post(message: FromNetwork, transfer: Transferable[] = []): void {
  self.postMessage(message, { transfer });
}

async function open(): Promise<Network> {
  const module = fetch(wasm);
  const answer = await fetch(WEIGHTS);
  if (!answer.ok) {
    throw new Error("the server does not hand out the network that decodes its pictures");
  }
  return Network.load(module, new Uint8Array(await answer.arrayBuffer()));
}

function decode(network: Network, { id, packets }: ToNetwork): void {
  try {
    const { width, height, rgba } = network.decode(packets);
    const size = { codedWidth: width, codedHeight: height };
    const picture = new VideoFrame(rgba, { format: "RGBX", ...size, timestamp: id });
    post({ kind: "picture", picture }, [picture]);
  } catch (error) {
    // Anything else is a trap, after which the module is good for nothing.
    if (!(error instanceof Undecodable)) {
      throw error;
    }
    post({ kind: "undecodable", id, why: error.message });
  }
}

const opened = open();

self.onmessage = ({ data }: MessageEvent<ToNetwork>) => {
  opened
    .then((network) => decode(network, data))
    .catch((error: unknown) =>
      post({ kind: "broken", why: error instanceof Error ? error.message : String(error) }),
    );
};
