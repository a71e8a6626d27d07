"""Scenarios: what is run."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ._framewire import Scenario as _Scenario

Fields = Mapping[str, Any]
"""Settings by path, such as ``{"link.rate": "2mbit", "flow[1].cc": "gcc"}``."""


def plain(value: object, place: str) -> object:
    """``value`` as TOML has it; what is ``None`` is left out, as if it were not written."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        kept = {key: inner for key, inner in value.items() if inner is not None}
        if wrong := next((key for key in kept if not isinstance(key, str)), None):
            raise TypeError(f"{place}: a field's name is a string, not {type(wrong).__name__}")
        return {key: plain(inner, f"{place}.{key}") for key, inner in kept.items()}
    if isinstance(value, list | tuple):
        return [plain(inner, f"{place}[{number}]") for number, inner in enumerate(value, 1)]
    # Scalars of numpy are numbers that say so by these.
    if hasattr(value, "__index__"):
        return int(value)
    if hasattr(value, "__float__"):
        if not math.isfinite(number := float(value)):
            raise ValueError(f"{place}: {number} is no value of a scenario; write a finite number")
        return number
    raise TypeError(
        f"{place}: {type(value).__name__} is no value of a scenario; write text (with its unit), a number, "
        "True or False, a list, or a dict of fields"
    )


class Scenario:
    """A link, flows over it, and what else crosses it: the fields of a scenario file as keyword arguments.

    ``docs/scenario.md`` lists them. Quantities are text with their unit (``"5mbit"``, ``"20ms"``); ``flow``
    and ``cross`` take a dict each, or a list of them; what is ``None`` is left out. Relative paths of traces
    and clips start in the working directory.

    Scenarios never change: :meth:`set` and :meth:`with_cc` return changed copies.

    Raises
    ------
    ValueError
        If a field is unknown, missing or makes no sense: field and what would be accepted, in the words of
        ``framewire run``.
    TypeError
        If a value is nothing that a file could hold.

    Examples
    --------
    >>> from framewire import Scenario
    >>> link = {"rate": "5mbit", "delay": "20ms"}
    >>> scenario = Scenario(link=link, flow={"cc": "sqp"}, duration="10s", seed=7)
    >>> scenario.seed, scenario.duration
    (7, 10.0)
    >>> scenario.set("link.rate", "2mbit").set("flow[1].cc", "gcc").flows
    {'gcc': 'gcc'}
    """

    __slots__ = ("_scenario",)
    _scenario: _Scenario

    def __init__(self, **fields: object) -> None:
        for name in ("flow", "cross"):
            if isinstance(fields.get(name), Mapping):
                fields[name] = [fields[name]]
        named = {name: plain(value, name) for name, value in fields.items() if value is not None}
        self._scenario = _Scenario.of_fields(json.dumps(named), "scenario.toml")

    @classmethod
    def _of(cls, scenario: _Scenario) -> Scenario:
        made = cls.__new__(cls)
        made._scenario = scenario
        return made

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Scenario:
        """Reads a scenario file. Relative paths in it start in its folder.

        Raises
        ------
        ValueError
            Naming file, line, field and what would be accepted; also where the file can't be read.
        """
        return cls._of(_Scenario.load(os.fspath(path)))

    @classmethod
    def parse(cls, text: str, name: str = "scenario.toml") -> Scenario:
        """Reads a scenario from its text, TOML.

        ``name`` is the file it would come from: errors name it, relative paths start in its folder, and the
        scenario is called after it where the text gives no name.

        Raises
        ------
        ValueError
            Naming ``name``, line, field and what would be accepted.
        """
        return cls._of(_Scenario.parse(text, name))

    def set(self, path: str | Fields, value: object = None) -> Scenario:
        """A copy with the field at ``path`` set, as ``framewire run --set`` does it.

        Paths are written ``"link.rate"`` and ``"flow[1].encoder.fps"``, counted from 1; a dict sets several
        at once, of which only the outcome must make sense. ``None`` takes a field away, so that its default
        applies.

        Raises
        ------
        ValueError
            If there is no such field or it does not take the value.
        """
        fields = path if isinstance(path, Mapping) else {path: value}
        changes = [
            (name, json.dumps("" if new is None else plain(new, name))) for name, new in fields.items()
        ]
        return self._of(self._scenario.changed(changes))

    def with_cc(self, cc: str) -> Scenario:
        """A copy whose first flow runs under the congestion controller ``cc``: ``"gcc:loss_v2=off"``.

        A flow named after its controller is renamed.

        Raises
        ------
        ValueError
            If there is no such controller, or it does not take the options.
        """
        return self._of(self._scenario.with_cc(cc))

    @property
    def text(self) -> str:
        """The scenario as TOML: all that makes the run, besides the files it names."""
        return self._scenario.text

    @property
    def name(self) -> str:
        """Its short name."""
        return self._scenario.name

    @property
    def description(self) -> str:
        """One line for people."""
        return self._scenario.description

    @property
    def file(self) -> Path:
        """The file it came from, or the name it was given instead."""
        return Path(self._scenario.file)

    @property
    def seed(self) -> int:
        """Seed of all random streams."""
        return self._scenario.seed

    @property
    def duration(self) -> float:
        """How long it runs, in seconds of virtual time."""
        return self._scenario.duration

    @property
    def flows(self) -> dict[str, str]:
        """Each flow's controller, by the flow's name."""
        return dict(self._scenario.flows)

    @property
    def settings(self) -> dict[str, Any]:
        """What was changed of its text, by path."""
        settings: dict[str, Any] = json.loads(self._scenario.settings)
        return settings

    @property
    def warnings(self) -> list[str]:
        """What a person should know before believing the results."""
        return self._scenario.warnings

    def __repr__(self) -> str:
        ccs: Sequence[str] = list(self.flows.values())
        return f"<Scenario {self.name}: {', '.join(ccs)}; {self.duration:g} s, seed {self.seed}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scenario):
            return NotImplemented
        return (self.text, self.file) == (other.text, other.file)

    def __hash__(self) -> int:
        return hash((self.text, self.file))

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return (_parsed, (self.text, os.fspath(self.file)))


def _parsed(text: str, file: str) -> Scenario:
    return Scenario.parse(text, file)


def scenario_of(given: Scenario | str | os.PathLike[str]) -> Scenario:
    """A scenario, or that of a file."""
    if isinstance(given, Scenario):
        return given
    if isinstance(given, str | os.PathLike):
        return Scenario.load(given)
    raise TypeError(f"a Scenario or the path of a scenario file is needed, not {type(given).__name__}")
