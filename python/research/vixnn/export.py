"""The files that crates/vixnn reads (its weights.rs), their cards, and a check of the inference."""

import json
import zlib
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save

from .drawn import draw
from .model import BITS, BLOCK, DESCRIPTORS, SIZES, Vixnn, macs_per_pixel, mask
from .train import BATCH, SIDE, Recipe

# Side of the check's picture: no multiple of a block, so that padding and cropping are looked at, too.
CHECK_WIDTH, CHECK_HEIGHT = 72, 56


def halved(network: Vixnn) -> Vixnn:
    """The network with its weights as the file has them: rounded to 16-bit floats."""
    network.load_state_dict({name: value.half().float() for name, value in network.state_dict().items()})
    return network


def export(network: Vixnn, name: str, recipe: Recipe, folder: Path) -> None:
    """Write NAME.safetensors."""
    tensors = {
        key: value.half().contiguous(memory_format=torch.contiguous_format)
        for key, value in network.state_dict().items()
    }
    head = {
        "format": "framewire-vixnn",
        "version": "1",
        "name": name,
        "size": recipe.size,
        "drop": recipe.drop,
    }
    head |= {"descriptors": str(DESCRIPTORS), "bits": str(BITS), "objective": recipe.objective}
    head["checksum"] = f"{zlib.crc32(data_of(save(tensors))):08x}"
    part = folder / f"{name}.part"
    part.write_bytes(ordered(save(tensors, head)))
    part.replace(folder / f"{name}.safetensors")


def ordered(file: bytes) -> bytes:
    """The safetensors file, its metadata in the order of their names: `save` has them in any order."""
    size = int.from_bytes(file[:8], "little")
    head = json.loads(file[8 : 8 + size])
    head["__metadata__"] = dict(sorted(head["__metadata__"].items()))
    text = json.dumps(head, separators=(",", ":")).encode().ljust(size)
    assert len(text) == size, "the same entries in another order are as long"
    return file[:8] + text + file[8 + size :]


def data_of(file: bytes) -> bytes:
    """What follows the header of a safetensors file."""
    return file[8 + int.from_bytes(file[:8], "little") :]


@torch.no_grad()
def export_check(network: Vixnn, name: str, path: Path) -> None:
    """A picture, its bits and what PyTorch shows of all and of some descriptors."""
    picture = draw(np.random.default_rng(5), max(CHECK_WIDTH, CHECK_HEIGHT))[:CHECK_HEIGHT, :CHECK_WIDTH]
    padding = ((0, -CHECK_HEIGHT % BLOCK), (0, -CHECK_WIDTH % BLOCK), (0, 0))
    padded = np.pad(picture, padding, mode="reflect")
    waist = network.encoder(torch.from_numpy(padded).permute(2, 0, 1)[None].float() / 255)
    bits = torch.where(waist >= 0, 1.0, -1.0)
    shown = {}
    for kept in (range(DESCRIPTORS), [1, 4, 6], [2]):
        there = torch.zeros(1, DESCRIPTORS)
        there[0, list(kept)] = 1
        out = network.decoder(bits * mask(there))[0, :, :CHECK_HEIGHT, :CHECK_WIDTH]
        pixels = (out * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
        shown["".join(map(str, kept))] = pixels.ravel().tolist()
    words = (waist[0].view(DESCRIPTORS, BITS, -1) >= 0).to(torch.int64)
    packed = (words << torch.arange(BITS).view(1, -1, 1)).sum(1)
    found = {
        "model": name,
        "width": CHECK_WIDTH,
        "height": CHECK_HEIGHT,
        "rgb": picture.ravel().tolist(),
        # Of each descriptor a word for each block, row by row; bit k is channel k of its 16.
        "bits": packed.tolist(),
        # Smallest distance of a waist's value from zero: nearer ones may round to the other side elsewhere.
        "margin": float(waist.abs().min()),
        "shown": shown,
    }
    path.write_text(json.dumps(found, separators=(",", ":")) + "\n")


def card(name: str, about: dict[str, object], folder: Path) -> None:
    """NAME.md beside the weights: what a reader must know before trusting them."""
    recipe = about["recipe"]
    assert isinstance(recipe, Recipe)
    encoder, decoder = macs_per_pixel(SIZES[recipe.size])
    curve = about["curve"]
    assert isinstance(curve, list)
    some = curve[:: max(1, len(curve) // 12)]
    figures = about["figures"]
    assert isinstance(figures, dict)
    lines = [
        f"# {name}",
        "",
        "A ViXNN model (Devdeep Ray's thesis, CMU-CS-22-143, chapter 5): 8 descriptors of 16 bits for each "
        "16x16 block.",
        "",
        "| | |",
        "|---|---|",
        f"| size | `{recipe.size}`: {encoder:.0f} + {decoder:.0f} multiplications a pixel, "
        f"{encoder * 0.9216e-3:.2f} + {decoder * 0.9216e-3:.2f} GMAC a frame of 1280x720 |",
        f"| parameters | {about['parameters']}, stored as 16-bit floats |",
        f"| descriptors dropped in training | `{recipe.drop}`"
        + ("" if recipe.objective == "same" else f"; half or fewer are trained to show `{recipe.objective}`")
        + " |",
        f"| begun from | {about['start']} |",
        f"| steps | {recipe.steps} of {BATCH} patches of {SIDE}x{SIDE}, Adam, "
        f"rate {recipe.rate} falling by a cosine, "
        f"seed {recipe.seed}, {about['minutes']:.0f} min on one thread |",
        "| loss | 0.5 * 20 * MSE + 0.5 * DSSIM, pixels in [0, 1] |",
        f"| data | {about['data']} |",
        "| never trained on | Kodak's 24 pictures and the CIF and QCIF clips of the evaluation, by SHA-256 |",
        "| licence | MIT OR Apache-2.0 |",
        f"| made by | `{about['command']}` |",
        "",
        "Kodak, 24 pictures, mean PSNR of RGB in dB and SSIM of luma, by descriptors that are there"
        + (" (the first ones):" if recipe.drop == "svc" else " (random ones):"),
        "",
        "| " + " | ".join(["descriptors", *map(str, figures)]) + " |",
        "|" + "---|" * (len(figures) + 1),
        "| " + " | ".join(["PSNR", *(f"{psnr:.2f}" for psnr, _ in figures.values())]) + " |",
        "| " + " | ".join(["SSIM", *(f"{ssim:.3f}" for _, ssim in figures.values())]) + " |",
        "",
        "Training loss, smoothed over about 100 steps:",
        "",
        "| step | " + " | ".join(str(step) for step, _ in some) + " |",
        "|" + "---|" * (len(some) + 1),
        "| loss | " + " | ".join(f"{loss:.4f}" for _, loss in some) + " |",
        "",
    ]
    (folder / f"{name}.md").write_text("\n".join(lines))
