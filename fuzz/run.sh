#!/usr/bin/env bash
# Runs every fuzz target for so many seconds each, adds up the executions, and keeps what reaches new code.
#
#   fuzz/run.sh [SECONDS] [TARGET...]      60 seconds each, all targets
#
# Needs cargo-fuzz. A stable compiler will do (see docs/fuzzing.md). RUNS=N ends each target after N executions instead;
# MERGE=1 adds what reaches new code to fuzz/seeds afterwards. Exit code 1: a target failed; its input is named.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
export RUSTC_BOOTSTRAP=1
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  mapfile -t targets < <(cargo fuzz list)
fi

# The longest input of a target, and what else it is told.
options() {
  case $1 in
    frames) echo -max_len=4096 ;;
    endpoints | tunnel | handshakes) echo -max_len=400 ;;
    dlep | greeting | words) echo -max_len=2048 ;;
    syn | texts) echo -max_len=128 ;;
    config | scenario | feed) echo -only_ascii=1 -max_len=4096 ;;
  esac
}

total=0
failed=()
for target in "${targets[@]}"; do
  corpus=fuzz/corpus/$target
  seeds=fuzz/seeds/$target
  mkdir -p "$corpus" "$seeds"
  log=$(mktemp)
  limit=-max_total_time=$seconds
  [ -n "${RUNS:-}" ] && limit=-runs=$RUNS
  # shellcheck disable=SC2046
  if ! cargo fuzz run --sanitizer none "$target" "$corpus" "$seeds" -- \
    "$limit" $(options "$target") -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 >"$log" 2>&1; then
    failed+=("$target")
    tail -n 30 "$log" >&2
  fi
  count=$(awk '/stat::number_of_executed_units/ { print $2 }' "$log")
  printf '%-12s %12d executions\n' "$target" "${count:-0}"
  total=$((total + ${count:-0}))
  if [ -n "${MERGE:-}" ]; then
    cargo fuzz run --sanitizer none "$target" "$seeds" "$corpus" -- -merge=1 -use_counters=0 $(options "$target") >"$log" 2>&1
  fi
  rm -f "$log"
done
printf '%-12s %12d executions\n' together "$total"
if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}; the inputs are below fuzz/artifacts" >&2
  exit 1
fi
