"""Controllers written in Python."""

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

import framewire
from framewire import Decision, Report, Setup

pytest.importorskip("numpy")

LINK = {"rate": "5mbit", "delay": "20ms", "queue": "droptail:60ms"}


def bulk(cc: str) -> framewire.Scenario:
    return framewire.Scenario(link=LINK, flow={"cc": cc, "source": "backlog"}, duration="10s")


def example(name: str) -> ModuleType:
    checkout = Path(os.environ.get("FRAMEWIRE_CHECKOUT", Path(__file__).parents[3]))
    spec = importlib.util.spec_from_file_location(name, checkout / f"python/examples/{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def aimd() -> None:
    example("aimd")


def test_the_learned_example_learns_the_same_each_time() -> None:
    learned = example("learned")
    scenarios = [learned.network("2mbit")]
    weights = learned.train(rounds=2, candidates=8)
    assert list(weights) == list(learned.train(rounds=2, candidates=8))
    untrained = learned.score(learned.np.zeros(4), scenarios)
    assert learned.score(weights, scenarios) > untrained


@pytest.mark.usefixtures("aimd")
def test_aimd_fills_a_link_as_newreno_does() -> None:
    ours, theirs = framewire.compare(bulk("aimd"), ["aimd", "newreno"])
    throughputs = [result.summary["flows"][0]["throughput_bps"] for result in (ours, theirs)]
    assert throughputs[0] == pytest.approx(throughputs[1], rel=0.1)
    assert ours.hash == framewire.run(bulk("aimd")).hash
    gentle = framewire.run(bulk("aimd:factor=0.8"))
    assert gentle.hash != ours.hash and list(gentle.scenario.flows) == ["aimd"]
    with pytest.raises(ValueError, match="aimd has no option `fcator`; did you mean `factor`"):
        bulk("aimd:fcator=1")


class Steady:
    """A window that stays, and what it was told."""

    told: list[Report] = []  # noqa: RUF012

    def __init__(self, setup: Setup) -> None:
        assert setup.mtu == 1200 and setup.min_bps < setup.initial_bps <= setup.max_bps
        self.sent = 0

    def first(self) -> Decision:
        return Decision(window=30_000)

    def on_sent(self, now_ns: int, packet: int, size: int, in_flight: int) -> None:
        self.sent += 1
        assert packet == self.sent - 1 and size <= in_flight <= 30_000 + size

    def on_feedback(self, report: Report) -> None:
        Steady.told.append(report)


def test_reports_say_what_became_of_packets() -> None:
    framewire.register_controller("steady", Steady, "stays")
    Steady.told = []
    flow = {"cc": "steady", "source": "backlog", "mtu": "1200B"}
    scenario = framewire.Scenario(link=LINK | {"loss": "1%"}, flow=flow, duration="5s")
    result = framewire.run(scenario)
    packets = result.packets
    settled = {int(number): report for report in Steady.told for number in report.acked["packet"]}
    arrived = dict(zip(packets["packet"], packets["acked_ns"], strict=True))
    assert len(settled) > 1000
    assert all(report.now_ns == arrived[number] for number, report in settled.items())
    assert all(report.acked_packets == len(report.acked) for report in Steady.told)
    first = Steady.told[10].acked[0]
    assert first["arrived_ns"] - first["sent_ns"] > 20e6 and first["size"] == 1200
    assert sum(report.lost_packets for report in Steady.told) == packets["given_up"].sum() > 5


class Raises:
    """Raises after some feedback."""

    def __init__(self, setup: Setup) -> None:
        self.left = 20

    def on_feedback(self, report: Report) -> Decision | None:
        self.left -= 1
        if self.left == 0:
            raise ZeroDivisionError("by design")
        return None


class Nonsense(Raises):
    """Returns what is no decision."""

    def on_feedback(self, report: Report) -> Decision:
        return 7  # type: ignore[return-value]


class Negative(Raises):
    """Wants what can't be."""

    def on_feedback(self, report: Report) -> Decision:
        return Decision(window=-1)


class Unmade(Raises):
    """Can't be made."""

    def __init__(self, setup: Setup) -> None:
        raise LookupError("nowhere")


def test_what_a_controller_raises_comes_out_with_its_traceback() -> None:
    for controller, error, what in (
        (Raises, ZeroDivisionError, "by design"),
        (Nonsense, TypeError, "a controller returns a Decision or None, not int"),
        (Negative, ValueError, "window is -1"),
        (Unmade, LookupError, "nowhere"),
    ):
        framewire.register_controller(controller.__name__, controller)
        with pytest.raises(error, match=what) as raised:
            framewire.run(bulk(controller.__name__))
        if error is not TypeError:
            assert any(Path(entry.path).name == "test_controller.py" for entry in raised.traceback[1:])
    assert framewire.run(bulk("newreno")).hash == framewire.run(bulk("newreno")).hash


def test_names_and_classes_are_checked() -> None:
    for name, controller, error in (
        ("sqp", Raises, ValueError),
        ("a:b", Raises, ValueError),
        ("other", Raises(None), TypeError),  # type: ignore[arg-type]
        ("other", object, TypeError),
    ):
        with pytest.raises(error):
            framewire.register_controller(name, controller)  # type: ignore[arg-type]


class Timed:
    """Sends a little faster every 100 ms, whatever it hears."""

    def __init__(self, setup: Setup) -> None:
        self.rate = float(setup.initial_bps)
        self.timer_ns: int | None = None
        self.observed = {"rate_bps": self.rate}
        self.mtus: list[int] = []

    def on_feedback(self, report: Report) -> None:
        if self.timer_ns is None:
            self.timer_ns = report.now_ns + 100_000_000

    def on_timer(self, now_ns: int) -> Decision:
        assert self.timer_ns is not None and now_ns >= self.timer_ns
        self.rate *= 1.01
        self.observed["rate_bps"] = self.rate
        self.timer_ns = now_ns + 100_000_000
        return Decision(pacing_bps=self.rate, media_bps=self.rate)


class Restless(Timed):
    """Its timer is due again at once."""

    def on_timer(self, now_ns: int) -> Decision:
        return Decision(pacing_bps=self.rate)


class Vague(Timed):
    """Its timer is no time."""

    def on_feedback(self, report: Report) -> None:
        self.timer_ns = "soon"  # type: ignore[assignment]


class Chatty(Timed):
    """It has a new quantity with each report."""

    def on_feedback(self, report: Report) -> None:
        self.observed[f"at {report.now_ns}"] = 1.0


def test_timers_come_and_what_is_observed_is_in_the_table() -> None:
    framewire.register_controller("timed", Timed)
    decisions = framewire.run(bulk("timed")).decisions
    of = {name: decisions["value"][decisions["name"] == name] for name in set(decisions["name"])}
    # 100 steps of 1 % in ten seconds, from 2 Mbit/s on, less the round trips until it first hears.
    assert 2e6 * 1.01**95 < max(of["rate_bps"]) <= 2e6 * 1.01**100 + 1
    assert max(of["pacing_bps"]) == pytest.approx(max(of["rate_bps"]), abs=1)


@pytest.mark.parametrize(
    ("controller", "error", "words"),
    [
        (Restless, ValueError, "after on_timer at .*; set it to a later time"),
        (Vague, TypeError, "timer_ns is soon"),
        (Chatty, ValueError, "a quantity, not an event"),
    ],
)
def test_timers_and_quantities_that_make_no_sense_end_the_run(
    controller: type, error: type[Exception], words: str
) -> None:
    framewire.register_controller("nonsense", controller)
    with pytest.raises(error, match=words):
        framewire.run(bulk("nonsense"))


def test_the_conformance_suite_takes_a_class(aimd: None) -> None:
    verdicts = framewire.check("aimd")
    assert len(verdicts) == 11
    assert [verdict.fault for verdict in verdicts if verdict.broken] == []
    framewire.register_controller("timed", Timed)
    # Its rate is none that this path carries in the end, but it goes on.
    assert all(verdict.after_bps > 0 for verdict in framewire.check("timed", threads=1))
    with pytest.raises(ValueError, match="nobody"):
        framewire.check("nobody")
