#!/usr/bin/env python3
"""Makes the tables of docs/server/clusters.md: policies of clusters.toml on clusters of several sizes.

bench/clusters.py build/release/bin [SERVERS[xLOADS] …]     e.g. 4x5 100x1; default: everything on the page

Loads are generated: 60 tasks for each server with four A100s, one every 250 s, seeds 1, 2, …; each is run once with 3 % noise on durations.
Changes are computed load by load against the first policy; ± is their standard deviation. Times are those of the whole command on two cores.
"""
import csv
import io
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PLAN = pathlib.Path(__file__).with_name("clusters.toml")
SIZES = ["1x5", "4x5", "16x5", "100x3", "1000x1"]


def load(carma, servers, seed):
    jobs = subprocess.run([carma, "trace", "generate", "--tasks", str(60 * servers), "--mean-gap", f"{250 / servers:g}",
                           "--max-gpus", "4", "--seed", str(seed)], check=True, capture_output=True).stdout
    return subprocess.run([carma, "trace", "map", "-"], input=jobs, check=True, capture_output=True).stdout


def simulate(carma, servers, seed):
    with tempfile.NamedTemporaryFile() as trace:
        trace.write(load(carma, servers, seed))
        trace.flush()
        done = subprocess.run([carma, "simulate", str(PLAN), "--trace", trace.name, "--server", f"{servers} * dgx-station-a100",
                               "--noise", "0.03", "--seed", str(seed), "--csv"], check=True, capture_output=True)
    return list(csv.DictReader(io.StringIO(done.stdout.decode())))


def cells(runs, first):
    def mean(key):
        return statistics.mean(float(run[key]) for run in runs)

    changes = [float(run["trace_total_s"]) / float(other["trace_total_s"]) - 1 for run, other in zip(runs, first)]
    spread = f" ± {100 * statistics.stdev(changes):.1f}" if len(changes) > 1 else ""
    change = "" if runs is first else f"{100 * statistics.mean(changes):+.1f}{spread}".replace("-", "−")
    return [f"{mean('trace_total_s') / 60:.0f}", change, f"{mean('waiting_mean_s') / 60:.0f}", f"{mean('jct_mean_s') / 60:.0f}",
            f"{mean('jct_p95_s') / 60:.0f}", f"{mean('slowdown_mean'):.2f}", f"{mean('sm_active') * 100:.0f}",
            f"{mean('oom_crashes'):.3g}", f"{mean('requeues'):.0f}"]


def main():
    carma = str(pathlib.Path(sys.argv[1]) / "carma")
    for size in sys.argv[2:] or SIZES:
        servers, _, loads = size.partition("x")
        began = time.monotonic()
        by_policy = {}
        for seed in range(1, int(loads or 1) + 1):
            for run in simulate(carma, int(servers), seed):
                by_policy.setdefault(run["label"], []).append(run)
        print(f"\n{servers} servers, {60 * int(servers)} tasks, {loads or 1} loads, {time.monotonic() - began:.0f} s\n")
        print("| | makespan, min | change, % | waiting | completion | 95 % | slowdown | SM, % | out of memory | sent back |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        first = next(iter(by_policy.values()))
        for label, runs in by_policy.items():
            print(f"| {label} | " + " | ".join(cells(runs, first)) + " |", flush=True)


if __name__ == "__main__":
    main()
