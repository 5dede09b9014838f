"""Two agents in the environment of Gymnasium: `python python/examples/agents.py [SCENARIO]`.

One scales the window at random; the other is AIMD: a segment more each round trip, half of the window at a loss.
"""

import math
import sys
from collections.abc import Callable

import gymnasium
import numpy as np

import bentpipe.gym  # noqa: F401  (registers the environment)

Agent = Callable[[np.ndarray], np.ndarray]


def aimd(observation: np.ndarray) -> np.ndarray:
    """A segment more each round trip, half of the window at a loss."""
    cwnd, lost = observation[0], observation[5]
    exponent = -1.0 if lost > 0 else math.log2((cwnd + 1) / cwnd)
    return np.array([exponent], dtype=np.float32)


def random_agent(env: gymnasium.Env, seed: int) -> Agent:
    """Any action, equally likely."""
    env.action_space.seed(seed)
    return lambda observation: env.action_space.sample()


def episode(env: gymnasium.Env, agent: Agent, seed: int) -> dict[str, float]:
    """One run: its steps, the mean reward, and the time that the flow took."""
    observation, information = env.reset(seed=seed)
    rewards = []
    is_over = False
    while not is_over:
        observation, reward, terminated, truncated, information = env.step(agent(observation))
        rewards.append(reward)
        is_over = terminated or truncated
    return {"steps": len(rewards), "reward": sum(rewards) / len(rewards), "time_s": information["time_s"]}


if __name__ == "__main__":
    scenario = sys.argv[1] if len(sys.argv) > 1 else "scenarios/geo-bulk.toml"
    env = gymnasium.make("bentpipe/Link-v0", scenario=scenario, variant="sack", max_steps=300)
    for name, agent in (("random", random_agent(env, 1)), ("AIMD", aimd)):
        found = [episode(env, agent, seed) for seed in range(1, 4)]
        means = {key: sum(run[key] for run in found) / len(found) for key in found[0]}
        print(f"{name}: " + ", ".join(f"{key} {value:.2f}" for key, value in means.items()))
