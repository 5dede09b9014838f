"""An environment of Gymnasium for learning congestion controls: an agent sets the window of one flow.

    import gymnasium
    import bentpipe.gym

    env = gymnasium.make("bentpipe/Link-v0", scenario="geo-bulk.toml", variant="cubic")

An action scales the window by two to its power: -1 halves it, 0 keeps it, 1 doubles it. An observation is, for the step that has
ended: the window and the data in flight (segments of the connection), the smoothed and the smallest round-trip time (s), what was delivered
(Mbit/s), what was found lost (segments) and how often the retransmission timer expired. A timeout sets the window to one segment.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bentpipe._bentpipe import Episode, InputError, Observation
from bentpipe.scenarios import Scenario, choose_variants, whole

Reward = Callable[[Observation], float]
"""What a step is worth."""

# What observations do not exceed behind the window and the data in flight: times in seconds, Mbit/s, segments, timeouts.
_HIGHEST = (1e3, 1e3, 1e6, 1e6, 1e3)
# Seeds of runs that an environment draws.
_SEEDS = 2**31


def power(observation: Observation, *, delay: float = 0.5) -> float:
    """log2 of the throughput in Mbit/s less `delay` times log2 of the round-trip time over the smallest: an objective of Winstein
    and Balakrishnan (TCP ex Machina, 2013). Throughputs below 1 kbit/s count as that."""
    throughput = max(_mbps(observation), 1e-3)
    stretch = observation.srtt_s / observation.min_rtt_s if observation.min_rtt_s > 0 else 1.0
    return math.log2(throughput) - delay * math.log2(max(stretch, 1.0))


class LinkEnv(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """A scenario in which an agent sets the congestion window of `flow` (by default the only TCP flow), once a round trip
    (`step="rtt"`) or with each acknowledgement (`step="ack"`).

    An episode is a run with a seed drawn by the environment, or with `options={"seed": ...}` of `reset`. It ends when the flow's last data are
    acknowledged, or with the run, and is cut short after `max_steps`. The scenario's recovery must leave the window alone: newreno, sack or rack.
    """

    metadata = {"render_modes": []}

    def __init__(
        self,
        scenario: Scenario | str | os.PathLike[str],
        *,
        flow: str | None = None,
        variant: str | None = None,
        step: str = "rtt",
        max_steps: int = 1000,
        max_window: float = 1e5,
        reward: Reward = power,
    ) -> None:
        if step not in ("rtt", "ack"):
            raise InputError(f"step = {step}: allowed rtt, ack")
        self._experiment = Scenario.of(scenario).check()
        self._variant = choose_variants(self._experiment, None if variant is None else [variant])[0]
        self._flow, self._by_ack = flow, step == "ack"
        self._max_steps, self._max_window, self._reward = max_steps, max_window, reward
        self._episode: Episode | None = None
        self._window, self._steps = 1.0, 0
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        highest = np.array([max_window, max_window, *_HIGHEST], dtype=np.float32)
        self.observation_space = spaces.Box(np.zeros(7, dtype=np.float32), highest, dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begins a run, and goes on to the first step's end. The information has the run's seed."""
        super().reset(seed=seed)
        chosen = (options or {}).get("seed")
        run = int(self.np_random.integers(1, _SEEDS)) if chosen is None else whole(chosen)
        if run is None or not 0 <= run < 1 << 64:
            raise InputError(f"seed = {chosen!r}: expected a whole number from 0 to 2^64 - 1")
        self._episode = Episode(self._experiment, self._variant, run, self._flow, self._by_ack)
        self._steps = 0
        observation = self._episode.step()
        self._window = max(observation.cwnd, 1.0)
        return self._numbers(observation), {"seed": run, "time_s": observation.time_s}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Scales the window and goes on to the step's end."""
        if self._episode is None:
            raise InputError("step: reset the environment first")
        exponent = float(np.clip(np.asarray(action, dtype=np.float64).reshape(-1)[0], -1.0, 1.0))
        wanted = min(max(self._window * 2.0**exponent, 1.0), self._max_window)
        observation = self._episode.step(wanted)
        # A timeout has set it to one segment.
        self._window = 1.0 if observation.timeouts else wanted
        self._steps += 1
        is_over = observation.is_over
        if is_over:
            self._episode = None
        is_long = self._steps >= self._max_steps and not is_over
        information = {"time_s": observation.time_s, "delivered_bytes": observation.delivered_bytes}
        return self._numbers(observation), self._reward(observation), is_over, is_long, information

    def _numbers(self, observation: Observation) -> NDArray[np.float32]:
        # Before the connection is established nothing is in flight.
        segment = observation.mss or 1
        numbers = [
            observation.cwnd,
            observation.in_flight_bytes / segment,
            observation.srtt_s,
            observation.min_rtt_s,
            _mbps(observation),
            observation.lost_bytes / segment,
            observation.timeouts,
        ]
        return np.minimum(np.array(numbers, dtype=np.float32), self.observation_space.high)


def _mbps(observation: Observation) -> float:
    return observation.delivered_bytes * 8e-6 / observation.elapsed_s if observation.elapsed_s > 0 else 0.0


gymnasium.register("bentpipe/Link-v0", entry_point="bentpipe.gym:LinkEnv")
