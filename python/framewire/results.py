"""What runs give."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from ._framewire import Outcome, report_of, write_comparison
from ._framewire import events as _events
from .scenario import Scenario
from .table import Table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Picture:
    """A frame as the viewer saw it, beside its source; at most 480 by 270 pixels."""

    frame: int
    """Capture index."""
    shown_s: float
    """When it was shown, in seconds of virtual time."""
    psnr_db: float
    """PSNR of its luma at full size."""
    second_s: float
    """The second it stands for, by its begin."""
    second_psnr_db: float
    """Mean PSNR of the frames shown in that second."""
    source: Pixels
    """What was captured: ``uint8`` of shape ``(height, width, 3)``, RGB."""
    shown: Pixels
    """What was shown, likewise."""


def _framed(page: str) -> str:
    import html  # Here, for notebooks alone need it.

    return f'<iframe srcdoc="{html.escape(page)}" style="width:100%;height:720px;border:0"></iframe>'


class Result:
    """What one run gave. A notebook shows its report."""

    def __init__(self, scenario: Scenario, outcome: Outcome, *, tables: bool) -> None:
        """Of :func:`framewire.run`."""
        self.scenario = scenario
        """What was run."""
        self._outcome = outcome
        self._tables = tables

    @property
    def hash(self) -> str:
        """The event hash: the same for the same scenario, seed and commit, always."""
        return self._outcome.hash

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Its figures, as ``framewire run --json`` prints them (``docs/json.md``)."""
        summary: dict[str, Any] = json.loads(self._outcome.summary())
        return summary

    @cached_property
    def flows(self) -> Table:
        """A row per flow with every figure of the summary: ``throughput_bps``, ``frame_delay_ms_p95``, ...

        Columns are those of a sweep's table, so that the two go together.
        """
        return Table(self._outcome.table("flows"))

    @cached_property
    def packets(self) -> Table:
        """A row per transmission: when it was sent, arrived and was acknowledged (``packets.parquet``)."""
        return self._rows("packets")

    @cached_property
    def frames(self) -> Table:
        """A row per captured frame: its times, size, quality, and what became of it (``frames.parquet``)."""
        return self._rows("frames")

    @cached_property
    def link(self) -> Table:
        """A row per event at the bottleneck or any of several links: in, out or drop (``link.parquet``)."""
        return self._rows("link")

    @cached_property
    def decisions(self) -> Table:
        """A row per changed quantity of a sender: window, rates, round trips (``decisions.parquet``)."""
        return self._rows("decisions")

    @cached_property
    def events(self) -> Table:
        """Everything that happened, a row an event: what the hash is made of.

        The run is done once more for it, and its hash compared. Columns are ``time_ns``, ``place`` (sender,
        receiver, link), ``flow``, ``event`` (``packet_sent``, ``frame_displayed``, ...) and one for each
        field that occurs, null where an event has none. It takes some 7 kB a packet.

        Raises
        ------
        ValueError
            If the run can't be repeated: a controller in Python, or a file that the scenario names, changed.
        """
        return Table(_events(self._outcome, None))

    def _rows(self, name: str) -> Table:
        if not self._tables:
            raise ValueError(f"there is no table of {name}: the run was made with tables=False")
        return Table(self._outcome.table(name))

    def pictures(self, flow: str | int = 1) -> dict[str, Picture]:
        """Pictures of a flow's ``"worst"`` and of a ``"median"`` second; empty where no codec made any.

        ``flow`` is a name or a number, counted from 1. A real codec runs where the scenario's encoder has a
        clip (``docs/scenario.md``). Needs numpy.
        """
        import numpy as np

        names = self._outcome.flows
        number = names.index(flow) + 1 if flow in names else flow
        if not isinstance(number, int) or not 1 <= number <= len(names):
            raise ValueError(f"there is no flow {flow!r}; there are {', '.join(names)}")

        def pixels(picture: tuple[int, int, bytes]) -> Pixels:
            height, width, rgb = picture
            return np.frombuffer(rgb, dtype=np.uint8).reshape(height, width, 3)

        kept = self._outcome.stills(number - 1)
        return {
            which: Picture(
                frame=frame,
                shown_s=shown_at,
                psnr_db=psnr,
                second_s=begin,
                second_psnr_db=mean,
                source=pixels(source),
                shown=pixels(shown),
            )
            for which, (frame, shown_at, begin, mean, psnr, source, shown) in zip(
                ("worst", "median"), kept or (), strict=False
            )
        }

    def report(self) -> str:
        """The report: a page of HTML that needs nothing else."""
        return self._outcome.report()

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Writes what ``framewire run --out`` writes (``docs/output.md``), all of it or nothing.

        Raises
        ------
        OSError
            Naming the file that could not be written; then the folder is as it was.
        """
        self._outcome.write(os.fspath(folder))

    def _repr_html_(self) -> str:
        return _framed(self.report())

    def __repr__(self) -> str:
        flows = ", ".join(
            f"{flow['name']} {flow['throughput_bps'] / 1e6:.2f} Mbit/s" for flow in self.summary["flows"]
        )
        return f"<Result {self.scenario.name}: {flows}; hash {self.hash}>"


class Comparison(Sequence[Result]):
    """The results of one scenario under several controllers, in their order. A notebook shows its report."""

    def __init__(self, title: str, results: list[Result]) -> None:
        """Of :func:`framewire.compare`."""
        self.title = title
        self.results = results

    @property
    def summary(self) -> dict[str, Any]:
        """As ``framewire compare --json`` prints it: ``{"runs": [...]}``."""
        return {"runs": [result.summary for result in self.results]}

    def report(self) -> str:
        """The report over all runs: a page of HTML that needs nothing else."""
        return report_of(self.title, [result._outcome for result in self.results])

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Writes what ``framewire compare --out`` writes; whole and with errors as :meth:`Result.write`."""
        write_comparison(os.fspath(folder), self.title, [result._outcome for result in self.results])

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> list[Result]: ...
    def __getitem__(self, index: int | slice) -> Result | list[Result]:
        return self.results[index]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def _repr_html_(self) -> str:
        return _framed(self.report())

    def __repr__(self) -> str:
        return f"<Comparison {self.title}: {', '.join(map(repr, self.results))}>"
