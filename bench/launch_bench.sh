#!/usr/bin/env bash
# Measures the time from the submission until the process runs, with a neighbour on the same simulated GPU: with streams, and
# with MPS, under which a user's first task on a GPU waits for a control daemon and a server (here the simulated one).
# usage: launch_bench.sh BIN_DIR WORK_DIR
set -euo pipefail
bin=$(realpath "$1")
work=$(realpath "$2")
. "$(dirname "$0")/servers.sh"

runs=${CARMA_BENCH_LAUNCHES:-20}

# launch METHOD: runs one long task, then `runs` short tasks in sequence.
launch() {
  local number
  write_config "$1" 1xA100-40GB
  cat >>"$home/carma.toml" <<END
[collocation]
method = "$1"
mps_control = "$bin/carma-simmps"
mps_dir = "$sockets/mps"
streams_sm_cap = false
[policy]
sm_cap = false
settle = false
END
  start_written
  carma submit -J first --memory 1G -o /dev/null -- \
    "$bin/carma-simtask" --memory-mib 500 --solo-s 1000 --load-s 0 >/dev/null
  for _ in $(seq "$runs"); do
    number=$(carma submit --parsable -J next --memory 1G -o /dev/null -- \
      "$bin/carma-simtask" --memory-mib 500 --solo-s 0.1 --load-s 0)
    carma wait --quiet "$number"
  done
  carma cancel --all >/dev/null
  carma wait --quiet 1 || true
  sharing=$(carma show 1 --json | grep -o '"sharing":"[a-z]*"' | cut -d'"' -f4)
  [ "$sharing" = "$1" ] || echo "launch_bench: the tasks shared by '$sharing', not by $1" >&2
  carma report --json >"$work/launch.json"
  record "launch.$1.first" "$(delays first | median | cut -d' ' -f1)" ms "one launch, sharing: $sharing"
  read -r mid low high < <(delays next | median)
  record "launch.$1.next" "$mid" ms "$low-$high, $runs launches"
  stop_carmad
}
# delays NAME: prints for each task of that name the milliseconds from its submission until its process ran
delays() {
  python3 -c 'import json, sys
for task in json.load(open(sys.argv[1]))["run"]["tasks"]:
    if task["name"] == sys.argv[2] and task["attempts"]:
        print(task["attempts"][0]["from_ms"] - task["submitted_ms"])' "$work/launch.json" "$1"
}

echo "launch (load $(cut -d' ' -f1-3 /proc/loadavg))"
launch streams
launch mps
