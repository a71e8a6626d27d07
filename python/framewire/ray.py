"""Sweeps over several machines, by Ray.

>>> from framewire import ray
>>> vary = {"link.rate": ["1mbit", "5mbit"]}
>>> done = ray.sweep("scenarios/sqp-20mbit.toml", vary, seeds=500)  # doctest: +SKIP

Ray spreads batches of runs; this process keeps the journal, so that a worker that is lost costs only its
batch, and a driver that is lost what was under way. Runs are the same on every machine: the table is that of
one process, bit for bit. Without Ray installed the same calls run on this machine's processors.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from typing import Any

from ._framewire import Journal as _Journal
from .running import Progress
from .scenario import Fields, Scenario
from .sweeping import Plan, Sweep, Vary, _Counted, folder_of, warn
from .sweeping import sweep as _sweep

MOST_TRIES = 10
"""How often a batch is begun anew whose worker was lost."""


def _ray() -> Any | None:  # noqa: ANN401
    """Ray, if it is installed."""
    try:
        return import_module("ray")
    except ImportError:
        return None


def _batches(runs: list[int], size: int) -> Iterator[list[int]]:
    rest = iter(runs)
    while batch := list(islice(rest, size)):
        yield batch


def _work(plan: Plan, batch: list[int]) -> list[str]:
    return plan.lines(batch)


def sweep(
    scenario: Scenario | str | os.PathLike[str],
    vary: Vary,
    *,
    seeds: int | Iterable[int] = 5,
    set: Fields | None = None,
    duration: str | None = None,
    out: str | os.PathLike[str] | None = None,
    batch: int | None = None,
    fresh: bool = False,
    progress: Progress = None,
) -> Sweep:
    """:func:`framewire.sweep` on a cluster of Ray's, or on this machine where Ray is not installed.

    The cluster is the one that ``ray.init()`` has joined, or that ``RAY_ADDRESS`` names; else one of this
    machine alone. The same version of framewire must be installed on every node, and traces and clips that
    scenarios name must lie in the same place: a worker that finds others refuses.

    Parameters
    ----------
    batch
        Runs that a task has: the fewer, the less is lost with a worker; the more, the less Ray costs. Left
        out, 200, or fewer where each processor would not get four batches.

    The other parameters, and what is raised, are those of :func:`framewire.sweep`.
    """
    ray = _ray()
    if ray is None:
        return _sweep(
            scenario, vary, seeds=seeds, set=set, duration=duration, out=out, fresh=fresh, progress=progress
        )
    if batch is not None and batch < 1:
        raise ValueError(f"batch: {batch}; at least one run a task")
    plan = Plan(scenario, vary, seeds=seeds, set=set, duration=duration)
    warn(plan)
    folder = folder_of(plan, out)
    journal = _Journal(plan._plan, folder, fresh)
    missing = journal.missing()
    if missing:
        if not ray.is_initialized():
            ray.init(log_to_driver=False)
        processors = max(1, int(ray.cluster_resources().get("CPU", 1)))
        size = batch or max(1, min(200, len(missing) // (4 * processors)))
        told = _Counted(progress, len(plan)) if progress else None
        try:
            _spread(ray, plan, journal, _batches(missing, size), (processors, told))
        except KeyboardInterrupt:
            print(f"stopped; the same call goes on from there ({folder})", file=sys.stderr)
            raise
    return Sweep(folder, journal.finish())


def _spread(
    ray: Any,  # noqa: ANN401
    plan: Plan,
    journal: _Journal,
    batches: Iterator[list[int]],
    how: tuple[int, _Counted | None],
) -> None:
    """Has every batch run; each one's runs are in the journal as soon as they are here."""
    processors, told = how
    work = ray.remote(num_cpus=1, max_retries=MOST_TRIES)(_work)
    held = ray.put(plan)
    # Twice as many as can run: no processor waits for this process, and little is under way.
    pending = [work.remote(held, batch) for batch in islice(batches, 2 * processors)]
    done = len(plan) - len(journal.missing())
    try:
        while pending:
            ready, pending = ray.wait(pending)
            for lines in ray.get(ready):
                journal.append(lines)
                done += len(lines)
                if told:
                    told(done)
            pending += [work.remote(held, batch) for batch in islice(batches, len(ready))]
    finally:
        for task in pending:
            ray.cancel(task, force=True)
