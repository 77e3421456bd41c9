#!/usr/bin/env python3
"""Makes the table of docs/evidence/sharing.md: how evenly users are served. The load is windows of a cluster trace; each virtual cluster represents a user.

bench/fairness.py build/release/bin philly_vc_jobs.csv [SAMPLES [LOAD]]

From each window, SAMPLES (10) samples of about 200 jobs are drawn for four GPUs, with LOAD (1.5) times the work that these GPUs do one task at a time. Each
sample is run with 3 % noise under every policy. Each cell shows Jain's index of users' mean stretch, the change of the makespan against the first policy in
percent, and the mean waiting time of the worst user in minutes, as means over the samples.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

WINDOWS = [("0d", "10d"), ("10d", "36d"), ("36d", "52d"), ("52d", "80d"), ("80d", "125d")]
POLICIES = {
    "order of submission, `magm`": "magm",
    "order of submission, `magm`, `backfill=1000`": "magm,backfill=1000",
    "fair order, `magm`": "magm,order=fair",
    "fair order, `magm`, `backfill=1000`": "magm,order=fair,backfill=1000",
    "order of submission, `by-work` (default)": "by-work",
    "fair order, `by-work`": "by-work,order=fair",
    "order of submission, `by-work`, `mps_servers=shared`": "by-work,mps_servers=shared",
}


def run(*words, stdin=None):
    return subprocess.run(words, input=stdin, check=True, capture_output=True).stdout


def sample(carma, trace, window, seed, load):
    jobs = run(carma, "trace", "window", trace, "--from", window[0], "--to", window[1])
    tasks = run(carma, "trace", "map", "-", "--users", "vc", "--seed", str(seed), stdin=jobs)
    return run(carma, "trace", "sample", "-", "--gpus", "4", "--tasks", "200", "--load", load, "--scale-time", "--seed", str(seed), stdin=tasks)


def simulate(carma, trace, policy, seed):
    words = ["--noise", "0.03", "--seed", str(seed), "--estimator", "oracle", "--policy", policy, "--json"]
    return json.loads(run(carma, "simulate", "--trace", trace, *words))[0]


def main():
    carma, trace, samples = str(pathlib.Path(sys.argv[1]) / "carma"), sys.argv[2], int((sys.argv[3:] or [10])[0])
    load = (sys.argv[4:] or ["1.5"])[0]
    rows = {name: [] for name in POLICIES}
    for window in WINDOWS:
        cells = {name: [] for name in POLICIES}
        for seed in range(1, samples + 1):
            with tempfile.NamedTemporaryFile() as tasks:
                tasks.write(sample(carma, trace, window, seed, load))
                tasks.flush()
                first = None
                for name, policy in POLICIES.items():
                    metrics = simulate(carma, tasks.name, policy, seed)
                    first = first or metrics
                    cells[name].append((metrics["jain"], metrics["trace_total_s"] / first["trace_total_s"] - 1, metrics["worst_user_waiting_s"] / 60))
        for name, runs in cells.items():
            rows[name].append([statistics.mean(column) for column in zip(*runs)])
    print("| | " + " | ".join(f"days {start[:-1]} to {end[:-1]}" for start, end in WINDOWS) + " | mean |")
    print("|---" * (len(WINDOWS) + 2) + "|")
    for name, windows in rows.items():
        windows = windows + [[statistics.mean(column) for column in zip(*windows)]]
        print(f"| {name} | " + " | ".join(f"{jain:.2f}, {100 * change:+.1f}, {worst:.0f}".replace("-", "−") for jain, change, worst in windows) + " |")


if __name__ == "__main__":
    main()
