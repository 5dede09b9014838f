"""The environment of Gymnasium."""

import runpy
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import bentpipe as bp
import bentpipe.gym
from made import TEXT

# Traffic on a fast link of its own.
OTHER = """
[[link]]
name = "fast"
between = ["a", "b"]
rate = "200Mbit/s"
delay = "1ms"
queue = "1BDP"
[[flow]]
name = "other"
from = "a"
to = "b"
tcp = "cubic"
bulk = { size = "10GB" }
"""
EXAMPLE = Path(__file__).resolve().parents[1] / "examples/agents.py"


@pytest.fixture
def steered(scenario):
    return scenario.with_settings({"flow.file.tcp": "sack", "flow.file.bulk.size": "2MB"})


@pytest.mark.parametrize("step", ["rtt", "ack"])
def test_gymnasium_s_own_checker_finds_nothing(steered, step):
    check_env(gymnasium.make("bentpipe/Link-v0", scenario=steered, step=step).unwrapped)


def test_the_same_seed_and_actions_give_the_same_episode(steered):
    agents = runpy.run_path(str(EXAMPLE))
    env = bp.gym.LinkEnv(steered)
    one, other, third = (agents["episode"](env, agents["aimd"], seed) for seed in (1, 1, 2))
    assert one == other != third


def test_a_step_takes_a_round_trip_or_an_acknowledgement(steered):
    steered["link.sat.loss"] = 0.0
    keep = np.zeros(1, dtype=np.float32)
    times = {}
    for step in ("rtt", "ack"):
        env = bp.gym.LinkEnv(steered, step=step)
        _, before = env.reset(seed=1)
        gaps = []
        for _ in range(10):
            *_, information = env.step(keep)
            gaps.append(information["time_s"] - before["time_s"])
            before = information
        times[step] = np.median(gaps)
    assert 0.035 < times["rtt"] < 0.1 and times["ack"] < 0.02


def test_the_window_follows_the_actions_and_a_timeout_sets_it_to_one(steered):
    env = bp.gym.LinkEnv(steered.with_settings({"link.sat.loss": 0.0}))
    first, _ = env.reset(seed=1)
    doubled = env.step(np.array([1.0], dtype=np.float32))[0]
    halved = env.step(np.array([-1.0], dtype=np.float32))[0]
    assert doubled[0] == pytest.approx(2 * first[0]) and halved[0] == pytest.approx(first[0])
    env = bp.gym.LinkEnv(steered.with_settings({"link.sat.loss": 0.5}))
    observation, _ = env.reset(seed=3)
    while not observation[6]:
        observation, _, is_over, *_ = env.step(np.zeros(1, dtype=np.float32))
        assert not is_over
    assert observation[0] == 1.0


@pytest.mark.parametrize("mss", [536, 1448, 8948])
def test_windows_and_what_is_in_flight_are_in_segments_of_the_flow(steered, mss):
    settings = {"link.sat.loss": 0.0, "flow.file.tcp": "mine", "tcp.mine": {"preset": "sack", "mss": f"{mss}B"}}
    env = bp.gym.LinkEnv(steered.with_settings(settings))
    env.reset(seed=1)
    for _ in range(4):
        observation, *_ = env.step(np.zeros(1, dtype=np.float32))
    # The step's last acknowledgement is for two segments.
    assert observation[1] == pytest.approx(observation[0] - 2)


def test_an_episode_ends_with_the_run_or_after_its_steps(steered):
    env = bp.gym.LinkEnv(steered, max_steps=3)
    env.reset(seed=1)
    outcomes = [env.step(np.zeros(1, dtype=np.float32))[2:4] for _ in range(3)]
    assert outcomes == [(False, False), (False, False), (False, True)]
    agents = runpy.run_path(str(EXAMPLE))
    found = agents["episode"](bp.gym.LinkEnv(steered), agents["aimd"], 1)
    assert found["steps"] < 1000 and 2.7 < found["time_s"] < 20


@pytest.mark.parametrize("step", ["rtt", "ack"])
@pytest.mark.parametrize("size, stop, end_s", [("200kB", "100s", None), ("20MB", "2s", 2.0)])
def test_an_episode_ends_with_its_flow_whatever_else_runs(step, size, stop, end_s):
    other = "\n".join(['[[flow]]', 'name = "other"', 'from = "client"', 'to = "server"', 'bulk = { size = "100MB" }'])
    scenario = bp.Scenario.from_toml(TEXT + other).with_settings(
        {"flow.file.tcp": "sack", "flow.file.bulk.size": size, "flow.file.stop": stop, "stop.time": "60s"}
    )
    env = bp.gym.LinkEnv(scenario, flow="file", step=step)
    _, information = env.reset(seed=1)
    delivered, terminated = 0, False
    while not terminated:
        *_, terminated, truncated, information = env.step(np.zeros(1, dtype=np.float32))
        assert not truncated
        delivered += information["delivered_bytes"]
    if end_s is None:
        # The first step, whose data `reset` does not give, has a segment or two.
        assert information["time_s"] < 10 and 196_000 < delivered < 200_000
    else:
        assert information["time_s"] == end_s


@pytest.mark.parametrize("step", ["rtt", "ack"])
@pytest.mark.parametrize("transport", ["tcp", "quic"])
@pytest.mark.parametrize("is_alone", [True, False])
def test_the_last_window_of_data_counts(step, transport, is_alone):
    text = TEXT.replace("tcp =", f"{transport} =").replace('"20ms"', '"275ms"')
    if not is_alone:
        # Many events take place between the receiver's last byte and its acknowledgement.
        text = text.replace('["client", "server"]', '["client", "server", "a", "b"]', 1) + OTHER
    control = "sack" if transport == "tcp" else "newreno"
    scenario = bp.Scenario.from_toml(text).with_settings({f"flow.file.{transport}": control, "flow.file.bulk.size": "300kB"})
    env = bp.gym.LinkEnv(scenario, flow="file", step=step)
    env.reset(seed=1)
    rewards, delivered, terminated = [], 0, False
    while not terminated:
        _, reward, terminated, truncated, information = env.step(np.array([0.3 if step == "rtt" else 0.05], dtype=np.float32))
        assert not truncated
        rewards.append(reward)
        delivered += information["delivered_bytes"]
    # The first step, whose data `reset` does not give, has a segment or two; QUIC counts its headers.
    assert 296_000 < delivered < (300_000 if transport == "tcp" else 315_000)
    assert information["delivered_bytes"] > 0 and rewards[-1] > np.median(rewards) - 3


@pytest.mark.parametrize("step", ["rtt", "ack"])
@pytest.mark.parametrize("transport, control", [("tcp", "sack"), ("quic", "newreno")])
def test_an_episode_begins_with_the_initial_window_of_the_transport(step, transport, control):
    scenario = bp.Scenario.from_toml(TEXT.replace("tcp =", f"{transport} =")).with_settings({f"flow.file.{transport}": control})
    env = bp.gym.LinkEnv(scenario, flow="file", step=step)
    observation, _ = env.reset(seed=1)
    assert observation[0] == 10
    observation, *_ = env.step(np.zeros(1, dtype=np.float32))
    assert observation[0] == 10


def test_what_cannot_be_is_told(steered, scenarios):
    with pytest.raises(bp.InputError, match="step = byte: allowed rtt, ack"):
        bp.gym.LinkEnv(steered, step="byte")
    with pytest.raises(bp.InputError, match="reset the environment first"):
        bp.gym.LinkEnv(steered).step(np.zeros(1))
    for seed in (-1, 1 << 64, 1.9, "1", True):
        with pytest.raises(bp.InputError, match="seed = .*: expected a whole number from 0"):
            bp.gym.LinkEnv(steered).reset(options={"seed": seed})
    with pytest.raises(bp.ScenarioError, match="has no flow flie; it has file"):
        bp.gym.LinkEnv(steered, flow="flie").reset()
    with pytest.raises(bp.ScenarioError, match="scenario has several: name one"):
        bp.gym.LinkEnv(scenarios / "sharing.toml").reset()


def test_the_example_runs(scenarios, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["agents.py", str(scenarios / "geo-bulk.toml")])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    random, aimd = capsys.readouterr().out.splitlines()
    assert random.startswith("random: steps ") and aimd.startswith("AIMD: steps ")
