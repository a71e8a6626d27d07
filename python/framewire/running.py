"""Runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Literal

from ._framewire import run as _run
from .results import Comparison, Result
from .scenario import Fields, Scenario, scenario_of

Progress = Callable[[float], object] | Literal[True] | None
"""``True`` for a line on standard error, or what is told the share done, from 0 to 1."""


class _Line:
    """A line on standard error that shows the share done and the time left."""

    def __init__(self) -> None:
        self.begun = time.monotonic()

    def __call__(self, share: float) -> None:
        took = time.monotonic() - self.begun
        left = f", {took / share - took:.0f} s left" if share > 0 else ""
        end = "\n" if share >= 1 else ""
        print(f"\rsimulating: {100 * share:3.0f} %{left}   ", end=end, file=sys.stderr, flush=True)


def _progress(progress: Progress) -> Callable[[float], object] | None:
    if not progress:
        return None
    if progress is True:
        return _Line()
    if not callable(progress):
        raise TypeError(f"progress is None, True or a function of the share, not {type(progress).__name__}")
    return progress


def count_of(threads: int | None) -> int:
    """So many runs at a time, or as many as there are processors."""
    if threads is not None and threads < 1:
        raise ValueError(f"threads: {threads}; at least one is needed")
    return threads or os.cpu_count() or 1


def _prepared(
    scenario: Scenario | str | os.PathLike[str],
    seed: int | None,
    duration: str | None,
    settings: Fields | None,
) -> Scenario:
    given = {name: value for name, value in (("seed", seed), ("duration", duration)) if value is not None}
    changes = given | dict(settings or {})
    prepared = scenario_of(scenario)
    return prepared.set(changes) if changes else prepared


def run(
    scenario: Scenario | str | os.PathLike[str],
    *,
    seed: int | None = None,
    duration: str | None = None,
    set: Fields | None = None,
    progress: Progress = None,
    tables: bool = True,
) -> Result:
    """Runs a scenario, or that of a file, and returns what it gave.

    Other threads go on meanwhile, and Ctrl-C ends the run at once with ``KeyboardInterrupt``. The same
    scenario, seed and commit give the same :attr:`Result.hash`, here and from ``framewire run``.

    Parameters
    ----------
    seed, duration
        In place of the scenario's (``seed=7``, ``duration="10s"``).
    set
        Other fields, by path, as :meth:`Scenario.set` takes them.
    progress
        ``True`` for a line on standard error, or a function of the share done (0 to 1), which may raise: that
        ends the run.
    tables
        ``False`` keeps no rows beyond some memory: summary and report are the same, the tables are not there.
        With tables a packet takes some 120 bytes.

    Raises
    ------
    ValueError
        If the scenario or something it names is not usable, in the command's words.
    """
    prepared = _prepared(scenario, seed, duration, set)
    [outcome] = _run([prepared._scenario], 1, tables, _progress(progress))
    return Result(prepared, outcome, tables=tables)


def compare(
    scenario: Scenario | str | os.PathLike[str],
    ccs: Sequence[str],
    *,
    seed: int | None = None,
    duration: str | None = None,
    set: Fields | None = None,
    progress: Progress = None,
    tables: bool = True,
    threads: int | None = None,
) -> Comparison:
    """Runs a scenario once for each of ``ccs`` in place of its first flow's controller.

    Several run at a time: as many as there are processors, or ``threads``. The other parameters and errors
    are those of :func:`run`.
    """
    if isinstance(ccs, str) or not ccs:
        raise TypeError('ccs is a list of controllers, such as ["sqp", "gcc"]')
    prepared = _prepared(scenario, seed, duration, set)
    scenarios = [prepared.with_cc(cc) for cc in ccs]
    outcomes = _run([each._scenario for each in scenarios], count_of(threads), tables, _progress(progress))
    pairs = zip(scenarios, outcomes, strict=True)
    return Comparison(prepared.name, [Result(each, outcome, tables=tables) for each, outcome in pairs])
