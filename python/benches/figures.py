"""The figures of the Python package: `python python/benches/figures.py [COMMAND]`, on an otherwise idle machine, with a release build.

COMMAND is a release build of the command, with which `bp.simulate` is compared.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import bentpipe as bp

ROOT = Path(__file__).resolve().parents[2]
SHORT = """
version = 1
nodes = ["client", "server"]
[[link]]
name = "sat"
between = ["client", "server"]
rate = "6Mbit/s"
delay = "275ms"
queue = "1BDP"
[[flow]]
name = "file"
from = "client"
to = "server"
tcp = "cubic"
bulk = { size = "1MB" }
"""


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

    scenario = bp.Scenario.from_toml(SHORT).with_settings(
        {"flow.file.bulk.size": "1GB", "link.sat.rate": "60Mbit/s", "record.interval": "100us", "stop.max_memory": "100GB", "stop.time": "100s"}
    )
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
    scenario = bp.Scenario.from_toml(SHORT)
    seen = {}
    begun = time.perf_counter(), cpu()
    before = sum(runnable().values())
    bp.sweep(scenario, {"link.sat.loss": [1e-4, 1e-3]}, seeds=runs // 2, progress=lambda done, total: seen.update(runnable()))
    wall, used = time.perf_counter() - begun[0], cpu() - begun[1]
    processors = len(os.sched_getaffinity(0))
    wanted = sum(seen.values()) - before
    return {"runs": runs, "wall_s": wall, "cpu_s": used, "busy": used / wall / processors, "wanted": wanted / wall / processors}


def import_time():
    """Seconds of processor time in which the package is imported, beyond those of Python itself."""

    def once(code):
        begun = cpu()
        subprocess.run([sys.executable, "-c", code], check=True)
        return cpu() - begun

    return min(once("import bentpipe") for _ in range(10)) - min(once("pass") for _ in range(10))


if __name__ == "__main__":
    figures = {"import_s": import_time(), "short_runs": short_runs(), "many_short_runs": short_runs(100_000)}
    figures["most_memory_MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    figures["trace_to_polars"] = trace_to_polars()
    if len(sys.argv) > 1:
        figures["against_the_command"] = against_the_command(sys.argv[1])
    print(json.dumps(figures, indent=2))
