"""Scenarios, runs and what they give."""

import json
import os
import pickle
import signal
import subprocess
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

import framewire
from framewire import Scenario, _framewire

TEXT = """\
duration = "3s"
[link]
rate = "5mbit"
delay = "20ms"
[[flow]]
cc = "sqp"
"""


def small(**fields: object) -> Scenario:
    given: dict[str, object] = {
        "link": {"rate": "5mbit", "delay": "20ms"},
        "flow": {"cc": "sqp"},
        "duration": "3s",
    }
    return Scenario(**(given | fields))


def test_fields_and_text_are_the_same_scenario() -> None:
    assert framewire.run(small()).hash == framewire.run(Scenario.parse(TEXT)).hash
    lossy = small(link={"rate": "5mbit", "delay": "20ms", "loss": "1%"})
    assert framewire.run(lossy, seed=2).hash != framewire.run(lossy, seed=1).hash


def test_the_hash_is_the_commands(tmp_path: Path) -> None:
    command = Path(os.environ.get("FRAMEWIRE_COMMAND", "framewire"))
    if not command.is_file():
        pytest.skip("no command was built beside the module")
    file = tmp_path / "a.toml"
    file.write_text(TEXT + 'source = "backlog"\n')
    told = subprocess.run(
        [
            command,
            "run",
            file,
            "--json",
            "--seed",
            "3",
            "--set",
            "link.rate=2mbit",
            "--out",
            tmp_path / "out",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    result = framewire.run(file, seed=3, set={"link.rate": "2mbit"})
    theirs = json.loads(told.stdout)
    assert theirs["hash"] == result.hash
    assert theirs["flows"] == result.summary["flows"]


def test_copies_change_and_originals_stay() -> None:
    scenario = small(seed=None)
    other = scenario.set("link.rate", "2mbit").with_cc("gcc")
    assert other.settings == {"link.rate": "2mbit", "flow[1].cc": "gcc"}
    assert (scenario.flows, other.flows) == ({"sqp": "sqp"}, {"gcc": "gcc"})
    assert (scenario.seed, scenario.duration, scenario.name) == (1, 3.0, "scenario")
    assert pickle.loads(pickle.dumps(other)) == other
    assert other.set("seed", 9).set("seed").seed == 1


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: small(link={"rate": "5mbits", "delay": "20ms"}), "link.rate: "),
        (lambda: small(lnik=1), "did you mean `link`"),
        (lambda: small(flow={"cc": "sqq"}), "no congestion controller is called `sqq`; did you mean `sqp`"),
        (lambda: small().set("flow[2].cc", "gcc"), "flow[2].cc: `flow` has 1 elements, counted from 1"),
        (lambda: small().set("link.rate", float("nan")), "link.rate: nan is no value"),
        (lambda: Scenario.parse(TEXT.replace("20ms", "20"), "x.toml"), "x.toml:4: link.delay: "),
        (lambda: Scenario.load("/nowhere/x.toml"), "/nowhere/x.toml: "),
        (lambda: small().with_cc("sqp:x=1"), "sqp has no option `x`"),
        (lambda: framewire.run(small(), duration="3"), "duration: "),
        (lambda: framewire.run(small(), tables=False).packets, "tables=False"),
        (lambda: framewire.run(small()).pictures("gcc"), "there is no flow 'gcc'; there are sqp"),
        (lambda: framewire.compare(small(), ["sqp"], threads=0), "threads: 0"),
        (
            lambda: (
                small(link={"trace": "none.trace", "delay": "1ms"})
                and framewire.run(small(link={"trace": "none.trace", "delay": "1ms"}))
            ),
            "none.trace",
        ),
    ],
)
def test_what_makes_no_sense_is_a_value_error(make: object, what: str) -> None:
    with pytest.raises(ValueError) as refused:
        make()  # type: ignore[operator]
    assert what in str(refused.value)


def test_what_no_file_could_hold_is_a_type_error() -> None:
    for make in (
        lambda: small(seed=object()),
        lambda: small(link={1: "2"}),
        lambda: framewire.run(7),  # type: ignore[arg-type]
        lambda: framewire.run(small(), progress="yes"),  # type: ignore[arg-type]
        lambda: framewire.compare(small(), "sqp"),
        lambda: small().with_cc(7),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError):
            make()


def test_a_panic_does_not_cross() -> None:
    with pytest.raises(RuntimeError, match="Framewire broke down"):
        _framewire.report_of("none", [])


def test_numpys_scalars_are_numbers() -> None:
    np = pytest.importorskip("numpy")
    assert small(seed=np.int64(5)).seed == 5
    assert small().set("seed", np.uint8(7)).seed == 7


def test_progress_is_told_and_may_end_the_run() -> None:
    shares: list[float] = []
    framewire.run(small(duration="60s"), progress=shares.append)
    assert shares == sorted(shares) and shares[-1] == 1.0

    def enough(share: float) -> None:
        raise LookupError(share)

    with pytest.raises(LookupError):
        framewire.run(small(duration="10h"), progress=enough)


def test_ctrl_c_ends_a_run_at_once() -> None:
    def press() -> None:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    pressing = threading.Thread(target=press)
    begun = time.monotonic()
    # A shell that starts this in the background has Ctrl-C ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        pressing.start()
        with pytest.raises(KeyboardInterrupt):
            framewire.run(small(duration="2h"), tables=False)
        pressing.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - begun < 10.0


def test_other_threads_go_on_meanwhile() -> None:
    done = threading.Event()
    counted = [0]

    def count() -> None:
        while not done.is_set():
            counted[0] += 1
            time.sleep(0.001)

    counting = threading.Thread(target=count)
    counting.start()
    begun = time.monotonic()
    framewire.run(small(duration="120s"), tables=False)
    took = time.monotonic() - begun
    done.set()
    counting.join()
    assert counted[0] > 50 * took


def test_a_run_is_written_as_the_command_writes_it(tmp_path: Path) -> None:
    result = framewire.run(small())
    result.write(tmp_path / "out")
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"summary.json", "scenario.toml", "packets.parquet", "frames.parquet", "report.html"} <= written
    assert json.loads((tmp_path / "out/summary.json").read_text()) == result.summary
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        result.write(tmp_path / "file")
    assert "<iframe srcdoc=" in result._repr_html_() and result.hash in result.report()


def test_controllers_are_compared(tmp_path: Path) -> None:
    both = framewire.compare(small(), ["sqp", "gcc"])
    assert [list(result.scenario.flows) for result in both] == [["sqp"], ["gcc"]]
    assert both[0].hash == framewire.run(small()).hash
    assert [run["hash"] for run in both.summary["runs"]] == [result.hash for result in both]
    assert "gcc" in both.report()
    both.write(tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text()) == both.summary


def test_what_there_is_can_be_used() -> None:
    names = [controller["name"] for controller in framewire.controllers()]
    assert {"sqp", "gcc", "copa"} <= set(names)
    for queue in framewire.queues():
        for example in queue["syntax"].split(", "):
            small(link={"rate": "5mbit", "delay": "20ms", "queue": example})
    for playout in framewire.playouts():
        assert playout["summary"] and all(option["summary"] for option in playout["options"])


def test_a_real_codec_leaves_pictures() -> None:
    np = pytest.importorskip("numpy")
    encoder = {"kind": "h264", "clip": "synthetic", "size": "320x180", "fps": 30.0}
    result = framewire.run(small(flow={"cc": "sqp", "encoder": encoder}, duration="2s"))
    pictures = result.pictures("sqp")
    assert set(pictures) == {"worst", "median"}
    worst = pictures["worst"]
    assert worst.shown.shape == worst.source.shape == (180, 320, 3) and worst.shown.dtype == np.uint8
    assert worst.shown.std() > 1 and worst.second_psnr_db <= pictures["median"].second_psnr_db
    error = ((worst.shown.astype(float) - worst.source) ** 2).mean()
    # Of RGB, the picture's own word is of luma.
    assert abs(10 * np.log10(255**2 / error) - worst.psnr_db) < 6
    assert framewire.run(small()).pictures() == {}


def test_events_are_all_that_happened() -> None:
    pytest.importorskip("numpy")
    result = framewire.run(small())
    events = result.events
    kinds = list(events["event"])
    flow = result.summary["flows"][0]
    assert kinds.count("frame_displayed") == flow["frames"]["displayed"]
    assert kinds.count("packet_sent") == len(result.packets)
    times = events["time_ns"]
    assert all(before <= after for before, after in pairwise(times))
    assert set(events["place"]) >= {"sender", "receiver", "link"}
    shown = events["event"] == "frame_displayed"
    assert set(events["flow"][shown]) == {flow["name"]}
    assert not any(value != value for value in events["frame"][shown])
