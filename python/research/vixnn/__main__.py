"""Train ViXNN's models from nothing, judge them on Kodak, write weights and cards.

Training goes on where it was stopped, and gives the same weights as one that was not. Progress goes to
standard error, figures to standard output.
"""

import argparse
import json
import shlex
import sys
import time
from pathlib import Path

from . import data, export
from .judge import judge, kodak
from .model import SIZES
from .train import THREADS, Recipe, Training, run

# Variants of each size: how descriptors are dropped, and what few of them show.
VARIANTS = {
    "mdc-0.3": ("mdc:0.3", "same"),
    "svc": ("svc", "same"),
    "mdc-0.1": ("mdc:0.1", "same"),
    "mdc-0.5": ("mdc:0.5", "same"),
    "mdc-0": ("mdc:0", "same"),
    "mdc-0.5-grey": ("mdc:0.5", "grey"),
    "mdc-0.5-levels": ("mdc:0.5", "levels"),
}
# What the base of all variants is trained on.
BASE = "mdc:0.3"
# Steps of the base and of a variant, and their learning rates.
STEPS = {"fast": (60_000, 20_000), "paper": (30_000, 10_000)}
RATES = {"fast": (4e-3, 2e-3), "paper": (2e-3, 1e-3)}
# Widths of the binariser's noise, at the beginning and the end.
NOISES = ((1.0, 0.3), (0.3, 0.0))
PATCHES = 40_000
POOL_SEED = 1


def say(text: str) -> None:
    """Progress goes to standard error."""
    print(text, file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m research.vixnn",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with images/ and video/ (docs/vixnn.md)"
    )
    parser.add_argument("--size", choices=list(SIZES), default="fast")
    parser.add_argument(
        "--variants",
        default=",".join(list(VARIANTS)[:5]),
        help=f"of {', '.join(VARIANTS)}, with commas between",
    )
    parser.add_argument("--base-steps", type=int, help="batches that train the base; by default as shipped")
    parser.add_argument("--steps", type=int, help="batches that make a variant of it; by default as shipped")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--work", type=Path, default=Path("out/vixnn/training"), help="for states of the training"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("crates/vixnn/weights"), help="for weights and cards"
    )
    return parser.parse_args()


def main() -> None:
    """Parse arguments, and do all of it."""
    args = arguments()
    unknown = [name for name in args.variants.split(",") if name not in VARIANTS]
    if unknown:
        raise SystemExit(f"--variants: {unknown[0]} is none of {', '.join(VARIANTS)}")
    digests = data.check_sources(args.data)
    say(f"{len(digests)} training files, none of them a test file")
    args.work.mkdir(parents=True, exist_ok=True)
    args.out.mkdir(parents=True, exist_ok=True)
    pool = data.pool(args.data, PATCHES, POOL_SEED, say)
    pictures = kodak(args.data)
    long, short = STEPS[args.size]
    base_rate, rate = RATES[args.size]
    base_recipe = Recipe(args.size, BASE, args.base_steps or long, base_rate, args.seed, NOISES[0])
    base = run(Training(base_recipe, pool), args.work / f"{args.size}-base.pt", say)
    for variant in args.variants.split(","):
        name = f"{args.size}-{variant}"
        drop, objective = VARIANTS[variant]
        recipe = Recipe(args.size, drop, args.steps or short, rate, args.seed, NOISES[1], objective)
        training = Training(recipe, pool, base)
        began = time.monotonic()
        network = export.halved(run(training, args.work / f"{name}.pt", say))
        minutes = (time.monotonic() - began) / 60
        figures = judge(network, pictures, drop)
        print(
            json.dumps({"model": name, "kodak": {str(count): found for count, found in figures.items()}}),
            flush=True,
        )
        export.export(network, name, recipe, args.out)
        about: dict[str, object] = {
            "recipe": recipe,
            "start": f"a base of {base_recipe.steps} steps with `{BASE}`, rate {base_recipe.rate}",
            "parameters": sum(weight.numel() for weight in network.parameters()),
            "minutes": minutes,
            "threads": THREADS,
            "data": f"{PATCHES} patches of {len(digests)} files and of our own renderings (docs/vixnn.md), "
            f"seed {POOL_SEED}",
            "curve": training.curve,
            "figures": figures,
            "command": shlex.join(["python", "-m", "research.vixnn", "--data", "DATA", "--size", args.size]),
        }
        export.card(name, about, args.out)
        if variant == next(iter(VARIANTS)):
            export.export_check(network, name, args.out / f"{args.size}.check.json")


if __name__ == "__main__":
    main()
