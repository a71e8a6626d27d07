"""Training: binary cross entropy over batches of which half are losses."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from .data import Floats, Run
from .judge import auc
from .model import LossNetwork, squash

BATCH = 512
# Windows of either kind that one run gives at most: no run decides alone what a loss looks like.
MOST_OF_A_RUN = 1000
# Of the windows that choose among states, every so many is looked at: neighbours are nearly the same.
SPARSE = 5


def gather(runs: list[Run], at_most: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Squashed inputs of quiet and of lossy windows; of each run at most so many of either."""
    quiet: list[Floats] = []
    lossy: list[Floats] = []
    for run in runs:
        for wanted, into in [(False, quiet), (True, lossy)]:
            ends = run.ends[run.labels == wanted]
            if len(ends) > at_most:
                ends = rng.choice(ends, at_most, replace=False)
            into.append(squash(run.inputs(ends)))
    return np.concatenate(quiet), np.concatenate(lossy)


def train(
    runs: list[Run], chosen_by: list[Run], steps: int, seed: int, say: Callable[[str], None]
) -> LossNetwork:
    """Train on `runs`; of the states on the way the one that is best on `chosen_by` is kept."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    quiet, lossy = gather(runs, MOST_OF_A_RUN, rng)
    both = np.concatenate([quiet, lossy]).reshape(-1, quiet.shape[2])
    mean, deviation = both.mean(axis=0), np.maximum(both.std(axis=0), 1e-3)
    network = LossNetwork(mean.astype(np.float32), deviation.astype(np.float32))
    weights = sum(weight.numel() for weight in network.parameters())
    say(f"{len(quiet)} quiet windows, {len(lossy)} with loss; {weights} weights")
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
    criterion = nn.BCEWithLogitsLoss()
    truth = torch.cat([torch.zeros(BATCH // 2), torch.ones(BATCH // 2)])
    best, kept = 0.0, network.state_dict()
    for step in range(1, steps + 1):
        picked = [part[rng.integers(len(part), size=BATCH // 2)] for part in (quiet, lossy)]
        loss = criterion(network(torch.from_numpy(np.concatenate(picked))), truth)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % max(1, steps // 20) == 0:
            said = [network.probabilities(run.inputs(run.ends[::SPARSE])) for run in chosen_by]
            reached = auc(np.concatenate(said), np.concatenate([run.labels[::SPARSE] for run in chosen_by]))
            say(f"step {step}: loss {loss.item():.4f}, AUC {reached:.4f}")
            if reached > best:
                best, kept = reached, {name: value.clone() for name, value in network.state_dict().items()}
    network.load_state_dict(kept)
    return network
