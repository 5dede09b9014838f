"""Sweeps on Dask, Ray and MPI, with several worker processes; a worker of Dask and of Ray is killed in the middle."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

import bentpipe as bp
from made import transfer

GRID = {"link.sat.loss": [0.0, 1e-3, 1e-2]}
SEEDS = 300


@pytest.fixture(scope="module")
def scenario():
    return transfer("2MB")


@pytest.fixture(scope="module")
def serial(scenario):
    return bp.sweep(scenario, GRID, seeds=SEEDS, jobs=1).to_polars()


def sweep_and_kill(scenario, executor, workers, out):
    """A sweep, a worker of which is killed when some results are there; what it gives, and how many were there by then."""
    killed = []

    def kill(done, total):
        if not killed and done > total // 10:
            killed.append((done, victim := workers()[0]))
            os.kill(victim, signal.SIGKILL)

    found = bp.sweep(scenario, GRID, seeds=SEEDS, executor=executor, jobs=2, out=out, progress=kill)
    assert killed, "the sweep was over before a worker was killed"
    return found


def test_dask_does_lost_work_again(scenario, serial, tmp_path):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:

            def workers():
                return list(client.run(os.getpid).values())

            found = sweep_and_kill(scenario, client.get_executor(), workers, tmp_path)
    assert found.to_polars().equals(serial)


def test_ray_does_lost_work_again(scenario, serial, tmp_path):
    ray = pytest.importorskip("ray")
    from bentpipe.ray import RayExecutor

    ray.init(num_cpus=2, include_dashboard=False, logging_level="error")
    try:

        @ray.remote
        def pid():
            time.sleep(0.05)
            return os.getpid()

        def workers():
            return ray.get([pid.remote()])

        found = sweep_and_kill(scenario, RayExecutor(), workers, tmp_path)
    finally:
        ray.shutdown()
    assert found.to_polars().equals(serial)


ON_MPI = f"""
import sys
from mpi4py.futures import MPIPoolExecutor
import bentpipe as bp
from made import transfer

if __name__ == "__main__":
    with MPIPoolExecutor() as executor:
        assert executor.num_workers == 2
        bp.sweep(transfer("2MB"), {GRID}, seeds={SEEDS}, executor=executor, out=sys.argv[1])
"""


def test_mpi_makes_the_same_sweep(scenario, serial, tmp_path):
    pytest.importorskip("mpi4py")
    if not (mpiexec := shutil.which("mpiexec")):
        pytest.skip("mpiexec is missing")
    script, out = tmp_path / "on_mpi.py", tmp_path / "out"
    script.write_text(ON_MPI)
    # One rank hands out the work, two do it. Open MPI refuses root, and more ranks than processors, unless told otherwise.
    allowed = dict.fromkeys(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"], "1")
    environment = os.environ | allowed | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures", script, out]
    subprocess.run(command, env=environment, check=True, timeout=300)
    made = []
    # Whatever the workers had not made would be made here.
    found = bp.sweep(scenario, GRID, seeds=SEEDS, jobs=1, out=out, progress=lambda done, total: made.append(done))
    assert not made
    assert found.to_polars().equals(serial)
