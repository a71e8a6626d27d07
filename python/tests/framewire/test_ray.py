"""Sweeps on a cluster of two nodes, one of which is lost on the way. Skipped where Ray is not installed."""

import threading
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


def test_a_lost_node_leaves_no_trace_in_the_table(tmp_path: Path) -> None:
    ray: Any = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    framewire.sweep(BASE, VARY, seeds=10, out=tmp_path / "here")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second: Any = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False)
    began: list[float] = []

    def progress(share: float) -> None:
        if share >= 0.25 and not began:
            began.append(share)
            # From another thread: this one is waiting for results.
            threading.Thread(
                target=cluster.remove_node, args=(second,), kwargs={"allow_graceful": False}
            ).start()

    try:
        done = framewire.ray.sweep(BASE, VARY, seeds=10, batch=2, out=tmp_path / "ray", progress=progress)
        deadline = time.monotonic() + 60
        while sum(node["Alive"] for node in ray.nodes()) > 1 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert sum(node["Alive"] for node in ray.nodes()) == 1
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert began
    assert len(done.runs) == 40
    for name in FILES:
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
