"""Train ViXNN's models from nothing, judge them on Kodak, write weights and cards.

Training goes on where it was stopped, and gives the same weights as one that was not. Progress goes to
standard error, figures to standard output.
"""

import argparse
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from . import data
from .model import SIZES
from .train import Training, run
from .variants import PATCHES, POOL, POOL_SEED, VARIANTS, base_recipe, make, say


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
        default=",".join(VARIANTS),
        help=f"of {', '.join(VARIANTS)}, with commas between",
    )
    parser.add_argument("--base-steps", type=int, help="batches that train the base; by default as shipped")
    parser.add_argument("--steps", type=int, help="batches that make a variant of it; by default as shipped")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="variants at a time, a thread and 1 GB each")
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
    np.save(args.work / POOL, pool)
    run(Training(base_recipe(args), pool), args.work / f"{args.size}-base.pt", say)
    # Processes, since threads of one would share torch's settings.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.jobs, mp_context=spawn, max_tasks_per_child=1) as jobs:
        for made in [jobs.submit(make, args, variant, len(digests)) for variant in args.variants.split(",")]:
            print(made.result(), flush=True)


if __name__ == "__main__":
    main()
