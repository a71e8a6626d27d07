"""A controller that is learned: four weights, by the cross-entropy method (Rubinstein 1999), numpy alone.

Run it: ``python learned.py``. It takes some ten seconds, and then runs beside SQP and GCC where it never was.
"""

import numpy as np
import numpy.typing as npt

import framewire
from framewire import Decision, Report, Setup
from framewire.features import History, Seen

Weights = npt.NDArray[np.float64]
LEAST_BPS, MOST_BPS = 100_000.0, 50_000_000.0
STEP_NS = 60_000_000
"""Time between two decisions."""


def next_rate(weights: Weights, rate: float, seen: Seen) -> float:
    """The rate grows or falls by a share that is linear in what was seen: at most a tenth a step."""
    arrived = min(seen.receive_bps / rate, 2.0)
    change = float(weights @ np.array([1.0, seen.queue_ms / 100, 10 * seen.loss, 1 - arrived]))
    return float(np.clip(rate * np.exp(np.clip(change, -0.1, 0.1)), LEAST_BPS, MOST_BPS))


def reward(seen: Seen) -> float:
    """What arrived, in octaves, less ten times the queue in seconds and the loss."""
    return float(np.log2(max(seen.receive_bps, LEAST_BPS) / 1e6)) - seen.queue_ms / 100 - 10 * seen.loss


class Learned:
    """Follows the weights that training left."""

    weights: Weights = np.zeros(4)
    told: float = 0.0
    """Rewards of the run, added up."""

    def __init__(self, setup: Setup) -> None:
        self.rate = float(setup.initial_bps)
        self.history = History()
        self.due_ns = 0
        Learned.told = 0.0

    def on_feedback(self, report: Report) -> Decision | None:
        """Decides where a step is over."""
        self.history.hear(report)
        if report.now_ns < self.due_ns:
            return None
        self.due_ns = report.now_ns + STEP_NS
        seen = self.history.step(report.now_ns)
        Learned.told += reward(seen)
        self.rate = next_rate(self.weights, self.rate, seen)
        return Decision(pacing_bps=1.5 * self.rate, media_bps=self.rate)


framewire.register_controller("learned", Learned)


def network(rate: str, delay: str = "20ms") -> framewire.Scenario:
    """Ten seconds of video over one link."""
    link = {"rate": rate, "delay": delay, "queue": "droptail:200ms"}
    return framewire.Scenario(link=link, flow={"cc": "learned"}, duration="10s")


def score(weights: Weights, scenarios: list[framewire.Scenario]) -> float:
    """The mean reward of a run."""
    Learned.weights = weights
    total = 0.0
    for scenario in scenarios:
        framewire.run(scenario, tables=False)
        total += Learned.told
    return total / len(scenarios)


def train(rounds: int = 8, candidates: int = 16, seed: int = 1) -> Weights:
    """Draws weights, keeps the best quarter, and draws from around them; the best of all rounds."""
    scenarios = [network("1mbit"), network("6mbit", "50ms")]
    rng = np.random.default_rng(seed)
    mean, spread = np.zeros(4), np.full(4, 0.1)
    best, most = mean, score(mean, scenarios)
    for number in range(rounds):
        drawn = mean + spread * rng.standard_normal((candidates, 4))
        scores = np.array([score(weights, scenarios) for weights in drawn])
        elite = drawn[np.argsort(scores)[-candidates // 4 :]]
        mean, spread = elite.mean(0), elite.std(0) + 0.005
        if scores.max() > most:
            best, most = drawn[scores.argmax()], float(scores.max())
        print(f"round {number + 1}: best {scores.max():.1f}, mean {scores.mean():.1f}")
    return best


if __name__ == "__main__":
    Learned.weights = train()
    print("weights:", np.round(Learned.weights, 3))
    for result in framewire.compare(network("3mbit", "35ms"), ["learned", "sqp", "gcc"], threads=1):
        [flow] = result.summary["flows"]
        megabits, delay = flow["throughput_bps"] / 1e6, flow["owd_ms"]["p95"]
        print(f"{flow['cc']:8} {megabits:.2f} of 3 Mbit/s, P95 of packets' delay {delay:.0f} ms")
