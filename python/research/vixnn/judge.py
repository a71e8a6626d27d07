"""How good a network is on Kodak, which it has never seen."""

import math
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from .model import DESCRIPTORS, Vixnn, binarize, mask
from .train import ssim

COUNTS = (1, 2, 3, 4, 6, 8)
# Random choices of descriptors that are averaged for each count.
DRAWS = 3


def kodak(data: Path) -> list[Tensor]:
    """The 24 pictures, `(1, 3, H, W)` in [0, 1]."""
    files = sorted((data / "images/kodak").glob("*.png"))
    return [
        torch.from_numpy(np.asarray(Image.open(file).convert("RGB")).copy()).permute(2, 0, 1)[None].float()
        / 255
        for file in files
    ]


@torch.no_grad()
def judge(
    network: Vixnn, pictures: list[Tensor], drop: str, scaled: bool = True
) -> dict[int, tuple[float, float]]:
    """Mean PSNR (RGB, rounded to bytes, dB) and SSIM (luma) by the number of descriptors that are there."""
    found = {}
    rng = np.random.default_rng(1)
    for count in COUNTS:
        psnrs, ssims = [], []
        draws = 1 if drop == "svc" or count == DESCRIPTORS else DRAWS
        for picture in pictures:
            bits = binarize(network.encoder(picture), None)
            for _ in range(draws):
                there = torch.zeros(1, DESCRIPTORS)
                picked = (
                    range(count) if drop == "svc" else rng.choice(DESCRIPTORS, count, replace=False).tolist()
                )
                there[0, list(picked)] = 1
                shown = (network.decoder(bits * mask(there, scaled)) * 255).round() / 255
                psnrs.append(-10 * math.log10(float(((shown - picture) ** 2).mean())))
                ssims.append(float(ssim(picture, shown)))
        found[count] = (sum(psnrs) / len(psnrs), sum(ssims) / len(ssims))
    return found
