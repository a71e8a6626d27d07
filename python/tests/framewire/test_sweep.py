"""Sweeps: the command's, resumed, pickled, and refused."""

import pickle
from pathlib import Path

import pytest

import framewire
from framewire import Scenario
from framewire.sweeping import Plan

LINK = {"rate": "2mbit", "delay": "20ms", "loss": "1%"}
BASE = Scenario(link=LINK, flow={"cc": "sqp"}, duration="1s")
VARY: dict[str, list[object]] = {"flow[1].cc": ["sqp", "gcc"], "link.loss": [None, 0.02]}
FILES = ("runs.parquet", "groups.parquet", "report.html")


def files(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in FILES]


def test_a_sweep_is_two_tables_and_a_page(tmp_path: Path) -> None:
    told: list[float] = []
    done = framewire.sweep(BASE, VARY, seeds=2, out=tmp_path / "a", progress=told.append)
    assert (len(done.runs), len(done.groups)) == (8, 4)
    assert list(done.runs["flow[1].cc"]) == ["sqp"] * 4 + ["gcc"] * 4
    assert told[-1] == 1.0
    assert done.summary["runs"] == 8
    assert "iframe" in done._repr_html_()
    means = done.groups["throughput_bps_mean"]
    of_first = done.runs["throughput_bps"][:2]
    assert means[0] == pytest.approx(of_first.mean())


def test_runs_made_elsewhere_give_the_same_bytes(tmp_path: Path) -> None:
    framewire.sweep(BASE, VARY, seeds=2, out=tmp_path / "whole", jobs=2)
    plan = Plan(BASE, VARY, seeds=2)
    from framewire._framewire import Journal

    journal = Journal(plan._plan, tmp_path / "parts", False)
    journal.append(plan.lines([5, 1]))
    assert journal.missing() == [0, 2, 3, 4, 6, 7]
    with pytest.raises(ValueError, match="missing"):
        journal.finish()
    del journal
    # Another process would have been given the plan so.
    elsewhere = pickle.loads(pickle.dumps(plan))
    journal = Journal(plan._plan, tmp_path / "parts", False)
    for run in journal.missing():
        journal.append(elsewhere.lines([run]))
    journal.finish()
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    with pytest.raises(ValueError, match="no run of this plan"):
        journal.append(["{}"])
    with pytest.raises(ValueError, match="run 8 of 8"):
        plan.lines([8])


def test_another_plan_of_the_same_name_is_refused(tmp_path: Path) -> None:
    trace = tmp_path / "a.trace"
    trace.write_text("1\n2\n3\n")
    base = Scenario(link={"trace": str(trace), "delay": "20ms"}, flow={"cc": "sqp"}, duration="1s")
    pickled = pickle.dumps(Plan(base, {"link.delay": ["1ms"]}, seeds=[7]))
    trace.write_text("1\n2\n4\n")
    with pytest.raises(ValueError, match="the files that scenarios name of this worker"):
        pickle.loads(pickled)


def test_what_makes_no_scenario_is_said_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"link\.rate"):
        framewire.sweep(BASE, {"link.rate": ["2mbit", "fast"]}, out=tmp_path)
    with pytest.raises(ValueError, match=r"flow\[2\]"):
        framewire.sweep(BASE, {"flow[2].cc": ["sqp"]}, out=tmp_path)
    with pytest.raises(TypeError, match="are a list"):
        framewire.sweep(BASE, {"link.rate": "2mbit"}, out=tmp_path)
    with pytest.raises(ValueError, match="seeds: 0"):
        framewire.sweep(BASE, VARY, seeds=0, out=tmp_path)
    with pytest.raises(ValueError, match="jobs: 0"):
        framewire.sweep(BASE, VARY, jobs=0, out=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_class_of_this_process_is_refused(tmp_path: Path) -> None:
    class Still:
        def __init__(self, setup: framewire.Setup) -> None:
            self.decision = framewire.Decision(pacing_bps=1e6, media_bps=1e6)

        def on_feedback(self, report: framewire.Report) -> framewire.Decision:
            return self.decision

    framewire.register_controller("still-of-sweeps", Still)
    with pytest.raises(ValueError, match="`still-of-sweeps` is a class of this process"):
        framewire.sweep(BASE, {"flow[1].cc": ["sqp", "still-of-sweeps"]}, out=tmp_path)


def test_a_function_of_progress_that_raises_ends_it(tmp_path: Path) -> None:
    def stop(share: float) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        framewire.sweep(BASE, VARY, seeds=2, out=tmp_path, progress=stop)
    done = framewire.sweep(BASE, VARY, seeds=2, out=tmp_path)
    assert len(done.runs) == 8
    with pytest.raises(ValueError, match="another sweep"):
        framewire.sweep(BASE, VARY, seeds=3, out=tmp_path)
