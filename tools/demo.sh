#!/usr/bin/env bash
# The main job, live: a 60-task trace on a simulated DGX Station A100, one task per GPU and then collocated.
# Real daemon, real processes, real restarts of crashed tasks; the GPUs and the training are simulated, time is scaled.
set -euo pipefail

bin=$(realpath "${1:?usage: demo.sh BIN_DIR [TRACE] [replay options…]}")
trace=${2:-demo60}
scale=${CARMA_DEMO_SCALE:-400}
estimate=${CARMA_DEMO_ESTIMATE:-gpumemnet}
keep=${CARMA_DEMO_DIR:-}
work=${keep:-$(mktemp -d /tmp/carma-demo.XXXXXX)}
mkdir -p "$work"
# One task says that it needs half of what it takes, as people do: under MPS it runs out of memory. It is the first of its
# kind: of later ones CARMA knows better.
liar=24
said=()
[ "$trace" != demo60 ] || said=(--memory "$liar=6G")
# What stays when the demo has ended.
report=${CARMA_DEMO_REPORT:-$(cd "$(dirname "$0")/.." && pwd)/out/carma-demo.html}
mkdir -p "$(dirname "$report")"
# Unix sockets lie there: a short path, whatever CARMA_DEMO_DIR is.
mps=$(mktemp -d /tmp/carma-demo-mps.XXXXXX)
daemon=

# A port of this machine on which nobody listens: the page of both runs.
port=${CARMA_DEMO_PORT:-8080}
while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done

stop_daemon() {
  [ -n "$daemon" ] || return 0
  kill "$daemon" 2>/dev/null || true
  wait "$daemon" 2>/dev/null || true
  daemon=
}
cleanup() {
  [ -n "$daemon" ] && "$bin/carma" --socket "$socket" cancel --all >/dev/null 2>&1
  stop_daemon
  rm -rf "$mps"
  [ -n "$keep" ] || rm -rf "$work"
}
trap cleanup EXIT

# phase NAME "configuration lines": a fresh server and daemon, the whole trace, the measured report.
phase() {
  local name=$1 config=$2
  local home=$work/$name
  rm -rf "$home"
  mkdir -p "$home/out"
  socket=$home/carmad.sock
  "$bin/carma-simgpu" create --shape 4xA100-40GB --time-scale "$scale" --state "$home/gpus"
  cat >"$home/carma.toml" <<EOF
[daemon]
socket = "$socket"
state_dir = "$home/state"
http_port = $port
log_level = "warn"
[monitor]
nvml_library = "$bin/libcarma-simgpu.so"
[simulation]
state = "$home/gpus"
$config
EOF
  "$bin/carmad" --config "$home/carma.toml" 2>"$home/carmad.log" &
  daemon=$!
  "$bin/carma" --socket "$socket" status --wait >/dev/null
  "$bin/carma" --socket "$socket" trace replay "$trace" "${@:3}" --simtask "$bin/carma-simtask" \
    --estimate "$estimate" "${said[@]}" --output-dir "$home/out" --wait --progress
  "$bin/carma" --socket "$socket" report --name "$name" --json >"$work/$name.json"
  [ ${#said[@]} -eq 0 ] || "$bin/carma" --socket "$socket" history "$liar" >"$work/$name.crash"
  stop_daemon
  "$bin/carma-simgpu" audit --state "$home/gpus"
}

# tell_crash HISTORY: what became of the task that says too little, in a sentence.
tell_crash() {
  local crashes end
  crashes=$(grep -c 'OutOfMemory: ' "$1" || true)
  end=$(awk 'NF { last = $4 } END { print last }' "$1")
  echo "Task $liar (resnet50-b128) said that it needs 6G and takes 12.5G: beside others it ran out of GPU memory ($crashes" \
    "time$([ "$crashes" = 1 ] || echo s)), went back to the queue, was promised more, and $end."
}

cat <<EOF
CARMA on a simulated DGX Station A100 (4 x A100 40 GB), trace $trace
Watch it live while it runs: http://localhost:$port/ (from elsewhere: ssh -L $port:localhost:$port)

The trace is played twice, $scale times as fast as real time: its eleven hours take about $((44000 / scale)) s each time.

1. exclusive: one task per GPU
EOF
phase exclusive '[collocation]
method = "exclusive"' "${@:3}"
echo
echo "2. MAGM with $estimate memory estimates, collocated under MPS"
phase magm-mps '[policy]
mapper = "magm"
[collocation]
mps_control = "'"$bin"'/carma-simmps"
mps_dir = "'"$mps"'"
mps_servers = "user"' "${@:3}"
"$bin/carma" report "$work/exclusive.json" "$work/magm-mps.json" --html "$report"
echo
compared=$("$bin/carma" report compare "$work/exclusive.json" "$work/magm-mps.json")
tail -n +3 <<<"$compared"
cat <<EOF

All figures are simulated: memory, durations and slowdowns of tasks follow published measurements (docs/inside/simgpu.md).

The report, with figures: $report
Try next, from README.md, "Run your own script":
  export PATH=$bin:\$PATH
  carma simulate --runs 10 --noise 0.03          # the same and more in seconds, without processes
  carma-simgpu create --shape 4xA100-40GB --state /tmp/gpus
  export CARMA_SIMULATION_STATE=/tmp/gpus CARMA_MONITOR_NVML_LIBRARY=$bin/libcarma-simgpu.so CARMA_COLLOCATION_MPS_CONTROL=$bin/carma-simmps
  carmad --background && carma submit YOUR_SCRIPT.sh && carma top

EOF
[ ${#said[@]} -eq 0 ] || { tell_crash "$work/magm-mps.crash"; echo; }
head -n 1 <<<"$compared"
