#!/usr/bin/env python3
"""Draw random drop lists and run them through ns-2: writes random_lists.csv and random_runs.csv beside this file.

Each list holds the indices, below INDICES, of the packets lost by a Bernoulli process of probability P on the satellite's forward link (the SYN is 0). A list is kept as it was drawn, empty ones too; runs end at about
index 700, so later indices are for variants that retransmit much. Identical (list, variant) pairs are run once.

usage: nice lists.py [JOBS]
"""
import concurrent.futures
import csv
import pathlib
import random
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SEED = 20261121
PROBABILITIES = ("1e-4", "1e-3", "1e-2")
LISTS = 200
INDICES = 3000
VARIANTS = ("tahoe", "reno", "newreno", "sack", "vegas")


def draw():
    rows = []
    for probability in PROBABILITIES:
        generator = random.Random(f"{SEED}/{probability}")
        for number in range(LISTS):
            drops = [i for i in range(INDICES) if generator.random() < float(probability)]
            rows.append((probability, number, " ".join(map(str, drops))))
    return rows


def run(variant, drops):
    words = ["ns", "transfer.tcl", f"v={variant}", f"drop={drops.replace(' ', ',') or '-'}"]
    line = subprocess.run(words, cwd=HERE, check=True, capture_output=True, text=True, timeout=300).stdout
    return next(csv.reader([line]))[2:7]


def main():
    lists = draw()
    with open(HERE / "random_lists.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("p", "list", "drops"))
        out.writerows(lists)
    jobs = list(dict.fromkeys((variant, drops) for variant in VARIANTS for _, _, drops in lists))
    with concurrent.futures.ThreadPoolExecutor(int(sys.argv[1]) if len(sys.argv) > 1 else 1) as pool:
        results = dict(zip(jobs, pool.map(lambda job: run(*job), jobs)))
    with open(HERE / "random_runs.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("variant", "p", "list", "received_s", "data", "rexmit", "rto"))
        for variant in VARIANTS:
            for probability, number, drops in lists:
                received, _, data, rexmit, rto = results[variant, drops]
                out.writerow((variant, probability, number, received, data, rexmit, rto))


if __name__ == "__main__":
    main()
