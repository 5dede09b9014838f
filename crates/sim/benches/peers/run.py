#!/usr/bin/env python3
"""Run the benchmark's scenarios in ns-2 and ns-3, where they are installed, and print what each cost.

One line for each: simulator,scenario,data packets,user CPU in seconds,peak memory in kB. ns-3's program is built once into the folder given by --build (by default, the system's temporary one).
Scenarios: single (one GEO flow at 50 Mbit/s, 100 s), flows-100 and flows-1000 (1 Gbit/s, 250 ms, 60 s), shares (15 + 15 transfers and UDP, 6,000 s). What is slow for ns-3 is run only with --slow.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ("flows", "mbps", "delay", "window", "queue", "seconds", "access")
BULK = {
    "single": (1, 50, 275, 2363, 5000, 100, 100),
    "flows-100": (100, 1000, 250, 400, 5000, 60, 10000),
    "flows-1000": (1000, 1000, 250, 40, 5000, 60, 10000),
}
SLOW_IN_NS3 = {"flows-100", "flows-1000"}
MODULES = ("applications", "core", "internet", "network", "point-to-point", "traffic-control")


def ns2(scenario):
    if scenario == "shares":
        return ["ns", str(HERE / "shares.tcl")]
    return ["ns", str(HERE / "bulk.tcl"), *(f"{name}={value}" for name, value in zip(NAMES, BULK[scenario]))]


def build_ns3(folder):
    """The program for ns-3, or None where it does not build: no compiler, or no ns-3."""
    program = pathlib.Path(folder) / "bentpipe-bench-ns3"
    source = HERE / "peers.cc"
    if program.exists() and program.stat().st_mtime >= source.stat().st_mtime:
        return program
    words = ["g++", "-std=c++17", "-O2", "-o", str(program), str(source), *(f"-lns3-{name}" for name in MODULES)]
    try:
        built = subprocess.run(words, capture_output=True).returncode == 0
    except FileNotFoundError:
        built = False
    return program if built else None


def ns3(program, scenario):
    return [str(program), "shares"] if scenario == "shares" else [str(program), "bulk", *map(str, BULK[scenario])]


def run(simulator, scenario, words):
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{simulator} failed on {scenario}: {' '.join(words)}")
    print(f"{simulator},{scenario},{int(output.split()[-1])},{used.ru_utime:.2f},{used.ru_maxrss}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", nargs="*", choices=[*BULK, "shares", []], help="all by default")
    parser.add_argument("--build", default=tempfile.gettempdir(), help="where the program for ns-3 goes")
    parser.add_argument("--slow", action="store_true", help="also run what takes ns-3 many minutes")
    arguments = parser.parse_args()
    scenarios = arguments.scenario or [*BULK, "shares"]
    has_ns2 = shutil.which("ns")
    program = build_ns3(arguments.build)
    print("simulator,scenario,data_packets,user_s,peak_kB")
    for scenario in scenarios:
        if has_ns2:
            run("ns-2", scenario, ns2(scenario))
        if program and (arguments.slow or scenario not in SLOW_IN_NS3):
            run("ns-3", scenario, ns3(program, scenario))
    if not has_ns2:
        print("ns-2 is not installed (Debian: ns2)", file=sys.stderr)
    if not program:
        print("ns-3 is not installed (Debian: libns3-dev and g++)", file=sys.stderr)


if __name__ == "__main__":
    main()
