#!/usr/bin/env bash
# Runs fuzz targets, adds up their executions, and keeps what reaches new code.
#
#   fuzz/run.sh [SECONDS] [TARGET[:SECONDS]...]      60 seconds each, all targets
#
# Needs cargo-fuzz. A stable compiler will do (see docs/testing.md). Exit code 1: a target failed; its input is named.
#
#   JOBS=N         so many targets at once (2)
#   RUNS=N         end each target after N executions, or SECONDS if that is earlier and not 0
#   MERGE=1        add what reaches new code to fuzz/seeds afterwards
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
export RUSTC_BOOTSTRAP=1
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  mapfile -t targets < <(cargo fuzz list)
fi
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# The longest input of a target, and what else it is told.
options() {
  case $1 in
    frames | datagrams) echo -max_len=2048 ;;
    endpoints | tunnel | handshakes) echo -max_len=400 ;;
    dlep | control) echo -max_len=1024 ;;
    connect | greeting | notices) echo -max_len=256 ;;
    syn | texts) echo -max_len=128 ;;
    link_updates) echo -max_len=512 ;;
    config | scenario) echo -only_ascii=1 -max_len=4096 ;;
  esac
}

# `run TARGET SECONDS`; its line of the table goes to `results`.
run() {
  local target=$1 corpus=fuzz/corpus/$1 seeds=fuzz/seeds/$1 log=$results/$1.log status=ok
  local limits=(-max_total_time="$2")
  [ -n "${RUNS:-}" ] && limits+=(-runs="$RUNS")
  mkdir -p "$corpus" "$seeds" "fuzz/artifacts/$target"
  local start=$SECONDS
  # `-reload=0`: nobody else adds to the corpus meanwhile.
  # shellcheck disable=SC2046
  "$built/$target" "$corpus" "$seeds" "${limits[@]}" $(options "$target") -use_counters=1 -reload=0 -timeout=60 \
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="fuzz/artifacts/$target/" >"$log" 2>&1 || status=FAILED
  local duration=$((SECONDS - start)) count edges
  count=$(awk '/stat::number_of_executed_units/ { print $2 }' "$log")
  edges=$(awk '{ for (i = 1; i < NF; i++) if ($i == "cov:") edges = $(i + 1) } END { print edges + 0 }' "$log")
  printf '%-12s %12d %8d %9d %6d  %s\n' "$target" "${count:-0}" "$duration" \
    $((${count:-0} / (duration > 0 ? duration : 1))) "$edges" "$status" | tee "$results/$target.row"
  if [ "$status" != ok ]; then
    tail -n 30 "$log" >&2
  elif [ -n "${MERGE:-}" ]; then
    # shellcheck disable=SC2046
    "$built/$target" "$seeds" "$corpus" -merge=1 -use_counters=0 $(options "$target") >"$log" 2>&1
  fi
}

cargo fuzz build --sanitizer none
built=${CARGO_TARGET_DIR:-fuzz/target}/$(rustc -vV | awk '/^host:/ { print $2 }')/release
printf '%-12s %12s %8s %9s %6s\n' target executions seconds 'each s' edges
for target in "${targets[@]}"; do
  while [ "$(jobs -pr | wc -l)" -ge "${JOBS:-2}" ]; do wait -n; done
  case $target in
    *:*) run "${target%:*}" "${target#*:}" & ;;
    *) run "$target" "$seconds" & ;;
  esac
done
wait
awk '{ total += $2 } END { printf "%-12s %12d\n", "together", total }' "$results"/*.row
if grep -q FAILED "$results"/*.row; then
  echo "failed; the inputs are below fuzz/artifacts" >&2
  exit 1
fi
