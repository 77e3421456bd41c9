#!/usr/bin/env bash
# The simulator beside another one: the Python prototype from which its models come, on the same trace with
# the same policy, in the same run.
# usage: sim_peer.sh BIN_DIR PEER.py DATA_DIR   DATA_DIR: traces/carma_heavy60.csv and workloads/catalog.csv
set -euo pipefail
bin=$(realpath "${1:?usage: sim_peer.sh BIN_DIR PEER.py DATA_DIR}")
peer=${2:?usage: sim_peer.sh BIN_DIR PEER.py DATA_DIR}
data=${3:?usage: sim_peer.sh BIN_DIR PEER.py DATA_DIR}
if [ ! -f "$peer" ]; then
  echo "sim_peer: no peer at $peer, nothing to compare with"
  exit 0
fi
export CARMA_SIM_TRACE=$data/traces/carma_heavy60.csv CARMA_SIM_WORKLOADS=$data/workloads/catalog.csv
own=$(mktemp)
trap 'rm -f "$own"' EXIT
"$bin/sim_bench" --benchmark_filter=BM_Published --benchmark_format=csv 2>/dev/null >"$own"
"${PYTHON:-python3}" - "$peer" "$data" "$own" <<'PEER'
import csv, importlib.util, sys, time

path, data, own = sys.argv[1:]
spec = importlib.util.spec_from_file_location("peer", path)
peer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peer)
catalogue = peer.load_catalog(data)
trace = peer.load_trace(data, "carma_heavy60")
policy = dict(kind="magm", mem=("floor", 2000), cap=0.8)
rows = {r["name"]: r for r in csv.DictReader(l for l in open(own) if l.startswith(("name", '"BM')))}
print(f"{'tasks x GPUs':>14} {'peer, CPU ms':>13} {'own, CPU ms':>12} {'times':>7}")
for copies, runs in ((1, 5), (16, 1)):
    peer.P.ngpu = 4 * copies
    load = [submission for submission in trace for _ in range(copies)]
    spent = []
    for _ in range(runs):
        start = time.process_time()
        peer.Sim(catalogue, load, policy, "mps", "thesis").run()
        spent.append((time.process_time() - start) * 1000)
    mine = float(rows[f"BM_Published/copies:{copies}"]["cpu_time"])
    print(f"{60 * copies:>8} x {4 * copies:>3} {min(spent):>13.1f} {mine:>12.3f} {min(spent) / mine:>7.0f}")
PEER
