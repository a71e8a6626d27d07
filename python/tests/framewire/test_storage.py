"""Results in object storage, for which fsspec's memory stands here. Skipped without fsspec."""

from pathlib import Path
from typing import Any

import pytest
from pytest import MonkeyPatch

import framewire
from framewire import Scenario, storage

BASE = Scenario(link={"rate": "2mbit", "delay": "20ms"}, flow={"cc": "sqp"}, duration="1s")
VARY: dict[str, list[object]] = {"link.loss": [0.01, 0.02]}
FILES = ("runs.parquet", "groups.parquet", "report.html")


@pytest.fixture
def memory() -> Any:  # noqa: ANN401 (fsspec may be missing)
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    files.store.clear()
    return files


def test_a_sweep_in_a_bucket_is_that_of_a_folder(memory: Any, tmp_path: Path) -> None:  # noqa: ANN401
    framewire.sweep(BASE, VARY, seeds=2, out=tmp_path)
    done = framewire.sweep(BASE, VARY, seeds=2, out="memory://bucket/sweep")
    assert "memory://bucket/sweep" in repr(done)
    for name in FILES:
        assert memory.cat_file(f"/bucket/sweep/{name}") == (tmp_path / name).read_bytes()
    # From what is there: nothing is run again.
    told: list[float] = []
    framewire.sweep(BASE, VARY, seeds=2, out="memory://bucket/sweep", progress=told.append)
    assert set(told) == {1.0}
    with pytest.raises(ValueError, match="another"):
        framewire.sweep(BASE, {"link.loss": [0.03]}, seeds=2, out="memory://bucket/sweep")


def test_an_interrupted_search_goes_on_from_its_bucket(memory: Any, tmp_path: Path) -> None:  # noqa: ANN401
    link = {"rate": "4mbit", "delay": "20ms", "queue": "droptail:50p"}
    target = Scenario(name="short", link=link, flow={"cc": "newreno", "start": "500ms"}, duration="3s")
    asked: Any = {"population": 24, "islands": 2}
    # When it is interrupted is the clock's matter: after a generation at least, and far from its end.
    many = 100_000

    def enough(share: float) -> None:
        if share * many >= 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        framewire.fuzz(target, out="memory://bucket/search", generations=many, progress=enough, **asked)
    assert memory.exists("/bucket/search/checkpoint")
    done = framewire.fuzz(target, out="memory://bucket/search", generations=1, **asked).summary["generations"]
    assert done >= 1
    found = framewire.fuzz(target, out="memory://bucket/search", generations=done + 2, **asked)
    assert len(found.summary["history"]) == 2
    whole = framewire.fuzz(target, out=tmp_path, generations=done + 2, **asked)
    assert memory.cat_file("/bucket/search/checkpoint") == (tmp_path / "checkpoint").read_bytes()
    assert found.best.scenario.text == whole.best.scenario.text


def test_what_goes_on_for_long_is_sent_before_its_end(memory: Any, monkeypatch: MonkeyPatch) -> None:  # noqa: ANN401
    monkeypatch.setattr(storage, "SEND_EVERY_S", 0.0)
    place = storage.Place("memory://bucket/place")
    (place.folder / "a").mkdir()
    (place.folder / "a" / "b").write_text("one")
    place.send()
    assert memory.cat_file("/bucket/place/a/b") == b"one"
    (place.folder / "a" / "b").unlink()
    place.send()
    assert not memory.exists("/bucket/place/a/b")


def test_a_url_without_fsspec_is_refused(monkeypatch: MonkeyPatch) -> None:
    def none(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(storage, "import_module", none)
    with pytest.raises(ValueError, match="pip install fsspec, or give a folder"):
        framewire.sweep(BASE, VARY, out="s3://bucket/sweep")
