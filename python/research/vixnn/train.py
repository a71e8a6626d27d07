"""Training: a base that knows losses of every kind, then each variant from it."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from .data import Pixels, batch
from .model import BLOCK, DESCRIPTORS, Vixnn, binarize, mask

BATCH = 32
SIDE = 64
# Threads of a training: sums depend on how many there are, so they are part of the recipe. Variants are
# trained beside each other instead.
THREADS = 1
# Deviation: the thesis weighs MSE and DSSIM half and half and gives no scale. With pixels in [0, 1] MSE is a
# fortieth of DSSIM at 25 dB; times 20 the two weigh about the same.
MSE_SCALE = 20.0
# Windows of the training's SSIM, as those of the metric that judges: flat 8x8 at stride 4.
WINDOW, STRIDE = 8, 4
LUMA = (0.299, 0.587, 0.114)


@dataclass(frozen=True)
class Recipe:
    """What a training is a function of, together with the data."""

    size: str
    # "mdc:P": each descriptor is dropped with probability P; "svc": all after a uniform one are dropped.
    drop: str
    steps: int
    rate: float
    seed: int = 1
    # Width of the uniform noise that rounds a bit to one side or the other, at the beginning and the end:
    # 1 is the stochastic binariser, 0 the sign that is taken outside of training.
    noise: tuple[float, float] = (1.0, 0.0)
    # What is reconstructed where at most half of the descriptors are there: "same", "grey" or "levels".
    objective: str = "same"
    # Kept descriptors are scaled by N / N_d.
    scaled: bool = True

    def stored(self) -> dict[str, object]:
        """As a file of a training's state has it."""
        return {**asdict(self), "noise": list(self.noise)}


def ssim(a: Tensor, b: Tensor) -> Tensor:
    """Mean SSIM of luma (Wang et al. 2004), for pixels in [0, 1]."""
    weights = torch.tensor(LUMA).view(1, 3, 1, 1)
    x, y = (a * weights).sum(1, keepdim=True), (b * weights).sum(1, keepdim=True)

    def mean(of: Tensor) -> Tensor:
        return functional.avg_pool2d(of, WINDOW, STRIDE)

    mx, my = mean(x), mean(y)
    vx, vy, cov = mean(x * x) - mx * mx, mean(y * y) - my * my, mean(x * y) - mx * my
    c1, c2 = 0.01**2, 0.03**2
    value: Tensor = ((2 * mx * my + c1) * (2 * cov + c2)) / ((mx * mx + my * my + c1) * (vx + vy + c2))
    return value.mean()


def kept(drop: str, rng: np.random.Generator, size: int) -> NDArray[np.float32]:
    """Which descriptors of each sample are there, `(size, N)`; never none (the thesis leaves that open)."""
    if drop == "svc":
        last = rng.integers(1, DESCRIPTORS + 1, size)
        return (np.arange(DESCRIPTORS)[None, :] < last[:, None]).astype(np.float32)
    probability = float(drop.removeprefix("mdc:"))
    out = (rng.random((size, DESCRIPTORS)) >= probability).astype(np.float32)
    none = out.sum(1) == 0
    out[none, rng.integers(0, DESCRIPTORS, int(none.sum()))] = 1
    return out


def target(picture: Tensor, there: Tensor, objective: str) -> Tensor:
    """What should be shown: the picture, or less of it where few descriptors are there (section 5.4.4)."""
    if objective == "same":
        return picture
    few = (there.sum(1) <= DESCRIPTORS / 2).view(-1, 1, 1, 1)
    if objective == "grey":
        less = (picture * torch.tensor(LUMA).view(1, 3, 1, 1)).sum(1, keepdim=True).expand_as(picture)
    else:
        # Four levels a colour.
        less = torch.round(picture * 3) / 3
    return torch.where(few, less, picture)


class Training:
    """A network on its way. Step `n` draws its batch, drops and noise from (seed, n) alone."""

    def __init__(self, recipe: Recipe, pool: Pixels, start: Vixnn | None = None) -> None:
        """Begin from `start`'s weights, or from random ones."""
        torch.set_num_threads(THREADS)
        torch.use_deterministic_algorithms(True)
        torch.manual_seed(recipe.seed)
        self.recipe, self.pool, self.step = recipe, pool, 0
        self.curve: list[tuple[int, float]] = []
        self.network = Vixnn(recipe.size).to(memory_format=torch.channels_last)
        if start is not None:
            self.network.load_state_dict(start.state_dict())
        self.optimiser = torch.optim.Adam(self.network.parameters(), recipe.rate)
        self.smooth = 0.0

    def learning_rate(self) -> float:
        """A short rise, then half a cosine down to a hundredth."""
        done = self.step / self.recipe.steps
        fall = 0.505 + 0.495 * math.cos(math.pi * done)
        return self.recipe.rate * min(1.0, (self.step + 1) / 500) * fall

    def spread(self) -> float:
        """Width of the noise, which shrinks over the first four fifths.

        Deviation: the binariser this design descends from (Toderici et al. 2016) keeps its full noise to the
        end. Shrinking it was worth half a dB in short trainings, on pictures that were not trained on.
        """
        begin, end = self.recipe.noise
        return begin + (end - begin) * min(1.0, 1.25 * self.step / self.recipe.steps)

    def advance(self) -> float:
        """One step; gives its loss."""
        recipe = self.recipe
        rng = np.random.default_rng([recipe.seed, self.step])
        picture = torch.from_numpy(batch(self.pool, BATCH, SIDE, rng)).contiguous(
            memory_format=torch.channels_last
        )
        there = torch.from_numpy(kept(recipe.drop, rng, BATCH))
        side = SIDE // BLOCK
        uniform = torch.from_numpy(rng.random((BATCH, self.network.channels, side, side), dtype=np.float32))
        noise = 0.5 + (uniform - 0.5) * self.spread()
        factor = mask(there, recipe.scaled)
        if recipe.drop != "svc":
            # Packets hold rows of blocks: in every second batch the rows below a cut have lost others.
            below = torch.from_numpy(kept(recipe.drop, rng, BATCH))
            if self.step % 2 and recipe.objective == "same":
                rows = torch.from_numpy(rng.integers(1, side, BATCH)).view(-1, 1, 1, 1)
                upper = torch.arange(side).view(1, 1, -1, 1) < rows
                factor = torch.where(upper, factor, mask(below, recipe.scaled))
        shown = self.network.decoder(binarize(self.network.encoder(picture), noise) * factor)
        wanted = target(picture, there, recipe.objective)
        mse = functional.mse_loss(shown, wanted)
        loss = 0.5 * MSE_SCALE * mse + 0.5 * (1 - ssim(shown, wanted)) / 2
        for group in self.optimiser.param_groups:
            group["lr"] = self.learning_rate()
        self.optimiser.zero_grad(set_to_none=True)
        # torch's own stubs leave it untyped.
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.step += 1
        value = float(loss.item())
        self.smooth = value if self.smooth == 0 else 0.99 * self.smooth + 0.01 * value
        return value

    def save(self, path: Path) -> None:
        """All that `load` needs to go on as if nothing had happened; whole or not at all."""
        state = {
            "recipe": self.recipe.stored(),
            "step": self.step,
            "smooth": self.smooth,
            "curve": self.curve,
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
        }
        part = path.with_suffix(".part")
        torch.save(state, part)
        part.replace(path)

    def load(self, path: Path) -> None:
        """Go on from a file of `save`.

        Raises SystemExit if that is of another recipe.
        """
        state = torch.load(path, weights_only=True)
        if state["recipe"] != self.recipe.stored():
            raise SystemExit(
                f"{path}: of another recipe, {state['recipe']}; remove the file or name another folder"
            )
        self.step, self.smooth, self.curve = state["step"], state["smooth"], state["curve"]
        self.network.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])


def run(
    training: Training, file: Path, say: Callable[[str], None], report: int = 1000, save: int = 5000
) -> Vixnn:
    """Train to the end, from `file` if it is there."""
    recipe = training.recipe
    if file.exists():
        training.load(file)
        say(f"{file.name}: goes on at step {training.step}")
    began, first = time.monotonic(), training.step
    while training.step < recipe.steps:
        training.advance()
        if training.step % report == 0 or training.step == recipe.steps:
            speed = (training.step - first) / (time.monotonic() - began)
            left = (recipe.steps - training.step) / speed / 60
            training.curve.append((training.step, round(training.smooth, 5)))
            say(
                f"{file.stem}: step {training.step} of {recipe.steps}, loss {training.smooth:.4f}, "
                f"{speed:.0f} steps/s, {left:.0f} min left"
            )
        if training.step % save == 0 or training.step == recipe.steps:
            training.save(file)
    return training.network
