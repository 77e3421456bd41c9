#!/usr/bin/env python3
"""Tests CARMA's plug-in in a real Slurm with four nodes on this machine: plugin_test.py BIN_DIR.
Exit status 77: there is no slurmctld, slurmd or munged, the plug-in was not built, or we are not root."""

import os
import re
import shutil
import signal
import sys
import time
import unittest

import bed as slurm
import spank_bed

SUMMARY = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "data", "examples", "resnet50.json")
USER, OTHER = "nobody", "games"  # neither is an administrator


class Plugin(unittest.TestCase):
    """Jobs of ordinary users with --carma-mem and similar options."""

    bed = None

    @classmethod
    def setUpClass(cls):
        started = time.monotonic()
        cls.bed = spank_bed.SpankBed(os.path.abspath(sys.argv[1]))
        cls.addClassCleanup(cls.bed.close)
        print(f"four nodes with carmad up after {time.monotonic() - started:.1f} s")
        # Slurm checks limits every half minute, so this job fills a node while all tests run.
        cls.full = cls.bed.sbatch(OTHER, "sleep 1000\n", "--carma-exclusive", "--carma-gpus=4", "--nodelist=n3")
        slurm.until(lambda: cls.bed.tasks("n3", "running"), "n3 is full")
        cls.limited = cls.bed.sbatch(USER, "touch ~/limited\n", "--carma-mem=2G", "--nodelist=n3", "--time=1")
        slurm.until(lambda: cls.bed.tasks("n3", "queued"), "it waits for GPUs")
        cls.bed.ask("scontrol", "update", f"JobId={cls.limited}", "EndTime=now+1")  # limits are whole minutes

    def submit(self, user, script, *options, node="n0", memory="4G"):
        """A job with --carma-mem on that node."""
        return self.bed.sbatch(user, script, f"--carma-mem={memory}", f"--nodelist={node}", *options)

    def task_of(self, node, job, step="batch"):
        """The task of that step there."""
        found = [task for task in self.bed.tasks(node) if task["comment"] == f"job {job} of cluster slurm, step {step}"]
        return found[0] if found else None

    def left(self, node):
        """Unfinished leases there."""
        return self.bed.get(node, "/v1/leases")[1]["leases"]

    def nothing_left(self, node):
        slurm.until(lambda: not self.left(node), f"no lease is left on {node}")

    # ---- placed ----

    def test_a_job_has_the_gpus_of_its_lease_and_its_own_rights(self):
        jobs = {user: self.submit(user, "echo gpus=$CUDA_VISIBLE_DEVICES task=$CARMA_TASK_ID who=$(id -un) name=$(cat /proc/$$/comm)\n", "--carma-gpus=2",
                                  "-J", f"of-{user}") for user in (USER, OTHER)}
        for user, job in jobs.items():
            self.assertEqual(self.bed.ended(job), ("COMPLETED", 0), self.bed.output(job))
            found = re.search(r"gpus=(\S+) task=(\d+) who=(\w+) name=(\S+)", self.bed.output(job))
            self.assertIsNotNone(found, self.bed.output(job))
            gpus, number, who, name = found.groups()
            self.assertEqual((len(gpus.split(",")), who), (2, user))
            self.assertNotEqual(name, "carma-wait")
            task = self.task_of("n0", job)
            self.assertEqual((str(task["id"]), task["user"], task["name"], task["origin"]), (number, user, f"of-{user}", "slurm"))
            slurm.until(lambda job=job: self.task_of("n0", job)["state"] == "succeeded", "its end is known")

    def test_srun_waits_for_a_lease_and_tells_its_exit_code(self):
        ran = self.bed.run_as(USER, "srun", "--mem=100", "--carma-mem=3G", "--nodelist=n0", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exit 7")
        self.assertEqual(ran.returncode, 7, ran.stderr)
        self.assertIn("GPU-", ran.stdout)
        task = next(each for each in self.bed.tasks("n0") if each["command"][:2] == ["sh", "-c"])
        slurm.until(lambda: self.bed.carma("n0", "show", str(task["id"]))["state"] == "failed", "its end is known")
        self.assertEqual(self.bed.carma("n0", "show", str(task["id"]))["exit_code"], 7)

    def test_the_tasks_of_a_step_share_its_gpus(self):
        ran = self.bed.run_as(USER, "srun", "--mem=100", "--carma-mem=3G", "--ntasks=4", "--nodelist=n0", "sh", "-c", "echo $CARMA_TASK_ID $CUDA_VISIBLE_DEVICES")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual((len(ran.stdout.splitlines()), len(set(ran.stdout.splitlines()))), (4, 1))
        self.nothing_left("n0")

    def test_an_array_and_an_allocation(self):
        array = self.submit(USER, "echo $CUDA_VISIBLE_DEVICES > ~/array-$SLURM_ARRAY_TASK_ID\n", "--array=1-6", memory="2G")
        ran = self.bed.run_as(USER, "salloc", "--mem=100", "--carma-mem=3G", "--nodelist=n0", "srun", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("GPU-", ran.stdout)
        for index in range(1, 7):
            path = os.path.join(self.bed.home(USER), f"array-{index}")
            slurm.until(lambda path=path: os.path.exists(path) and os.path.getsize(path), f"element {index} of {array} has run")
        self.nothing_left("n0")

    def test_a_step_of_a_script_shares_what_that_has(self):
        job = self.submit(USER, "srun --mem=100 sh -c 'echo step=$CARMA_TASK_ID=$CUDA_VISIBLE_DEVICES'\necho batch=$CARMA_TASK_ID=$CUDA_VISIBLE_DEVICES\n")
        self.assertEqual(self.bed.ended(job), ("COMPLETED", 0), self.bed.output(job))
        step, batch = re.findall(r"(?:step|batch)=(\d+=GPU\S+)", self.bed.output(job))
        self.assertEqual(step, batch)
        self.assertIsNone(self.task_of("n0", job, "0"))

    def test_a_step_from_outside_shares_what_the_script_has(self):
        job = self.submit(USER, "echo batch=$CUDA_VISIBLE_DEVICES\nsleep 1000\n")
        slurm.until(lambda: "batch=GPU" in self.bed.output(job), "it runs")
        ran = self.bed.run_as(USER, "srun", f"--jobid={job}", "--overlap", "--mem=0", "sh", "-c", "echo batch=$CUDA_VISIBLE_DEVICES")
        of_script = self.bed.output(job)  # before Slurm writes there that the job was cancelled
        self.bed.ask("scancel", str(job))
        self.assertEqual(ran.stdout, of_script, ran.stderr)

    def test_a_job_submitted_by_a_job_does_not_inherit_its_options(self):
        nested = "sbatch --parsable --mem=100 -o /dev/null --wrap 'env > ~/nested; mv ~/nested ~/nested.env'\n"
        job = self.submit(USER, nested)
        self.assertEqual(self.bed.ended(job), ("COMPLETED", 0), self.bed.output(job))
        path = os.path.join(self.bed.home(USER), "nested.env")
        slurm.until(lambda: os.path.exists(path), "the nested job has run")
        with open(path, encoding="utf-8") as file:
            self.assertNotIn("OPTION_carma", file.read())
        self.assertIsNone(self.task_of("n0", int(self.bed.output(job).split()[-1])))

    def test_without_options_nothing_is_asked(self):
        before = len(self.bed.tasks("n1"))
        job = self.bed.sbatch(USER, "srun true && echo [$CUDA_VISIBLE_DEVICES$CARMA_TASK_ID]\n", "--nodelist=n1")
        self.assertEqual(self.bed.ended(job), ("COMPLETED", 0), self.bed.output(job))
        self.assertIn("[]", self.bed.output(job))
        self.assertEqual(len(self.bed.tasks("n1")), before)

    def test_out_of_memory_is_known_by_its_last_words(self):
        job = self.submit(USER, "echo torch.cuda.OutOfMemoryError: CUDA out of memory >&2\nexit 1\n")
        self.assertEqual(self.bed.ended(job), ("FAILED", 1))
        slurm.until(lambda: self.task_of("n0", job)["state"] == "out_of_memory", "carmad knows why")

    def test_out_of_memory_is_known_where_output_goes_elsewhere(self):
        job = self.submit(USER, "sh -c 'echo torch.cuda.OutOfMemoryError: CUDA out of memory; exit 1' 2>&1 | tee ~/log\nexit ${PIPESTATUS[0]}\n",
                          "--error=" + self.bed.path("jobs/%j.err"))
        self.assertEqual(self.bed.ended(job), ("FAILED", 1))
        slurm.until(lambda: self.task_of("n0", job)["state"] == "out_of_memory", "its output says so")

    def test_only_slurm_limits_its_time(self):
        job = self.submit(USER, "true\n", f"--export=ALL,SLURM_JOB_END_TIME={int(time.time()) + 60}")
        self.assertEqual(self.bed.ended(job), ("COMPLETED", 0), self.bed.output(job))
        self.assertIsNone(self.bed.carma("n0", "show", str(self.task_of("n0", job)["id"])).get("time_limit_s"))

    def test_memory_is_estimated_from_a_summary(self):
        path = os.path.join(self.bed.home(USER), "resnet50.json")
        shutil.copy(SUMMARY, path)
        os.chmod(path, 0o644)
        job = self.bed.sbatch(USER, "true\n", "--carma-summary=resnet50.json", "--carma-batch-size=8", "--nodelist=n0")
        self.assertEqual(self.bed.ended(job), ("COMPLETED", 0), self.bed.output(job))
        task = self.bed.carma("n0", "show", str(self.task_of("n0", job)["id"]))
        self.assertGreater(task["predicted_mib"], 100, task)
        self.assertNotIn(task["estimate_method"], ("", "given"), task)
        self.assertNotIn("carma: warning", self.bed.output(job))
        ran = self.bed.run_as(USER, "srun", "--mem=100", "--carma-summary=/no/such/model", "--nodelist=n0", "true")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("carma: warning: cannot read the model summary /no/such/model: No such file or directory", ran.stderr)

    # ---- waiting ----

    def fill(self, node):
        """A job that has all GPUs of a node."""
        job = self.bed.sbatch(OTHER, "exec sleep 1000\n", "--carma-exclusive", "--carma-gpus=4", f"--nodelist={node}")
        slurm.until(lambda: self.task_of(node, job) and self.task_of(node, job)["state"] == "running", f"{node} is full")
        return job

    def test_a_cancelled_job_that_waits_is_gone_within_two_seconds(self):
        full = self.fill("n2")
        waits = self.submit(USER, "touch ~/waited\n", node="n2")
        slurm.until(lambda: self.bed.tasks("n2", "queued"), "the second waits")
        slurm.until(lambda: "is waiting for GPUs on n2" in self.bed.output(waits), "and says so")
        started = time.monotonic()
        self.bed.ask("scancel", str(waits))
        slurm.until(lambda: not self.bed.tasks("n2", "queued"), "its lease is given up")
        self.assertEqual(self.bed.ended(waits)[0], "CANCELLED")
        self.assertLess(time.monotonic() - started, 2)
        self.bed.ask("scancel", str(full))
        self.nothing_left("n2")
        self.assertFalse(os.path.exists(os.path.join(self.bed.home(USER), "waited")))

    def test_one_that_waits_runs_when_gpus_fall_free(self):
        full = self.fill("n1")
        waits = self.submit(USER, "echo on $CUDA_VISIBLE_DEVICES\n", node="n1")
        slurm.until(lambda: self.bed.tasks("n1", "queued"), "it waits")
        self.bed.ask("scancel", str(full))
        self.assertEqual(self.bed.ended(waits), ("COMPLETED", 0), self.bed.output(waits))
        self.assertIn("on GPU-", self.bed.output(waits))

    def test_one_that_is_suspended_while_it_waits_runs_when_it_is_resumed(self):
        full = self.fill("n1")
        waits = self.submit(USER, "echo on $CUDA_VISIBLE_DEVICES\n", node="n1")
        slurm.until(lambda: self.bed.tasks("n1", "queued"), "it waits")
        slurm.until(lambda: "is waiting for GPUs on n1" in self.bed.output(waits), "and says so")
        number = str(self.task_of("n1", waits)["id"])
        self.bed.ask("scontrol", "suspend", str(waits))
        slurm.until(lambda: self.bed.job(waits)["JobState"] == "SUSPENDED", "it is suspended")
        self.bed.ask("scancel", str(full))
        slurm.until(lambda: any("process" in event["text"] for event in self.bed.carma("n1", "history", number)["events"]), "it did not come for its GPUs")
        self.bed.ask("scontrol", "resume", str(waits))
        self.assertEqual(self.bed.ended(waits), ("COMPLETED", 0), self.bed.output(waits))
        self.assertIn("on GPU-", self.bed.output(waits))

    def test_one_that_waits_finds_the_next_carmad(self):
        full = self.fill("n2")
        waits = self.submit(USER, "echo on $CUDA_VISIBLE_DEVICES\n", node="n2")
        slurm.until(lambda: self.bed.tasks("n2", "queued"), "it waits")
        slurm.until(lambda: "is waiting for GPUs on n2" in self.bed.output(waits), "and says so")
        self.bed.daemons["n2"].send_signal(signal.SIGKILL)
        self.bed.daemons["n2"].wait()
        self.bed.daemons["n2"] = self.bed.start_daemon("n2")
        self.bed.serves("n2")
        self.assertEqual(len(self.bed.tasks("n2", "queued")), 1)
        self.bed.ask("scancel", str(full))
        self.assertEqual(self.bed.ended(waits), ("COMPLETED", 0), self.bed.output(waits))
        self.assertIn("on GPU-", self.bed.output(waits))
        self.nothing_left("n2")

    def test_zz_the_time_limit_ends_one_that_waits(self):
        self.assertEqual(self.bed.ended(self.limited, 150)[0], "TIMEOUT", self.bed.output(self.limited))
        slurm.until(lambda: not self.bed.tasks("n3", "queued"), "its lease is given up")
        self.assertFalse(os.path.exists(os.path.join(self.bed.home(USER), "limited")))
        self.bed.ask("scancel", str(self.full))
        self.nothing_left("n3")

    # ---- refused ----

    def test_several_nodes_share_no_gpus(self):
        job = self.bed.sbatch(USER, "touch ~/several\n", "--nodes=2", "--carma-mem=2G")
        self.assertEqual(self.bed.ended(job), ("FAILED", 1))
        self.assertIn("--carma-exclusive", self.bed.output(job))
        job = self.bed.sbatch(USER, "echo $CUDA_VISIBLE_DEVICES\n", "--nodes=2", "--nodelist=n0,n1", "--carma-exclusive")
        self.assertEqual(self.bed.ended(job), ("COMPLETED", 0), self.bed.output(job))
        self.assertFalse(os.path.exists(os.path.join(self.bed.home(USER), "several")))

    def test_what_never_fits_and_what_makes_no_sense(self):
        job = self.submit(USER, "touch ~/never\n", memory="90G")
        self.assertEqual(self.bed.ended(job), ("FAILED", 1))
        self.assertIn("no GPUs for job", self.bed.output(job))
        for option, expected in {"--carma-mem=6X": "GPU memory such as 12G", "--carma-gpus=0": "from 1 to 1024", "--carma-sm-share=2%%": "share"}.items():
            ran = self.bed.run_as(USER, "srun", "--mem=100", option, "true")
            self.assertNotEqual(ran.returncode, 0)
            self.assertIn(expected, ran.stderr)

    def test_nobody_takes_what_is_not_his(self):
        job = self.submit(OTHER, "sleep 1000\n", node="n0")
        slurm.until(lambda: self.task_of("n0", job), "it has a lease")
        number = slurm.until(lambda: self.task_of("n0", job) and self.task_of("n0", job)["state"] == "running" and self.task_of("n0", job)["id"], "adopted")
        spec = {"name": "x", "command": ["x"], "workdir": "/"}
        forged = {"spec": spec, "key": {"cluster": "slurm", "job": job, "step": "batch"}, "owner": {"uid": 65534, "gid": 65534}}
        self.assertEqual(self.bed.post("n0", "/v1/leases", forged, USER)[0], 403, "a forged key")
        self.assertEqual(self.bed.post("n0", "/v1/leases", forged, OTHER)[0], 403, "its owner's as well")
        self.assertEqual(self.bed.post("n0", f"/v1/leases/{number}/adopt", {}, USER)[0], 403, "another user")
        self.assertEqual(self.bed.post("n0", f"/v1/leases/{number}/end", {}, USER)[0], 403)
        self.assertEqual(self.bed.post("n0", f"/v1/leases/{number}/adopt", {"pid": os.getpid()}, OTHER)[0], 403, "a process of root's")
        outside = self.bed.post("n0", f"/v1/leases/{number}/adopt", {}, OTHER)
        self.assertEqual(outside[0], 403, "a process of its owner outside the job")
        self.assertIn("does not belong to the job step", outside[1]["error"]["message"])
        self.bed.ask("scancel", str(job))
        slurm.until(lambda: self.task_of("n0", job)["state"] != "running", "it has ended")
        self.assertEqual(self.bed.post("n0", f"/v1/leases/{number}/adopt", {}, OTHER)[0], 409, "replayed after its end")

    # ---- without carmad ----

    def test_a_dead_carmad_fails_jobs_and_one_that_comes_back_finds_them(self):
        runs = self.submit(USER, "touch ~/runs\nuntil [ -e ~/stop ]; do sleep 0.1; done\n", node="n1")
        slurm.until(lambda: os.path.exists(os.path.join(self.bed.home(USER), "runs")), "it runs")
        number = self.task_of("n1", runs)["id"]
        daemon = self.bed.daemons["n1"]
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()
        job = self.submit(USER, "touch ~/unmanaged\n", node="n1")
        self.assertEqual(self.bed.ended(job, 120), ("FAILED", 1), "after a minute")
        self.assertRegex(self.bed.output(job), r"carma: no GPUs for job \d+ on n1: connecting to \S+: (Connection refused|No such file)")
        self.assertFalse(os.path.exists(os.path.join(self.bed.home(USER), "unmanaged")))
        self.bed.daemons["n1"] = self.bed.start_daemon("n1")
        self.bed.serves("n1")
        self.assertEqual(self.bed.carma("n1", "show", str(number))["state"], "running")
        with open(os.path.join(self.bed.home(USER), "stop"), "w", encoding="utf-8"):
            pass
        self.assertEqual(self.bed.ended(runs), ("COMPLETED", 0))
        self.nothing_left("n1")
        self.assertEqual(self.bed.carma("n1", "show", str(number))["state"], "succeeded")


class PluginLine(unittest.TestCase):
    """Arguments in plugstack.conf."""

    def test_an_argument_that_nobody_knows_is_told_to_whoever_submits(self):
        bed = spank_bed.SpankBed(os.path.abspath(sys.argv[1]), nodes=1, arguments="colour=red", daemons=False)
        try:
            ran = bed.run_as(USER, "srun", "--mem=100", "true")
            self.assertNotEqual(ran.returncode, 0)
            self.assertIn("'colour=red': expected socket=PATH, cluster=NAME or wait=MINUTES", ran.stderr)
        finally:
            bed.close()


if __name__ == "__main__":
    WHY_NOT = spank_bed.missing(sys.argv[1])
    if WHY_NOT:
        print(f"skipped: {WHY_NOT}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
