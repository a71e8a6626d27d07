"""The network: an autoencoder with N parallel narrow waists (thesis section 5.4)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

# Descriptors, and bits of one for a block of 16x16 pixels (section 5.5): 0.0625 bits a pixel each.
DESCRIPTORS = 8
BITS = 16
BLOCK = 16
# Slope of a leaky ReLU below zero. The thesis gives none.
LEAK = 0.2


@dataclass(frozen=True)
class Size:
    """Widths and kernels of a network.

    An encoder's layer has stride 2; a decoder's is followed by a 2x2 depth-to-space, so that its width is
    four times what the next one sees. The last decoder layer gives 12 channels, RGB of 2x2 pixels.

    Deviation: the thesis gives neither widths nor kernels, and its last convolution runs after the last
    depth-to-space. Running it before costs a quarter.
    """

    encoder: tuple[tuple[int, int], ...]
    decoder: tuple[tuple[int, int], ...]


# (width, kernel) of each layer, in order.
SIZES = {
    "fast": Size(
        encoder=((16, 5), (40, 3), (96, 3), (128, 3)), decoder=((160, 3), (80, 3), (32, 3), (12, 3))
    ),
    "paper": Size(
        encoder=((64, 5), (128, 3), (192, 3), (256, 3)), decoder=((512, 3), (256, 3), (128, 3), (12, 3))
    ),
}


class Encoder(nn.Module):
    """RGB in [0, 1] to what is binarised: `N * K` channels at a sixteenth of the sides."""

    def __init__(self, size: Size) -> None:
        """Four convolutions of stride 2, and N heads, which one 1x1 convolution holds side by side."""
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 3
        for width, kernel in size.encoder:
            layers += [nn.Conv2d(inputs, width, kernel, 2, kernel // 2), nn.LeakyReLU(LEAK)]
            inputs = width
        self.layers = nn.Sequential(*layers, nn.Conv2d(inputs, DESCRIPTORS * BITS, 1))

    def forward(self, picture: Tensor) -> Tensor:
        """`(B, 3, H, W)` to `(B, N * K, H / 16, W / 16)`, before tanh."""
        # Centred: the padding of a convolution is then mid grey, not black.
        waist: Tensor = self.layers(picture - 0.5)
        return waist


class Decoder(nn.Module):
    """Bits as -1 and 1, 0 for what is missing, to RGB in [0, 1]."""

    def __init__(self, size: Size) -> None:
        """Convolutions, each followed by a depth-to-space."""
        super().__init__()
        layers: list[nn.Module] = []
        inputs = DESCRIPTORS * BITS
        for index, (width, kernel) in enumerate(size.decoder):
            layers.append(nn.Conv2d(inputs, width, kernel, 1, kernel // 2))
            if index + 1 < len(size.decoder):
                layers.append(nn.LeakyReLU(LEAK))
            layers.append(nn.PixelShuffle(2))
            inputs = width // 4
        self.layers = nn.Sequential(*layers)

    def forward(self, bits: Tensor) -> Tensor:
        """`(B, N * K, H / 16, W / 16)` to `(B, 3, H, W)`."""
        return torch.sigmoid(self.layers(bits))


def binarize(waist: Tensor, noise: Tensor | None) -> Tensor:
    """-1 or 1. With uniform `noise` in [0, 1): 1 with probability (1 + tanh) / 2, as in training.

    The gradient is that of tanh (straight through the rounding). Section 5.4.2 has "0-1 bits" and replaces
    what is missing by zeros; -1 and 1 inside leave zero for "unknown".
    """
    soft = torch.tanh(waist)
    hard = (
        torch.where(soft >= 0, 1.0, -1.0) if noise is None else torch.where(noise < (1 + soft) / 2, 1.0, -1.0)
    )
    return soft + (hard - soft).detach()


def mask(kept: Tensor, scaled: bool = True) -> Tensor:
    """Factors of the `N * K` channels, of which descriptors are kept: `(B, N)` to `(B, N * K, 1, 1)`.

    Kept ones are scaled by N / N_d (section 5.4.2).
    """
    factor = kept * (DESCRIPTORS / kept.sum(1, keepdim=True).clamp(min=1)) if scaled else kept
    return factor.repeat_interleave(BITS, 1)[:, :, None, None]


class Vixnn(nn.Module):
    """Both halves."""

    def __init__(self, size: str) -> None:
        """Of a size of SIZES."""
        super().__init__()
        self.encoder = Encoder(SIZES[size])
        self.decoder = Decoder(SIZES[size])
        self.channels = DESCRIPTORS * BITS

    def forward(
        self, picture: Tensor, kept: Tensor, noise: Tensor | None = None, scaled: bool = True
    ) -> Tensor:
        """What a receiver of the kept descriptors shows."""
        bits = binarize(self.encoder(picture), noise)
        shown: Tensor = self.decoder(bits * mask(kept, scaled))
        return shown


def macs_per_pixel(size: Size) -> tuple[float, float]:
    """Multiplications and additions for one pixel: encoder, decoder."""
    encoder, inputs, scale = 0.0, 3, 1.0
    for width, kernel in size.encoder:
        scale /= 4
        encoder += inputs * width * kernel * kernel * scale
        inputs = width
    encoder += inputs * DESCRIPTORS * BITS * scale
    decoder, inputs = 0.0, DESCRIPTORS * BITS
    for width, kernel in size.decoder:
        decoder += inputs * width * kernel * kernel * scale
        inputs, scale = width // 4, scale * 4
    return encoder, decoder
