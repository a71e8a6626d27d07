"""What a predictor is worth: the curve of Fig. 4.14."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from .data import HORIZON, NO_DATA, WINDOWS, Flags, Floats, Places, Run

# Ends are 10 ms apart.
A_SECOND = 100
# Sheet of the thesis: false triggers a second that a sender can live with.
BEARABLE = 2.0

Predictor = Callable[[Run], Floats]


@dataclass(frozen=True)
class Point:
    """A threshold and what follows from it."""

    threshold: float
    # Of windows before which a packet is lost, the share at or above the threshold; and the reverse.
    recall: float
    precision: float
    # Triggers with no loss within 50 ms; each holds 50 ms, in which there is no other.
    false_triggers_per_s: float
    # Share of lost packets that were sent while a trigger held.
    covered: float
    # Share of episodes whose first loss was sent while a trigger held.
    foretold: float


def auc(said: Floats, labels: Flags) -> float:
    """Area under the ROC curve; equal answers count half."""
    _, inverse, counts = np.unique(said, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    positive = int(labels.sum())
    negative = len(labels) - positive
    if positive == 0 or negative == 0:
        return float("nan")
    return float((ranks[labels].sum() - positive * (positive + 1) / 2) / (positive * negative))


def rtt_threshold(run: Run) -> Floats:
    """As `RttThreshold` in crates/predict: the queue's share of the newest round trip."""
    inputs = run.inputs(run.ends)
    newest = WINDOWS - 1 - np.argmax(inputs[:, ::-1, NO_DATA] == 0, axis=1)
    ratio = inputs[np.arange(len(inputs)), newest, 2]
    share: Floats = np.where(ratio > 1, 1 - 1 / np.maximum(ratio, 1), 0).astype(np.float32)
    return share


def triggers(run: Run, said: Floats, threshold: float) -> Places:
    """Ends at which a sender would trigger: each trigger holds for the horizon."""
    above = run.ends[said >= threshold]
    taken, place = [], 0
    while place < len(above):
        taken.append(above[place])
        place = int(np.searchsorted(above, above[place] + HORIZON))
    return np.array(taken, dtype=np.int64)


def share(part: float, whole: float) -> float:
    """A quotient, if there is one."""
    return part / whole if whole else float("nan")


def judge(runs: list[Run], said: list[Floats], threshold: float) -> Point:
    """Count over all runs together."""
    hits = alarms = losses = false = seconds = lost = covered = onsets = foretold = 0.0
    for run, answers in zip(runs, said, strict=True):
        above = answers >= threshold
        hits += float((above & run.labels).sum())
        alarms += float(above.sum())
        losses += float(run.labels.sum())
        taken = triggers(run, answers, threshold)
        true = run.labels[np.searchsorted(run.ends, taken)]
        false += float((~true).sum())
        seconds += len(run.ends) / A_SECOND
        held = np.zeros(len(run.lost) + HORIZON + 1, dtype=bool)
        for ahead in range(1, HORIZON + 1):
            held[taken + ahead] = True
        seen = np.zeros(len(run.lost), dtype=bool)
        seen[run.ends + 1] = True
        lost += float(run.lost[seen].sum())
        covered += float(run.lost[seen & held[: len(run.lost)]].sum())
        onsets += len(run.onsets)
        foretold += float(held[run.onsets].sum())
    return Point(
        threshold,
        share(hits, losses),
        share(hits, alarms),
        share(false, seconds),
        share(covered, lost),
        share(foretold, onsets),
    )


def thresholds(said: list[Floats], count: int = 40) -> list[float]:
    """Thresholds that divide the highest answers evenly in the logarithm of their share."""
    answers = np.concatenate(said)
    shares = np.geomspace(1e-4, 1.0, count)
    return sorted({float(value) for value in np.quantile(answers, 1 - shares, method="higher")})


def at_bearable(runs: list[Run], said: list[Floats]) -> float:
    """The lowest threshold with no more than the bearable false triggers, by bisection over answers."""
    answers = np.unique(np.concatenate(said))
    low, high = 0, len(answers) - 1
    while low < high:
        middle = (low + high) // 2
        if judge(runs, said, float(answers[middle])).false_triggers_per_s <= BEARABLE:
            high = middle
        else:
            low = middle + 1
    return float(answers[low])


def curve(runs: list[Run], predictor: Predictor) -> dict[str, object]:
    """AUC, the curve, and the point of two false triggers a second on these very runs."""
    said = [predictor(run) for run in runs]
    labels = np.concatenate([run.labels for run in runs])
    points = [asdict(judge(runs, said, threshold)) for threshold in thresholds(said)]
    best = judge(runs, said, at_bearable(runs, said))
    return {
        "auc": auc(np.concatenate(said), labels),
        "runs": len(runs),
        "runs_with_loss": sum(bool(run.labels.any()) for run in runs),
        "windows": len(labels),
        "windows_with_loss": int(labels.sum()),
        "at_two_false_triggers": asdict(best),
        "curve": points,
    }
