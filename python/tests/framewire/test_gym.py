"""The environment: the checker of Gymnasium, the same again for the same seed, and what ends a run."""

import threading
from typing import Any

import pytest

gymnasium = pytest.importorskip("gymnasium")
np = pytest.importorskip("numpy")

import framewire.gym  # noqa: E402, F401
from framewire import Scenario  # noqa: E402
from framewire.features import FIGURES, History  # noqa: E402

LINK = {"rate": "2mbit", "delay": "20ms", "queue": "droptail:100ms"}
SHORT = Scenario(link=LINK, flow={"cc": "sqp"}, duration="3s")


def made(**options: Any) -> Any:  # noqa: ANN401
    return gymnasium.make("framewire/Rate-v0", **({"scenario": SHORT} | options))


def rate(mbps: float) -> Any:  # noqa: ANN401
    return np.array([mbps * 1e6], dtype=np.float32)


def episode(env: Any, mbps: float, **reset: Any) -> tuple[list[Any], Any]:  # noqa: ANN401
    seen = [env.reset(**reset)[0]]
    while True:
        observation, _, terminated, truncated, info = env.step(rate(mbps))
        assert not terminated
        if truncated:
            return seen, info["result"]
        seen.append(observation)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("observation", ["features", "packets"])
def test_gymnasium_finds_nothing(observation: str) -> None:
    from gymnasium.utils.env_checker import check_env

    check_env(made(observation=observation).unwrapped)


def test_the_same_seed_is_the_same_episode() -> None:
    env = made()
    first, result = episode(env, 1.0, seed=7)
    again, same = episode(env, 1.0, seed=7)
    assert result.hash == same.hash and len(first) == len(again) > 40
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))
    assert episode(env, 0.5, seed=7)[1].hash != result.hash
    env.close()


def test_features_say_what_happened() -> None:
    env = made()
    seen, result = episode(env, 1.0, seed=1)
    of = {name: seen[-1][10 * place : 10 * place + 10] for place, name in enumerate(FIGURES)}
    # Over 600 ms the encoder keeps to its rate, within a tenth.
    assert np.allclose(of["receive_bps"][5:9], 1e6, rtol=0.1)
    # 20 ms on the way and the smallest packet's time on the link, on which all figures of delay are built.
    assert 20 < of["least_delay_ms"][0] < 27
    assert (of["loss"] == 0).all() and (of["video"][5:9] == 1).all()
    too_much = episode(env, 8.0, options={"scenario": SHORT.set("seed", 3)})[0][-1]
    assert too_much[100:110].max() > 0.1 and too_much[30] > 50, "the queue is full, and drops"
    assert result.summary["flows"][0]["loss"] == 0
    env.close()


def test_packets_are_those_that_arrived() -> None:
    env = made(observation="packets")
    seen, result = episode(env, 1.0, seed=1)
    packets = [packet for observation in seen for packet in observation]
    numbers = [packet["sequence_number"] for packet in packets]
    assert numbers == list(range(len(numbers)))
    sent = result.summary["flows"][0]["packets"]["sent"]
    assert 0.9 * sent < len(packets) <= sent
    assert all(18 <= p["arrival_time_ms"] - p["send_time_ms"] <= 130 for p in packets)
    env.close()


def test_what_ends_early_leaves_no_run_behind() -> None:
    before = threading.active_count()
    env = made()
    env.reset(seed=1)
    env.step(rate(1.0))
    env.reset(seed=2)
    env.close()
    assert threading.active_count() == before
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        env.unwrapped.step(rate(1.0))
    env = made()
    env.reset(seed=1)
    with pytest.raises(ValueError, match="nan"):
        env.unwrapped.step(rate(float("nan")))
    with pytest.raises(ValueError, match="before the first step"):
        env.reset(options={"scenario": SHORT.set("duration", "50ms")})
    with pytest.raises(ValueError, match="observation"):
        made(observation="pictures")


def test_environments_run_side_by_side() -> None:
    several = gymnasium.vector.SyncVectorEnv([made, made])
    several.reset(seed=[1, 1])
    observations, *_ = several.step(np.full((2, 1), 1e6, np.float32))
    assert observations.shape == (2, 150)
    assert np.array_equal(observations[0], observations[1])
    several.close()


def test_nothing_heard_is_zeros() -> None:
    seen = History().step(60_000_000)
    assert seen.features.shape == (150,) and not seen.features.any()
    assert (seen.receive_bps, seen.queue_ms, seen.loss, seen.packets()) == (0.0, 0.0, 0.0, [])
