#!/usr/bin/env python3
"""Tests CARMA inside a real Slurm with four nodes on this machine: slurm_test.py BIN_DIR.
Exit status 77: there is no slurmctld, slurmd or munged (Debian's packages slurmctld, slurmd, slurm-client, munge), or we are not root."""

import os
import re
import sys
import time
import unittest

import bed as slurm

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "docs", "server", "slurm.md")
USER, OTHER = "nobody", "games"  # neither is an administrator


def job_script_of_the_page():
    """The first script of docs/server/slurm.md."""
    with open(PAGE, encoding="utf-8") as file:
        return re.search(r"```sh\n(#!/bin/bash\n.*?)```", file.read(), re.DOTALL).group(1)


class PilotInSlurm(unittest.TestCase):
    """`carma pilot` in batch jobs of ordinary users."""

    bed = None

    @classmethod
    def setUpClass(cls):
        started = time.monotonic()
        cls.bed = slurm.Bed(os.path.abspath(sys.argv[1]))
        print(f"four nodes up after {time.monotonic() - started:.1f} s")
        # Limits are in whole minutes, so this job runs in parallel with all tests.
        cls.short = cls.bed.sbatch(USER, cls.pilot(cls.saving("short"), "short", "--notice 1h"), "--gres=gpu:1", "--time=1", "--nodelist=n3")

    @classmethod
    def tearDownClass(cls):
        cls.bed.close()

    @classmethod
    def file(cls, name, text, user=USER):
        """A script in the home of the user."""
        path = os.path.join(cls.bed.home(user), name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n" + text)
        os.chmod(path, 0o755)
        return path

    def lines(self, name, user=USER):
        """The text of a file there."""
        with open(os.path.join(self.bed.home(user), name), encoding="utf-8") as file:
            return file.read().split()

    @classmethod
    def submitting(cls, name, task, user=USER):
        """A script that submits six tasks with exclusive GPUs."""
        return cls.file(f"{name}.sh", f"for i in 1 2 3 4 5 6; do carma submit --exclusive -o /dev/null -- {task} || exit 1; done\n", user)

    @classmethod
    def saving(cls, name):
        """A script that submits a task which can checkpoint, and ends if it has already saved."""
        train = cls.file(f"{name}-train.sh", f"cd ~; if [ -e {name}.saved ]; then touch {name}.done; exit 0; fi\n"
                         f"sleep 1000 &\ntrap 'touch {name}.saved; kill $!; exit 85' USR1\ntouch {name}.up\nwait\n")
        return cls.file(f"{name}.sh", f"carma submit -o /dev/null --checkpoint-signal USR1 {train}\n")

    @staticmethod
    def pilot(script, name="default", options=""):
        return f"exec carma pilot --name {name} {options} {script}\n"

    def test_the_script_of_the_page_uses_the_gpus_of_its_job_and_no_other(self):
        self.submitting("submit-all", "sh -c 'echo $CUDA_VISIBLE_DEVICES >> ~/used'")
        job = self.bed.sbatch(USER, job_script_of_the_page(), "--gres=gpu:2", "--cpus-per-task=4", "--mem=1000", "--nodelist=n0")
        self.assertEqual(self.bed.ended(job), ("COMPLETED", 0), self.bed.output(job))
        self.assertIn("serves 2 GPUs", self.bed.output(job))
        self.assertEqual(len(self.lines("used")), 6)
        self.assertEqual(len(set(self.lines("used"))), 2)
        # The next job of the chain has nothing to do, so the script is not run again.
        job = self.bed.sbatch(USER, job_script_of_the_page(), "--gres=gpu:2", "--cpus-per-task=4", "--mem=1000", "--nodelist=n0")
        self.assertEqual(self.bed.ended(job), ("COMPLETED", 0), self.bed.output(job))
        self.assertEqual(len(self.lines("used")), 6)

    def test_two_users_on_one_node_keep_apart(self):
        jobs = {}
        for user in (USER, OTHER):
            script = self.submitting("apart", "sh -c 'echo $CUDA_VISIBLE_DEVICES >> ~/apart; id -un >> ~/who'", user)
            jobs[user] = self.bed.sbatch(user, self.pilot(script, name="apart"), "--gres=gpu:2", "--nodelist=n1")
        for user, job in jobs.items():
            self.assertEqual(self.bed.ended(job), ("COMPLETED", 0), self.bed.output(job))
            self.assertEqual(set(self.lines("who", user)), {user})
        mine, others = set(self.lines("apart")), set(self.lines("apart", OTHER))
        self.assertEqual((len(mine), len(others)), (2, 2))
        self.assertFalse(mine & others, "a GPU of the other")

    def test_a_cancelled_job_leaves_nothing_and_the_next_goes_on(self):
        script = self.file("cancelled.sh", "carma submit -H -o /dev/null -- sh -c 'echo up >> ~/cancelled; [ $CARMA_ATTEMPT != 1 ] || exec sleep 1000'\n"
                           "carma submit -o /dev/null -d afterok:1 -- sh -c 'echo after >> ~/cancelled'\ncarma release 1\n")
        job = self.bed.sbatch(USER, self.pilot(script, name="cancelled"), "--gres=gpu:1", "--nodelist=n2")
        slurm.until(lambda: os.path.exists(os.path.join(self.bed.home(USER), "cancelled")), "the task runs")
        node = self.bed.job(job)["NodeList"]
        self.bed.ask("scancel", str(job))
        self.assertEqual(self.bed.ended(job)[0], "CANCELLED", self.bed.output(job))
        slurm.until(lambda: "sleep 1000" not in self.commands(node), "nothing of the job is left")
        self.assertEqual(self.lines("cancelled"), ["up"])
        job = self.bed.sbatch(USER, "exec carma pilot --name cancelled --until-empty\n", "--gres=gpu:1", "--nodelist=n2")
        self.assertEqual(self.bed.ended(job), ("COMPLETED", 0), self.bed.output(job))
        self.assertEqual(self.lines("cancelled"), ["up", "up", "after"])

    def commands(self, node):
        """Processes of jobs on that node."""
        found = []
        for number in self.bed.processes():
            try:
                with open(f"/proc/{number}/environ", "rb") as file:
                    if f"SLURMD_NODENAME={node}".encode() not in file.read():
                        continue
                with open(f"/proc/{number}/cmdline", "rb") as file:
                    found.append(file.read().replace(b"\0", b" ").decode().strip())
            except OSError:
                continue
        return found

    def test_a_job_of_two_nodes_is_told_what_to_do_and_does_it(self):
        job = self.bed.sbatch(USER, "exec carma pilot\n", "--nodes=2", "--gres=gpu:1")
        state, code = self.bed.ended(job)
        self.assertEqual((state, code), ("FAILED", 2), self.bed.output(job))
        self.assertIn("srun --ntasks-per-node=1", self.bed.output(job))
        script = self.file("part.sh", 'carma submit -o /dev/null -- sh -c "echo $SLURMD_NODENAME >> ~/parts"\n')
        job = self.bed.sbatch(USER, f"srun --ntasks-per-node=1 sh -c '. {self.bed.folder}/job-environment; "
                              f"exec carma pilot --name part-$SLURM_NODEID {script}'\n", "--nodes=2", "--gres=gpu:1")
        self.assertEqual(self.bed.ended(job), ("COMPLETED", 0), self.bed.output(job))
        self.assertEqual(len(set(self.lines("parts"))), 2)

    def test_zz_before_its_limit_tasks_save_and_the_next_job_ends_them(self):
        state, code = self.bed.ended(self.short, 90)
        self.assertEqual((state, code), ("FAILED", 75), self.bed.output(self.short))
        self.assertIn("tasks must checkpoint", self.bed.output(self.short))
        self.assertTrue(os.path.exists(os.path.join(self.bed.home(USER), "short.saved")))
        job = self.bed.sbatch(USER, "exec carma pilot --name short --until-empty\n", "--gres=gpu:1")
        self.assertEqual(self.bed.ended(job), ("COMPLETED", 0), self.bed.output(job))
        self.assertTrue(os.path.exists(os.path.join(self.bed.home(USER), "short.done")))


class LeaseInSlurm(unittest.TestCase):
    """`carma lease` in jobs of ordinary users, with a carmad on each node."""

    bed = None

    @classmethod
    def setUpClass(cls):
        cls.bed = slurm.Bed(os.path.abspath(sys.argv[1]), nodes=1)
        cls.bed.start_daemons()

    @classmethod
    def tearDownClass(cls):
        cls.bed.close()

    def lease(self, options, command):
        """A job that asks for a lease."""
        return self.bed.sbatch(USER, f"export CARMA_SOCKET={self.bed.socket('n0')}\nexec carma lease {options} -- {command}\n")

    def tasks(self, states):
        """Tasks of the node's carmad."""
        return self.bed.carma("n0", "list", "--state", states)["tasks"]

    def test_a_job_has_the_gpus_of_its_lease_until_it_ends(self):
        job = self.lease("-G 2 -J mine", "sh -c 'echo $CUDA_VISIBLE_DEVICES > ~/has; exit 4'")
        self.assertEqual(self.bed.ended(job), ("FAILED", 4), self.bed.output(job))
        with open(os.path.join(self.bed.home(USER), "has"), encoding="utf-8") as file:
            self.assertEqual(file.read().count("GPU-"), 2)
        slurm.until(lambda: not self.tasks("running,launching"), "its GPUs are given back")
        task = next(each for each in self.tasks("all") if each["name"] == "mine")
        self.assertEqual((task["user"], task["origin"]), (USER, "lease"))

    def test_a_cancelled_job_leaves_no_lease(self):
        runs = self.lease("-G 4 --exclusive -J runs", "sleep 1000")
        slurm.until(lambda: self.tasks("running"), "the first has all GPUs")
        waits = self.lease("-G 4 --exclusive -J waits", "touch waited")
        slurm.until(lambda: self.tasks("queued"), "the second waits")
        started = time.monotonic()
        self.bed.ask("scancel", str(waits))
        slurm.until(lambda: not self.tasks("queued"), "its lease is given up")
        self.assertLess(time.monotonic() - started, 5)
        self.bed.ask("scancel", str(runs))
        slurm.until(lambda: not self.tasks("running,launching,stopping"), "its GPUs are given back")
        self.assertEqual(self.bed.ended(waits)[0], "CANCELLED")
        self.assertFalse(os.path.exists(os.path.join(self.bed.home(USER), "waited")))


if __name__ == "__main__":
    WHY_NOT = slurm.missing()
    if WHY_NOT:
        print(f"skipped: {WHY_NOT}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
