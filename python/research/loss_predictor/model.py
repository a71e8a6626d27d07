"""The network of section 4.5.4: three convolutions over the windows, three dense layers."""

import numpy as np
import torch
from torch import Tensor, nn

from .data import FEATURES, WINDOWS, Floats

# Inputs are clipped so far from their mean, in standard deviations; as in crates/predict/src/network.rs.
CLIP = 8.0


def squash(figures: Floats) -> Floats:
    """Logarithm that keeps the sign: a hundredfold round trip is not a hundredfold evidence."""
    squashed: Floats = np.copysign(np.log1p(np.abs(figures)), figures)
    return squashed


class LossNetwork(nn.Module):
    """Kernels of 3, strides 1, 2 and 2, no padding: 16 windows become 14, 6 and 2."""

    mean: Tensor
    deviation: Tensor

    def __init__(
        self, mean: Floats, deviation: Floats, channels: tuple[int, int, int] = (32, 32, 64)
    ) -> None:
        """Scale inputs by the mean and deviation of the squashed figures."""
        super().__init__()
        self.register_buffer("mean", torch.from_numpy(mean))
        self.register_buffer("deviation", torch.from_numpy(deviation))
        first, second, third = channels
        self.convolutions = nn.Sequential(
            nn.Conv1d(FEATURES, first, 3), nn.Conv1d(first, second, 3, 2), nn.Conv1d(second, third, 3, 2)
        )
        places = ((WINDOWS - 2 - 3) // 2 + 1 - 3) // 2 + 1
        self.dense = nn.Sequential(nn.Linear(third * places, 64), nn.Linear(64, 32), nn.Linear(32, 1))

    def forward(self, squashed: Tensor) -> Tensor:
        """Log odds of a loss, of squashed figures by window."""
        x = ((squashed - self.mean) / self.deviation).clamp(-CLIP, CLIP).transpose(1, 2)
        for layer in self.convolutions:
            x = torch.relu(layer(x))
        # Window by window.
        x = x.transpose(1, 2).flatten(1)
        for layer in self.dense[:-1]:
            x = torch.relu(layer(x))
        logits: Tensor = self.dense[-1](x)
        return logits.squeeze(1)

    @torch.no_grad()
    def probabilities(self, inputs: Floats, batch: int = 8192) -> Floats:
        """Of inputs as a run has them."""
        parts = [torch.from_numpy(squash(inputs[at : at + batch])) for at in range(0, len(inputs), batch)]
        answers: Floats = torch.cat([torch.sigmoid(self(part)) for part in parts]).numpy()
        return answers
