"""Sweeps: one scenario under every combination of some settings, each with several seeds."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ._framewire import Plan as _Plan
from ._framewire import Swept as _Swept
from .results import _framed
from .running import Progress, _progress
from .scenario import Fields, Scenario, plain, scenario_of
from .storage import Place, kept
from .table import Table

Vary = Mapping[str, Iterable[Any]]
"""The values of each field, such as ``{"link.rate": ["1mbit", "2mbit"], "flow[1].cc": ["sqp", "gcc"]}``."""


def _text(value: object, field: str) -> str:
    """A value as the command's ``--vary`` would have it; ``None`` takes the field away."""
    if value is None:
        return ""
    held = plain(value, field)
    return held if isinstance(held, str) else json.dumps(held)


def _seeds(seeds: int | Iterable[int], first: int) -> list[int]:
    if isinstance(seeds, bool):
        raise TypeError("seeds is how many, such as 10, or which, such as [3, 7, 9]")
    if isinstance(seeds, int):
        if seeds < 1:
            raise ValueError(f"seeds: {seeds}; write how many, such as 10, or which, such as [3, 7, 9]")
        return [first + more for more in range(seeds)]
    return list(seeds)


class Plan:
    """What is to be run: every combination of the values, each with every seed, in a fixed order.

    The first field varies slowest, the seed fastest. A plan can be pickled: another process or machine makes
    the same of it, or refuses where its code, or the files that scenarios name, are others.

    Raises
    ------
    ValueError
        If a field has no values, or one that makes no scenario: which one, and what would be accepted.
    """

    def __init__(
        self,
        scenario: Scenario | str | os.PathLike[str],
        vary: Vary,
        *,
        seeds: int | Iterable[int] = 5,
        set: Fields | None = None,
        duration: str | None = None,
    ) -> None:
        """Of a scenario, or that of a file; ``set`` and ``duration`` change every run."""
        changes = ({} if duration is None else {"duration": duration}) | dict(set or {})
        prepared = scenario_of(scenario)
        self.scenario = prepared.set(changes) if changes else prepared
        for field, values in vary.items():
            if isinstance(values, str):
                raise TypeError(f'vary: the values of {field} are a list, such as ["{values}"]')
        self.vary = {field: [_text(value, field) for value in values] for field, values in vary.items()}
        self.seeds = _seeds(seeds, self.scenario.seed)
        self._plan = _Plan(self.scenario._scenario, list(self.vary.items()), self.seeds)

    def __len__(self) -> int:
        """How many runs there are."""
        return len(self._plan)

    def lines(self, runs: Iterable[int]) -> list[str]:
        """Runs some of it, by their numbers from 0, and returns each as a line of JSON."""
        return self._plan.lines(list(runs))

    def __reduce__(self) -> tuple[object, ...]:
        """For other processes, with what must be equal there."""
        # As TOML, comments included: the text is a full account of the scenario.
        return _same_plan, (
            self.scenario.text,
            os.path.abspath(self.scenario.file),  # noqa: PTH100
            json.dumps(self.vary),
            tuple(self.seeds),
            self._plan.prints,
        )


# A worker is given the same plan with every batch, and checking all its scenarios takes a moment.
@lru_cache(maxsize=4)
def _same_plan(text: str, file: str, vary: str, seeds: tuple[int, ...], prints: tuple[str, str, str]) -> Plan:
    plan = Plan(Scenario.parse(text, name=file), json.loads(vary), seeds=seeds)
    must_equal(plan._plan.prints, prints)
    return plan


def must_equal(found: tuple[str, str, str], wanted: tuple[str, str, str]) -> None:
    """Refuses to go on where this process has not what decides the runs of the one that leads."""
    what = ("scenarios", "files that scenarios name", "code of framewire")
    for name, here, there in zip(what, found, wanted, strict=True):
        if here != there:
            raise ValueError(f"the {name} of this worker are not those of the plan ({here}, not {there})")


class Sweep:
    """A sweep that is done. A notebook shows its report.

    Attributes
    ----------
    folder
        Where ``runs.parquet``, ``groups.parquet``, ``report.html`` and the journal lie; of a URL, a copy that
        is gone with this process.
    runs
        A row for each flow of each run, settings and figures as columns (``docs/sweeps.md``).
    groups
        A row for each flow of each setting: of each figure X the mean over seeds (``X_mean``), half the width
        of its 95 % confidence interval (``X_ci95``, Student's t), and the runs that know it (``X_n``).
    """

    def __init__(self, place: Place, swept: _Swept) -> None:
        """Of :func:`framewire.sweep`."""
        self.folder = place.folder
        self._name = place.name
        self.runs = Table(swept.runs())
        self.groups = Table(swept.groups())
        self._swept = swept

    @property
    def summary(self) -> dict[str, Any]:
        """The groups as ``framewire sweep --json`` prints them."""
        return dict(json.loads(self._swept.json()))

    def report(self) -> str:
        """The report, a page of HTML that needs nothing else."""
        return self._swept.report()

    def _repr_html_(self) -> str:
        return _framed(self.report())

    def __repr__(self) -> str:
        return f"<Sweep of {len(self.groups)} groups, {len(self.runs)} rows, in {self._name}>"


class _Counted:
    """Progress as a share of the runs, told at most ten times a second; sends what is done to its place."""

    def __init__(self, progress: Progress, runs: int, place: Place) -> None:
        self.told = _progress(progress)
        self.runs = runs
        self.place = place
        self.last = 0.0

    def __call__(self, done: int) -> None:
        self.place.send()
        now = time.monotonic()
        if self.told and (done == self.runs or now - self.last >= 0.1):
            self.last = now
            self.told(done / self.runs)


def place_of(plan: Plan, out: str | os.PathLike[str] | None) -> Place:
    """``out``, or what ``framewire sweep`` would take."""
    return Place(out if out is not None else Path("out/sweep") / plan.scenario.name)


def warn(plan: Plan) -> None:
    """Says what to know before the figures are believed."""
    for warning in plan._plan.warnings:
        warnings.warn(warning, stacklevel=3)


def sweep(
    scenario: Scenario | str | os.PathLike[str],
    vary: Vary,
    *,
    seeds: int | Iterable[int] = 5,
    set: Fields | None = None,
    duration: str | None = None,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    fresh: bool = False,
    progress: Progress = None,
) -> Sweep:
    """Runs a scenario under every combination of some settings, each with several seeds.

    The same as ``framewire sweep``: what was interrupted goes on in the same folder, and the files are the
    same, bit for bit. :func:`framewire.ray.sweep` does it on several machines.

    Parameters
    ----------
    vary
        The values of each field; ``None`` takes the field away, so that its default applies.
    seeds
        How many, from the scenario's on, or which.
    set, duration
        Changes of every run.
    out
        The folder; ``out/sweep/NAME`` if left out. Or a URL of object storage, such as ``"s3://bucket/name"``
        (needs fsspec), to which what is done is sent every minute and at the end.
    jobs
        Runs at the same time; as many as there are processors if left out. Results do not depend on it.
    fresh
        Forget what the folder holds of an earlier sweep.
    progress
        ``True`` for a line on standard error, or a function of the share done.

    Raises
    ------
    ValueError
        If a value makes no scenario, before anything is run; or if the folder holds another sweep.

    Examples
    --------
    >>> import tempfile
    >>> from framewire import Scenario, sweep
    >>> link = {"rate": "5mbit", "delay": "20ms"}
    >>> scenario = Scenario(link=link, flow={"cc": "sqp"}, duration="2s")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = sweep(scenario, {"link.rate": ["1mbit", "2mbit"]}, seeds=2, out=folder)
    >>> len(done.runs), len(done.groups)
    (4, 2)
    """
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs: {jobs}; at least one run at a time")
    plan = Plan(scenario, vary, seeds=seeds, set=set, duration=duration)
    warn(plan)
    place = place_of(plan, out)
    told = _Counted(progress, len(plan), place)
    with kept(place):
        swept = plan._plan.drive(place.folder, jobs or os.cpu_count() or 1, fresh, told)
    return Sweep(place, swept)
