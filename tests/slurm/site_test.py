#!/usr/bin/env python3
"""Tests the setup of CARMA in a real Slurm with three nodes: job_submit.lua, prolog, epilog, `carma slurm`: site_test.py BIN_DIR.
Exit status 77: as for plugin_test.py, or there is no job_submit_lua.so."""

import glob
import os
import signal
import socket
import sys
import time
import unittest

import bed as slurm
import spank_bed

USER = "nobody"
LUA = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "packaging", "slurm", "job_submit.lua")
FILES = {
    "job_submit.lua": 'carma_gib_per_gpu = 39\ncarma_largest_gpu_gib = 39\ncarma_partitions = { main = true }\ndofile("FOLDER/etc/carma.lua")\n',
    "prolog": '#!/bin/sh\nexec "PROGRAMS/carma" --socket FOLDER/nodes/$SLURMD_NODENAME.sock slurm guard\n',
    "epilog": '#!/bin/sh\nexec "PROGRAMS/carma" --socket FOLDER/nodes/$SLURMD_NODENAME.sock slurm epilog\n',
}
SETTINGS = ("JobSubmitPlugins=lua\nProlog=FOLDER/etc/prolog\nEpilog=FOLDER/etc/epilog\n"
            "PartitionName=apart Nodes=ALL MaxTime=INFINITE State=UP DefMemPerCPU=100\n")


class SiteBed(spank_bed.SpankBed):
    """Slurm has its nodes under this machine's name, as `scontrol show aliases` expects."""

    def _configuration(self, text):
        return text.replace("NodeHostname=localhost", "NodeHostname=" + socket.gethostname().split(".")[0])


class Site(unittest.TestCase):
    """Nodes with a carmad each, and the lines that `carma slurm config` prints."""

    bed = None

    @classmethod
    def setUpClass(cls):
        with open(LUA, encoding="utf-8") as file:
            files = {**FILES, "carma.lua": file.read()}
        cls.bed = SiteBed(os.path.abspath(sys.argv[1]), nodes=3, arguments="wait=1", settings=SETTINGS, files=files)
        cls.addClassCleanup(cls.bed.close)
        # A job waits for this task while all tests run on other nodes, because wait= is in minutes.
        cls.bed.carma("n2", "submit", "--exclusive", "-G", "4", "-o", "/dev/null", "--", "sleep", "1000")  # unknown to Slurm
        slurm.until(lambda: cls.bed.tasks("n2", "running"), "n2 is full")
        cls.waits = cls.bed.sbatch(USER, "touch ~/waited\n", "--carma-mem=1G", "--nodelist=n2")

    def carma(self, node, *words):
        """The output of `carma slurm …` for that node."""
        return self.bed.run_as("root", f"{self.bed.programs}/carma", "--socket", self.bed.socket(node), "slurm", *words, "--node", node)

    def kill(self, node):
        """Kills the node's carmad."""
        self.bed.daemons[node].send_signal(signal.SIGKILL)
        self.bed.daemons[node].wait()
        self.addCleanup(self.start_again, node)

    def start_again(self, node):
        """Starts the node's carmad again and makes the node take jobs."""
        self.bed.daemons[node] = self.bed.start_daemon(node)
        self.bed.serves(node)
        self.bed.ask("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def test_submission_counts_memory_and_refuses_what_cannot_be_shared(self):
        for options, count in {("--carma-mem=6G",): 6, ("--carma-mem=6.5G", "--carma-gpus=2"): 14, ("--carma-exclusive", "--carma-gpus=3"): 117,
                               ("--carma-retries=1",): 39, ("--carma-mem=6G", "--gres=carma:20"): 20, ("--carma-mem=30G", "--carma-gpus=4", "--gres=carma:1"): 120,
                               ("--carma-mem=6G", "--gres=carma:0"): 6, ("--carma-mem=39.5G", "--carma-gpus=4"): 156}.items():
            job = self.bed.sbatch(USER, "true\n", "--hold", *options)
            self.assertEqual(self.bed.job(job)["TresPerNode"], f"gres:carma:{count}", options)
            self.bed.ask("scancel", str(job))
        job = self.bed.sbatch(USER, "true\n", "--hold", "--carma-mem=6G")
        lowered = self.bed.run_as(USER, "scontrol", "update", f"JobId={job}", "Gres=carma:1")
        self.assertNotEqual(lowered.returncode, 0)
        self.assertEqual(self.bed.job(job)["TresPerNode"], "gres:carma:6", "its owner counts no less")
        self.assertEqual(self.bed.run_as(USER, "scontrol", "update", f"JobId={job}", "Gres=carma:9").returncode, 0)
        self.bed.ask("scancel", str(job))
        refused = {("--carma-mem=6G", "--gres=gpu:1"): "CARMA gives the GPUs here", ("--gpus=1",): "CARMA gives the GPUs here",
                   ("--gpus=1", "--partition=apart,main"): "CARMA gives the GPUs here",
                   ("--carma-mem=6G", "--nodes=2"): "a multi-node job cannot share GPUs",
                   ("--carma-mem=90G",): "--carma-mem=90G does not fit on any GPU; the largest has 39G",
                   ("--carma-mem=40960M",): "does not fit on any GPU"}
        for options, sentence in refused.items():
            ran = self.bed.run_as(USER, "srun", "--mem=100", *options, "true")
            self.assertNotEqual(ran.returncode, 0, options)
            self.assertIn(sentence, ran.stderr, options)
        self.assertEqual(self.bed.run_as(USER, "srun", "--mem=100", "--partition=apart", "--gres=gpu:1", "true").returncode, 0, "other partitions are as before")
        job = self.bed.sbatch(USER, "true\n", "--hold", "--partition=apart", "--gres=gpu:1")
        shared = self.bed.sbatch(USER, "true\n", "--hold", "--carma-mem=6G", "--partition=apart")
        for update in ((job, "Partition=main"), (job, "Partition=apart,main"), (shared, "Gres=gpu:1,carma:6")):
            ran = self.bed.run_as(USER, "scontrol", "update", f"JobId={update[0]}", update[1])
            self.assertNotEqual(ran.returncode, 0, update)
        self.assertEqual(self.bed.run_as(USER, "scontrol", "update", f"JobId={job}", "Gres=gpu:2").returncode, 0)
        self.bed.ask("scancel", str(job), str(shared))
        # Slurm itself refuses more than any node has. Jobs that need a whole node run one after the other.
        self.assertNotEqual(self.bed.run_as(USER, "srun", "--mem=100", "--gres=carma:157", "--carma-mem=39G", "true").returncode, 0)

    def test_a_node_without_carmad_drains_and_its_job_runs_elsewhere(self):
        self.kill("n0")
        plain = self.bed.sbatch(USER, "true\n", "--nodelist=n0")
        self.assertEqual(self.bed.ended(plain), ("COMPLETED", 0), "the guard ignores other jobs")
        job = self.bed.sbatch(USER, "echo on $SLURMD_NODENAME with $CUDA_VISIBLE_DEVICES\n", "--carma-mem=4G", "--exclude=n2")
        slurm.until(lambda: "drain" in self.bed.ask("sinfo", "-h", "-n", "n0", "-o", "%T"), "the node is drained, after a minute", 120)
        self.assertEqual(self.bed.ended(job, 120), ("COMPLETED", 0), self.bed.output(job))
        self.assertIn("on n1 with GPU-", self.bed.output(job))
        self.assertIn("Prolog error", self.bed.ask("sinfo", "-h", "-R", "-o", "%E"))

    def test_what_outlives_its_slurmstepd_gives_the_gpus_back(self):
        job = self.bed.sbatch(USER, "trap '' HUP TERM; touch ~/up; while :; do sleep 0.2; done\n", "--carma-mem=4G", "--nodelist=n1", "--no-requeue")
        slurm.until(lambda: os.path.exists(os.path.join(self.bed.home(USER), "up")), "it runs")
        lease, = self.bed.get("n1", f"/v1/leases?job={job}")[1]["leases"]
        self.assertEqual(lease["state"], "adopted")
        os.kill(lease["pid"], signal.SIGKILL)
        self.assertEqual(self.bed.get("n1", f"/v1/leases?job={job}")[1]["leases"][0]["state"], "adopted", "its process lives, and has the GPUs")
        self.bed.ask("scancel", str(job))
        slurm.until(lambda: not self.bed.get("n1", "/v1/leases")[1]["leases"], "its lease has ended", 120)
        self.assertNotIn(self.bed.job(job)["JobState"], ("RUNNING", "PENDING"))

    def test_a_carmad_that_hangs_holds_the_end_of_a_cancelled_waiter_for_seconds(self):
        job = self.bed.sbatch(USER, "true\n", "--carma-mem=1G", "--nodelist=n2")
        slurm.until(lambda: f"job {job} is waiting for GPUs on n2" in self.bed.output(job), "it waits")
        daemon = self.bed.daemons["n2"]
        daemon.send_signal(signal.SIGSTOP)
        try:
            started = time.monotonic()
            self.bed.ask("scancel", str(job))
            self.assertEqual(self.bed.ended(job)[0], "CANCELLED")
            self.assertLess(time.monotonic() - started, 12, "the epilog asks once, for five seconds")
        finally:
            daemon.send_signal(signal.SIGCONT)

    def test_the_node_is_looked_over(self):
        lines = self.carma("n0", "config").stdout
        for line in ("GresTypes=carma", f"NodeName=n0 Name=carma Count={spank_bed.CARMA_GIB}", "carma_gib_per_gpu = 39",
                     f"spank_carma.so socket={self.bed.socket('n0')}"):
            self.assertIn(line, lines)
        good = self.carma("n0", "check")
        self.assertEqual(good.returncode, 0, good.stdout)
        self.assertIn(f"carma:{spank_bed.CARMA_GIB}", good.stdout)
        many = self.bed.run_as("root", f"{self.bed.programs}/carma", "--socket", self.bed.socket("n0"), "slurm", "check")
        self.assertEqual(many.returncode, 2, many.stdout)
        self.assertIn("several nodes on this host: name one with --node (n0, n1, n2)", many.stderr)
        counts = f"Gres=gpu:a100:{slurm.GPUS},carma:"
        self.addCleanup(self.bed.ask, "scontrol", "update", "NodeName=n0", f"{counts}{spank_bed.CARMA_GIB}")
        self.bed.ask("scontrol", "update", "NodeName=n0", f"{counts}200")
        bad = self.carma("n0", "check")
        self.assertEqual(bad.returncode, 1, bad.stdout)
        self.assertIn(f"Slurm counts 200 GiB, but the GPUs have {spank_bed.CARMA_GIB}", bad.stdout)
        self.kill("n1")
        self.assertEqual(self.carma("n1", "check").returncode, 1)

    def test_zz_who_has_waited_for_the_minutes_of_plugstack_conf_fails(self):
        self.assertEqual(self.bed.ended(self.waits, 120), ("FAILED", 1), self.bed.output(self.waits))
        self.assertIn("none became free within 1 min", self.bed.output(self.waits))
        self.assertFalse(os.path.exists(os.path.join(self.bed.home(USER), "waited")))
        self.assertFalse(self.bed.tasks("n2", "queued"), "its place in the queue is given up")


if __name__ == "__main__":
    WHY_NOT = spank_bed.missing(sys.argv[1])
    if not WHY_NOT and not glob.glob("/usr/lib/*/slurm-wlm/job_submit_lua.so"):
        WHY_NOT = "needs job_submit_lua.so, which this Slurm does not include"
    if WHY_NOT:
        print(f"skipped: {WHY_NOT}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
