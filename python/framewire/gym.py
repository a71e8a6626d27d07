"""A Gymnasium environment: the rate of one flow, over a simulated network.

>>> import gymnasium
>>> import framewire.gym
>>> env = gymnasium.make("framewire/Rate-v0")
>>> observation, info = env.reset(seed=7)
>>> observation.shape
(150,)
>>> observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
>>> env.close()

The scenario's first flow is the agent's: every 60 ms of virtual time it names a rate, and sees what feedback
told its sender meanwhile. Needs gymnasium and numpy.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from itertools import count
from queue import SimpleQueue
from typing import Any, ClassVar, Literal

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from .controller import Decision, Report, Setup, register_controller
from .features import FEATURES, History, Seen
from .results import Result
from .running import run
from .scenario import Scenario, scenario_of

LEAST_BPS, MOST_BPS = 10_000.0, 100_000_000.0
"""Bounds of an action."""
PACING = 1.5
"""Packets leave at so many times the media rate: a frame in two thirds of its interval."""

Observation = npt.NDArray[np.float32] | tuple[dict[str, int], ...]


def r3net(seen: Seen) -> float:
    """``0.6 ln(4 R + 1) - D - 10 L``: a reward after R3Net's (Fang et al., arXiv 1912.02222).

    R is what arrived in Mbit/s, D the mean queueing delay in seconds (R3Net: the round trip), L the share of
    packets lost; of one step.
    """
    return float(0.6 * np.log(4 * seen.receive_bps / 1e6 + 1) - seen.queue_ms / 1e3 - 10 * seen.loss)


class _Ended(Exception):
    """The environment is not interested any more."""


class _Episode:
    """A run in a thread of its own, which waits at every step for the agent, and the agent for it."""

    def __init__(self, scenario: Scenario) -> None:
        self.told: SimpleQueue[Seen | Result | BaseException] = SimpleQueue()
        self.rates: SimpleQueue[float | None] = SimpleQueue()
        self.over = False
        self.thread = threading.Thread(target=self._run, args=(scenario,), daemon=True)

    def _run(self, scenario: Scenario) -> None:
        try:
            self.told.put(run(scenario, tables=False))
        except BaseException as error:
            self.told.put(error)

    def next(self) -> Seen | Result:
        """What is seen after the next step, or what the run gave."""
        found = self.told.get()
        self.over = not isinstance(found, Seen)
        if isinstance(found, BaseException):
            raise found
        return found

    def ask(self, seen: Seen) -> float:
        """In the run's thread: the agent's next rate."""
        self.told.put(seen)
        if (rate := self.rates.get()) is None:
            raise _Ended
        return rate

    def end(self) -> None:
        """Ends the run, however far it is."""
        if not self.over and self.thread.is_alive():
            self.rates.put(None)
            self.thread.join()
        self.over = True


class _Flow:
    """The agent's controller."""

    episode: ClassVar[_Episode]
    interval_ns: ClassVar[int]

    def __init__(self, setup: Setup) -> None:
        self.history = History()
        self.decision = self._decided(float(setup.initial_bps))
        self.due_ns: int | None = None

    @staticmethod
    def _decided(rate: float) -> Decision:
        return Decision(pacing_bps=PACING * rate, media_bps=rate)

    def first(self) -> Decision:
        """At the setup's rate, until the first step."""
        return self.decision

    def on_feedback(self, report: Report) -> Decision | None:
        """Asks for a rate where a step is over; without feedback there is none."""
        self.history.hear(report)
        if self.due_ns is None:
            self.due_ns = report.now_ns + self.interval_ns
        if report.now_ns < self.due_ns:
            return None
        # On the same grid after a silence, so that no step is shorter than an interval.
        late = (report.now_ns - self.due_ns) // self.interval_ns
        self.due_ns += (1 + late) * self.interval_ns
        return self._decided(self.episode.ask(self.history.step(report.now_ns)))


_names = (f"env-rate-{number}" for number in count(1))


class Rate(gymnasium.Env[Observation, npt.NDArray[np.float32]]):
    """Names the rate of a scenario's first flow, step by step; ``framewire/Rate-v0``.

    An action is a rate in bit/s, of shape ``(1,)``, 10 kbit/s to 100 Mbit/s: advice for the encoder; packets
    leave at 1.5 times of it. A step is ``interval_ms`` of virtual time, or longer while no feedback comes. An
    episode is a run: it is truncated at the scenario's end, where ``info["result"]`` is its
    :class:`framewire.Result`.

    Parameters
    ----------
    scenario
        A scenario, or that of a file; left out, video over 5 Mbit/s with 20 ms each way, 30 s.
        ``reset(options={"scenario": ...})`` takes another one.
    observation
        ``"features"``: the 150 features of the ACM MMSys 2024 bandwidth estimation challenge, so that models
        trained on its data take them (:mod:`framewire.features`). ``"packets"``: of each packet that arrived
        since the last step a dict as AlphaRTC hands it to an estimator.
    reward
        A function of what was :class:`framewire.features.Seen` in a step; :func:`r3net` if left out.
    interval_ms
        Virtual time between two steps.

    ``reset(seed=7)`` runs the scenario with that seed, and each later ``reset()`` with one drawn from it: the
    same actions give the same observations.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        scenario: Scenario | str | os.PathLike[str] | None = None,
        *,
        observation: Literal["features", "packets"] = "features",
        reward: Callable[[Seen], float] = r3net,
        interval_ms: float = 60.0,
        render_mode: None = None,
    ) -> None:
        if observation not in ("features", "packets"):
            raise ValueError(f'observation: "{observation}"; there are "features" and "packets"')
        if not interval_ms > 0:
            raise ValueError(f"interval_ms: {interval_ms}; a step takes some time")
        self.render_mode = render_mode
        self.scenario = _usual() if scenario is None else scenario_of(scenario)
        self.reward = reward
        self.kind = observation
        self.action_space = spaces.Box(LEAST_BPS, MOST_BPS, (1,), np.float32)
        self.observation_space: spaces.Space[Any] = (
            spaces.Box(-np.inf, np.inf, (FEATURES,), np.float32) if observation == "features" else _packets()
        )
        interval_ns = max(1, round(interval_ms * 1e6))
        self._flow = type("_AgentFlow", (_Flow,), {"interval_ns": interval_ns})
        self._name = next(_names)
        self._episode: _Episode | None = None
        self._last: Seen | None = None
        register_controller(self._name, self._flow, "The agent of an environment.")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins an episode, and goes to its first step."""
        super().reset(seed=seed)
        self.close()
        scenario = self.scenario
        if options and "scenario" in options:
            scenario = scenario_of(options["scenario"])
        seed = int(self.np_random.integers(1 << 31)) if seed is None else seed
        episode = _Episode(scenario.set("seed", seed).with_cc(self._name))
        # Whoever forgets `close` leaves no run behind.
        self._finalizer = weakref.finalize(self, episode.end)
        self._episode, self._flow.episode = episode, episode  # type: ignore[attr-defined]
        episode.thread.start()
        found = episode.next()
        if isinstance(found, Result):
            raise ValueError(f"{scenario.name}: it ended before the first step; give it more time")
        self._last = found
        return self._observed(found), {"now_ns": found.now_ns}

    def step(self, action: npt.NDArray[np.float32]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Runs at this rate until the next step."""
        if self._episode is None or self._episode.over or self._last is None:
            raise RuntimeError("no episode goes on; call reset() first")
        rate = float(np.asarray(action, dtype=np.float64).reshape(-1)[0])
        if not np.isfinite(rate):
            raise ValueError(f"action: {rate}; write a rate in bit/s")
        self._episode.rates.put(min(max(rate, LEAST_BPS), MOST_BPS))
        found = self._episode.next()
        if isinstance(found, Result):
            # Nothing was seen after the last step.
            return self._observed(self._last), 0.0, False, True, {"result": found}
        self._last = found
        info = {
            "now_ns": found.now_ns,
            "receive_bps": found.receive_bps,
            "queue_ms": found.queue_ms,
            "loss": found.loss,
        }
        return self._observed(found), float(self.reward(found)), False, False, info

    def close(self) -> None:
        """Ends the episode that goes on, if one does."""
        if self._episode is not None:
            self._finalizer()
            self._episode = None

    def _observed(self, seen: Seen) -> Observation:
        return seen.features if self.kind == "features" else tuple(seen.packets())


def _usual() -> Scenario:
    link = {"rate": "5mbit", "delay": "20ms", "queue": "droptail:200ms"}
    return Scenario(name="rate", link=link, flow={"cc": "sqp"}, duration="30s")


def _packets() -> spaces.Space[Any]:
    whole = spaces.Box(-(2**62), 2**62, (), np.int64)
    names = ("arrival_time_ms", "header_length", "padding_length", "payload_size", "payload_type")
    return spaces.Sequence(
        spaces.Dict(dict.fromkeys((*names, "send_time_ms", "sequence_number", "ssrc"), whole))
    )


gymnasium.register(id="framewire/Rate-v0", entry_point="framewire.gym:Rate")
