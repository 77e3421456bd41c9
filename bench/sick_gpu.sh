#!/usr/bin/env bash
# Measures how much work seven GPUs do while the driver hangs on the eighth, compared with the same server without a fault: tasks
# of 20 s, one per GPU, on simulated GPUs in real time. The hanging GPU holds no task when the fault begins.
# usage: sick_gpu.sh BIN_DIR WORK_DIR [SECONDS]
set -euo pipefail
bin=$(realpath "$1")
mkdir -p "$2"
work=$(realpath "$2")
seconds=${3:-600}
. "$(dirname "$0")/servers.sh"

# Number of the daemon's tasks that have succeeded.
ended() { carma list --state succeeded --format id --no-header --limit 100000 | wc -l; }

for case in well sick; do
  write_config "$case" 8xA100-40GB
  cat >>"$home/carma.toml" <<END
[policy]
mapper = "exclusive"
END
  start_written
  for _ in $(seq $((seconds * 7 / 20 + 50))); do echo '{"stdout_path":"/dev/null","command":["'"$bin"'/carma-simtask","--memory-mib","4000","--solo-s","20"]}'; done \
    >"$work/tasks.jsonl"
  # Both cases have the same number of usable GPUs.
  [ "$case" = sick ] && "$bin/carma-simgpu" fault --state "$home/gpus" --kind hang --gpu 7
  [ "$case" = well ] && carma drain 7 --reason bench >/dev/null
  carma submit --batch "$work/tasks.jsonl" >/dev/null
  sleep "$seconds"
  record "sick_gpu.$case" "$(ended)" tasks "in $seconds s, on 7 GPUs"
  carma cancel --all >/dev/null
  stop_carmad
done
awk '$1 == "sick_gpu.well" {well = $2} $1 == "sick_gpu.sick" {printf "  throughput while one hangs: %.1f %%\n", 100 * $2 / well}' \
  "$results"
