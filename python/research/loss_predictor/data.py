"""Runs as `framewire predict dataset` writes them."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]

# As in crates/predict/src/features.rs.
WINDOWS = 16
FEATURES = 8
# Strides of 10 ms that a prediction looks ahead.
HORIZON = 5
# Strides at a run's end whose losses may not have been found out when it ended.
UNSETTLED = 200
# A loss after so many strides without one is the first of an episode.
QUIET = 20
NO_DATA = 7


@dataclass(frozen=True)
class Run:
    """One run: the windows, and what became of the packets sent in each stride."""

    name: str
    family: str
    rows: Floats
    sent: Floats
    lost: Floats

    @property
    def number(self) -> int:
        """Place of the run in its family."""
        return int(self.name.rsplit("-", 1)[1])

    @cached_property
    def ends(self) -> Places:
        """Strides after which a prediction is made: there is data, and its truth is known."""
        heard = np.concatenate([[0], np.cumsum(self.rows[:, NO_DATA] == 0)])
        ends = np.arange(WINDOWS - 1, len(self.rows) - HORIZON - UNSETTLED)
        known: Places = ends[heard[ends + 1] > heard[ends + 1 - WINDOWS]]
        return known

    @cached_property
    def labels(self) -> Flags:
        """Whether a packet sent within the horizon after each end is lost."""
        lost = np.concatenate([[0], np.cumsum(self.lost)])
        labels: Flags = lost[self.ends + 1 + HORIZON] > lost[self.ends + 1]
        return labels

    @cached_property
    def onsets(self) -> Places:
        """Strides in which the first packet of an episode of losses was sent."""
        lossy = np.flatnonzero(self.lost > 0)
        first = np.diff(lossy, prepend=-QUIET - 1) > QUIET
        onsets = lossy[first]
        known: Places = onsets[np.isin(onsets - 1, self.ends)]
        return known

    def inputs(self, ends: Places) -> Floats:
        """What a predictor sees at these ends: windows by figures."""
        inputs: Floats = self.rows[ends[:, None] + np.arange(1 - WINDOWS, 1)]
        return inputs


def load(folder: Path) -> list[Run]:
    """Every run of a dataset."""
    index = json.loads((folder / "dataset.json").read_text())
    runs = []
    for entry in index["runs"]:
        table = np.load(folder / f"{entry['name']}.npy")
        rows, sent, lost = table[:, :FEATURES], table[:, FEATURES], table[:, FEATURES + 1]
        runs.append(Run(entry["name"], entry["family"], rows, sent, lost))
    return runs


def split(runs: list[Run]) -> tuple[list[Run], list[Run], list[Run]]:
    """Split by scenario: three of five train, one chooses, one tests."""
    return (
        [run for run in runs if run.number % 5 < 3],
        [run for run in runs if run.number % 5 == 3],
        [run for run in runs if run.number % 5 == 4],
    )


def loss_shares(runs: list[Run], strides: int = 8) -> Floats:
    """Of each whole window of 80 ms in which a packet was lost: the share of its packets that were.

    Five frames at 60 a second (Fig. 4.29 of the thesis).
    """
    shares = []
    for run in runs:
        whole = len(run.sent) // strides * strides
        sent = run.sent[:whole].reshape(-1, strides).sum(axis=1)
        lost = run.lost[:whole].reshape(-1, strides).sum(axis=1)
        shares.append(lost[lost > 0] / sent[lost > 0])
    return np.concatenate(shares)
