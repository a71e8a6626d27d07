"""What is written in Rust (``crates/python``); the modules beside it say what it is for."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Literal, final

import numpy as np
import numpy.typing as npt

COMMIT: str
VERSION: str

@final
class Scenario:
    @staticmethod
    def load(file: str) -> Scenario: ...
    @staticmethod
    def parse(text: str, file: str) -> Scenario: ...
    @staticmethod
    def of_fields(fields: str, file: str) -> Scenario: ...
    def changed(self, changes: Sequence[tuple[str, str]]) -> Scenario: ...
    def with_cc(self, cc: str) -> Scenario: ...
    @property
    def text(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def file(self) -> PathLike[str]: ...
    @property
    def seed(self) -> int: ...
    @property
    def duration(self) -> float: ...
    @property
    def flows(self) -> list[tuple[str, str]]: ...
    @property
    def settings(self) -> str: ...
    @property
    def warnings(self) -> list[str]: ...

Kept = tuple[int, float, float, float, float, tuple[int, int, bytes], tuple[int, int, bytes]]

@final
class Outcome:
    def summary(self) -> str: ...
    @property
    def hash(self) -> str: ...
    @property
    def flows(self) -> list[str]: ...
    def table(self, name: str) -> Table: ...
    def report(self) -> str: ...
    def write(self, folder: str) -> None: ...
    def stills(self, flow: int) -> list[Kept] | None: ...

@final
class Table:
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def columns(self) -> list[tuple[str, str]]: ...
    def rows(self) -> int: ...
    def values(
        self, name: str
    ) -> tuple[Literal["text"], list[str | None]] | tuple[Literal["int", "real", "flag"], bytes, bytes]: ...

def run(
    scenarios: Sequence[Scenario],
    threads: int,
    tables: bool,
    progress: Callable[[float], object] | None,
) -> list[Outcome]: ...
def events(outcome: Outcome, progress: Callable[[float], object] | None) -> Table: ...
def report_of(title: str, outcomes: Sequence[Outcome]) -> str: ...
def write_comparison(folder: str, title: str, outcomes: Sequence[Outcome]) -> None: ...
def controllers() -> str: ...
def queues() -> str: ...
def playouts() -> str: ...
def targets() -> str: ...
def conformance(cc: str) -> list[Scenario]: ...
def verdicts(cc: str, outcomes: Sequence[Outcome]) -> str: ...
def register_controller(
    name: str, class_: type, summary: str, options: Sequence[tuple[str, str]], /
) -> None: ...

@final
class Setup:
    """What a controller is told before it starts. Rates are in bit/s, sizes in bytes of UDP payload."""

    @property
    def mtu(self) -> int:
        """Largest datagram at first."""
    @property
    def initial_bps(self) -> int:
        """Rate to start at."""
    @property
    def min_bps(self) -> int:
        """The session would rather end than run below this."""
    @property
    def max_bps(self) -> int:
        """The most the encoder can use."""
    @property
    def frame_interval_ns(self) -> int:
        """Time between frames."""
    @property
    def seed(self) -> int:
        """Seed for the controller's random numbers, if it draws any: then a run can be repeated."""

@final
class Decision:
    """What a controller wants.

    ``window`` is the most bytes in flight, ``pacing_bps`` the rate at which packets leave, ``media_bps``
    advice for the encoder's bitrate; ``None`` is no limit (of media: window over smoothed round trip).
    ``burst`` bytes may leave back to back under the pacing rate. A backlogged flow leaves at ``media_bps``,
    or with ``bulk_at_pacing`` at ``pacing_bps``. Fractions are rounded.

    Raises
    ------
    ValueError
        If a window or rate is below 1 or no finite number.
    """

    def __new__(
        cls,
        *,
        window: float | None = None,
        pacing_bps: float | None = None,
        media_bps: float | None = None,
        burst: int = 0,
        bulk_at_pacing: bool = False,
    ) -> Decision: ...
    @property
    def window(self) -> int | None: ...
    @property
    def pacing_bps(self) -> int | None: ...
    @property
    def media_bps(self) -> int | None: ...
    @property
    def burst(self) -> int: ...
    @property
    def bulk_at_pacing(self) -> bool: ...

@final
class Report:
    """What one feedback packet, or the loss timer, settled: ``cc::Report`` of the Rust crates.

    Times are nanoseconds, sizes bytes of UDP payload.
    """

    @property
    def acked(self) -> npt.NDArray[np.void]:
        """Newly acknowledged packets: a structured array, a row a packet, read-only.

        Fields: ``packet`` (number), ``sent_ns`` (sender's clock), ``arrived_ns`` (receiver's clock, whose
        offset is not known; the least ``int64`` where the arrival's time is unknown), ``size``, ``ecn`` (0
        not capable, 1 ECT(1), 2 ECT(0), 3 congestion experienced). Needs numpy.
        """
    @property
    def lost(self) -> npt.NDArray[np.void]:
        """Newly lost packets, in rows of the same fields; their arrivals are unknown."""
    @property
    def now_ns(self) -> int:
        """When the sender heard of it, by its own clock."""
    @property
    def acked_packets(self) -> int:
        """How many packets it acknowledged."""
    @property
    def lost_packets(self) -> int:
        """How many packets it found lost."""
    @property
    def acked_bytes(self) -> int:
        """Bytes it acknowledged."""
    @property
    def lost_bytes(self) -> int:
        """Bytes it found lost."""
    @property
    def in_flight(self) -> int:
        """Bytes in flight after all of this."""
    @property
    def limited(self) -> bool:
        """Whether the sender used all the controller allowed before this report."""
    @property
    def latest_rtt_ns(self) -> int | None:
        """The round-trip sample of this report, if it gave one."""
    @property
    def srtt_ns(self) -> int:
        """Smoothed round-trip time (RFC 9002 section 5.3)."""
    @property
    def rttvar_ns(self) -> int:
        """Mean deviation of the round-trip time (RFC 9002 section 5.3)."""
    @property
    def min_rtt_ns(self) -> int:
        """Smallest round-trip time seen."""
    @property
    def ce_marks(self) -> int:
        """Packets newly reported as congestion-marked."""
    @property
    def persistent_congestion(self) -> bool:
        """Everything sent over three probe timeouts was lost (RFC 9002 section 7.6)."""
    @property
    def spurious(self) -> list[int]:
        """Numbers of packets given up earlier that arrived after all."""
    @property
    def delivered(self) -> int:
        """Bytes delivered over the connection's life."""
    @property
    def lost_in_all(self) -> int:
        """Bytes given up as lost over the connection's life."""

class Plan:
    """What is to be run: every combination of the axes' values, each with every seed."""

    def __init__(self, base: Scenario, axes: list[tuple[str, list[str]]], seeds: list[int]) -> None:
        """Fields with their values as text. Every scenario of it is read and checked."""
    def __len__(self) -> int: ...
    @property
    def warnings(self) -> list[str]:
        """What to know before the figures are believed."""
    @property
    def prints(self) -> tuple[str, str, str]:
        """What decides the runs: of scenarios, of files that they name, and of the code."""
    def lines(self, indices: list[int]) -> list[str]:
        """Runs some of the plan, and returns each as a line."""
    def drive(
        self,
        folder: PathLike[str],
        jobs: int,
        fresh: bool,
        progress: Callable[[int], object] | None,
    ) -> Swept:
        """Runs what is missing in a folder, and writes tables and report there."""

class Journal:
    """What is done of a plan, on disk."""

    def __init__(self, plan: Plan, folder: PathLike[str], fresh: bool) -> None:
        """That of a plan in a folder, which is made; begun where there is none, or if ``fresh``."""
    def missing(self) -> list[int]:
        """Numbers of the runs that are not done."""
    def append(self, lines: list[str]) -> None:
        """Adds runs that are done, as :meth:`Plan.lines` gives them."""
    def finish(self) -> Swept:
        """Writes tables and report of all runs."""

class Swept:
    """A sweep that is done."""

    def runs(self) -> Table:
        """A row a flow and run."""
    def groups(self) -> Table:
        """A row a flow and setting, over the seeds."""
    def json(self) -> str:
        """The groups as JSON."""
    def report(self) -> str:
        """The report's HTML."""

Prints = tuple[str, str, str]

@final
class Target:
    def __new__(
        cls,
        scenario: Scenario | None,
        preset: str,
        cc: str | None,
        mode: str | None,
        score: str | None,
        expression: str | None,
        reference: Sequence[str] | None,
        free: bool,
    ) -> Target: ...
    @property
    def name(self) -> str: ...

@final
class SearchPlan:
    def __new__(cls, population: int, islands: int, seed: int, random: bool, diverse: bool) -> SearchPlan: ...

@final
class Search:
    def __new__(
        cls,
        target: Target,
        plan: SearchPlan,
        folder: PathLike[str],
        fresh: bool,
        until: tuple[int, float | None, int | None],
    ) -> Search: ...
    @property
    def generations(self) -> tuple[int, int, int]: ...
    def run(self, threads: int, progress: Callable[[float], object] | None) -> None: ...
    def jobs(self) -> list[bytes]: ...
    def join(self, done: Sequence[bytes]) -> None: ...
    def blank(self) -> tuple[bytes, Prints]: ...
    def summary(self) -> str: ...

@final
class Islands:
    def __new__(cls, blank: bytes) -> Islands: ...
    @property
    def prints(self) -> Prints: ...
    def work(self, job: bytes) -> bytes: ...

def shrink_finding(
    folder: PathLike[str], out: PathLike[str], least: float | None, budget: int, threads: int
) -> str: ...
