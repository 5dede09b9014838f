#!/usr/bin/env python3
"""Draw random drop lists and run them through ns-2 with delayed acknowledgements: writes delayed_acks.csv beside this file, and
delayed_acks_at_10s.csv with the same transfers begun 10 s later.

Case k takes the variant, the window and the loss probability of its place in their product, and the indices, below INDICES, of the
packets lost by a Bernoulli process on the satellite's forward link (the first packet is 0). Cases in which nothing is lost are drawn
again, but for one of each variant and window.

usage: nice delayed_acks.py [JOBS [SEED]]
"""
import concurrent.futures
import csv
import itertools
import pathlib
import random
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SEED = 20261123
CASES = 500
INDICES = 800
VARIANTS = ("tahoe", "reno", "newreno", "sack", "vegas")
WINDOWS = (20, 100, 500)
PROBABILITIES = (1e-3, 3e-3, 1e-2, 3e-2)


def draw(seed):
    cells = list(itertools.product(VARIANTS, WINDOWS, PROBABILITIES))
    generator = random.Random(seed)
    cases = [(variant, window, ()) for variant in VARIANTS for window in WINDOWS]
    for number in range(CASES - len(cases)):
        variant, window, probability = cells[number % len(cells)]
        drops = ()
        while not drops:
            drops = tuple(index for index in range(INDICES) if generator.random() < probability)
        cases.append((variant, window, drops))
    return cases


def run(variant, window, drops, start):
    listed = ",".join(map(str, drops)) or "-"
    words = ["ns", "transfer.tcl", f"v={variant}", f"win={window}", f"drop={listed}", "delack=1", f"start={start}"]
    line = subprocess.run(words, cwd=HERE, check=True, capture_output=True, text=True, timeout=300).stdout
    received, _, data, rexmit, rto = next(csv.reader([line]))[2:7]
    return received, data, rexmit, rto


def write(name, cases, start, jobs):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(lambda case: run(*case, start), cases))
    with open(HERE / name, "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("variant", "window", "drops", "received_s", "data", "rexmit", "rto"))
        for (variant, window, drops), result in zip(cases, results):
            out.writerow((variant, window, " ".join(map(str, drops)), *result))


def main():
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    cases = draw(int(sys.argv[2]) if len(sys.argv) > 2 else SEED)
    write("delayed_acks.csv", cases, 0.0, jobs)
    write("delayed_acks_at_10s.csv", cases, 10.0, jobs)


if __name__ == "__main__":
    main()
