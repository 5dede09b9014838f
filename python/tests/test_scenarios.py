"""Scenarios: from text, from files, built in Python, changed."""

import copy
import os
from datetime import timedelta

import numpy as np
import pickle
import pytest

import bentpipe as bp


def built(**flow):
    return bp.Scenario(
        nodes=["client", "server"],
        link=[{"name": "sat", "between": ["client", "server"], "rate": "6Mbit/s", "delay": timedelta(milliseconds=20), "loss": np.float64(1e-3), "queue": "1BDP"}],
        flow=[{"name": "file", "from": "client", "to": "server", "tcp": "cubic", "bulk": {"size": "200kB"}, **flow}],
    )


def test_one_that_is_built_runs_as_the_same_from_text(scenario):
    one, other = (bp.simulate(at, seeds=3).flows.to_polars() for at in (built(), scenario))
    assert one.equals(other)


def test_numbers_of_one_that_is_built_are_exact():
    for loss in np.random.default_rng(1).random(1000).tolist():
        scenario = bp.Scenario(link=[{"name": "sat", "loss": loss}])
        assert scenario["link.sat.loss"] == loss


def test_every_fault_is_told_with_its_place_and_what_would_fit():
    with pytest.raises(bp.ScenarioError) as error:
        built(tcp="cubik", to="sever").check()
    assert len(error.value.faults) == 2
    assert "did you mean server" in str(error.value) and "did you mean cubic" in str(error.value)
    assert all(fault.startswith("scenario:") for fault in error.value.faults)
    assert isinstance(pickle.loads(pickle.dumps(error.value)), bp.ScenarioError)


@pytest.mark.parametrize("key, value, told", [("link.sat.los", 1e-3, "loss"), ("link.sat.rate", "6MBit", "6Mbit/s"), ("flow.file.tcp", "bbbr", "bbr")])
def test_a_setting_that_cannot_be_is_told_with_the_nearest(scenario, key, value, told):
    scenario[key] = value
    with pytest.raises(bp.ScenarioError, match=told):
        bp.simulate(scenario)


def test_what_is_no_setting_is_refused_at_once(scenario):
    with pytest.raises(bp.ScenarioError, match="link.sat.delay: a object is no setting"):
        scenario["link.sat.delay"] = object()


def test_settings_may_be_timedeltas_tables_and_numbers(scenario):
    scenario["link.sat.delay"] = timedelta(seconds=1, milliseconds=500)
    scenario["flow.file.bulk"] = {"size": "1kB"}
    result = bp.simulate(scenario)
    assert result.flows["bytes"].tolist() == [1000]
    assert result.flows["end_s"][0] > 4.5, "three one-way delays at least"


def test_the_latest_of_settings_that_lead_to_one_counts(scenario):
    # As when the cell of a notebook runs again.
    for loss in (0.1, 0.2):
        scenario["link.sat.loss.bernoulli"] = loss
        assert scenario["link.sat.loss"] == {"bernoulli": loss}
        scenario["link.sat.loss"] = 0
        assert scenario["link.sat.loss"] == 0


def test_settings_are_read_by_their_keys(scenario):
    assert scenario["link.sat.rate"] == "6Mbit/s" and scenario["link.0.name"] == "sat"
    scenario["link.sat.loss.bernoulli"] = 0.25
    assert scenario["link.sat.loss"] == {"bernoulli": 0.25}
    for missing in ("link.moon.loss", "link.sat.jitter", "nodes.7"):
        with pytest.raises(KeyError, match=f"{missing} is not set"):
            scenario[missing]


def test_scenarios_are_equal_if_their_text_and_changes_are(scenario):
    copy = scenario.with_settings({})
    assert copy == scenario and copy != "scenario"
    copy["stop.time"] = "9s"
    assert copy != scenario
    with pytest.raises(TypeError, match="unhashable"):
        hash(scenario)


def test_arrays_are_lists_and_what_numpy_alone_has_is_refused(scenario):
    scenario["link.sat.handover"] = {"period": "15s", "delay": ["20ms", "40ms"]}
    scenario["tcp.mine.tuning.vegas"] = np.array([1.0, 3.0, 1.0])
    assert scenario["tcp.mine.tuning.vegas"] == [1.0, 3.0, 1.0]
    with pytest.raises(bp.ScenarioError, match="is no setting"):
        scenario["link.sat.loss"] = np.longdouble(1)


def test_a_copy_with_other_settings_leaves_the_first(scenario):
    other = scenario.with_settings({"flow.file.bulk.size": "1kB"})
    assert bp.simulate(scenario).flows["bytes"][0] == 200_000
    assert bp.simulate(other).flows["bytes"][0] == 1000


def test_a_file_is_read_and_one_that_is_not_there_is_named(scenarios, tmp_path):
    assert bp.Scenario.from_file(scenarios / "geo-bulk.toml").check().variants == ["newreno", "sack", "cubic", "hybla", "bbr"]
    with pytest.raises(bp.ScenarioError, match="none.toml: No such file"):
        bp.Scenario.from_file(tmp_path / "none.toml")


def test_a_file_may_have_a_name_that_is_not_text(scenario, tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.toml")
    with pytest.raises(bp.ScenarioError, match="caf\ufffd.toml: No such file"):
        bp.Scenario.from_file(path)
    with open(path, "w") as file:
        file.write(scenario.to_toml())
    assert len(bp.simulate(path).flows) == len(bp.simulate(scenario).flows)
    with open(path, "a") as file:
        file.write("nothing = 1\n")
    with pytest.raises(bp.ScenarioError, match="caf\ufffd.toml:"):
        bp.Scenario.from_file(path)


def test_a_scenario_of_a_file_finds_what_that_names_from_any_directory(tmp_path, monkeypatch, scenario):
    (tmp_path / "steps.txt").write_text("0s 6Mbit/s\n1s 3Mbit/s\n")
    text = scenario.to_toml().replace('rate = "6Mbit/s"', 'rate = "6Mbit/s"\nrate_steps = { file = "steps.txt" }')
    (tmp_path / "moved.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    moved = bp.Scenario.from_file("moved.toml")
    assert moved == bp.Scenario.from_file(tmp_path / "moved.toml")
    monkeypatch.chdir("/")
    assert list(bp.simulate(moved).flows["name"]) == ["file"]


@pytest.mark.parametrize("copies", [copy.copy, copy.deepcopy])
def test_a_copy_is_changed_alone(scenario, copies):
    before, other = scenario.settings, copies(scenario)
    other["link.sat.loss"] = 0.5
    assert scenario.settings == before != other.settings


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float64("nan"), 1 << 63, -(1 << 63) - 1, np.uint64(1 << 63)])
def test_a_number_that_no_file_can_hold_is_named_with_its_key(scenario, value):
    with pytest.raises(bp.ScenarioError, match=r"^link.sat.loss = .*: expected a number"):
        scenario["link.sat.loss"] = value
    with pytest.raises(bp.ScenarioError, match=r"^scenario.link.*loss = .*: expected a number"):
        bp.Scenario(nodes=["a", "b"], link=[{"name": "sat", "between": ["a", "b"], "loss": value}])


def test_times_of_numpy_are_times(scenario):
    for unit, factor in [("ns", 10**6), ("us", 10**3), ("ms", 1)]:
        scenario["link.sat.delay"] = np.timedelta64(275 * factor, unit)
        assert scenario["link.sat.delay"] == "275000000ns", unit


def test_a_scenario_has_the_settings_that_are_written(scenario):
    assert "link.sat.rate" in scenario and "link" in scenario
    assert "link.sat.jitter" not in scenario and "rate" not in scenario and 0 not in scenario
    with pytest.raises(TypeError, match="not iterable"):
        list(scenario)


@pytest.mark.parametrize(
    "call",
    [
        lambda scenario, folder: bp.simulate(scenario, seeds=0),
        lambda scenario, folder: bp.simulate(scenario, seeds=[1, 1]),
        lambda scenario, folder: bp.simulate(scenario, variants=[]),
        lambda scenario, folder: bp.simulate(scenario, variants="cubic"),
        lambda scenario, folder: bp.Scenario.from_file(folder / "none.toml"),
        lambda scenario, folder: scenario.with_settings({"link.sat.loss": object()}),
        lambda scenario, folder: scenario.with_settings({"link.sat.loss": float("nan")}),
        lambda scenario, folder: scenario.with_settings({"link.sat.loss": 1 << 63}),
        lambda scenario, folder: bp.sweep(scenario, {"link.sat.loss": 0.1}),
        lambda scenario, folder: bp.sweep(scenario, {"link.sat.loss": []}),
        lambda scenario, folder: bp.sweep(scenario, {"link.sat.loss": [0.1, 0.1]}),
    ],
)
def test_faults_that_python_finds_are_in_faults_too(scenario, tmp_path, call):
    with pytest.raises(bp.ScenarioError) as error:
        call(scenario, tmp_path)
    assert error.value.faults == [str(error.value)] == pickle.loads(pickle.dumps(error.value)).faults


def test_errors_that_a_caller_makes_have_their_attributes():
    assert bp.ScenarioError("").faults == [] and bp.CommandError("").document is None
