"""Tables, as data frames take them."""

import gc
from pathlib import Path
from typing import Any

import pytest

import framewire

TABLES = ("packets", "frames", "link", "decisions")


@pytest.fixture(scope="module")
def result() -> framewire.Result:
    link = {"rate": "2mbit", "delay": "20ms", "loss": "3%", "queue": "droptail:10p"}
    return framewire.run(framewire.Scenario(link=link, flow=[{"cc": "gcc"}, {"cc": "sqp"}], duration="3s"))


def test_columns_are_arrays(result: framewire.Result) -> None:
    np = pytest.importorskip("numpy")
    packets = result.packets
    assert packets["size"].dtype == np.int64 and packets["arrived_ns"].dtype == np.float64
    assert packets["retransmission"].dtype == bool and set(packets["flow"]) == {"gcc", "sqp"}
    lost = np.isnan(packets["arrived_ns"])
    assert 0 < lost.sum() < len(packets) / 2
    late = result.frames["late"]
    assert late.dtype == object and any(value is None for value in late)
    with pytest.raises(KeyError):
        packets["nothing"]
    for name in TABLES:
        assert all(getattr(result, name).columns.values()), name


def test_flows_are_rows_of_the_summary(result: framewire.Result) -> None:
    flows = result.flows
    summary = result.summary["flows"]
    assert list(flows["flow"]) == [flow["name"] for flow in summary]
    assert list(flows["throughput_bps"]) == [flow["throughput_bps"] for flow in summary]
    assert list(flows["frame_delay_ms_p95"]) == [flow["frame_delay_ms"]["p95"] for flow in summary]


def test_pyarrow_reads_what_is_written_to_parquet(result: framewire.Result, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    result.write(tmp_path)
    for name in TABLES:
        ours = getattr(result, name).to_pyarrow()
        ours.validate(full=True)
        assert ours.equals(parquet.read_table(tmp_path / f"{name}.parquet")), name
        assert ours.schema.metadata[b"hash"].decode() == result.hash
    about = ours.schema.field("value").metadata[b"about"].decode()
    assert about == result.decisions.columns["value"]


def test_memory_is_shared_and_outlives_the_result() -> None:
    pa = pytest.importorskip("pyarrow")
    scenario = framewire.Scenario(link={"rate": "5mbit", "delay": "20ms"}, flow={"cc": "sqp"}, duration="3s")
    result = framewire.run(scenario)
    first, second = (pa.table(result.packets)["sent_ns"].chunk(0) for _ in range(2))
    assert first.buffers()[1].address == second.buffers()[1].address
    expected = first.to_pylist()
    del result, second
    gc.collect()
    assert first.to_pylist() == expected
    # A schema and a stream that nobody reads are let go by themselves.
    unread: list[Any] = [framewire.run(scenario).flows.__arrow_c_stream__() for _ in range(3)]
    del unread
    gc.collect()


def test_an_empty_table_has_its_columns() -> None:
    pytest.importorskip("pyarrow")
    link = {"rate": "5mbit", "delay": "20ms"}
    # It starts just before the end: nothing is coded yet.
    flow = {"cc": "sqp", "start": "999ms"}
    result = framewire.run(framewire.Scenario(link=link, flow=flow, duration="1s"))
    table = result.packets.to_pyarrow()
    assert table.num_rows == len(result.packets) == 0 and "sent_ns" in table.column_names
    assert len(result.packets["sent_ns"]) == 0


def test_polars(result: framewire.Result) -> None:
    pytest.importorskip("polars")
    frame = result.packets.to_polars()
    assert frame.height == len(result.packets) and frame["size"].sum() == int(result.packets["size"].sum())


def test_pandas(result: framewire.Result) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = result.packets.to_pandas()
    assert len(frame) == len(result.packets) and list(frame.columns) == list(result.packets.columns)


def test_duckdb(result: framewire.Result) -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    packets = result.packets.to_pyarrow()
    [(count,)] = duckdb.sql("select count(*) from packets").fetchall()
    assert count == len(packets)
