"""Congestion controllers written in Python, for prototypes."""

from __future__ import annotations

from typing import Protocol

from . import _framewire
from ._framewire import Decision, Report, Setup


class Controller(Protocol):
    """What a controller is: made of a :class:`Setup`, told of each feedback packet.

    The class may also have ``options``, a dict of the options that may follow its name (``cc =
    "aimd:step=2"``) with a line about each, which arrive as keyword arguments of text; ``first()``, the
    decision before any feedback (without it: pacing and media at the setup's initial rate); and
    ``on_sent(now_ns, packet, size, in_flight)``, called for every packet, which costs as much as feedback
    does.
    """

    def __init__(self, setup: Setup, **options: str) -> None:
        """Begins a flow."""

    def on_feedback(self, report: Report) -> Decision | None:
        """Hears what a feedback packet settled; says what to do now, or ``None`` to go on as before."""


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


__all__ = ["Controller", "Decision", "Report", "Setup", "register_controller"]
