"""CC-Fuzz: searches for the network that a controller can't take (``docs/fuzzing.md``)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from ._framewire import Search as _Search
from ._framewire import SearchPlan as _SearchPlan
from ._framewire import Target as _Target
from ._framewire import shrink_finding as _shrink
from .running import Progress, _progress, count_of
from .scenario import Fields, Scenario, scenario_of
from .storage import Place, kept


@dataclass(frozen=True)
class Finding:
    """A network that a controller can't take."""

    folder: Path
    """Where it lies: a scenario with its traces, which ``framewire run`` replays, and ``finding.json``."""
    score: dict[str, float]
    """How the flow under test fared, by part; higher is worse for it (``docs/fuzzing.md``)."""
    goal: float
    """The score without what the network costs."""
    faults: tuple[str, ...] = ()
    """Known faults of the target that it shows, in a search for several findings."""

    @property
    def scenario(self) -> Scenario:
        """The network as a scenario: it runs anywhere, with any controller."""
        return Scenario.load(self.folder / "scenario.toml")

    def shrink(
        self,
        *,
        least: float | None = None,
        budget: int = 10_000,
        out: str | os.PathLike[str] | None = None,
        threads: int | None = None,
    ) -> Finding:
        """The least of it that still shows the same, written to ``out``.

        Parameters
        ----------
        least
            What :attr:`goal` must still be, however the flow behaves; left out, nine tenths of the harm, and
            a flow that behaves alike.
        budget
            Runs at most.
        out
            The folder; ``shrunk`` in its own if left out.
        threads
            Runs at the same time; as many as there are processors if left out. The result does not depend
            on it.
        """
        if budget < 1:
            raise ValueError(f"budget: {budget}; at least one run")
        folder = Path(out) if out is not None else self.folder / "shrunk"
        left = json.loads(_shrink(self.folder, folder, least, budget, count_of(threads)))
        return Finding(folder, left["score"], left["goal"])


class Search:
    """A search that is done.

    Attributes
    ----------
    folder
        Where it lies, with a checkpoint: the same call with more generations goes on from there. Of a URL, a
        copy that is gone with this process.
    summary
        Its figures, as ``framewire fuzz run --json`` prints them; ``history`` has a dict for each generation
        of this call.
    best
        The worst network for the controller.
    findings
        Of a search with ``diverse``: the best network of each behaviour, from the best on; else the best.
    """

    def __init__(self, place: Place, summary: dict[str, Any]) -> None:
        """Of :func:`framewire.fuzz`."""
        self.folder = place.folder
        self._name = place.name
        self.summary = summary
        best = summary["best"]
        self.best = Finding(self.folder, best["score"], best["goal"])
        several = [
            Finding(Path(one["folder"]), one["score"], one["goal"], tuple(one["faults"]))
            for one in summary["findings"]
        ]
        self.findings = several or [self.best]

    def __repr__(self) -> str:
        what = f"{self.summary['generations']} generations against {self.summary['target']}"
        return f"<Search of {what}, best score {self.best.score['total']:.3f}, in {self._name}>"


def _changed(scenario: Scenario, set: Fields | None, duration: str | None) -> Scenario:
    changes = ({} if duration is None else {"duration": duration}) | dict(set or {})
    return scenario.set(changes) if changes else scenario


def _target(
    target: Scenario | str | os.PathLike[str],
    set: Fields | None,
    duration: str | None,
    rest: tuple[str | None, str | None, str | None, str | None, list[str] | None, bool],
) -> _Target:
    """A scenario, that of a file, or a target by its name."""
    if isinstance(target, str) and not Path(target).suffix:
        if set or duration is not None:
            raise ValueError("set and duration change a scenario; a target by its name has its own")
        try:
            return _Target(None, target, *rest)
        except ValueError as error:
            if "no target is called" not in str(error):
                raise
            help = "framewire.targets() lists them; the path of a scenario file ends in .toml"
            raise ValueError(f"{error} ({help})") from None
    return _Target(_changed(scenario_of(target), set, duration)._scenario, "", *rest)


class Asked(TypedDict, total=False):
    """What :func:`fuzz` may be asked for, wherever it runs."""

    cc: str | None
    mode: str | None
    score: str | None
    expression: str | None
    reference: Iterable[str] | None
    free: bool
    set: Fields | None
    duration: str | None
    population: int
    islands: int
    generations: int
    seed: int
    random: bool
    diverse: bool
    until: float | None
    patience: int | None
    out: str | os.PathLike[str] | None
    fresh: bool


def begin(
    target: Scenario | str | os.PathLike[str],
    *,
    cc: str | None = None,
    mode: str | None = None,
    score: str | None = None,
    expression: str | None = None,
    reference: Iterable[str] | None = None,
    free: bool = False,
    set: Fields | None = None,
    duration: str | None = None,
    population: int = 500,
    islands: int = 20,
    generations: int = 50,
    seed: int = 1,
    random: bool = False,
    diverse: bool = False,
    until: float | None = None,
    patience: int | None = None,
    out: str | os.PathLike[str] | None = None,
    fresh: bool = False,
) -> tuple[_Search, Place]:
    """The search that :func:`framewire.fuzz` is asked for, and where it is kept."""
    if score is not None and expression is not None:
        raise ValueError("score and expression both say what is sought; give one of them")
    if random and diverse:
        raise ValueError("random and diverse: a search that draws afresh keeps nothing; choose one of them")
    if isinstance(reference, str):
        raise TypeError(f'reference is a list of controllers, such as ["{reference}"]')
    for name, number, least in (("generations", generations, 1), ("seed", seed, 0), ("islands", islands, 1)):
        if number < least:
            raise ValueError(f"{name}: {number}; at least {least}")
    references = None if reference is None else list(reference)
    found = _target(target, set, duration, (cc, mode, score, expression, references, free))
    plan = _SearchPlan(population, islands, seed, random, diverse)
    place = Place(out if out is not None else Path("out/fuzz") / f"{found.name}-{seed}")
    return _Search(found, plan, place.folder, fresh, (generations, until, patience)), place


def finished(search: _Search, place: Place, work: Callable[[], object]) -> Search:
    """The search after ``work``, which brings it to its end."""
    with kept(place):
        work()
        summary = json.loads(search.summary())
    return Search(place, summary)


def fuzz(
    target: Scenario | str | os.PathLike[str],
    *,
    cc: str | None = None,
    mode: str | None = None,
    score: str | None = None,
    expression: str | None = None,
    reference: Iterable[str] | None = None,
    free: bool = False,
    set: Fields | None = None,
    duration: str | None = None,
    population: int = 500,
    islands: int = 20,
    generations: int = 50,
    seed: int = 1,
    random: bool = False,
    diverse: bool = False,
    until: float | None = None,
    patience: int | None = None,
    out: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    fresh: bool = False,
    progress: Progress = None,
) -> Search:
    """Searches for the network that a controller can't take: CC-Fuzz, a genetic search.

    The same as ``framewire fuzz run``: what was interrupted goes on in the same folder, and the networks are
    the same, bit for bit, however many threads or machines there are. :func:`framewire.ray.fuzz` does it on
    several. A controller of this process (:func:`register_controller`) can be searched, too; then networks
    are the same as long as its class is.

    Parameters
    ----------
    target
        A name (:func:`targets` lists them), or a scenario with a constant rate and a queue, whose first flow
        is under test, or the path of its file.
    cc
        Congestion controller of the first flow, instead of the target's.
    mode
        What is varied: ``"link"``, ``"traffic"``, ``"loss"``, ``"call"``, or several joined by ``+``.
    score, expression
        What is sought: a name such as ``"high-delay"``, or an expression of what is measured.
    reference
        Controllers that a network must be bearable for.
    free
        Count no cost of cross packets.
    set, duration
        Changes of every run.
    population, islands
        Networks of a generation, and islands they are spread over.
    generations
        Generations at most, those of earlier calls included.
    random, diverse
        Draw every generation afresh; keep several findings that behave differently.
    until, patience
        Stop at a goal (the best score without what the network costs), or when the best score has not risen
        by 0.01 in so many generations.
    out
        The folder; ``out/fuzz/TARGET-SEED`` if left out. Or a URL of object storage, such as
        ``"s3://bucket/name"`` (needs fsspec), to which what is done is sent every minute and at the end.
    threads
        Runs at the same time; as many as there are processors if left out. Results do not depend on it.
    fresh
        Forget what the folder holds of an earlier search.
    progress
        ``True`` for a line on standard error, or a function of the share done.

    Raises
    ------
    ValueError
        If the scenario can't be searched, in the command's words; or if the folder holds another search.

    Examples
    --------
    >>> import tempfile
    >>> from framewire import fuzz
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     search = fuzz("video", population=6, islands=2, generations=2, out=folder)
    ...     worst = search.best.scenario
    >>> len(search.summary["history"])
    2
    """
    search, place = begin(
        target,
        cc=cc,
        mode=mode,
        score=score,
        expression=expression,
        reference=reference,
        free=free,
        set=set,
        duration=duration,
        population=population,
        islands=islands,
        generations=generations,
        seed=seed,
        random=random,
        diverse=diverse,
        until=until,
        patience=patience,
        out=out,
        fresh=fresh,
    )
    shown, at_once = _progress(progress), count_of(threads)

    def told(share: float) -> None:
        place.send()
        if shown:
            shown(share)

    return finished(search, place, lambda: search.run(at_once, told))
