"""Congestion controllers written in Python, for prototypes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol

from . import _framewire
from ._framewire import Decision, Report, Setup
from ._framewire import run as _run
from .running import Progress, _progress, count_of


class Controller(Protocol):
    """What a controller is: made of a :class:`Setup`, told of each feedback packet.

    The class may also have

    * ``options``, a dict of the options that may follow its name (``cc = "aimd:step=2"``) with a line about
      each, which arrive as keyword arguments of text;
    * ``first()``, the decision before any feedback (without it: pacing and media at the setup's initial
      rate);
    * ``on_sent(now_ns, packet, size, in_flight)``, called for every packet, which costs as much as feedback
      does;
    * ``on_timer(now_ns)``, called at the time that the attribute ``timer_ns`` had after the last call of any
      of these (nanoseconds by the same clock, or ``None``); it sets a later one, or ``None``;
    * ``on_mtu(mtu)``, told that the path carries datagrams of at most so many bytes from here on;
    * ``observed``, an attribute: a dict of inner quantities by their names, for the plots of a report and for
      ``Result.decisions``. At most 256 names in a process.

    Each of the methods returns a :class:`Decision`, or ``None`` to go on as before.
    """

    def __init__(self, setup: Setup, **options: str) -> None:
        """Begins a flow."""

    def on_feedback(self, report: Report) -> Decision | None:
        """Hears what a feedback packet settled; says what to do now, or ``None`` to go on as before."""


@dataclass(frozen=True)
class Verdict:
    """How a controller stood a fault of the path."""

    fault: str
    """The fault's name."""
    summary: str
    """One line about it."""
    before_bps: float
    """What arrived before, in bit/s of UDP payload."""
    after_bps: float
    """What arrived after it, likewise."""
    shown: int | None
    """Frames shown; ``None`` of a flow without frames."""
    broken: str | None
    """What is wrong, such as ``"it does not recover"``; ``None`` if it stands the fault."""


def check(cc: str, *, threads: int | None = None, progress: Progress = None) -> list[Verdict]:
    """Holds a controller against what every controller of Framewire must stand: the conformance suite.

    Blackout, loss, reordering, duplication, clocks that drift, a quiet encoder, small and large datagrams, a
    path that gets narrow: a run of 22 s each at 20 Mbit/s. In each it must ask for something at all times,
    carry at least half of what it carried before, and show frames. The same as ``framewire controllers CC
    --check``.

    Parameters
    ----------
    cc
        The name of a class of this process (:func:`register_controller`) or of :func:`framewire.controllers`,
        with options or without.
    threads
        Runs at the same time; as many as there are processors if left out.
    progress
        ``True`` for a line on standard error, or a function of the share done.

    Examples
    --------
    >>> import framewire
    >>> [verdict.fault for verdict in framewire.check("gcc") if verdict.broken]
    []
    """
    scenarios = _framewire.conformance(cc)
    outcomes = _run(scenarios, count_of(threads), True, _progress(progress))
    return [Verdict(**row) for row in json.loads(_framewire.verdicts(cc, outcomes))]


def register_controller(name: str, controller: type[Controller], summary: str = "") -> None:
    """Registers a class as the controller ``name``, in this process and in the place of an earlier one.

    Scenarios name it as any other: ``flow={"cc": name}``. Register before anything runs. A run is as
    reproducible as the class: draw random numbers from ``setup.seed`` alone, and read no clock.

    What it raises ends the run, and comes out of :func:`framewire.run` with its traceback; nothing is written
    then.

    Raises
    ------
    ValueError
        If a controller that comes along has this name, or options could not follow it.
    TypeError
        If it is no class with ``on_feedback``.
    """
    if not isinstance(controller, type) or not callable(getattr(controller, "on_feedback", None)):
        raise TypeError("a controller is a class with a method on_feedback(report)")
    options = getattr(controller, "options", {})
    described = summary or (controller.__doc__ or "").strip().partition("\n")[0]
    _framewire.register_controller(name, controller, described, list(options.items()))


__all__ = ["Controller", "Decision", "Report", "Setup", "Verdict", "check", "register_controller"]
