"""A model of the ACM MMSys 2024 bandwidth estimation challenge in `framewire/Rate-v0`, beside GCC and SQP.

    pip install gymnasium numpy onnxruntime
    python challenge.py Offline_RL_baseline_bandwidth_estimator_model.onnx

The file is the baseline of https://github.com/microsoft/RL4BandwidthEstimationChallenge, or any model with
its inputs: ``obs`` of shape (1, 1, 150) and two states. The flow keeps 1 Mbit/s for its first three seconds:
where little arrives the baseline asks for less than that, and stays there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium
import numpy as np
import onnxruntime

import framewire
import framewire.gym

WARM_STEPS, WARM_BPS = 50, 1e6
"""Steps of 60 ms before the model is obeyed, and the rate meanwhile."""
CCS = ("gcc", "sqp")
LINKS: dict[str, dict[str, object]] = {
    "1 Mbit/s": {"rate": "1mbit"},
    "2 Mbit/s": {"rate": "2mbit"},
    "5 Mbit/s": {"rate": "5mbit"},
    "5 Mbit/s, 2 % lost": {"rate": "5mbit", "loss": "2%"},
    "20 Mbit/s": {"rate": "20mbit"},
}


def scenario(link: dict[str, object]) -> framewire.Scenario:
    """A minute of video over such a link."""
    flow = {"cc": "gcc", "source": "video", "initial": "1mbit", "min": "50kbit"}
    return framewire.Scenario(
        link={"delay": "20ms", "queue": "droptail:200ms"} | link, flow=flow, duration="60s"
    )


def run(session: onnxruntime.InferenceSession, of: framewire.Scenario) -> framewire.Result:
    """A run whose rates the model names."""
    env = gymnasium.make("framewire/Rate-v0")
    observation, info = env.reset(seed=1, options={"scenario": of})
    hidden, cell = np.zeros((1, 1), np.float32), np.zeros((1, 1), np.float32)
    steps, over = 0, False
    while not over:
        fed = {"obs": observation.reshape(1, 1, -1), "hidden_states": hidden, "cell_states": cell}
        wanted, hidden, cell = session.run(None, fed)
        rate = float(wanted[0, 0, 0]) if steps >= WARM_STEPS else WARM_BPS
        observation, _, terminated, truncated, info = env.step([rate])
        steps += 1
        over = terminated or truncated
    result: framewire.Result = info["result"]
    return result


def row(result: framewire.Result) -> str:
    """What is printed of a run."""
    flow = result.summary["flows"][0]
    rate, delay = flow["throughput_bps"] / 1e6, flow["frame_delay_ms"]["p95"]
    return f"{rate:5.2f} Mbit/s {delay:4.0f} ms"


def main(model: Path) -> None:
    """Prints a line for each link."""
    session = onnxruntime.InferenceSession(model)
    print(f"{'throughput, frame delay P95':20} {'the model':>18} {'gcc':>18} {'sqp':>18}")
    for name, link in LINKS.items():
        of = scenario(link)
        results = [run(session, of), *framewire.compare(of, CCS, seed=1)]
        print(f"{name:27}", "  ".join(map(row, results)))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: challenge.py MODEL.onnx")
    main(Path(sys.argv[1]))
