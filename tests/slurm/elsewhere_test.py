#!/usr/bin/env python3
"""Tests jobs that wait on a full node of a real Slurm while another node is idle: elsewhere_test.py BIN_DIR.
Exit status 77: there is no slurmctld, slurmd or munged, the plug-in was not built, or we are not root."""

import os
import sys
import unittest

import bed as slurm
import spank_bed

USER = "nobody"
LIMIT_S = 200  # two minutes of waiting, and the time that Slurm needs for a restart
SCRIPT = "touch ~/$SLURM_JOB_NAME-on-$SLURMD_NODENAME\nuntil [ -e ~/stop ]; do sleep 0.2; done\n"


class Elsewhere(unittest.TestCase):
    """Two nodes that Slurm fills one after the other; n0 is full, but not by Slurm's count."""

    bed = None

    @classmethod
    def setUpClass(cls):
        cls.bed = spank_bed.SpankBed(os.path.abspath(sys.argv[1]), nodes=2, daemons=False)
        cls.addClassCleanup(cls.bed.close)
        cls.bed.environment["CARMA_SLURM_ENABLED"] = "true"
        cls.bed.start_daemons()
        cls.bed.carma("n0", "submit", "--exclusive", "-G", "4", "-o", "/dev/null", "--", "sleep", "1000000")
        slurm.until(lambda: cls.bed.tasks("n0", "running"), "n0 is full")

    def submit(self, name, *options):
        """A job that goes to n0 and waits there."""
        job = self.bed.sbatch(USER, SCRIPT, "-J", name, "--carma-mem=4G", "--gres=carma:4", *options)
        slurm.until(lambda: self.bed.job(job).get("NodeList") == "n0", f"{name} is on n0")
        return job

    def ran(self, name):
        """The nodes on which the job's script has started."""
        beginning = f"{name}-on-"
        return [file[len(beginning):] for file in os.listdir(self.bed.home(USER)) if file.startswith(beginning)]

    def test_jobs_that_may_go_run_on_the_idle_node(self):
        stay = {"pinned": self.submit("pinned", "--nodelist=n0"), "fixed": self.submit("fixed", "--no-requeue")}
        go = {name: self.submit(name) for name in ("first", "next")}
        slurm.until(lambda: "waiting for GPUs on n0" in self.bed.ask("squeue", "-h", "-j", str(go["first"]), "-O", "admin_comment:200"), "it says why it waits")
        for name, job in go.items():
            slurm.until(lambda name=name: self.ran(name), f"{name} runs: {self.bed.job(job)} {self.bed.output(job)}", LIMIT_S)
            self.assertEqual((self.ran(name), self.bed.job(job)["Restarts"], self.bed.job(job)["ExcNodeList"]), (["n1"], "1", "n0"))
        for name, job in stay.items():
            found = self.bed.job(job)
            self.assertEqual((found["JobState"], found["NodeList"], found["Restarts"], self.ran(name)), ("RUNNING", "n0", "0", []), name)
        told = [event["text"] for event in self.bed.carma("n0", "history")["events"] if event["what"] == "slurm"]
        self.assertEqual(told, ["carma: waited for GPUs on n0; moving to another node"] * 2)
        # After a requeue for another reason, the job may run on any node again.
        self.bed.ask("scontrol", "requeuehold", str(go["first"]))
        slurm.until(lambda: self.bed.job(go["first"])["ExcNodeList"] == "(null)", "it excludes nothing")
        with open(os.path.join(self.bed.home(USER), "stop"), "w", encoding="utf-8"):
            pass
        self.assertEqual(self.bed.ended(go["next"]), ("COMPLETED", 0), self.bed.output(go["next"]))


if __name__ == "__main__":
    WHY_NOT = spank_bed.missing(sys.argv[1])
    if WHY_NOT:
        print(f"skipped: {WHY_NOT}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
