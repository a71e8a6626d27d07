"""Searches: the command's, resumed, refused, and against a controller of this process."""

import json
from pathlib import Path
from typing import Any

import pytest
from pytest import MonkeyPatch

import framewire
import framewire.ray
from framewire import Decision, Report, Scenario, Setup

LINK = {"rate": "4mbit", "delay": "20ms", "queue": "droptail:50p"}
BASE = Scenario(name="short", link=LINK, flow={"cc": "newreno", "start": "500ms"}, duration="3s")
SMALL: Any = {"population": 6, "islands": 2, "seed": 3}
FILES = ("checkpoint", "finding.json", "scenario.toml", "target.toml", "cross.instants")


def files(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in FILES]


def test_a_search_gives_a_scenario_that_shows_it(tmp_path: Path) -> None:
    told: list[float] = []
    found = framewire.fuzz(BASE, generations=3, out=tmp_path, progress=told.append, **SMALL)
    assert [one["generation"] for one in found.summary["history"]] == [0, 1, 2]
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert found.findings == [found.best]
    assert found.best.score["total"] == max(one["best"]["total"] for one in found.summary["history"])
    calm = framewire.run(BASE).summary["flows"][0]["throughput_bps"]
    hurt = framewire.run(found.best.scenario).summary["flows"][0]["throughput_bps"]
    assert hurt < calm
    left = found.best.shrink(budget=60)
    assert left.folder == tmp_path / "shrunk"
    assert left.goal >= found.best.goal - 0.1 * (found.best.goal + 1)
    assert left.scenario.flows == BASE.flows


def test_it_goes_on_where_it_stood_to_the_same_networks(tmp_path: Path) -> None:
    framewire.fuzz(BASE, generations=4, out=tmp_path / "whole", threads=1, **SMALL)
    framewire.fuzz(BASE, generations=2, out=tmp_path / "parts", **SMALL)
    found = framewire.fuzz(BASE, generations=4, out=tmp_path / "parts", **SMALL)
    assert len(found.summary["history"]) == 2
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    for changed, what in (({"mode": "loss"}, "mode"), ({"seed": 4}, "seed"), ({"cc": "cubic"}, "scenario")):
        with pytest.raises(ValueError, match=f"another search: its .*{what}"):
            framewire.fuzz(BASE, generations=4, out=tmp_path / "parts", **(SMALL | changed))
    framewire.fuzz(BASE, generations=1, out=tmp_path / "parts", fresh=True, mode="loss", **SMALL)
    with pytest.raises(ValueError, match="damaged"):
        (tmp_path / "parts" / "checkpoint").write_bytes(b"nonsense")
        framewire.fuzz(BASE, out=tmp_path / "parts", **SMALL)


def test_rounds_of_islands_are_the_search_of_one_process(tmp_path: Path) -> None:
    from framewire._framewire import Islands
    from framewire.fuzzing import begin

    def apart(folder: Path, **asked: object) -> int:
        search, _ = begin(BASE, generations=13, out=folder, **(SMALL | asked))
        blank, prints = search.blank()
        islands = Islands(blank)
        assert islands.prints == prints
        rounds = 0
        while jobs := search.jobs():
            search.join([islands.work(job) for job in reversed(jobs)])
            rounds += 1
        return rounds

    cases: Any = [({}, 2), ({"patience": 2}, None), ({"until": -0.9}, None)]
    for number, (asked, rounds) in enumerate(cases):
        here, there = tmp_path / f"here{number}", tmp_path / f"there{number}"
        framewire.fuzz(BASE, generations=13, out=here, **(SMALL | asked))
        took = apart(there, **asked)
        assert rounds is None or took == rounds
        assert files(here) == files(there)


def test_without_ray_the_same_call_runs_here(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(framewire.ray, "_ray", lambda: None)
    found = framewire.ray.fuzz("reno-low-rate", population=4, islands=2, generations=1, out=tmp_path)
    assert found.summary["target"] == "reno-low-rate"


class Fragile:
    """Raises where it hears of a loss."""

    def __init__(self, setup: Setup) -> None:
        self.rate = setup.initial_bps

    def on_feedback(self, report: Report) -> Decision:
        if report.lost_packets:
            raise ArithmeticError("a loss")
        return Decision(pacing_bps=self.rate, media_bps=self.rate)


framewire.register_controller("fragile", Fragile)


def test_a_controller_of_this_process_is_searched_until_it_raises(tmp_path: Path) -> None:
    flow = {"cc": "fragile", "source": "video", "initial": "1mbit", "start": "500ms"}
    scenario = BASE.set("flow", [flow])
    with pytest.raises(ArithmeticError, match="a loss"):
        framewire.fuzz(scenario, mode="loss", generations=2, out=tmp_path, **SMALL)
    assert not list(tmp_path.iterdir())
    from framewire.fuzzing import begin

    search, _ = begin(scenario, out=tmp_path, **SMALL)
    with pytest.raises(ValueError, match="class of this process"):
        search.blank()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"target": "reno-low"}, r"no target is called `reno-low`.*framewire.targets\(\)"),
        ({"target": "nowhere.toml"}, "nowhere.toml"),
        ({"target": "video", "duration": "3s"}, "by its name"),
        ({"mode": "weather"}, "weather"),
        ({"score": "bad"}, "bad"),
        ({"cc": "nobody"}, "nobody"),
        ({"score": "loss", "expression": "loss"}, "give one"),
        ({"population": 7, "islands": 2}, "7 networks on 2 islands"),
        ({"generations": 0}, "generations: 0"),
        ({"random": True, "diverse": True}, "choose one"),
        ({"target": BASE.set("link.queue", None)}, "needs a `queue`"),
        ({"threads": 0}, "threads: 0"),
    ],
)
def test_what_can_not_be_searched_is_refused(tmp_path: Path, asked: dict[str, object], words: str) -> None:
    given: Any = {"target": BASE, "out": tmp_path / "no"} | SMALL | asked
    with pytest.raises(ValueError, match=words):
        framewire.fuzz(**given)
    assert not (tmp_path / "no" / "checkpoint").exists()


def test_targets_are_listed() -> None:
    listed = framewire.targets()
    assert {"name", "summary", "cc", "seconds", "mode", "score"} == set(listed[0])
    assert "bbr-stall" in json.dumps(listed)
