#!/usr/bin/env python3
"""Tests Slurm's accounting of requested GPU memory, with slurmdbd and MariaDB on this machine: accounts_test.py BIN_DIR.
Exit status 77: there is no slurmdbd or mariadbd (Debian's packages slurmdbd, mariadb-server), or something that slurm_test.py needs."""

import os
import sys
import time
import unittest

import accounts
import bed as slurm

USER, OTHER, HOLDER = "nobody", "games", "mail"


class Accounts(unittest.TestCase):
    """Slurm's accounting of requested GPU memory."""

    bed = None

    @classmethod
    def setUpClass(cls):
        started = time.monotonic()
        cls.bed = accounts.AccountsBed(os.path.abspath(sys.argv[1]), accounts={"physics": [USER], "letters": [OTHER], "maths": [HOLDER]})
        cls.addClassCleanup(cls.bed.close)
        took = time.monotonic() - started
        print(f"four nodes with accounts up after {took:.1f} s")
        # Held memory is counted only once a minute, so this job runs in parallel with all tests. The partition bills GPU memory.
        cls.bed.ask("scontrol", "update", "PartitionName=main", "TRESBillingWeights=GRES/carma=1")
        cls.holds = cls.bed.sbatch(HOLDER, "sleep 1000\n", f"--gres=carma:{accounts.CARMA_GIB}")

    def runs(self, job):
        """Waits until the job runs."""
        slurm.until(lambda: self.bed.job(job).get("JobState") == "RUNNING", f"job {job} runs: {self.bed.job(job)}")

    def cancel(self, *jobs):
        """Cancels jobs of any user."""
        self.bed.ask("scancel", *[str(job) for job in jobs])
        for job in jobs:
            self.bed.ended(job)

    def test_the_books_show_the_memory_of_a_job_and_what_is_said_of_it(self):
        job = self.bed.sbatch(USER, "exit 3\n", "--gres=carma:12")
        self.assertEqual(self.bed.ended(job), ("FAILED", 3), self.bed.output(job))
        columns = ("State", "Account", "ExitCode", "AllocTRES")
        state, account, code, tres = slurm.until(lambda: self.bed.booked(job, *columns) if self.bed.booked(job, "State") == ["FAILED"] else None,
                                                 "sacct has its end")
        self.assertEqual((state, account, code), ("FAILED", "physics", "3:0"))
        self.assertIn("gres/carma=12", tres)
        waits = self.bed.sbatch(USER, "true\n", "--gres=carma:1", "--hold")
        self.bed.ask("scontrol", "update", f"JobId={waits}", "AdminComment=carma: waiting for GPUs on n1")
        self.bed.ask("scontrol", "release", str(waits))
        self.assertEqual(self.bed.ended(waits), ("COMPLETED", 0), self.bed.output(waits))
        slurm.until(lambda: self.bed.booked(waits, "AdminComment") == ["carma: waiting for GPUs on n1"], "sacct has the comment")

    def test_an_account_stays_below_its_quota_of_gpu_memory(self):
        self.bed.manage("modify", "account", "physics", "set", "GrpTRES=gres/carma=40")
        try:
            first = self.bed.sbatch(USER, "sleep 1000\n", "--gres=carma:30")
            self.runs(first)
            second = self.bed.sbatch(USER, "true\n", "--gres=carma:11")
            slurm.until(lambda: self.bed.job(second).get("Reason") == "AssocGrpGRES", f"the second waits: {self.bed.job(second)}")
            others = self.bed.sbatch(OTHER, "true\n", "--gres=carma:30")
            self.assertEqual(self.bed.ended(others), ("COMPLETED", 0), "another account is not held up")
            fits = self.bed.sbatch(USER, "true\n", "--gres=carma:10")
            self.assertEqual(self.bed.ended(fits), ("COMPLETED", 0), "what is left is used")
            self.assertEqual(self.bed.job(second)["JobState"], "PENDING")
            self.cancel(first)
            self.assertEqual(self.bed.ended(second), ("COMPLETED", 0), "it starts when the first has ended")
        finally:
            self.bed.manage("modify", "account", "physics", "set", "GrpTRES=gres/carma=-1")

    def test_zz_who_has_had_less_goes_first(self):
        self.runs(self.holds)

        def shares():
            lines = self.bed.ask("sshare", "-n", "-P", "-a", "-o", "Account,User,FairShare").splitlines()
            found = {line.split("|")[1]: float(line.split("|")[2]) for line in lines if line.split("|")[1] in (HOLDER, OTHER)}
            return found if len(found) == 2 and found[HOLDER] < found[OTHER] else None
        slurm.until(shares, "its account has a lower share")
        full = [self.bed.sbatch(OTHER, "sleep 1000\n", f"--gres=carma:{accounts.CARMA_GIB}") for _ in range(3)]
        for job in full:
            self.runs(job)
        mine = self.bed.sbatch(HOLDER, "true\n", "--gres=carma:1")
        theirs = self.bed.sbatch(OTHER, "true\n", "--gres=carma:1")
        slurm.until(lambda: int(self.bed.job(theirs).get("Priority", 0)) > int(self.bed.job(mine).get("Priority", 0)) > 0,
                    f"theirs goes before mine: {self.bed.job(mine)} {self.bed.job(theirs)}")
        self.cancel(self.holds, *full)
        for job in (mine, theirs):
            self.assertEqual(self.bed.ended(job), ("COMPLETED", 0))


if __name__ == "__main__":
    WHY_NOT = accounts.missing()
    if WHY_NOT:
        print(f"skipped: {WHY_NOT}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
