#!/bin/sh
# Writes golden.csv (one link) and deterministic.csv (LAN - satellite - LAN) beside this file, with ns-2.
set -eu
cd "$(dirname "$0")"
head="variant,drops,received_s,done_s,data,rexmit,rto,ssthresh"
{
    echo "$head"
    for variant in tahoe reno newreno sack vegas; do
        for drops in - 60 60,61,62 60,65,70,75; do
            ns transfer.tcl v=$variant one=1 file=480000 mss=960 bw=2 delay=250 win=100 q=100000 drop=$drops
        done
    done
} > golden.csv
{
    echo "$head"
    for variant in tahoe reno newreno sack vegas; do
        for drops in - 10 50 200 500 685 100,150 50,60,70; do
            ns transfer.tcl v=$variant drop=$drops
        done
    done
} > deterministic.csv
