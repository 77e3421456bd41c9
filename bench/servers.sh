# Sourced by the benchmark scripts: private servers of CARMA and its peers, and the list of results. Needs the variables bin
# (programs) and work (a new folder on a disk, because durable writes cost nothing on a memory file system).
sockets=$(mktemp -d /tmp/carma-bench.XXXXXX) # a short path, because it contains sockets
socket=$sockets/carmad.sock
results=$work/results.tsv
touch "$results"

# record KEY VALUE UNIT [SPREAD]
record() {
  printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "${4:-}" >>"$results"
  printf '  %-46s %12s %-8s %s\n' "$1" "$2" "$3" "${4:-}"
}
# record_times KEY "p50 p95 p99 low high": records times in the format of spawn_timer
record_times() {
  local p50 p95 p99 low high
  read -r p50 p95 p99 low high <<<"$2"
  record "$1.p50" "$p50" ms "rounds $low-$high"
  record "$1.p95" "$p95" ms
  record "$1.p99" "$p99" ms
}
# Prints the median, lowest and highest of the numbers on standard input as "median low high".
median() { sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)], v[1], v[NR]}'; }
rss_mib() { awk '/^VmRSS/ {printf "%.1f", $2 / 1024}' "/proc/$1/status"; }

carma() { "$bin/carma" --socket "$socket" "$@"; }

# write_config NAME SHAPE [TIME_SCALE]: writes the configuration and makes the simulated server of a daemon without tasks.
write_config() {
  home=$work/$1
  mkdir -p "$home"
  "$bin/carma-simgpu" create --shape "$2" --time-scale "${3:-1}" --state "$home/gpus" >/dev/null
  cat >"$home/carma.toml" <<END
[daemon]
socket = "$socket"
state_dir = "$home/state"
log_level = "warn"
[monitor]
nvml_library = "$bin/libcarma-simgpu.so"
[simulation]
state = "$home/gpus"
END
}
carmad_pid=
# start_carmad NAME SHAPE [drained]: starts a daemon; drained GPUs keep every task in the queue.
start_carmad() {
  write_config "$1" "$2"
  start_written
  [ "${3:-}" != drained ] || carma drain all --reason bench >/dev/null
}
# Starts the daemon whose configuration was written last.
start_written() {
  "$bin/carmad" --config "$home/carma.toml" 2>>"$work/carmad.log" &
  carmad_pid=$!
  carma status --wait >/dev/null
}
stop_carmad() {
  [ -n "$carmad_pid" ] || return 0
  kill "$carmad_pid" 2>/dev/null || true
  wait "$carmad_pid" 2>/dev/null || true
  carmad_pid=
  rm -rf "$home"
}

slurm_pid=
have_slurm() { [ -n "$(PATH=$PATH:/usr/sbin type -P slurmctld)" ] && type -P sbatch >/dev/null; }
# Starts a separate controller with a node that never answers, so that every job stays in the queue.
start_slurm() {
  have_slurm || return 1
  local home=$sockets/slurm
  mkdir -p "$home/state" "$work/slurm"
  export SLURM_CONF=$home/slurm.conf
  cat >"$SLURM_CONF" <<END
ClusterName=bench
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=$(id -un)
SlurmctldPort=${CARMA_BENCH_SLURM_PORT:-26817}
SlurmdPort=${CARMA_BENCH_SLURMD_PORT:-26818}
AuthType=auth/none
CredType=cred/none
StateSaveLocation=$work/slurm
SlurmctldPidFile=$home/slurmctld.pid
SlurmctldLogFile=$work/slurmctld.log
ProctrackType=proctrack/linuxproc
SwitchType=switch/none
TaskPlugin=task/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MaxJobCount=500000
MaxArraySize=200001
NodeName=localhost CPUs=1 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
  "$(PATH=$PATH:/usr/sbin type -P slurmctld)" -D >/dev/null 2>&1 &
  slurm_pid=$!
  local try
  for try in $(seq 100); do
    sinfo >/dev/null 2>&1 && return 0
    sleep 0.1
  done
  echo "  slurmctld does not answer: its figures are left out" >&2
  stop_slurm
  return 1
}
stop_slurm() {
  [ -n "$slurm_pid" ] || return 0
  kill "$slurm_pid" 2>/dev/null || true
  wait "$slurm_pid" 2>/dev/null || true
  slurm_pid=
}

tsp_up=
# Starts a separate spooler whose only slot is taken, so that every job stays in the queue.
start_tsp() {
  type -P tsp >/dev/null || return 1
  export TS_SOCKET=$sockets/tsp
  tsp -n sleep 100000 </dev/null >/dev/null 2>&1
  tsp_up=1
}
stop_tsp() {
  [ -n "$tsp_up" ] || return 0
  local blocker
  blocker=$(tsp -p 0 2>/dev/null) || blocker=
  tsp -K >/dev/null 2>&1 || true
  [ -z "$blocker" ] || kill "$blocker" 2>/dev/null || true
  tsp_up=
}

cleanup() {
  stop_carmad
  stop_slurm
  stop_tsp
  # When the spooler exits, it writes a last file next to its socket.
  rm -rf "$sockets" 2>/dev/null || { sleep 0.5; rm -rf "$sockets"; }
}
trap cleanup EXIT
