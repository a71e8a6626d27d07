"""What a sender hears of its packets, as learned estimators take it.

The 150 features of the ACM MMSys 2024 challenge (Khairy et al., arXiv 2403.06324): fifteen figures over the
five last intervals of 60 ms and the five last of 600 ms. Figure ``f`` (from 0) has the places ``10 f`` to
``10 f + 4`` for the short intervals and ``10 f + 5`` to ``10 f + 9`` for the long ones. In which order the
five are, the challenge's page does not say; here the most recent is first.

Deviation: the challenge's estimator sits at the receiver. This one is told of arrivals by feedback, so the
newest interval ends a way back before the step. The clocks' offset is not known: the smallest delay counts as
half of the smallest round trip. All packets are video; a loss is a gap between packet numbers that arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ._framewire import Report

SHORT_NS, LONG_NS = 60_000_000, 600_000_000
"""The intervals."""
INTERVALS = 5
"""So many of each."""
FIGURES = (
    "receive_bps",
    "packets",
    "bytes",
    "queuing_ms",
    "delay_less_200_ms",
    "least_delay_ms",
    "delay_ratio",
    "delay_above_least_ms",
    "interarrival_ms",
    "jitter_ms",
    "loss",
    "lost_in_a_row",
    "video",
    "audio",
    "probing",
)
"""Names of the figures, in their order."""
FEATURES = len(FIGURES) * 2 * INTERVALS
BASE_MS = 200.0
"""What the challenge takes off a delay."""

_ROW = np.dtype([("packet", "i8"), ("sent_ns", "i8"), ("arrived_ns", "i8"), ("size", "i8")])


@dataclass(frozen=True)
class _Window:
    """Packets that features are made of, by arrival; the newest interval's end, on the receiver's clock."""

    rows: npt.NDArray[np.void]
    end_ns: int
    least_ns: int
    offset_ns: int

    def features(self) -> npt.NDArray[np.float32]:
        figures = np.zeros((len(FIGURES), 2 * INTERVALS))
        arrived = self.rows["arrived_ns"]
        for place in range(2 * INTERVALS):
            length = SHORT_NS if place < INTERVALS else LONG_NS
            until = self.end_ns - place % INTERVALS * length
            first, last = np.searchsorted(arrived, [until - length, until], side="right")
            figures[:, place] = self.figures(int(first), int(last), length)
        return figures.reshape(-1).astype(np.float32)

    def figures(self, first: int, last: int, length_ns: int) -> list[float]:
        """Those of one interval; zeros where nothing arrived, but for the smallest delay."""
        least_ms = (self.least_ns - self.offset_ns) / 1e6
        if first == last:
            return [0.0] * 5 + [least_ms] + [0.0] * 9
        own = self.rows[first:last]
        delays = (own["arrived_ns"] - own["sent_ns"] - self.offset_ns) / 1e6
        gaps = np.diff(own["arrived_ns"]) / 1e6
        # With the newest packet before, so that what is missing at the interval's beginning counts.
        numbers = np.sort(self.rows["packet"][max(first - 1, 0) : last])
        missing = np.diff(numbers) - 1
        missing = missing[missing > 0]
        size, lost = int(own["size"].sum()), int(missing.sum())
        return [
            8e9 * size / length_ns,
            float(len(own)),
            float(size),
            float(delays.mean()) - least_ms,
            float(delays.mean()) - BASE_MS,
            least_ms,
            float(delays.mean() / delays.min()) if delays.min() > 0 else 1.0,
            float(delays.mean() - delays.min()),
            float(gaps.mean()) if len(gaps) else 0.0,
            float(gaps.std()) if len(gaps) else 0.0,
            lost / (lost + len(own)),
            float(missing.mean()) if len(missing) else 0.0,
            1.0,
            0.0,
            0.0,
        ]


@dataclass(frozen=True)
class Seen:
    """What was heard in a step, and before it.

    Attributes
    ----------
    now_ns
        When the step ended, by the sender's clock.
    receive_bps
        What arrived in the step: bits of UDP payload a second.
    queue_ms
        Mean delay of those packets above the smallest of the flow; 0 if none arrived.
    loss
        Share of the step's packets that are missing.
    """

    now_ns: int
    receive_bps: float
    queue_ms: float
    loss: float
    rows: npt.NDArray[np.void]
    window: _Window

    @cached_property
    def features(self) -> npt.NDArray[np.float32]:
        """The features, of shape ``(150,)``, as this module says."""
        return self.window.features()

    def packets(self) -> list[dict[str, int]]:
        """The step's packets as AlphaRTC hands them to an estimator, in the order of their arrival.

        Times are whole milliseconds on the sender's clock. Deviation: ``payload_size`` is all of the UDP
        payload, ``header_length`` 0; packets are of one type and source.
        """
        return [
            {
                "arrival_time_ms": int((arrived - self.window.offset_ns) // 1_000_000),
                "header_length": 0,
                "padding_length": 0,
                "payload_size": int(size),
                "payload_type": 125,
                "send_time_ms": int(sent // 1_000_000),
                "sequence_number": int(packet) & 0xFFFF,
                "ssrc": 1,
            }
            for packet, sent, arrived, size in self.rows.tolist()
        ]


class History:
    """Packets that arrived, as far back as the features look."""

    def __init__(self) -> None:
        """Of a flow that begins."""
        self.rows = np.empty(0, _ROW)
        self.fresh: list[npt.NDArray[np.void]] = []
        self.least_ns: int | None = None
        self.least_rtt_ns = 0
        # When the newest arrival was heard of, and when the last step was: on the sender's clock.
        self.heard_ns = 0
        self.stepped_ns: int | None = None
        # The highest number that had arrived before the last step.
        self.highest = -1

    def hear(self, report: Report) -> None:
        """Takes what a feedback packet settled."""
        self.least_rtt_ns = report.min_rtt_ns
        if self.stepped_ns is None:
            self.stepped_ns = report.now_ns
        if not report.acked_packets:
            return
        acked = report.acked
        # A packet whose arrival is not dated says nothing of delays.
        dated = acked[acked["arrived_ns"] != np.iinfo(np.int64).min]
        if not len(dated):
            return
        rows = np.empty(len(dated), _ROW)
        for name in ("packet", "sent_ns", "arrived_ns", "size"):
            rows[name] = dated[name]
        least = int((rows["arrived_ns"] - rows["sent_ns"]).min())
        self.least_ns = least if self.least_ns is None else min(self.least_ns, least)
        self.heard_ns = report.now_ns
        self.fresh.append(rows)

    def step(self, now_ns: int) -> Seen:
        """What was heard since the last step, which ends now."""
        fresh = np.concatenate([*self.fresh, np.empty(0, _ROW)])
        fresh.sort(order=["arrived_ns", "packet"])
        self.fresh = []
        rows = np.concatenate([self.rows, fresh])
        rows.sort(order=["arrived_ns", "packet"])
        least = self.least_ns or 0
        took = max(now_ns - (self.stepped_ns or now_ns), 1)
        self.stepped_ns = now_ns
        delays = fresh["arrived_ns"] - fresh["sent_ns"]
        expected = int(fresh["packet"].max()) - self.highest if len(fresh) else 0
        self.highest = max(self.highest, int(fresh["packet"].max())) if len(fresh) else self.highest
        lost = max(expected - len(fresh), 0)
        offset = least - self.least_rtt_ns // 2
        end = int(rows["arrived_ns"][-1]) + now_ns - self.heard_ns if len(rows) else 0
        self.rows = rows[rows["arrived_ns"] > end - INTERVALS * LONG_NS - SHORT_NS]
        return Seen(
            now_ns=now_ns,
            receive_bps=8e9 * int(fresh["size"].sum()) / took,
            queue_ms=float((delays - least).mean()) / 1e6 if len(fresh) else 0.0,
            loss=lost / expected if expected > 0 else 0.0,
            rows=fresh,
            window=_Window(self.rows, end, least, offset),
        )
