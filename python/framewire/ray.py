"""Sweeps and searches over several machines, by Ray.

>>> from framewire import ray
>>> vary = {"link.rate": ["1mbit", "5mbit"]}
>>> done = ray.sweep("scenarios/sqp-20mbit.toml", vary, seeds=500)  # doctest: +SKIP

Ray spreads batches of runs; this process keeps the journal, so that a worker that is lost costs only its
batch, and a driver that is lost what was under way. Runs are the same on every machine: the table is that of
one process, bit for bit. Without Ray installed the same calls run on this machine's processors.

A search of :func:`fuzz` spreads its islands, which have nothing to do with each other between two migrations.
They travel to an actor and back with every such round, so that a worker that is lost costs its round alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from typing import Any, Unpack

from ._framewire import Islands as _Islands
from ._framewire import Journal as _Journal
from ._framewire import Search as _Search
from .fuzzing import Asked, Search, begin, finished
from .fuzzing import fuzz as _fuzz
from .running import Progress, _progress
from .scenario import Fields, Scenario
from .storage import Place, kept
from .sweeping import Plan, Sweep, Vary, _Counted, must_equal, place_of, warn
from .sweeping import sweep as _sweep

MOST_TRIES = 10
"""How often a batch is begun anew whose worker was lost."""


def _ray() -> Any | None:  # noqa: ANN401
    """Ray, if it is installed."""
    try:
        return import_module("ray")
    except ImportError:
        return None


def _joined(ray: Any) -> int:  # noqa: ANN401 (Ray may be missing, and its types with it)
    """Joins the cluster; how many processors it has."""
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


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
    place = place_of(plan, out)
    journal = _Journal(plan._plan, place.folder, fresh)
    missing = journal.missing()
    with kept(place):
        if missing:
            processors = _joined(ray)
            size = batch or max(1, min(200, len(missing) // (4 * processors)))
            told = _Counted(progress, len(plan), place)
            _spread(ray, plan, journal, _batches(missing, size), (processors, told))
        swept = journal.finish()
    return Sweep(place, swept)


def _spread(
    ray: Any,  # noqa: ANN401
    plan: Plan,
    journal: _Journal,
    batches: Iterator[list[int]],
    how: tuple[int, _Counted],
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
                told(done)
            pending += [work.remote(held, batch) for batch in islice(batches, len(ready))]
    finally:
        for task in pending:
            ray.cancel(task, force=True)


class _Worker:
    """An actor that breeds islands."""

    def __init__(self, blank: bytes, prints: tuple[str, str, str]) -> None:
        self.blank = blank
        self.prints = prints
        self.islands: _Islands | None = None

    def work(self, job: bytes) -> bytes:
        # Made here, since an actor that can't be made says little about why.
        if self.islands is None:
            islands = _Islands(self.blank)
            must_equal(islands.prints, self.prints)
            self.islands = islands
        return self.islands.work(job)


def fuzz(
    target: Scenario | str | os.PathLike[str], *, progress: Progress = None, **asked: Unpack[Asked]
) -> Search:
    """:func:`framewire.fuzz` on a cluster of Ray's, or on this machine where Ray is not installed.

    An actor for each processor, but no more than there are islands: a population spread over more islands
    (``islands=200, population=5000``) uses more of them. For the cluster see :func:`sweep`. Networks are
    those of one process, bit for bit; a checkpoint is written after each round instead of each generation.
    Where ``patience`` or ``until`` ends the search within a round, that round is bred a second time, up to
    there.

    The parameters, ``threads`` aside, and what is raised, are those of :func:`framewire.fuzz`; controllers of
    this process are refused.
    """
    ray = _ray()
    if ray is None:
        return _fuzz(target, progress=progress, **asked)
    search, place = begin(target, **asked)
    return finished(search, place, lambda: _breed(ray, search, progress, place))


def _breed(ray: Any, search: _Search, progress: Progress, place: Place) -> None:  # noqa: ANN401 (likewise)
    """Brings a search to its end, a round at a time."""
    told = _progress(progress)
    blank, prints = search.blank()
    # Without processors of their own, or an actor whose node is lost would wait for one that is free.
    spread = {"scheduling_strategy": "SPREAD", "max_restarts": -1, "max_task_retries": -1}
    worker = ray.remote(**spread)(_Worker)
    processors = _joined(ray)
    workers: list[Any] = []
    try:
        while jobs := search.jobs():
            if not workers:
                workers = [worker.remote(blank, prints) for _ in range(min(processors, len(jobs)))]
            pending = [workers[place % len(workers)].work.remote(job) for place, job in enumerate(jobs)]
            before, more, most = search.generations
            done: list[bytes] = []
            while pending:
                ready, pending = ray.wait(pending)
                done += ray.get(ready)
                if told:
                    told((before + more * len(done) / len(jobs)) / most)
            search.join(done)
            place.send()
    finally:
        for actor in workers:
            ray.kill(actor)
    if told:
        told(1.0)
