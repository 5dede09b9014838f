"""Sweeps on the executors of the standard library: resumed, killed, interrupted."""

import os
import pickle
import signal
import subprocess
import sys
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import bentpipe as bp
from made import TEXT

GRID = {"link.sat.loss": [0.0, 1e-3, 1e-2], "flow.file.tcp": ["cubic", "bbr"]}


def serial(scenario, seeds=4):
    return bp.sweep(scenario, GRID, seeds=seeds, jobs=1).to_polars()


def test_every_point_has_every_seed_and_equals_single_runs(scenario):
    frame = serial(scenario)
    assert len(frame) == 3 * 2 * 4
    assert frame.columns[:2] == ["link.sat.loss", "flow.file.tcp"]
    one = bp.simulate(scenario.with_settings({"link.sat.loss": 1e-2, "flow.file.tcp": "bbr"}), seeds=4).flows.to_polars()
    assert frame[-4:]["goodput_bps"].equals(one["goodput_bps"])


@pytest.mark.parametrize("make", [lambda: ThreadPoolExecutor(3), lambda: ProcessPoolExecutor(2, mp_context=get_context("spawn"))])
def test_any_executor_gives_what_the_serial_run_gives(scenario, make):
    with make() as executor:
        assert bp.sweep(scenario, GRID, seeds=4, executor=executor).to_polars().equals(serial(scenario))


def test_a_sweep_makes_only_what_is_missing(scenario, tmp_path):
    counts = []
    for seeds in (2, 4, 4):
        made = []
        sweep = bp.sweep(scenario, GRID, seeds=seeds, out=tmp_path, progress=lambda done, total: made.append(done))
        counts.append((min(made, default=None), len(sweep)))
    assert counts == [(1, 12), (13, 24), (None, 24)]
    assert sweep.missing == 0 and sweep.to_polars().equals(serial(scenario))
    assert not [name for name in os.listdir(tmp_path) if not name.endswith(".parquet")]


def of_two_controls():
    """A variant whose runs depend on the settings of a TCP endpoint, and one whose runs do not."""
    variants = '[variants.ours]\n"flow.file.tcp" = "mine"\n[variants.base]\n"flow.file.tcp" = "bbr"\n'
    return bp.Scenario.from_toml(TEXT + '[tcp.mine]\npreset = "cubic"\n' + variants)


WINDOWS = {"tcp.mine.initial_window": ["4segments", "10segments", "20segments"]}


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_points_have_in_common_is_run_once_and_counted_at_each(jobs):
    counts = []
    sweep = bp.sweep(of_two_controls(), WINDOWS, seeds=20, jobs=jobs, progress=lambda done, total: counts.append((done, total)))
    frame = sweep.to_polars()
    assert frame.group_by("tcp.mine.initial_window", "variant", "seed").len()["len"].to_list() == [1] * (3 * 2 * 20)
    assert counts[-1] == (120, 120) and sweep.missing == 0
    base = [part.drop("tcp.mine.initial_window") for part in frame.filter(variant="base").partition_by("tcp.mine.initial_window")]
    assert all(part.equals(base[0]) for part in base)


def test_a_run_that_points_share_is_missing_at_each(tmp_path):
    def made(windows):
        points = [{"tcp.mine.initial_window": window} for window in windows]
        return bp.Sweep(of_two_controls(), points, 1, None, tmp_path)

    first = made(["4segments", "10segments", "20segments"])
    assert (len(first), first.missing) == (6, 6)
    assert list(first.run(jobs=1))[-1] == 6
    again = made(["2segments", "3segments"])
    assert (again.missing, list(again.run(jobs=1))) == (2, [3, 4])


@pytest.mark.parametrize("grid", [[{"flow.file.tcp": "cubic"}, {}], {"link.sat.loss": [1e-3, "1e-3"]}])
def test_points_that_are_the_same_simulation_are_refused(scenario, grid):
    with pytest.raises(bp.ScenarioError, match="grid: `.*` and `.*` are the same simulation"):
        bp.sweep(scenario, grid, seeds=2)


def test_settings_that_results_have_a_column_for_are_refused_before_the_first_run(scenario, tmp_path):
    flows = bp.sweep(scenario, {"link.sat.loss": [0.0]}).flows
    for column, value in [("name", "x"), ("version", 1)]:
        for grid in ({column: [value]}, [{"link.sat.loss": 0.0}, {column: value, "link.sat.loss": 1e-3}]):
            with pytest.raises(bp.ScenarioError, match=f"grid: {column}: the results have a column of this name"):
                bp.sweep(scenario, grid, out=tmp_path)
    # No other column is named as a setting.
    for column in set(flows) - {"name", "version"}:
        with pytest.raises(bp.ScenarioError, match=column):
            bp.sweep(scenario, {column: ["x"]}, out=tmp_path)
    assert not os.listdir(tmp_path)


def test_what_the_simulator_refuses_is_refused_before_the_first_run(scenarios, tmp_path):
    grid = {"link.sat.rate": ["6Mbit/s", "unlimited"], "link.sat.queue": ["100packets"]}
    with pytest.raises(bp.ScenarioError, match="grid: link.sat.rate=.*unlimited.*: gateway `.*`: the links .* have no rate"):
        # Gateways need the rates of their links.
        bp.sweep(scenarios / "gateways.toml", grid, seeds=1, jobs=1, out=tmp_path)
    assert not os.listdir(tmp_path)


def test_seeds_and_variants_may_come_from_a_generator(scenarios):
    grid = {"flow.file.bulk.size": ["50kB", "100kB"]}
    frame = bp.sweep(scenarios / "geo-bulk.toml", grid, seeds=(seed for seed in [1, 2]), variants=iter(["cubic", "bbr"])).to_polars()
    assert frame.equals(bp.sweep(scenarios / "geo-bulk.toml", grid, seeds=2, variants=["cubic", "bbr"]).to_polars())


def test_settings_of_numpy_are_numbers_in_the_table(scenario):
    grid = {"link.sat.loss": np.array([1e-3, 1e-2], dtype=np.float32), "flow.file.count": [np.int64(1), np.int64(2)]}
    frame = bp.sweep(scenario, grid).to_polars()
    assert [str(kind) for kind in frame.dtypes[:2]] == ["Float64", "Int64"]


def test_runs_at_their_limit_are_marked_and_the_others_there(scenario):
    grid = {"stop.max_events": [100, 1_000_000]}
    told = "2 runs stopped at a limit, the first of them stop.max_events=100, seed 1, at its limit of events"
    with pytest.raises(bp.LimitError, match=told) as error:
        bp.sweep(scenario, grid, seeds=2)
    frame = error.value.result.to_polars()
    assert frame["stop.max_events"].to_list() == [100, 100, 1_000_000, 1_000_000]
    assert frame["stopped"].to_list() == ["event_limit"] * 2 + ["complete"] * 2


def test_points_may_have_lists_and_arrays_as_settings(scenario):
    handovers = [{"period": "15s", "delay": np.array(delays)} for delays in (["20ms", "40ms"], ["30ms", "40ms"])]
    made = bp.sweep(scenario, [{"link.sat.handover": handover} for handover in handovers])
    assert len(made) == 2 == len(bp.sweep(scenario, {"link.sat.handover": handovers}))


@pytest.mark.parametrize("has_folder", [False, True])
def test_a_limit_keeps_its_sweep_from_process_to_process(scenario, tmp_path, has_folder):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, pytest.raises(bp.LimitError) as error:
        pool.submit(bp.sweep, scenario, {"stop.max_events": [100, 1_000_000]}, out=tmp_path if has_folder else None).result()
    sweep = error.value.result
    assert sweep.missing == 0 and sweep.to_polars()["stopped"].to_list() == ["event_limit", "complete"]
    again = pickle.loads(pickle.dumps(sweep))
    frame = sweep.to_polars()
    del sweep, error
    assert again.to_polars().equals(frame)


def test_another_scenario_shares_nothing(scenario, tmp_path):
    bp.sweep(scenario, GRID, out=tmp_path)
    scenario["link.sat.rate"] = "7Mbit/s"
    made = []
    bp.sweep(scenario, GRID, out=tmp_path, progress=lambda done, total: made.append(done))
    assert made[-1] == 6 and min(made) == 1


def test_a_worker_killed_in_the_middle_loses_nothing_that_was_finished(scenario, tmp_path):
    pool = ProcessPoolExecutor(2, mp_context=get_context("spawn"))

    killed = []

    def kill(done, total):
        if done >= 4 and not killed:
            killed.append(next(iter(pool._processes)))
            os.kill(killed[0], signal.SIGKILL)

    with pool, pytest.raises(bp.WorkerLost, match="run the sweep again"):
        bp.sweep(scenario, GRID, seeds=2000, executor=pool, out=tmp_path, progress=kill)
    made = []
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        sweep = bp.sweep(scenario, GRID, seeds=4, executor=pool, out=tmp_path, progress=lambda done, total: made.append(done))
    # The first count that is reported is 1 where no run is there yet. Of those that are, some have seeds beyond 4.
    assert made and min(made) > 1 and sweep.to_polars().equals(serial(scenario))


class OtherBuild(ThreadPoolExecutor):
    """Its workers name runs as another build does."""

    def submit(self, function, *arguments):
        def run_chunk(*arguments):
            shard, names, seconds = function(*arguments)
            return shard, [(f"{int(key, 16) ^ 1:032x}", seed) for key, seed in names], seconds

        return super().submit(run_chunk, *arguments)


def test_results_of_another_build_are_refused(scenario, tmp_path):
    with OtherBuild(2) as pool, pytest.raises(bp.BentpipeError, match="another build"):
        bp.sweep(scenario, GRID, executor=pool, out=tmp_path)
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".parquet")]


@pytest.mark.parametrize("has_folder", [False, True])
def test_a_pickled_sweep_that_another_build_began_goes_on(scenario, tmp_path, has_folder):
    points = [{"link.sat.loss": loss} for loss in (0.0, 1e-3)]
    sweep = bp.Sweep(bp.Scenario.of(scenario), points, 1, None, tmp_path if has_folder else None)
    sweep._runs = [run._replace(key=f"{int(run.key, 16) ^ 1:032x}") for run in sweep._runs]
    again = pickle.loads(pickle.dumps(sweep))
    assert again.missing == 2 and list(again.run(jobs=1)) == [1, 2] and again.missing == 0
    expected = bp.sweep(scenario, {"link.sat.loss": [0.0, 1e-3]}, seeds=1, jobs=1)
    assert again.to_polars().equals(expected.to_polars())


def test_a_broken_executor_keeps_nothing_of_another_build(scenario, tmp_path):
    class Broken(OtherBuild):
        """Breaks at the second chunk, when the first has ended."""

        first = None

        def submit(self, function, *arguments):
            if self.first is not None:
                self.first.result()
                raise BrokenExecutor
            self.first = super().submit(function, *arguments)
            return self.first

    with Broken(1) as pool, pytest.raises(bp.WorkerLost, match="2 of 2 runs are missing"):
        bp.sweep(scenario, {"link.sat.loss": [0.0, 1e-3]}, seeds=1, executor=pool, out=tmp_path)
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".parquet")]


def test_a_fault_in_any_point_is_told_before_anything_runs(scenario, tmp_path):
    with pytest.raises(bp.ScenarioError, match="did you mean cubic"):
        bp.sweep(scenario, {"flow.file.tcp": ["cubic", "cubik"]}, out=tmp_path)
    with pytest.raises(bp.ScenarioError, match="expected a list of values"):
        bp.sweep(scenario, {"flow.file.tcp": "cubic"})
    assert not os.listdir(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_folder_that_cannot_be_written_is_named(scenario, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(bp.ResultsError, match=str(tmp_path)):
        bp.sweep(scenario, GRID, out=tmp_path)




def test_a_forked_process_that_ends_leaves_the_results_alone(scenario, tmp_path):
    (tmp_path / "scenario.toml").write_text(scenario.to_toml())
    script = (
        "import os, sys, bentpipe as bp\n"
        "sweep = bp.sweep(bp.Scenario.from_file(sys.argv[1]), {}, jobs=1)\n"
        "if not (child := os.fork()): sys.exit()\n"
        "os.waitpid(child, 0)\n"
        "print(len(sweep.to_polars()))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "scenario.toml")], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "1", done.stderr


def test_a_sweep_says_how_far_it_is(scenario, tmp_path):
    sweep = bp.sweep(scenario, {"link.sat.loss": [0.0, 1e-3]}, seeds=2, jobs=1, out=tmp_path)
    assert repr(sweep) == "<bentpipe.Sweep, 4 runs at 2 points, 0 missing>"


@pytest.mark.parametrize(
    "grid, seeds, says",
    [
        ({"link.sat.loss": [1e-3, 0.001]}, 1, "link.sat.loss: 0.001 stands there twice"),
        ({"link.sat.loss": []}, 1, "link.sat.loss = \\[\\]: expected at least one value"),
        ({"link.sat.loss": [0.0]}, [1, 2, 1], "seeds = .*: 1 stands there twice"),
        ([{"link.sat.loss": 0.1}, {"link.sat.loss": np.float64(0.1)}], 1, "grid: {.*} stands there twice"),
        ({"link.sat.handover.delay": [np.array(["20ms"]), ["20ms"]]}, 1, "\\['20ms'\\] stands there twice"),
        ([], 1, "grid = \\[\\]: expected at least one point"),
        (iter([]), 1, "grid = \\[\\]: expected at least one point"),
        (np.array([[0.1, 0.2]]), 1, "grid: point 0 is array.*: expected a dict of settings"),
        ("abc", 1, "grid = 'abc': expected a dict with a list of values"),
        (None, 1, "grid = None: expected a dict with a list of values"),
        ({"link.sat.loss": np.array(0.1)}, 1, "link.sat.loss = array.*: expected a list of values"),
        ({"link.sat.loss": {"bernoulli": 0.1}}, 1, "link.sat.loss = {.*}: expected a list of values"),
    ],
)
def test_runs_that_would_count_twice_or_not_at_all_are_refused(scenario, grid, seeds, says):
    with pytest.raises(bp.ScenarioError, match=says):
        bp.sweep(scenario, grid, seeds=seeds)
