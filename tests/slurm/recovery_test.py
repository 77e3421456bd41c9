#!/usr/bin/env python3
"""Tests that jobs that ran out of GPU memory go back into a real Slurm's queue: recovery_test.py BIN_DIR.
Exit status 77: there is no slurmctld, slurmd or munged, the plug-in was not built, or we are not root."""

import os
import sys
import unittest

import bed as slurm
import spank_bed

USER = "nobody"
# The first runs of this job end with PyTorch's out-of-memory message.
TRAIN = """\
echo run ${SLURM_RESTART_COUNT:-0}
[ ${SLURM_RESTART_COUNT:-0} -ge RUNS ] && exit 0
echo 'torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 GiB' >&2
exit 1
"""
# A replacement for Slurm's program that kills its carmad before or after a step.
SCONTROL = """\
#!/bin/sh
if [ -e FOLDER/jobs/before-$1 ]; then rm FOLDER/jobs/before-$1; kill -9 $PPID; exit 1; fi
/usr/bin/scontrol "$@" || exit $?
if [ -e FOLDER/jobs/after-$1 ]; then rm FOLDER/jobs/after-$1; kill -9 $PPID; fi
"""


# A job that first fails because of a neighbour's fault, then runs out of memory, then succeeds.
VICTIM = """\
export CARMA_SIMGPU_STATE=$CARMA_SIMULATION_STATE
case ${SLURM_RESTART_COUNT:-0} in
0) carma-simtask --memory-mib 3000 --sm-active 0.2 --load-s 0 --solo-s 40000; code=$?
   # The fault is attributed to the process that ends first.
   read -r _ < ~/culprit-ended
   exit $code ;;
1) echo 'torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 GiB' >&2; exit 1 ;;
esac
"""
CULPRIT = """\
export CARMA_SIMGPU_STATE=$CARMA_SIMULATION_STATE
exec carma-simtask --memory-mib 3000 --sm-active 0.2 --load-s 0 --solo-s 400 --fault-at 0.5
"""


class RecoveryBed(spank_bed.SpankBed):
    """A test bed in which each carmad requeues jobs. On n2, tasks share GPUs through MPS."""

    def __init__(self, programs):
        super().__init__(programs, nodes=3, daemons=False, files={"scontrol": SCONTROL})
        try:
            self.environment.update(CARMA_SLURM_ENABLED="true", CARMA_SLURM_SCONTROL=self.path("etc/scontrol"))
            self.start_daemons()
        except BaseException:
            self.close()
            raise

    def daemon_settings(self, node):
        by_mps = {"CARMA_COLLOCATION_METHOD": "mps", "CARMA_COLLOCATION_MPS_CONTROL": f"{self.programs}/carma-simmps",
                  "CARMA_COLLOCATION_MPS_DIR": self.path(f"nodes/{node}.mps"), "CARMA_COLLOCATION_MPS_SERVERS": "user"}
        return {**super().daemon_settings(node), **(by_mps if node == "n2" else {})}


class Recovery(unittest.TestCase):
    """Batch jobs that have run out of GPU memory."""

    bed = None

    @classmethod
    def setUpClass(cls):
        cls.bed = RecoveryBed(os.path.abspath(sys.argv[1]))
        cls.addClassCleanup(cls.bed.close)
        # This job runs in parallel with all tests.
        everywhere = ("--carma-mem=4G", "--carma-gpus=4", "--gres=carma:16", "--nodelist=n2", "--carma-retries=1")
        gate = os.path.join(cls.bed.home(USER), "culprit-ended")
        os.mkfifo(gate, 0o644)
        opener = os.open(gate, os.O_RDWR)  # does not wait for a reader, and keeps written data
        cls.addClassCleanup(os.close, opener)
        cls.victim = cls.bed.sbatch(USER, VICTIM, *everywhere)
        slurm.until(lambda: cls.bed.tasks("n2", "running"), f"it runs: {cls.bed.output(cls.victim)}")
        cls.culprit = cls.bed.sbatch(USER, CULPRIT, *everywhere)
        cls.bed.ended(cls.culprit)
        os.write(opener, b"ended\n")

    def submit(self, runs, *options, node="n0"):
        """A job that runs out of memory this many times."""
        return self.bed.sbatch(USER, TRAIN.replace("RUNS", str(runs)), "--carma-mem=4G", "--gres=carma:4", f"--nodelist={node}", *options)

    def told(self, node, job):
        """The job's history at the node's carmad."""
        lines = [event["text"] for event in self.bed.carma(node, "history")["events"] if event["what"] == "slurm"]
        return [line for line in lines if f"job {job} " in line]

    def test_out_of_memory_twice_and_then_a_success(self):
        job = self.submit(2)
        fine = self.bed.sbatch(USER, "touch ~/afterok\n", f"--dependency=afterok:{job}")
        bad = self.bed.sbatch(USER, "touch ~/afternotok\n", f"--dependency=afternotok:{job}")
        self.assertEqual(self.bed.ended(job, 120), ("COMPLETED", 0), f"{self.bed.output(job)}\n{self.told('n0', job)}")
        found = self.bed.job(job)
        self.assertEqual((found["Restarts"], found["TresPerNode"]), ("2", "gres:carma:16"))
        self.assertIn("AdminComment=carma: out of GPU memory on n0 ", self.bed.ask("scontrol", "-o", "show", "job", str(job)))
        self.assertIn("retry 2 of 3", self.bed.ask("scontrol", "-o", "show", "job", str(job)))
        self.assertEqual(self.bed.output(job).count("run "), 3)
        # The claim of each start equals the count in Slurm.
        claims = [self.bed.carma("n0", "show", str(task["id"]))["claim_mib"] for task in sorted(self.bed.tasks("n0"), key=lambda task: task["id"])
                  if task["comment"].startswith(f"job {job} ")]
        self.assertEqual(claims, [4 * 1024, 10 * 1024, 16 * 1024])
        self.assertEqual(self.bed.ended(fine), ("COMPLETED", 0))
        self.assertTrue(os.path.exists(os.path.join(self.bed.home(USER), "afterok")))
        self.assertEqual(self.bed.job(bad)["JobState"], "PENDING")
        self.assertFalse(os.path.exists(os.path.join(self.bed.home(USER), "afternotok")))
        self.bed.ask("scancel", str(bad))

    def test_without_a_retry_left_it_fails_and_the_history_says_why(self):
        job = self.submit(9, "--carma-retries=0", node="n1")
        self.assertEqual(self.bed.ended(job), ("FAILED", 1), self.bed.output(job))
        self.assertIn("it does not allow retries", slurm.until(lambda: self.told("n1", job), "its history")[0])

    def test_a_job_that_must_not_be_requeued_is_not(self):
        job = self.submit(9, "--no-requeue", node="n1")
        self.assertEqual(self.bed.ended(job), ("FAILED", 1), self.bed.output(job))
        self.assertIn("--no-requeue", slurm.until(lambda: self.told("n1", job), "its history")[0])

    def test_a_cancelled_job_ends_and_a_held_one_stays_held(self):
        script = TRAIN.replace("RUNS", "1").replace("exit 1", "touch ~/said-$SLURM_JOB_ID\nuntil [ -e ~/go-on ]; do sleep 0.1; done\nexit 1")
        jobs = [self.bed.sbatch(USER, script, "--carma-mem=4G", "--gres=carma:4", "--nodelist=n1") for _ in range(2)]
        for job in jobs:
            slurm.until(lambda job=job: os.path.exists(os.path.join(self.bed.home(USER), f"said-{job}")), "it runs")
        cancelled, held = jobs
        self.bed.ask("scancel", str(cancelled))
        self.assertEqual(self.bed.ended(cancelled)[0], "CANCELLED", self.told("n1", cancelled))
        self.bed.ask("scontrol", "update", f"JobId={held}", "AdminComment=ada: of two\nlines")
        self.bed.ask("scontrol", "hold", str(held))
        with open(os.path.join(self.bed.home(USER), "go-on"), "w", encoding="utf-8"):
            pass
        slurm.until(lambda: any("back in Slurm's queue" in line for line in self.told("n1", held)), "it is put back")
        found = self.bed.job(held)
        self.assertEqual((found["Priority"], found["TresPerNode"], found["Restarts"]), ("0", "gres:carma:10", "1"))
        self.assertIn("lines | carma: out of GPU memory", self.bed.ask("scontrol", "show", "job", str(held)))
        self.bed.ask("scancel", str(held))

    def test_zz_a_neighbours_victim_comes_back_with_its_claim_and_its_retries(self):
        self.assertEqual(self.bed.ended(self.culprit)[0], "FAILED", self.bed.output(self.culprit))
        self.assertEqual(self.bed.ended(self.victim, 120), ("COMPLETED", 0), f"{self.bed.output(self.victim)}\n{self.told('n2', self.victim)}")
        ended = [task["state"] for task in sorted(self.bed.tasks("n2"), key=lambda task: task["id"]) if task["comment"].startswith(f"job {self.victim} ")]
        self.assertEqual(ended, ["failed", "out_of_memory", "succeeded"])
        claims = [line for line in self.told("n2", self.victim) if "is back in Slurm's queue" in line]
        self.assertEqual(len(claims), 2)
        found = self.bed.job(self.victim)
        self.assertEqual((found["Restarts"], found["TresPerNode"]), ("2", "gres:carma:40"))
        self.assertIn("retry 1 of 1", self.bed.ask("scontrol", "-o", "show", "job", str(self.victim)))

    def test_out_of_memory_is_known_wherever_its_words_went(self):
        train = ("export CARMA_SIMGPU_STATE=$CARMA_SIMULATION_STATE\n[ ${SLURM_RESTART_COUNT:-0} -ge 1 ] && exit 0\n"
                 "program='carma-simtask --memory-mib 3000 --sm-active 0.2 --load-s 0 --solo-s 40000'\n"
                 "words='torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 GiB'\n")
        run = "sh -c \"$program & read x < ~/GATE; kill \\$!; wait; echo '$words'; exit 1\""
        ways = {"log": f"{run} > ~/train.log 2>&1\n", "srun": f"srun --mem=100 -o a -e b {run}\n".replace("echo", ">&2 echo")}
        for name, command in ways.items():
            with self.subTest(name):
                gate = os.path.join(self.bed.home(USER), f"gate-{name}")
                os.mkfifo(gate, 0o666)
                opener = os.open(gate, os.O_RDWR)
                self.addCleanup(os.close, opener)
                job = self.bed.sbatch(USER, train + command.replace("GATE", f"gate-{name}"), "--carma-mem=4G", "--gres=carma:4", "--nodelist=n0")
                slurm.until(lambda job=job: (self.bed.get("n0", f"/v1/leases?job={job}")[1]["leases"] or [{}])[0].get("outputs"),
                            f"its processes are seen: {self.bed.output(job)}")
                os.write(opener, b"go\n")
                self.assertEqual(self.bed.ended(job, 120), ("COMPLETED", 0), f"{self.bed.output(job)}\n{self.told('n0', job)}")
                self.assertEqual(self.bed.job(job)["Restarts"], "1")

    def test_a_job_that_saves_when_its_gpus_are_drained_goes_on_later(self):
        saves = "trap 'touch ~/saved; exit 85' USR1 TERM\n[ -e ~/saved ] && exit 0\ntouch ~/runs; while :; do sleep 0.1; done\n"
        job = self.bed.sbatch(USER, saves, "--carma-mem=4G", "--gres=carma:4", "--nodelist=n1")
        slurm.until(lambda: os.path.exists(os.path.join(self.bed.home(USER), "runs")), "it runs")
        self.addCleanup(self.bed.carma, "n1", "resume", "all")
        self.assertIsNotNone(self.bed.carma("n1", "drain", "all", "--by", "+2h"))  # simulated time is 400 times as fast
        slurm.until(lambda: self.bed.job(job)["Restarts"] == "1", "it is put back")
        slurm.until(lambda: "had to leave its GPUs" in self.bed.ask("scontrol", "-o", "show", "job", str(job)), "its comment says why")
        self.bed.carma("n1", "resume", "all")
        self.assertEqual(self.bed.ended(job, 120), ("COMPLETED", 0), self.bed.output(job))

    def test_carmad_killed_at_each_step_puts_it_back_once(self):
        for step in ("requeuehold", "update", "release"):
            for moment in ("before", "after"):
                with self.subTest(f"{moment} {step}"):
                    with open(self.bed.path(f"jobs/{moment}-{step}"), "w", encoding="utf-8"):
                        pass
                    job = self.submit(9, node="n1")
                    self.bed.daemons["n1"].wait(slurm.LIMIT_S)
                    self.bed.daemons["n1"] = self.bed.start_daemon("n1")
                    self.bed.serves("n1")
                    slurm.until(lambda job=job: self.told("n1", job) and "back in Slurm's queue" in self.told("n1", job)[-1], f"job {job} is put back: "
                                f"{self.bed.job(job)} {self.told('n1', job)}")
                    found = self.bed.job(job)
                    self.assertEqual((found["Restarts"], found["TresPerNode"], found["JobState"]), ("1", "gres:carma:10", "PENDING"))
                    self.assertNotIn("held", found["Reason"])
                    self.assertIn("retry 1 of 3", self.bed.ask("scontrol", "-o", "show", "job", str(job)))
                    self.bed.ask("scancel", str(job))


if __name__ == "__main__":
    WHY_NOT = slurm.missing() or ("" if os.path.exists(f"{sys.argv[1]}/spank_carma.so") else "needs Debian's package libslurm-dev")
    if WHY_NOT:
        print(f"skipped: {WHY_NOT}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
