#!/usr/bin/env python3
"""Runs short jobs with leases in a real Slurm while carmad, slurmd and slurmstepd are killed: kills_test.py BIN_DIR [JOBS [SEED]].
Exit status 77: there is no slurmctld, slurmd or munged, the plug-in was not built, or we are not root."""

import os
import random
import signal
import sys
import time
import unittest

import bed as slurm
import spank_bed

USER = "nobody"
JOBS = int(sys.argv[2]) if len(sys.argv) > 2 else 60
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 1
OVER = {"COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT"}


class Kills(unittest.TestCase):
    """A killed process keeps no GPU, and no job runs without one."""

    def setUp(self):
        self.bed = spank_bed.SpankBed(os.path.abspath(sys.argv[1]), settings="BatchStartTimeout=2")
        self.addCleanup(self.bed.close)
        self.chance = random.Random(SEED)
        self.killed = {"carmad": 0, "slurmd": 0, "slurmstepd": 0}
        self.next_try, self.running = 0, set()

    def kill_carmad(self, node):
        """Kills a carmad and restarts it immediately."""
        self.bed.daemons[node].kill()
        self.bed.daemons[node].wait(slurm.LIMIT_S)
        self.bed.daemons[node] = self.bed.start_daemon(node)
        self.bed.serves(node)
        self.killed["carmad"] += 1

    def kill_slurmd(self, node):
        """Kills the node's slurmd and restarts it."""
        for process in self.bed.children():
            if process.poll() is None and process.args == ("slurmd", "-D", "-N", node):
                process.kill()
                process.wait(slurm.LIMIT_S)
        self.bed.restart_slurmd(node)
        self.killed["slurmd"] += 1

    def steps(self):
        """The living slurmstepd processes."""
        found = []
        for number in self.bed.processes():
            try:
                with open(f"/proc/{number}/cmdline", encoding="utf-8") as file:
                    if file.read().startswith("slurmstepd: ["):
                        found.append(number)
            except OSError:
                continue
        return found

    def kill_slurmstepd(self, _node):
        """Kills a slurmstepd on any node, if there is one; processes that wait in its tasks for their lease have the same name until they start."""
        steps = self.steps()
        if not steps:
            return
        chosen = self.chance.choice(steps)
        try:
            os.kill(chosen, signal.SIGSTOP)
            slurm.until(lambda: self.is_stopped(chosen), "it is stopped")
            # The job may have started in the meantime, and a started job must not be killed here.
            meant = chosen in self.steps()
            os.kill(chosen, signal.SIGKILL if meant else signal.SIGCONT)
            self.killed["slurmstepd"] += meant
        except (ProcessLookupError, FileNotFoundError):
            pass

    @staticmethod
    def is_stopped(number):
        """Whether the process is stopped or dead."""
        with open(f"/proc/{number}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "TZX"

    def states(self):
        """States of all jobs of slurmctld."""
        return self.bed.ask("squeue", "-h", "-a", "-r", "--states=all", "-o", "%T").split()

    def all_are_over(self):
        """Whether all jobs have ended. Makes Slurm notice jobs that lost both slurmd and slurmstepd, so that it starts them again."""
        states = self.states()
        if states and all(state in OVER for state in states):
            return True
        # At most every ten seconds, because nodes must report in between.
        if "PENDING" not in states and not self.steps() and time.monotonic() > self.next_try:
            self.next_try = time.monotonic() + 10
            if slurm.release() < (23, 11):
                self.bed.ask("scontrol", "reconfigure")
                return False
            # Newer versions of Slurm miss no job then. A job takes less than a second, so a job that still runs at the next check
            # is lost.
            running = set(self.bed.ask("squeue", "-h", "-r", "-t", "RUNNING", "-o", "%i").split())
            if running & self.running:
                self.bed.ask("scontrol", "requeue", ",".join(running & self.running))
            self.running = running
        return False

    def test_each_start_has_a_lease_of_its_own_and_none_is_left(self):
        script = "echo $SLURMD_NODENAME $CARMA_TASK_ID >> ~/starts\nsleep 0.3\n"
        self.bed.sbatch(USER, script, "--carma-mem=2G", f"--array=1-{JOBS}", "--requeue", "--time=5")
        kills = [self.kill_carmad, self.kill_slurmd, self.kill_slurmstepd]
        while sum(state in OVER for state in self.states()) < JOBS // 3:
            self.chance.choice(kills)(self.chance.choice(self.bed.node_names()))
        slurm.until(self.all_are_over, "all jobs have run", 240)
        slurm.until(lambda: not any(self.bed.get(node, "/v1/leases")[1]["leases"] for node in self.bed.node_names()), "no lease is left")
        with open(os.path.join(self.bed.home(USER), "starts"), encoding="utf-8") as file:
            starts = [tuple(line.split()) for line in file]
        self.assertTrue(all(len(start) == 2 for start in starts), "a start without a lease")
        self.assertEqual(len(set(starts)), len(starts), "a lease was used twice")
        tasks = {(node, str(task["id"])): task for node in self.bed.node_names()
                 for task in self.bed.carma(node, "list", "--state", "all", "--limit", "100000")["tasks"]}
        self.assertFalse([start for start in starts if start not in tasks], "a start that no carmad knows of")
        # An attempt that never ran: carmad was killed before it reported the grant.
        for node, task in [start for start in starts if tasks[start]["attempt"] != 1]:
            events = self.bed.carma(node, "history", task)["events"]
            self.assertEqual(sum(event["what"] == "running" for event in events), 1, events)
        outcomes = {key: self.bed.get(key[0], f"/v1/leases/{key[1]}")[1]["outcome"] for key in tasks}
        counts = {word: list(outcomes.values()).count(word) for word in ("ran", "unused", "given_up")}
        print(f"{JOBS} jobs, {len(starts)} starts, leases {counts}, killed {self.killed}, seed {SEED}")
        self.assertFalse([self.bed.carma(node, "history", task)["events"] for (node, task), outcome in outcomes.items() if not outcome],
                         "tasks of leases that are not over")
        ran = {key for key, outcome in outcomes.items() if outcome == "ran"}
        self.assertEqual(ran, set(starts), [self.bed.carma(node, "history", task)["events"] for node, task in ran ^ set(starts)])


if __name__ == "__main__":
    WHY_NOT = slurm.missing() or ("" if os.path.exists(f"{sys.argv[1]}/spank_carma.so") else "needs Debian's package libslurm-dev")
    if WHY_NOT:
        print(f"skipped: {WHY_NOT}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]])
