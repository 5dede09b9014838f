"""Simulations: results, tables, limits, interrupts."""

import concurrent.futures
import copy
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow
import pytest

import bentpipe as bp
from made import TEXT, ticks_of_another_thread


def _same(table):
    return table


def test_results_are_those_of_the_command(scenarios, command):
    file = scenarios / "geo-bulk.toml"
    done = subprocess.run([command, "simulate", file, "--seeds", "2", "--variants", "cubic,bbr", "--json"], capture_output=True, check=True)
    flows = bp.simulate(file, seeds=2, variants=["cubic", "bbr"], record=False).flows.to_polars().to_dicts()
    expected = [flow | {"seed": run["seed"], "variant": run["variant"]} for run in json.loads(done.stdout)["runs"] for flow in run["flows"]]
    assert len(flows) == len(expected) == 4
    for flow, wanted in zip(flows, expected):
        for key in ("variant", "seed", "name", "bytes", "start_s", "end_s", "goodput_bps", "retransmissions", "rtos"):
            assert flow[key] == wanted[key], key


VARIANTS = """
[seeds]
count = 2
[variants.few]
[variants.others]
"seeds.first" = 5
"seeds.count" = 3
"""


@pytest.mark.parametrize("controls", [None, bp.CongestionControl])
def test_a_variant_that_the_simulator_refuses_is_refused_before_the_first_run(scenarios, controls):
    text = (scenarios / "gateways.toml").read_text().partition("[variants.")[0]
    variants = '[variants.sound]\n[variants.unsound]\n"link.sat.rate" = "unlimited"\n"link.sat.queue" = "100packets"\n'
    ended = []
    # Gateways need the rates of their links.
    with pytest.raises(bp.ScenarioError, match="run unsound.*: gateway .* have no rate"):
        bp.simulate(bp.Scenario.from_toml(text + variants), seeds=1, jobs=1, controls=controls, progress=lambda done, total: ended.append(done))
    assert ended == []


@pytest.mark.parametrize("seeds, expected", [(None, [1, 2, 5, 6, 7]), (1, [1, 5]), ([8, 9], [8, 9, 8, 9])])
def test_each_variant_has_its_own_seeds(seeds, expected):
    scenario = bp.Scenario.from_toml(TEXT + VARIANTS)
    assert bp.simulate(scenario, seeds=seeds).runs["seed"].tolist() == expected
    assert len(bp.sweep(scenario, {"link.sat.loss": [1e-3]}, seeds=seeds)) == len(expected)


def test_seeds_that_can_be_gone_through_once_are_for_every_variant():
    scenario = bp.Scenario.from_toml(TEXT + VARIANTS)
    assert bp.simulate(scenario, seeds=iter([8, 9])).runs["seed"].tolist() == [8, 9, 8, 9]
    assert bp.simulate(scenario, seeds=1, variants="others").runs["seed"].tolist() == [5]


def test_any_number_of_jobs_gives_the_same(scenario):
    tables = [bp.simulate(scenario, seeds=8, jobs=jobs) for jobs in (1, 4)]
    for name in ("runs", "flows", "links", "samples", "queues"):
        one, other = (getattr(result, name).to_polars() for result in tables)
        assert one.equals(other) and len(one) >= 8, name


def test_results_and_tables_pass_from_process_to_process(scenario):
    result = bp.simulate(scenario, seeds=3)
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        passed = pool.submit(bp.simulate, scenario, seeds=3).result()
        runs = pool.submit(_same, result.runs).result()
    for name in ("runs", "flows", "links", "samples", "queues", "capacity"):
        assert getattr(result, name).to_polars().equals(getattr(passed, name).to_polars()), name
    assert runs.to_polars().equals(result.runs.to_polars())
    assert passed.trace("cwnd").to_polars().equals(result.trace("cwnd").to_polars())
    again = copy.deepcopy(result)
    assert (again.wall_s, again.cpu_s) == (result.wall_s, result.cpu_s) and again.wall_s > 0
    assert repr(again) == repr(result)


def test_a_limit_keeps_its_result_from_process_to_process(scenario):
    scenario["stop.max_events"] = 100
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool, pytest.raises(bp.LimitError) as error:
        pool.submit(bp.simulate, scenario, seeds=2).result()
    assert list(error.value.result.runs["stopped"]) == ["event_limit"] * 2


def test_traces_go_to_arrow_without_a_copy_and_without_texts(scenario):
    trace = bp.simulate(scenario, seeds=2).trace("cwnd", "ssthresh")
    table = pyarrow.table(trace)
    assert table.column_names == ["run", "flow", "time_s", "cwnd_bytes", "ssthresh_bytes"]
    assert not any(pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type) for column in table.columns)
    address = [pyarrow.table(trace)["cwnd_bytes"].chunk(0).buffers()[1].address for _ in range(2)]
    assert address[0] == address[1], "both tables lie on the same memory"
    assert (trace["cwnd_bytes"] == table["cwnd_bytes"].to_numpy()).all()
    assert np.isnan(trace["ssthresh_bytes"]).sum() == table["ssthresh_bytes"].null_count
    assert trace.to_polars()["cwnd_bytes"].max() > 14_480


def test_what_is_not_there_is_told(scenario):
    result = bp.simulate(scenario)
    with pytest.raises(KeyError, match="there are cwnd"):
        result.trace("cwdn")
    with pytest.raises(KeyError, match="there is no column bits; there are run"):
        result.flows["bits"]
    with pytest.raises(bp.ScenarioError, match="no variant cubic"):
        bp.simulate(scenario, variants="cubic")
    for seeds in (0, [], [-1]):
        with pytest.raises(bp.ScenarioError, match="expected a count of 1 or more"):
            bp.simulate(scenario, seeds=seeds)


def test_the_object_may_change_while_a_run_goes_on(scenario):
    seen = []

    def change(done, total):
        scenario["flow.file.bulk.size"] = "1kB"
        seen.append((done, total))

    result = bp.simulate(scenario, seeds=5, jobs=1, progress=change)
    assert set(result.flows["bytes"].tolist()) == {200_000}
    assert seen == [(done, 5) for done in range(1, 6)]


def test_an_exception_of_the_progress_ends_the_runs(scenario):
    def refuse(done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        bp.simulate(scenario, seeds=1000, progress=refuse)


def test_a_run_at_its_limit_is_an_error(scenario):
    scenario["stop.max_events"] = 100
    with pytest.raises(bp.LimitError, match="2 runs stopped at a limit, the first of them seed 1, at its limit of events") as error:
        bp.simulate(scenario, seeds=2)
    assert list(error.value.result.runs["stopped"]) == ["event_limit"] * 2
    assert bp.LimitError("").result is None


@pytest.mark.parametrize("seeds", ["12", b"1", 1.5, [1.5], [True], True, 10**30, np.array([[1]]), 0, [], [-1], [1 << 64]])
def test_seeds_that_are_none_are_refused(scenario, seeds):
    with pytest.raises(bp.ScenarioError, match="expected a count of 1 or more"):
        bp.simulate(scenario, seeds=seeds)


@pytest.mark.parametrize("seeds, found", [(np.int64(2), [1, 2]), (np.array([3, 5]), [3, 5]), (range(2, 4), [2, 3])])
def test_seeds_may_be_numpy_s(scenario, seeds, found):
    assert bp.simulate(scenario, seeds=seeds).runs["seed"].tolist() == found


@pytest.mark.parametrize("jobs", [0, -1, 10**30, 1.5, "2", True])
def test_jobs_that_are_none_are_refused(scenario, jobs):
    for call in (lambda: bp.simulate(scenario, jobs=jobs), lambda: bp.sweep(scenario, {"link.sat.loss": [0.0]}, jobs=jobs)):
        with pytest.raises(bp.InputError, match="jobs = .*expected a whole number from 1"):
            call()


def test_no_variants_are_refused(scenario):
    with pytest.raises(bp.ScenarioError, match=r"variants = \[\]: expected"):
        bp.simulate(scenario, variants=[])


def test_a_table_has_its_columns_in_it(scenario):
    runs = bp.simulate(scenario).runs
    assert "seed" in runs and "sed" not in runs and 1 not in runs
    assert list(runs) == runs.columns


def test_capacity_says_by_which_kind_it_was_allocated(scenarios):
    scenario = bp.Scenario.from_file(scenarios / "dama.toml")
    scenario["record.capacity"] = True
    capacity = bp.simulate(scenario).capacity
    parts = sum(capacity[name] for name in ("cra_bps", "rbdc_bps", "vbdc_bps", "fca_bps"))
    assert np.allclose(parts, capacity["allocated_bps"]) and parts.max() > 0


def test_other_threads_of_python_go_on(scenario):
    scenario["flow.file.bulk.size"] = "20MB"
    assert ticks_of_another_thread(lambda: bp.simulate(scenario, seeds=4, jobs=1, record=False)) >= 3


# Programs that a shell starts in the background ignore Ctrl-C.
LONG = """
import bentpipe as bp, signal, sys
from concurrent.futures import ThreadPoolExecutor
signal.signal(signal.SIGINT, signal.default_int_handler)
scenario = bp.Scenario.from_file(sys.argv[1])
for key in ("flow.file.bulk.size",):
    scenario[key] = "500GB"
scenario["stop.time"] = "1000000s"
print("begun", flush=True)
try:
    if sys.argv[2] == "simulate":
        bp.simulate(scenario, variants="cubic", record=False)
    elif sys.argv[2] == "sweep":
        bp.sweep(scenario, {"link.sat.loss": [0.0, 1e-5]}, variants="cubic")
    else:
        with ThreadPoolExecutor(2) as executor:
            bp.sweep(scenario, {"link.sat.loss": [0.0, 1e-5]}, variants="cubic", executor=executor)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("what", ["simulate", "sweep", "sweep on an executor"])
def test_ctrl_c_ends_it_at_once(scenarios, what):
    child = subprocess.Popen([sys.executable, "-c", LONG, scenarios / "geo-bulk.toml", what], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "begun\n"
        time.sleep(1)
        assert child.poll() is None, "it would take minutes"
        begun = time.monotonic()
        os.kill(child.pid, signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        child.wait(timeout=20)
        assert time.monotonic() - begun < 10
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_import_loads_neither_numpy_nor_matplotlib():
    code = "import sys, bentpipe; print(sorted({'numpy', 'matplotlib', 'polars', 'pyarrow'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# None among the modules keeps one from being imported, as if it were not installed.
BARE = """
import sys
sys.modules |= dict.fromkeys(["gymnasium", "matplotlib"])
import bentpipe as bp
from bentpipe import *
print(simulate is bp.simulate, [hasattr(bp, name) for name in ("gym", "plots", "model", "nothing")])
try:
    bp.gym
except AttributeError as error:
    print(error)
try:
    import bentpipe.plots
except ModuleNotFoundError as error:
    print(error.name.partition(".")[0])
"""


def test_what_optional_packages_would_bring_is_missing_without_them():
    done = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True, check=False)
    expected = ["True [False, False, True, False]", "bentpipe.gym needs gymnasium, which is not installed", "matplotlib"]
    assert done.stdout.splitlines() == expected, done.stderr


def test_every_column_is_an_array(scenario):
    flows = bp.simulate(scenario, seeds=2).flows
    assert all(isinstance(flows[name], np.ndarray) and len(flows[name]) == len(flows) for name in flows)
    assert flows["complete"].dtype == bool and flows["complete"].all()
    assert flows["goodput_bps"][flows["name"] == "file"].size == 2
    assert flows["goodput_bps"][flows["name"] == "fil"].size == 0


REFUSED = """
import sys, bentpipe as bp
from bentpipe import _bentpipe

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            raise KeyboardInterrupt

scenario = bp.Scenario.from_file(sys.argv[1])
found = _bentpipe.simulate(scenario.check(), [(0, 1)], 1, False)
sys.meta_path.insert(0, Refuse())
for call in (lambda: found.runs["seed"], lambda: bp.simulate(scenario, progress=print), lambda: bp.sweep(scenario, {}, progress=print)):
    try:
        call()
    except KeyboardInterrupt:
        print("interrupted")
del sys.meta_path[0]
print(found.runs["seed"].tolist())
"""


def test_an_exception_while_numpy_is_imported_is_raised_before_any_run_and_costs_no_table(scenario, tmp_path):
    (tmp_path / "scenario.toml").write_text(scenario.to_toml())
    done = subprocess.run([sys.executable, "-c", REFUSED, tmp_path / "scenario.toml"], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["interrupted"] * 3 + ["[1]"], done.stderr
