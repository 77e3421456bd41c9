#!/usr/bin/env python3
"""Runs jobs with leases in a real Slurm with prolog and epilog while carmad restarts: restarts_test.py BIN_DIR [JOBS [RESTARTS]].
Exit status 77: there is no slurmctld, slurmd or munged, the plug-in was not built, or we are not root."""

import os
import signal
import sys
import unittest

import bed as slurm
import spank_bed
from kills_test import OVER

USER = "nobody"
JOBS = int(sys.argv[2]) if len(sys.argv) > 2 else 40
RESTARTS = int(sys.argv[3]) if len(sys.argv) > 3 else 4
FILES = {name: f'#!/bin/sh\nexec "PROGRAMS/carma" --socket FOLDER/nodes/$SLURMD_NODENAME.sock slurm {verb}\n'
         for name, verb in {"prolog": "guard", "epilog": "epilog"}.items()}


class Restarts(unittest.TestCase):
    """An upgrade of carmad on busy nodes fails no job and drains no node."""

    def test_no_job_fails_and_no_node_drains(self):
        bed = spank_bed.SpankBed(os.path.abspath(sys.argv[1]), settings="Prolog=FOLDER/etc/prolog\nEpilog=FOLDER/etc/epilog", files=FILES)
        self.addCleanup(bed.close)
        bed.sbatch(USER, "echo $SLURMD_NODENAME $CARMA_TASK_ID >> ~/starts\nsrun --mem=100 sh -c 'echo $SLURMD_NODENAME $CARMA_TASK_ID >> ~/steps'\n",
                   "--carma-mem=2G", f"--array=1-{JOBS}", "--time=5")

        def states():
            return bed.ask("squeue", "-h", "-a", "-r", "--states=all", "-o", "%T").split()

        for number in range(RESTARTS):
            slurm.until(lambda number=number: sum(state in OVER for state in states()) >= JOBS * number // (RESTARTS + 1), "jobs have run", 240)
            for node in bed.node_names():  # every second one is killed
                bed.daemons[node].send_signal(signal.SIGKILL if number % 2 else signal.SIGTERM)
                bed.daemons[node].wait(slurm.LIMIT_S)
            for node in bed.node_names():
                bed.daemons[node] = bed.start_daemon(node)
            for node in bed.node_names():
                bed.serves(node)
        slurm.until(lambda: all(state in OVER for state in states()), "all jobs have run", 240)
        self.assertEqual(set(states()), {"COMPLETED"}, bed.ask("squeue", "-h", "-a", "-r", "--states=all", "-o", "%i %T %r"))
        self.assertNotIn("drain", bed.ask("sinfo", "-h", "-N", "-o", "%T"))
        slurm.until(lambda: not any(bed.get(node, "/v1/leases")[1]["leases"] for node in bed.node_names()), "no lease is left")
        lines = {}
        for name in ("starts", "steps"):
            with open(os.path.join(bed.home(USER), name), encoding="utf-8") as file:
                lines[name] = [tuple(line.split()) for line in file]
        starts = lines["starts"]
        self.assertEqual((len(starts), len(set(starts))), (JOBS, JOBS), "each start has a lease of its own")
        self.assertEqual(sorted(starts), sorted(lines["steps"]), "and its step shares that")
        tasks = [(node, str(task["id"])) for node in bed.node_names()
                 for task in bed.carma(node, "list", "--state", "all", "--limit", "100000")["tasks"]]
        ran = {(node, task) for node, task in tasks if bed.get(node, f"/v1/leases/{task}")[1]["outcome"] == "ran"}
        print(f"{JOBS} jobs, {RESTARTS} restarts of {len(bed.node_names())} carmads: {len(starts)} starts, {len(ran)} leases that ran, {len(tasks)} in all")
        self.assertEqual(ran, set(starts))


if __name__ == "__main__":
    WHY_NOT = spank_bed.missing(sys.argv[1])
    if WHY_NOT:
        print(f"skipped: {WHY_NOT}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]])
