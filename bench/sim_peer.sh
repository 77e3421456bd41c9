#!/usr/bin/env bash
# Compares the simulator with another one, the Python prototype from which its models come, on the same trace and policy in the
# same run.
# usage: sim_peer.sh BIN_DIR PEER.py DATA_DIR   DATA_DIR: traces/carma_heavy60.csv and workloads/catalog.csv
set -euo pipefail
bin=$(realpath "${1:?usage: sim_peer.sh BIN_DIR PEER.py DATA_DIR}")
peer=${2:?usage: sim_peer.sh BIN_DIR PEER.py DATA_DIR}
data=${3:?usage: sim_peer.sh BIN_DIR PEER.py DATA_DIR}
if [ ! -f "$peer" ]; then
  echo "sim_peer: no peer at $peer to compare with"
  exit 0
fi
export CARMA_SIM_TRACE=$data/traces/carma_heavy60.csv CARMA_SIM_WORKLOADS=$data/workloads/catalog.csv
own=$(mktemp)
trap 'rm -f "$own"' EXIT
"$bin/sim_bench" --benchmark_filter='BM_Published|BM_OwnRules' --benchmark_format=csv 2>/dev/null >"$own"
"${PYTHON:-python3}" - "$peer" "$data" "$own" <<'PEER'
import csv, importlib.util, sys, time

path, data, own = sys.argv[1:]
spec = importlib.util.spec_from_file_location("peer", path)
peer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peer)
catalogue = peer.load_catalog(data)
trace = peer.load_trace(data, "carma_heavy60")
published = dict(kind="magm", mem=("floor", 2000), cap=0.8)
bookkeeping = dict(kind="smart", memsrc="oracle", score="sum")
rows = {r["name"]: r for r in csv.DictReader(l for l in open(own) if l.startswith(("name", '"BM')))}
print(f"{'tasks x GPUs':>14} {'rules':>20} {'peer, CPU ms':>13} {'own, CPU ms':>12} {'times':>7}")
for name, copies, gpus, policy, loop, runs in (
        ("BM_Published/copies:1", 1, 4, published, "thesis", 5),
        ("BM_Published/copies:16", 16, 64, published, "thesis", 1),
        ("BM_OwnRules/copies:32", 32, 1000, bookkeeping, "fast", 1)):
    peer.P.ngpu = gpus
    load = [submission for submission in trace for _ in range(copies)]
    spent = []
    for _ in range(runs):
        start = time.process_time()
        peer.Sim(catalogue, load, policy, "mps", loop).run()
        spent.append((time.process_time() - start) * 1000)
    mine = float(rows[name]["cpu_time"])
    rules = "published loop" if loop == "thesis" else "at every event"
    print(f"{60 * copies:>7} x {gpus:>4} {rules:>20} {min(spent):>13.1f} {mine:>12.3f} {min(spent) / mine:>7.0f}")
PEER
