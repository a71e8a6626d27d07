"""Work on a cluster of two nodes, one of which is lost on the way. Skipped where Ray is not installed."""

import time
from pathlib import Path
from typing import Any

import pytest
from pytest import MonkeyPatch

import framewire
import framewire.ray
from framewire import Scenario

BASE = Scenario(link={"rate": "2mbit", "delay": "20ms"}, flow={"cc": "sqp"}, duration="4s")
VARY: dict[str, list[object]] = {"flow[1].cc": ["sqp", "gcc"], "link.loss": [None, 0.01]}
FILES = ("runs.parquet", "groups.parquet", "report.html")


def test_without_ray_the_same_call_runs_here(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(framewire.ray, "_ray", lambda: None)
    done = framewire.ray.sweep(BASE, {"link.loss": [0.01]}, seeds=2, out=tmp_path, duration="1s")
    assert len(done.runs) == 2


class Lossy:
    """A cluster of two nodes, one of which is lost once a share of the work is done."""

    def __init__(self, ray: Any, share: float) -> None:  # noqa: ANN401 (may be missing)
        from ray.cluster_utils import Cluster

        self.ray = ray
        self.share = share
        self.cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        self.second = self.cluster.add_node(num_cpus=1)
        self.cluster.wait_for_nodes()
        self.lost = False
        ray.init(address=self.cluster.address, log_to_driver=False)

    def progress(self, share: float) -> None:
        if share >= self.share and not self.lost:
            self.lost = True
            self.cluster.remove_node(self.second, allow_graceful=False)
            deadline = time.monotonic() + 60
            # Work goes on only once the node is known to be lost: it can't be done before.
            while self.alive() > 1 and time.monotonic() < deadline:
                time.sleep(0.2)

    def alive(self) -> int:
        return sum(node["Alive"] for node in self.ray.nodes())

    def __enter__(self) -> "Lossy":
        return self

    def __exit__(self, *_: object) -> None:
        self.ray.shutdown()
        self.cluster.shutdown()

    def must_have_lost(self) -> None:
        assert self.lost
        assert self.alive() == 1


def test_a_lost_node_leaves_no_trace_in_the_table(tmp_path: Path) -> None:
    ray: Any = pytest.importorskip("ray")
    framewire.sweep(BASE, VARY, seeds=10, out=tmp_path / "here")
    with Lossy(ray, 0.25) as cluster:
        there = tmp_path / "ray"
        done = framewire.ray.sweep(BASE, VARY, seeds=10, batch=2, out=there, progress=cluster.progress)
        cluster.must_have_lost()
    assert len(done.runs) == 40
    for name in FILES:
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()


def test_a_lost_node_leaves_no_trace_in_a_search(tmp_path: Path) -> None:
    ray: Any = pytest.importorskip("ray")
    asked: Any = {"population": 40, "islands": 4, "generations": 25, "seed": 2, "duration": "10s"}
    link = {"rate": "4mbit", "delay": "20ms", "queue": "droptail:50p"}
    target = Scenario(name="short", link=link, flow={"cc": "newreno", "start": "500ms"}, duration="3s")
    framewire.fuzz(target, out=tmp_path / "here", **asked)
    with Lossy(ray, 0.2) as cluster:
        there = tmp_path / "ray"
        found = framewire.ray.fuzz(target, out=there, progress=cluster.progress, **asked)
        cluster.must_have_lost()
    assert found.summary["generations"] == 25
    for name in ("checkpoint", "finding.json", "scenario.toml", "cross.instants"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
