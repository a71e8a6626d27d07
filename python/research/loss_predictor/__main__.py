"""Train the loss predictor, judge it, write its weights, figures and picture."""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from . import figure
from .data import Floats, Run, load, loss_shares, split
from .export import export, export_check
from .judge import Predictor, at_bearable, curve, judge, rtt_threshold
from .model import LossNetwork
from .train import train


def say(text: str) -> None:
    """Progress goes to standard error."""
    print(text, file=sys.stderr, flush=True)


def judged(runs: list[Run], network: LossNetwork, threshold: float, above: float) -> dict[str, object]:
    """Both predictors on the same runs, all together and by family."""
    predictors: dict[str, tuple[Predictor, float]] = {
        "cnn": (lambda run: network.probabilities(run.inputs(run.ends)), threshold),
        "rtt": (rtt_threshold, above),
    }
    result: dict[str, object] = {}
    for name, (predictor, chosen) in predictors.items():
        found = curve(runs, predictor)
        found["at_chosen_threshold"] = vars(judge(runs, [predictor(run) for run in runs], chosen))
        families: dict[str, dict[str, object]] = {}
        for family in sorted({run.family for run in runs}):
            of_family = [run for run in runs if run.family == family]
            if any(run.labels.any() for run in of_family):
                whole = curve(of_family, predictor)
                whole["at_chosen_threshold"] = vars(
                    judge(of_family, [predictor(run) for run in of_family], chosen)
                )
                del whole["curve"]
                families[family] = whole
        found["families"] = families
        result[name] = found
    shares = loss_shares(runs)
    if len(shares):
        result["loss_share_of_80_ms_p80"] = float(np.quantile(shares, 0.8))
        result["loss_share_of_80_ms_median"] = float(np.median(shares))
    return result


def checks(runs: list[Run], seed: int) -> Floats:
    """Inputs of both kinds from many runs."""
    rng = np.random.default_rng(seed)
    lossy = [run for run in runs if run.labels.any()]
    picked = [run.inputs(rng.choice(run.ends[run.labels], 1)) for run in lossy[:: max(1, len(lossy) // 12)]]
    picked += [run.inputs(rng.choice(run.ends[~run.labels], 1)) for run in runs[:: max(1, len(runs) // 12)]]
    return np.concatenate(picked)


def main() -> None:
    """Parse arguments, and do all of it."""
    parser = argparse.ArgumentParser(prog="python -m research.loss_predictor", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of `framewire predict dataset`")
    parser.add_argument(
        "--real", type=Path, help="folder of `framewire predict dataset --real`: only tested on"
    )
    parser.add_argument("--steps", type=int, default=6000, help="batches of 512 windows")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--out", type=Path, default=Path("crates/predict/weights"), help="for weights and check"
    )
    parser.add_argument("--figures", type=Path, default=Path("out/predict/figures.json"))
    parser.add_argument("--picture", type=Path, default=Path("docs/images/loss-predictor.svg"))
    args = parser.parse_args()

    runs = load(args.data)
    trained, choosing, tested = split(runs)
    network = train(trained, choosing, args.steps, args.seed, say)
    network.eval()
    said = [network.probabilities(run.inputs(run.ends)) for run in choosing]
    threshold = float(f"{at_bearable(choosing, said):.4f}")
    above = at_bearable(choosing, [rtt_threshold(run) for run in choosing])
    say(f"thresholds: cnn {threshold}, rtt {1 / (1 - above):.2f} least round trips")

    results = {"scenarios": judged(tested, network, threshold, above)}
    if args.real is not None and (real := load(args.real)):
        results["recorded traces"] = judged(real, network, threshold, above)
    args.figures.parent.mkdir(parents=True, exist_ok=True)
    args.figures.write_text(
        json.dumps({"threshold": threshold, "rtt_above": 1 / (1 - above), **results}, indent=1)
    )

    index = json.loads((args.data / "dataset.json").read_text())
    strides = sum(len(run.rows) for run in runs)
    about = {
        "command": "python -m research.loss_predictor --data DATA --real REAL "
        f"--steps {args.steps} --seed {args.seed}",
        "data": f"framewire predict dataset --seed {index['seed']}: {len(runs)} runs, {strides} windows, "
        f"families {', '.join(sorted({run.family for run in runs}))}; three fifths of the runs trained it",
        "seed": args.seed,
        "threshold": threshold,
        "figures": summary(results),
    }
    export(network, about, args.out / "cnn.json")
    export_check(network, checks(tested, args.seed), args.out / "cnn.check.json")
    figure.draw(results, args.picture)
    print(json.dumps(about["figures"], indent=1))


def summary(results: dict[str, dict[str, object]]) -> dict[str, float]:
    """The figures that stand in front of the weights."""
    short: dict[str, float] = {}
    for place, name in [("scenarios", ""), ("recorded traces", "recorded_")]:
        found = results.get(place, {}).get("cnn")
        if not isinstance(found, dict):
            continue
        chosen = found["at_chosen_threshold"]
        short[f"{name}auc"] = round(found["auc"], 4)
        for figure_name in ("recall", "precision", "false_triggers_per_s"):
            short[f"{name}{figure_name}"] = round(chosen[figure_name], 4)
    return short


if __name__ == "__main__":
    main()
