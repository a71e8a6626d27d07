"""What there is to choose from."""

from __future__ import annotations

import json
from typing import TypedDict

from . import _framewire


class Option(TypedDict):
    """An option, and one line about it."""

    name: str
    summary: str


class Choice(TypedDict):
    """Something that a scenario names, written ``NAME`` or ``NAME:OPTION=VALUE,OPTION=VALUE``."""

    name: str
    summary: str
    options: list[Option]


class ControllerChoice(Choice):
    """A congestion controller, or a preset of one."""

    needs_frames: bool
    """It learns from frames' bursts: a backlogged flow gives it nothing to learn from."""


class QueueChoice(Choice):
    """A queue discipline, or a preset of one."""

    syntax: str
    """Examples of how it is written, separated by a comma and a blank."""


class TargetChoice(TypedDict):
    """A target of :func:`framewire.fuzz`: a controller in a network, and what is sought there."""

    name: str
    summary: str
    cc: str
    seconds: int
    """Length of a run."""
    mode: str
    score: str


def controllers() -> list[ControllerChoice]:
    """Every congestion controller, for ``cc`` of a flow."""
    listed: list[ControllerChoice] = json.loads(_framewire.controllers())
    return listed


def queues() -> list[QueueChoice]:
    """Every queue discipline, for ``queue`` of a link."""
    listed: list[QueueChoice] = json.loads(_framewire.queues())
    return listed


def playouts() -> list[Choice]:
    """Every playout policy, for ``playout`` of a flow."""
    listed: list[Choice] = json.loads(_framewire.playouts())
    return listed


def targets() -> list[TargetChoice]:
    """Every target that comes along, for :func:`framewire.fuzz`."""
    listed: list[TargetChoice] = json.loads(_framewire.targets())
    return listed
