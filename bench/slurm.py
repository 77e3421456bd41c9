#!/usr/bin/env python3
"""Measures what a lease costs a Slurm job: slurm.py BIN_DIR [--runs 25] [--rounds 3] [--elements 500].

Runs two Slurms with four nodes on this machine, one of them without the plug-in. All variants alternate within one run, so that other load on the machine
affects all of them equally. Has the same requirements as tests/slurm."""

import argparse
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "slurm"))
import bed as slurm  # noqa: E402
import spank_bed  # noqa: E402

USER = "nobody"
LEASE = ("--carma-mem=100M",)


class Asking(spank_bed.SpankBed):
    """A test bed in which each carmad queries Slurm."""

    def daemon_settings(self, node):
        return {**super().daemon_settings(node), "CARMA_SLURM_ENABLED": "true"}


def srun_ms(where, *options):
    """How many milliseconds one srun takes."""
    began = time.monotonic()
    ran = where.run_as(USER, "srun", "--mem=100", *options, "true")
    if ran.returncode != 0:
        raise AssertionError(ran.stderr)
    return (time.monotonic() - began) * 1000


def array_s(where, elements, *options):
    """How many seconds pass from the submission of an array to the end of its last job."""
    began = time.monotonic()
    ran = where.run_as(USER, "sbatch", "--parsable", "--mem=100", f"--array=1-{elements}", "--output=/dev/null", *options, "--wrap=true", check=True)
    job = ran.stdout.strip()
    slurm.until(lambda: not where.run_as(USER, "squeue", "-h", "-j", job).stdout.strip(), "the array has ended", 600)
    took = time.monotonic() - began
    states = where.ask("scontrol", "-o", "show", "job", job)
    if "JobState=FAILED" in states:
        raise AssertionError("an element has failed")
    return took


def line(name, values, unit):
    """Formats median and range."""
    print(f"{name:34} p50 {statistics.median(values):8.1f} {unit}   {min(values):.1f} to {max(values):.1f}   of {len(values)}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs")
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--elements", type=int, default=500)
    parser.add_argument("--books", help="folder for the carmads' databases, for example on a tmpfs: four of them share this machine's disk")
    parser.add_argument("--enabled", action="store_true", help="with slurm.enabled: carmad asks squeue what a batch job claims")
    flags = parser.parse_args()
    why_not = spank_bed.missing(flags.programs)
    if why_not:
        sys.exit(f"slurm.py: {why_not}")
    programs = os.path.abspath(flags.programs)
    slurm.Bed.TIME_SCALE = 1  # of the simulated servers, so that carmad samples its GPUs as often as on a real server
    plain = slurm.Bed(programs)
    try:
        loaded = Asking(programs, books=flags.books) if flags.enabled else spank_bed.SpankBed(programs, books=flags.books)
        try:
            measure(plain, loaded, flags)
        finally:
            loaded.close()
    finally:
        plain.close()


def measure(plain, loaded, flags):
    plain.run_as = lambda *words, **more: spank_bed.SpankBed.run_as(plain, *words, **more)
    ways = {"srun, no plug-in": (plain, ()), "srun, plug-in not used": (loaded, ()), "srun, lease granted at once": (loaded, LEASE)}
    times = {name: [] for name in ways}
    for where, options in ways.values():
        srun_ms(where, *options)
    for _ in range(flags.runs):
        for name, (where, options) in ways.items():
            times[name].append(srun_ms(where, *options))
    for name, values in times.items():
        line(name, values, "ms")
    unused, leased = times["srun, plug-in not used"], times["srun, lease granted at once"]
    print(f"a lease adds                       p50 {statistics.median(leased) - statistics.median(unused):8.1f} ms")
    took = {"plug-in not used": [], "with leases": []}
    for _ in range(flags.rounds):
        took["plug-in not used"].append(array_s(loaded, flags.elements))
        took["with leases"].append(array_s(loaded, flags.elements, *LEASE))
    for name, values in took.items():
        line(f"array of {flags.elements}, {name}", values, "s")
    ratios = [leased / bare for leased, bare in zip(took["with leases"], took["plug-in not used"])]
    print(f"times as long, round by round      {', '.join(f'{ratio:.2f}' for ratio in ratios)}")


if __name__ == "__main__":
    main()
