#!/usr/bin/env bash
# Measures what users wait for: one submission, a batch, a page of a long list. CARMA's GPUs are drained, Slurm's node never
# answers and the spooler's only slot is taken, so all three keep a live queue and start nothing.
# usage: submit_bench.sh BIN_DIR WORK_DIR
set -euo pipefail
bin=$(realpath "$1")
work=$(realpath "$2")
. "$(dirname "$0")/servers.sh"

runs=${CARMA_BENCH_RUNS:-100}
rounds=3
script=$work/train.sh
printf '#!/bin/sh\npython3 train.py --epochs 3\n' >"$script"

names=()
line=()
# add NAME COMMAND…: adds a program that is timed with the others
add() {
  [ ${#line[@]} -eq 0 ] || line+=(::)
  names+=("$1")
  line+=("${@:2}")
}
# time_added KEY [RUNS]: times the added programs, round by round
time_added() {
  local times i=0 each
  times=$("$bin/spawn_timer" "${2:-$runs}" "$rounds" "${line[@]}" 2>"$work/errors") || {
    tail -3 "$work/errors" >&2
    return 1
  }
  while read -r each; do
    record_times "$1.${names[i++]}" "$each"
  done <<<"$times"
  names=()
  line=()
}

submit_beside_peers() {
  add carma "$bin/carma" --socket "$socket" submit "$script"
  [ -z "$slurm_pid" ] || add slurm sbatch --output=/dev/null "$script"
  [ -z "$tsp_up" ] || [ "$1" -ne 0 ] || add tsp tsp -n sh "$script"
  time_added "submit.$1_queued"
}

list_beside_peers() {
  add carma "$bin/carma" --socket "$socket" list --limit 50
  [ -z "$slurm_pid" ] || add slurm squeue --array
  time_added "list.$1_queued" 20
}

# batch_file COUNT: prints one JSON description per line
batch_file() {
  awk -v n="$1" 'BEGIN {
    for (i = 0; i < n; ++i)
      printf "{\"name\":\"train\",\"command\":[\"python3\",\"train.py\",\"--seed\",\"%d\"]}\n", i
  }' >"$work/batch.jsonl"
}

# fill_carma COUNT: waits until the daemon has done all work of the batch
fill_carma() {
  batch_file "$1"
  carma submit --batch "$work/batch.jsonl" >/dev/null
  carma submit "$script" >/dev/null
}

# once_ms COMMAND…: measures one run of the command in ms
once_ms() { "$bin/spawn_timer" 1 1 "$@" | cut -d' ' -f1; }
# rate COUNT COMMAND…: prints the tasks per second of one process that submits COUNT tasks
rate() { awk -v n="$1" -v ms="$(once_ms "${@:2}")" 'BEGIN {printf "%.0f\n", n / ms * 1000}'; }
# record_rate KEY: records the rates on standard input
record_rate() {
  local mid low high
  read -r mid low high < <(median)
  record "$1" "$mid" tasks/s "$low-$high"
}

# record_single PEER: records the peer's rate for single submissions, from standard input; does nothing if the peer is absent
record_single() {
  local each
  while read -r each; do record "batch.single.$1" "$each" tasks/s "1 / p50 of a submission"; done
}

# batches COUNT REPEATS: submits batches, each to a fresh daemon
batches() {
  local each mid low high
  batch_file "$1"
  : >"$work/next"
  for each in $(seq "$2"); do
    start_carmad batch 8xA100-40GB drained
    rate "$1" "$bin/carma" --socket "$socket" submit --batch "$work/batch.jsonl"
    once_ms "$bin/carma" --socket "$socket" submit "$script" >>"$work/next"
    stop_carmad
  done >"$work/rates"
  record_rate "batch.$1.carma" <"$work/rates"
  read -r mid low high < <(median <"$work/next")
  record "batch.$1.next_submit.carma" "$mid" ms "$low-$high"
}

arrays() {
  local each
  start_carmad array 8xA100-40GB drained
  for each in 1 2 3; do
    rate 10000 "$bin/carma" --socket "$socket" submit --array 0-9999 "$script"
  done >"$work/rates"
  record_rate batch.array_10000.carma <"$work/rates"
  stop_carmad
  [ -n "$slurm_pid" ] || return 0
  for each in 1 2 3; do
    rate 10000 sbatch --output=/dev/null --array=0-9999 "$script"
  done >"$work/rates"
  record_rate batch.array_10000.slurm <"$work/rates"
}

echo "submission and lists (load $(cut -d' ' -f1-3 /proc/loadavg))"
start_slurm || true
start_tsp || true
[ -n "$slurm_pid" ] || echo "  slurmctld and sbatch are not installed or not usable: no figures of Slurm"
[ -n "$tsp_up" ] || echo "  tsp is not installed: no figures of task-spooler"

start_carmad submit 8xA100-40GB drained
submit_beside_peers 0
fill_carma 9700
[ -z "$slurm_pid" ] || sbatch --output=/dev/null --array=0-9699 "$script" >/dev/null
submit_beside_peers 10000
list_beside_peers 10000
fill_carma 89700
[ -z "$slurm_pid" ] || sbatch --output=/dev/null --array=0-89699 "$script" >/dev/null
submit_beside_peers 100000
list_beside_peers 100000
record memory.100000_queued.carma "$(rss_mib "$carmad_pid")" MiB
[ -z "$slurm_pid" ] || record memory.100000_queued.slurm "$(rss_mib "$slurm_pid")" MiB
stop_carmad
stop_tsp
# Except for arrays, whose tasks are all alike, these peers accept only single submissions.
for peer in slurm tsp; do
  awk -F'\t' -v key="submit.0_queued.$peer.p50" '$1 == key {printf "%.0f\n", 1000 / $2}' "$results" | record_single $peer
done

batches 20000 5
batches 100000 3
arrays
