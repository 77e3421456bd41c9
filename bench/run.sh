#!/usr/bin/env bash
# Runs all benchmarks, compared with sbatch and tsp if they are installed, and prints one table of budgets and measured figures. A
# figure over its budget is not a failure, because machines differ.
# usage: run.sh BIN_DIR [PART…]   parts: decision store submit idle start launch page sim progress (default: all, about 9 minutes)
set -euo pipefail
bin=$(realpath "${1:?usage: run.sh BIN_DIR [decision|store|submit|idle|start|launch|page|sim|progress]…}")
parts=${*:2}
parts=${parts:-decision store submit idle start launch page sim progress}
here=$(dirname "$(realpath "$0")")
out=$here/../out/bench
mkdir -p "$out"
out=$(realpath "$out")
work=$(mktemp -d "$out/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
results=$work/results.tsv
started=$(date -u +%Y-%m-%dT%H:%M:%SZ)
load_before=$(cut -d' ' -f1-3 /proc/loadavg)

# The environment is stored with each task, so it has the same size on every machine: 1.8 KiB.
clean=(env -i "PATH=$PATH" "HOME=$HOME" "USER=$(id -un)" LANG=C.UTF-8)
for i in $(seq 24); do
  clean+=("BENCH_VARIABLE_$i=/opt/software/of/a/usual/length/$i/bin:/usr/local/bin")
done
for name in ${!CARMA_BENCH_*}; do clean+=("$name=${!name}"); done

# csv_figure KEY FILE NAME COLUMN UNIT: records one figure of Google Benchmark's CSV
csv_figure() {
  awk -F, -v key="$1" -v name="$3" -v column="$4" -v unit="$5" '
    {gsub(/"/, "")}
    $1 == "name" {for (i = 1; i <= NF; ++i) if ($i == column) at = i}
    index($1, name) == 1 {printf "%s\t%.4g\t%s\t\n", key, $at, unit}' "$2" >>"$results"
}
# gbench PROGRAM FILTER NAME: runs a benchmark in the work folder, which is on a disk, and keeps NAME.csv
gbench() {
  (cd "$work" && "$bin/$1" --benchmark_filter="$2" --benchmark_out="$out/$3.csv" \
    --benchmark_out_format=csv 2>"$work/errors") || {
    tail -3 "$work/errors" >&2
    return 1
  }
}

decision() {
  local queued gpus event share order fair choosing by_work
  # Each benchmark has its own file, because all rows of a CSV have the same counters.
  gbench decision_bench 'TaskExited|GpuSampled|TaskSubmitted|FirstPass' decision
  gbench decision_bench SubmitBatch decision_batch
  csv_figure decision.batch_100000 "$out/decision_batch.csv" BM_SubmitBatch/tasks:100000 tasks_per_s tasks/s
  for queued in 100 10000 100000; do
    for gpus in 8 16; do
      for event in TaskExited GpuSampled TaskSubmitted; do
        for share in p50 p99; do
          csv_figure "decision.$event.${queued}x$gpus.$share" "$out/decision.csv" \
            "BM_$event/queued:$queued/gpus:$gpus/" "${share}_us" us
        done
      done
    done
  done
  # 200 users with accounts, classes and limits: fair order compared with the order of submission.
  while read -r order fair choosing by_work; do
    for share in p50 p99 cpu_p50 cpu_p99; do
      csv_figure "decision.people.$order.$choosing.$share" "$out/decision.csv" \
        "BM_ManyPeopleTaskExited/queued:10000/gpus:16/fair:$fair/by_work:$by_work/" "${share}_us" us
      csv_figure "pass.people.$order.$choosing.$share" "$out/decision.csv" \
        "BM_ManyPeopleFirstPass/fair:$fair/by_work:$by_work/" "${share}_us" us
    done
  done <<END
submission 0 in_order 0
submission 0 by_work 1
fair 1 in_order 0
fair 1 by_work 1
END
}

store() {
  local p50 p95 p99 rest
  gbench store_bench 'SubmitOne|StateChange|SubmitBatch.*:2000|ListPage/newest|Counts|Restart' store
  csv_figure store.submit_one "$out/store.csv" BM_SubmitOne real_time us
  csv_figure store.submit_batch "$out/store.csv" BM_SubmitBatch items_per_second tasks/s
  csv_figure store.list_page "$out/store.csv" BM_ListPage/newest real_time us
  csv_figure store.restart "$out/store.csv" BM_Restart real_time ms
  read -r p50 p95 p99 rest < <("$bin/sync_timer" 300 "$work/sync")
  printf 'disk.fdatasync.p50\t%s\tms\t\ndisk.fdatasync.p99\t%s\tms\t\n' "$p50" "$p99" >>"$results"
}

# The short form, whose parts take up to a second. sim_bench itself runs all sizes.
sim() {
  local tasks mode
  gbench sim_bench 'BM_(Claims|Sampled)/tasks:10000?/gpus:1000/|BM_Published/copies:1$' sim
  for mode in Claims Sampled; do
    for tasks in 1000 10000; do
      csv_figure "sim.$mode.${tasks}x1000" "$out/sim.csv" "BM_$mode/tasks:$tasks/gpus:1000/" cpu_time ms
    done
  done
  csv_figure sim.Published.60x4 "$out/sim.csv" BM_Published/copies:1 cpu_time ms
}

progress() {
  gbench progress_bench 'BM_HundredTasks' progress
  csv_figure progress.for_100 "$out/progress.csv" BM_HundredTasks percent_of_a_core '% core'
}

for part in $parts; do
  case "$part" in
    decision | store | sim | progress)
      echo "$part (load $(cut -d' ' -f1-3 /proc/loadavg))"
      $part
      ;;
    page) "${clean[@]}" python3 "$here/page_bench.py" "$bin" 30 "$results" ;;
    submit | idle | start | launch) "${clean[@]}" bash "$here/${part}_bench.sh" "$bin" "$work" ;;
    *)
      echo "run.sh: no part '$part', expected decision, store, submit, idle, start, launch, page, sim or progress" >&2
      exit 2
      ;;
  esac
done

# ---- the table ----

figure() { awk -F'\t' -v key="$1" '$1 == key {printf "%s %s", $2, $3}' "$results"; }
# row WHAT BUDGET KEY [PEER=KEY]…: prints a row of the table; leaves out figures that were not measured
row() {
  local measured peers='' each value
  measured=$(figure "$3")
  [ -n "$measured" ] || return 0
  for each in "${@:4}"; do
    value=$(figure "${each#*=}")
    [ -z "$value" ] || peers+="${each%%=*} $value  "
  done
  printf '%-50s  %-18s  %-16s  %s\n' "$1" "$2" "$measured" "$peers"
}
echo
printf '%-50s  %-18s  %-16s  %s\n' what budget measured peers
row "decision, 10 000 queued x 16 GPUs, p99" "1000 us" decision.TaskExited.10000x16.p99
row "decision, 100 queued x 8 GPUs, p99" "50 us" decision.TaskExited.100x8.p99
for choosing in in_order by_work; do
  row "the same for 200 users, fair order, $choosing, p99" "1000 us" "decision.people.fair.$choosing.p99" \
    "by submission=decision.people.submission.$choosing.p99"
  row "1 000 arrive for 8 GPUs, fair order, $choosing, p50" "2000 us" "pass.people.fair.$choosing.p50" \
    "by submission=pass.people.submission.$choosing.p50"
done
row "one durable write on this disk, p50" - disk.fdatasync.p50
for queued in 0 10000 100000; do
  for share in p50 p95 p99; do
    budget=-
    [ "$share" != p50 ] || budget="5 ms"
    row "submit with $queued queued, $share" "$budget" "submit.${queued}_queued.carma.$share" \
      "sbatch=submit.${queued}_queued.slurm.$share" "tsp=submit.${queued}_queued.tsp.$share"
  done
done
row "submit --batch of 20000" "20000 tasks/s" batch.20000.carma "sbatch one by one=batch.single.slurm" \
  "tsp one by one=batch.single.tsp"
row "submit --batch of 100000" "20000 tasks/s" batch.100000.carma
row "a submission right after that batch" - batch.100000.next_submit.carma
row "submit --array of 10000" "20000 tasks/s" batch.array_10000.carma "sbatch --array=batch.array_10000.slurm"
for queued in 10000 100000; do
  for share in p50 p95; do
    row "list --limit 50 of $queued, $share" "20 ms" "list.${queued}_queued.carma.$share" \
      "squeue=list.${queued}_queued.slurm.$share"
  done
done
row "memory with 100000 queued" "60 MiB" memory.100000_queued.carma "slurmctld=memory.100000_queued.slurm"
row "idle, 8 GPUs at 1 Hz: CPU" "0.5 % core" idle.cpu.carma "slurmctld=idle.cpu.slurm"
row "idle: resident memory" "30 MiB" idle.rss.carma "slurmctld=idle.rss.slurm"
row "idle: resident memory, 15 min of history" "30 MiB" idle.rss.carma_full_history
row "16 tasks running: CPU" - idle.cpu.carma_16_tasks
row "idle: child processes" "0 processes" idle.children.carma
row "start with a new database" - start.new_books.carma
row "start with 100000 finished tasks" "1000 ms" start.100000_finished.carma
row "a launch next to a neighbour, streams" - launch.streams.next
row "a launch next to a neighbour, MPS" - launch.mps.next
row "the first launch on a GPU, MPS" - launch.mps.first
row "page, first paint with 100 000 tasks" "200 ms" page.first_paint
row "page, bytes of the first view" "60 KB" page.bytes
row "50 open pages: CPU of carmad" "2 % core" page.cpu.for_50
row "reading the progress of 100 running tasks" "0.1 % core" progress.for_100
row "simulating 10 000 tasks on 1000 GPUs, claims" - sim.Claims.10000x1000
row "simulating 10 000 tasks on 1000 GPUs, sampled" - sim.Sampled.10000x1000
row "simulating 60 tasks on 4 GPUs, as published" - sim.Published.60x4

version() { dpkg-query -W -f='${Version}' "$1" 2>/dev/null || echo absent; }
{
  printf '{"started":"%s","load_before":"%s","load_after":"%s","cores":%s,"kernel":"%s",' "$started" "$load_before" \
    "$(cut -d' ' -f1-3 /proc/loadavg)" "$(nproc)" "$(uname -r)"
  printf '"slurm":"%s","task_spooler":"%s","carma":"%s","figures":[' "$(version slurmctld)" "$(version task-spooler)" \
    "$("$bin/carma" --version)"
  awk -F'\t' '{printf "%s\n  {\"key\":\"%s\",\"value\":%s,\"unit\":\"%s\",\"spread\":\"%s\"}", (NR > 1 ? "," : ""), $1, $2, $3, $4}
    END {print "\n]}"}' "$results"
} >"$out/results.json"
echo
echo "load before $load_before, after $(cut -d' ' -f1-3 /proc/loadavg); written to ${out}/results.json"
