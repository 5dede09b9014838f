#!/bin/sh
# Writes shares.csv beside this file: shared_bottleneck.tcl for five variants and 20 seeds. usage: nice ./shares.sh [JOBS]
set -eu
cd "$(dirname "$0")"
{
    echo "variant,seed,period,satellite_kbps,terrestrial_kbps,udp_kbps"
    for variant in tahoe reno newreno sack vegas; do
        for seed in $(seq 20); do echo "v=$variant seed=$seed"; done
    done | xargs -P "${1:-1}" -L 1 ns shared_bottleneck.tcl 2> /dev/null | sort -t , -k 1,1 -k 2,2n -k 3,3n
} > shares.csv
