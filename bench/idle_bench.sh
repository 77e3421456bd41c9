#!/usr/bin/env bash
# Measures what an idle daemon costs a server: eight simulated GPUs sampled once a second, then with two tasks on each GPU, and
# the daemon's memory once its history of single samples is full.
# usage: idle_bench.sh BIN_DIR WORK_DIR
set -euo pipefail
bin=$(realpath "$1")
work=$(realpath "$2")
. "$(dirname "$0")/servers.sh"

seconds=${CARMA_BENCH_IDLE_S:-60}

# CPU time in ns since the start, user and system, of one thread or of a whole process.
thread_ns() { awk '{print $1}' "/proc/$1/task/$2/schedstat"; }
process_ns() { cat "/proc/$1/task/"*/schedstat | awk '{sum += $1} END {printf "%.0f\n", sum}'; }
# percent BEFORE AFTER [SECONDS]: CPU use in percent of one core
percent() { awk -v a="$1" -v b="$2" -v s="${3:-$seconds}" 'BEGIN {printf "%.3f\n", (b - a) / s / 1e7}'; }
children() { cat "/proc/$1/task/"*/children | wc -w; }
# The daemon's process that calls the driver.
reader_of() { pgrep -P "$1" -x carma-reader; }
# both_ns PID: CPU time of the daemon and its reader
both_ns() { echo $(($(process_ns "$1") + $(process_ns "$(reader_of "$1")"))); }

echo "idle for $seconds s (load $(cut -d' ' -f1-3 /proc/loadavg))"
start_slurm || true
write_config idle 8xA100-40GB
cat >>"$home/carma.toml" <<END
[policy]
sm_cap = false
settle = false
END
start_written
sleep 2 # the start does not count as idle time
before=$(both_ns "$carmad_pid")
loop_before=$(thread_ns "$carmad_pid" "$carmad_pid")
[ -z "$slurm_pid" ] || slurm_before=$(process_ns "$slurm_pid")
most_children=0
for _ in $(seq "$seconds"); do
  sleep 1
  now=$(children "$carmad_pid")
  [ "$now" -le "$most_children" ] || most_children=$now
done
after=$(both_ns "$carmad_pid")
loop_after=$(thread_ns "$carmad_pid" "$carmad_pid")
record idle.cpu.carma "$(percent "$before" "$after")" "% core" "with its reader"
record idle.cpu.carma_loop "$(percent "$loop_before" "$loop_after")" "% core"
record idle.cpu.carma_probe "$(percent $((loop_after - loop_before)) $((after - before)))" "% core" \
  "the other threads and the reader, with the simulated driver in it"
record idle.rss.carma "$(rss_mib "$carmad_pid")" MiB
record idle.rss.reader "$(rss_mib "$(reader_of "$carmad_pid")")" MiB "the simulated driver's library in it"
record idle.children.carma "$most_children" processes "the reader; one dcgmi where the driver does not count"
if [ -n "$slurm_pid" ]; then
  record idle.cpu.slurm "$(percent "$slurm_before" "$(process_ns "$slurm_pid")")" "% core" "slurmctld, reads no GPU"
  record idle.rss.slurm "$(rss_mib "$slurm_pid")" MiB
fi
record idle.probe_round.carma "$(
  CARMA_SIMGPU_STATE=$home/gpus CARMA_BENCH_NVML=$bin/libcarma-simgpu.so "$bin/probe_bench" \
    --benchmark_format=csv 2>/dev/null | awk -F, '/^"BM_Round/ {printf "%.1f\n", $4}'
)" us "CPU of one round of 8 GPUs, in a loop"

# Two tasks on each GPU, because each sample also looks up the processes.
for _ in $(seq 16); do
  carma submit --memory 8G -o /dev/null -- "$bin/carma-simtask" --memory-mib 6000 --sm-active 0.2 --load-s 0 \
    --solo-s 1000000 >/dev/null
done
until [ "$(carma list --json | grep -o '"state":"running"' | wc -l)" -eq 16 ]; do sleep 0.2; done
sleep 2
before=$(both_ns "$carmad_pid")
sleep $((seconds / 2))
record idle.cpu.carma_16_tasks "$(percent "$before" "$(both_ns "$carmad_pid")" $((seconds / 2)))" "% core" \
  "16 tasks run"
record idle.rss.carma_16_tasks "$(rss_mib "$carmad_pid")" MiB
carma cancel --all >/dev/null
carma wait --quiet --timeout 1m 1-16 || true
stop_carmad

# monitor.history is 15 minutes, which pass in 45 seconds.
write_config history 8xA100-40GB 20
start_written
sleep $((15 * 60 / 20 + 2))
record idle.rss.carma_full_history "$(rss_mib "$carmad_pid")" MiB "after 15 minutes of the simulated clock"
stop_carmad
