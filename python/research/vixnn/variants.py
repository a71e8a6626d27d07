"""The models of a size: how each differs, and how one is made of the base of all."""

import argparse
import json
import shlex
import sys
import time

import numpy as np

from . import export
from .judge import judge, kodak
from .train import Recipe, Training, run

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
STEPS = {"fast": (60_000, 12_000), "paper": (30_000, 10_000)}
RATES = {"fast": (4e-3, 2e-3), "paper": (2e-3, 1e-3)}
# Widths of the binariser's noise, at the beginning and the end.
NOISES = ((1.0, 0.3), (0.3, 0.0))
PATCHES = 40_000
POOL_SEED = 1
POOL = "pool.npy"


def say(text: str) -> None:
    """Progress goes to standard error."""
    print(text, file=sys.stderr, flush=True)


def base_recipe(args: argparse.Namespace) -> Recipe:
    """What every variant begins from."""
    steps, rate = args.base_steps or STEPS[args.size][0], RATES[args.size][0]
    return Recipe(args.size, BASE, steps, rate, args.seed, NOISES[0])


def make(args: argparse.Namespace, variant: str, files: int) -> str:
    """Train a variant from the base, judge it, write weights and card; gives its figures as JSON."""
    name = f"{args.size}-{variant}"
    drop, objective = VARIANTS[variant]
    pool = np.load(args.work / POOL, mmap_mode="r")
    base = base_recipe(args)
    start = Training(base, pool)
    start.load(args.work / f"{args.size}-base.pt")
    steps, rate = args.steps or STEPS[args.size][1], RATES[args.size][1]
    recipe = Recipe(args.size, drop, steps, rate, args.seed, NOISES[1], objective)
    training = Training(recipe, pool, start.network)
    began = time.monotonic()
    network = export.halved(run(training, args.work / f"{name}.pt", say))
    minutes = (time.monotonic() - began) / 60
    figures = judge(network, kodak(args.data), drop)
    export.export(network, name, recipe, args.out)
    about: dict[str, object] = {
        "recipe": recipe,
        "start": f"a base of {base.steps} steps with `{BASE}`, rate {base.rate}",
        "parameters": sum(weight.numel() for weight in network.parameters()),
        "minutes": minutes,
        "data": f"{PATCHES} patches of {files} files and of our own renderings (docs/vixnn.md), "
        f"seed {POOL_SEED}",
        "curve": training.curve,
        "figures": figures,
        "command": shlex.join(["python", "-m", "research.vixnn", "--data", "DATA", "--size", args.size]),
    }
    export.card(name, about, args.out)
    if variant == next(iter(VARIANTS)):
        export.export_check(network, name, args.out / f"{args.size}.check.json")
    return json.dumps({"model": name, "kodak": {str(count): found for count, found in figures.items()}})
