"""Additive increase, multiplicative decrease (RFC 5681, in bytes), beside NewReno: a controller in 30 lines.

Run it: ``python aimd.py``.
"""

import framewire
from framewire import Decision, Report, Setup


class Aimd:
    """A window that grows by a packet a round trip, and is halved once a round trip with losses."""

    options = {"factor": "what a loss leaves of the window, 0.5"}  # noqa: RUF012

    def __init__(self, setup: Setup, factor: str = "0.5") -> None:
        self.mtu = setup.mtu
        self.factor = float(factor)
        self.window = 10.0 * setup.mtu
        self.slow_start = True
        self.recovered_ns = 0

    def first(self) -> Decision:
        """The decision before any feedback."""
        return Decision(window=self.window)

    def on_feedback(self, report: Report) -> Decision:
        """Losses first: of a round trip's, only those of packets sent after the last decrease count."""
        if report.lost_packets and report.lost["sent_ns"].max() >= self.recovered_ns:
            self.window = max(self.factor * self.window, 2.0 * self.mtu)
            self.slow_start = False
            self.recovered_ns = report.now_ns
        elif report.limited:
            grown = report.acked_bytes
            self.window += grown if self.slow_start else self.mtu * grown / self.window
        return Decision(window=self.window)


framewire.register_controller("aimd", Aimd)

if __name__ == "__main__":
    link = {"rate": "5mbit", "delay": "20ms", "queue": "droptail:60ms"}
    bulk = framewire.Scenario(link=link, flow={"cc": "newreno", "source": "backlog"}, duration="60s")
    for result in framewire.compare(bulk, ["newreno", "aimd", "aimd:factor=0.8"]):
        [flow] = result.summary["flows"]
        print(
            f"{flow['cc']:16} {flow['throughput_bps'] / 1e6:.2f} Mbit/s, P95 {flow['owd_ms']['p95']:.0f} ms"
        )
