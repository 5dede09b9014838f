"""The figures of the Python package: `python python/benches/figures.py`, on an otherwise idle machine, with a release build."""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import bentpipe as bp

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from made import ROOT, transfer  # noqa: E402
from newreno import NewReno  # noqa: E402


def cpu():
    """Processor time of this process and its children, in seconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(at.ru_utime + at.ru_stime for at in used)


def against_the_command(command):
    """Processor time of the same runs by the command and by the package, alternating."""
    file = ROOT / "scenarios/geo-bulk.toml"
    times = {"command": [], "package": []}
    for _ in range(5):
        begun = cpu()
        subprocess.run([command, "simulate", file, "--seeds", "20", "--json"], capture_output=True, check=True)
        times["command"].append(cpu() - begun)
        begun = cpu()
        bp.simulate(file, seeds=20, record=False)
        times["package"].append(cpu() - begun)
    return {name: min(values) for name, values in times.items()} | {"ratio": min(times["package"]) / min(times["command"])}


def trace_to_polars():
    """Seconds in which 10 million samples become a data frame of polars."""
    import polars

    settings = {"link.sat.rate": "60Mbit/s", "record.interval": "100us", "stop.max_memory": "100GB", "stop.time": "100s"}
    scenario = transfer("1GB", "275ms").with_settings(settings)
    result = bp.simulate(scenario, seeds=10)
    trace = result.trace("cwnd", "ssthresh", "srtt")
    begun = time.perf_counter(), time.process_time()
    frame = polars.DataFrame(trace)
    return {"rows": len(frame), "wall_s": time.perf_counter() - begun[0], "cpu_s": time.process_time() - begun[1]}


def runnable():
    """Seconds, by thread of this process, in which it ran, or waited for a processor that others had."""
    times = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            ran, waited, _ = (task / "schedstat").read_text().split()
        except OSError:
            continue  # it has just ended
        times[task.name] = (int(ran) + int(waited)) / 1e9
    return times


def short_runs(runs=10_000):
    """How busy threads keep the processors while a sweep makes short runs: `busy` counts what they ran, `wanted` also what they
    waited while others had the processors, which is the same on an idle machine."""
    scenario = transfer("1MB", "275ms")
    seen = {}
    begun = time.perf_counter(), cpu()
    before = sum(runnable().values())
    bp.sweep(scenario, {"link.sat.loss": [1e-4, 1e-3]}, seeds=runs // 2, progress=lambda done, total: seen.update(runnable()))
    wall, used = time.perf_counter() - begun[0], cpu() - begun[1]
    processors = len(os.sched_getaffinity(0))
    wanted = sum(seen.values()) - before
    return {"runs": runs, "wall_s": wall, "cpu_s": used, "busy": used / wall / processors, "wanted": wanted / wall / processors}


def control_in_python():
    """Processor time, in microseconds for each acknowledgement, of NewReno in Python and of that in Rust, on the same 300 MB."""
    scenario = transfer("300MB", "275ms", link__sat__loss=1e-3)
    scenario["flow.file.tcp"] = "newreno"
    times = {"python": [], "rust": []}
    for _ in range(3):
        for name, controls in (("python", NewReno), ("rust", None)):
            begun = cpu()
            found = bp.simulate(scenario, seeds=1, record=False, controls=controls)
            times[name].append(cpu() - begun)
    (acknowledgements,) = (packets for end, packets in zip(found.links["from"], found.links["delivered_packets"]) if end == "server")
    each = {name: min(values) / int(acknowledgements) * 1e6 for name, values in times.items()}
    return {"acknowledgements": int(acknowledgements), "ratio": each["python"] / each["rust"]} | {f"{name}_us": at for name, at in each.items()}


def grid_on(make):
    """Seconds in which an executor makes a grid of 10,000 short runs."""
    scenario = transfer("1MB", "275ms")
    begun = time.perf_counter()
    with make() as executor:
        bp.sweep(scenario, {"link.sat.loss": [1e-4, 1e-3]}, seeds=5_000, executor=executor, jobs=2)
    return time.perf_counter() - begun


def grids():
    """Seconds in which each executor that is installed makes a grid of 10,000 short runs, its start included."""
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
    from contextlib import contextmanager
    from multiprocessing import get_context

    @contextmanager
    def dask():
        import distributed

        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
            with distributed.Client(cluster) as client:
                yield client.get_executor()

    @contextmanager
    def ray():
        import ray

        from bentpipe.ray import RayExecutor

        ray.init(num_cpus=2, include_dashboard=False, logging_level="error")
        yield RayExecutor()
        ray.shutdown()

    makers = {
        "threads": lambda: ThreadPoolExecutor(2),
        "processes": lambda: ProcessPoolExecutor(2, mp_context=get_context("spawn")),
        "dask": dask,
        "ray": ray,
    }
    found = {}
    for name, make in makers.items():
        try:
            found[name] = grid_on(make)
        except ImportError as error:
            found[name] = str(error)
    return found | {"mpi": grid_on_mpi()}


def grid_on_mpi():
    """Seconds in which two workers of MPI, and one that hands out the work, make a grid of 10,000 short runs."""
    if not (mpiexec := shutil.which("mpiexec")):
        return "mpiexec is missing"
    # Open MPI refuses root, and more ranks than processors, unless told otherwise.
    allowed = dict.fromkeys(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_rmaps_base_oversubscribe"], "1")
    command = [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures", __file__, "--on-mpi"]
    ran = subprocess.run(command, env=os.environ | allowed, capture_output=True, text=True)
    return float(ran.stdout) if ran.returncode == 0 else ran.stderr.strip()


def import_time():
    """Seconds of processor time in which the package is imported, beyond those of Python itself."""

    def once(code):
        begun = cpu()
        subprocess.run([sys.executable, "-c", code], check=True)
        return cpu() - begun

    return min(once("import bentpipe") for _ in range(10)) - min(once("pass") for _ in range(10))


FIGURES = {
    "import_s": import_time,
    "short_runs": short_runs,
    "many_short_runs": lambda: short_runs(100_000),
    "most_memory_MB": lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    "trace_to_polars": trace_to_polars,
    "control_in_python": control_in_python,
    "grids_s": grids,
}

if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--command", help="a release build of the command, with which bp.simulate is compared")
    arguments.add_argument("figures", nargs="*", metavar="FIGURE", help=f"only these: {', '.join(FIGURES)}")
    arguments.add_argument("--on-mpi", action="store_true", help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.on_mpi:
        from mpi4py.futures import MPIPoolExecutor

        print(grid_on(MPIPoolExecutor))
        sys.exit()
    found = {name: figure() for name, figure in FIGURES.items() if not chosen.figures or name in chosen.figures}
    if chosen.command:
        found["against_the_command"] = against_the_command(chosen.command)
    print(json.dumps(found, indent=2))
