#!/usr/bin/env python3
"""Run the cases of tests/data/ns3/queues.csv in ns-3 and print the table anew: one line for each case and seed.

The program (queues.cc) is built into the folder given by --build. Some minutes.
"""
import argparse
import concurrent.futures
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODULES = ("applications", "core", "internet", "network", "point-to-point", "traffic-control")
# Discipline, flows, Mbit/s, round-trip time in ms; seconds, and those at the beginning that do not count.
CASES = [
    ("pie", 2, 10, 40, 60, 15),
    ("pie", 10, 10, 40, 60, 15),
    ("pie", 20, 10, 100, 60, 15),
    ("pie-ecn", 10, 10, 40, 60, 15),
    ("fq-pie", 5, 10, 40, 60, 15),
    ("fq-pie", 20, 10, 100, 60, 15),
    ("red", 2, 10, 40, 60, 15),
    ("red", 10, 10, 40, 60, 15),
    ("red", 20, 10, 100, 60, 15),
    ("red-ecn", 10, 10, 40, 60, 15),
    ("red-ecn", 20, 10, 100, 60, 15),
    ("dctcp", 2, 50, 20, 60, 15),
    ("dctcp", 10, 50, 20, 60, 15),
]
COLUMNS = "discipline,flows,mbps,rtt_ms,seconds,warm_up_s,seed,queue_mean_ms,queue_p95_ms,dropped,marked,use,fairness"


def build(folder):
    program = pathlib.Path(folder) / "bentpipe-queues-ns3"
    words = ["g++", "-std=c++17", "-O2", "-o", program, HERE / "queues.cc", *(f"-lns3-{name}" for name in MODULES)]
    subprocess.run(words, check=True)
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=tempfile.gettempdir(), help="where the program for ns-3 goes")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side")
    arguments = parser.parse_args()
    try:
        program = build(arguments.build)
    except (FileNotFoundError, subprocess.CalledProcessError):
        sys.exit("ns-3 is not installed (Debian: libns3-dev and g++)")

    def run(case):
        words = list(map(str, case))
        figures = subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout.strip()
        return f"{','.join(words)},{figures}"

    print(COLUMNS)
    cases = [(*case, seed) for case in CASES for seed in range(1, arguments.seeds + 1)]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for line in pool.map(run, cases):
            print(line, flush=True)


if __name__ == "__main__":
    main()
