#!/usr/bin/env python3
"""Tests the proof without a GPU: parsing of NVIDIA's programs' output, the conclusions, and
whole dry runs on simulated GPUs, one of them with stand-ins for nvidia-smi and the MPS control
daemon. Needs CARMA_BIN, a folder of built programs."""

import contextlib
import io
import json
import os
import stat
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import carmad
import gpu_looks
import gpu_proof
import machine
import mps_clients
import nvml_watch
import pairs
import programs
import proof_tasks
import proof_text
import step_cost
from programs import ProofError
from proof import Proof

# Output of `nvidia-smi dmon -s m --gpm-metrics=2,3`: the header is repeated, and '-' means no
# value.
DMON = """\
# gpu     fb   bar1   ccpm  gpm:sm  gpm:occ
# Idx     MB     MB     MB       %        %
    0   1024      2      0      40       10
    1   1024      2      0      60       30
# gpu     fb   bar1   ccpm  gpm:sm  gpm:occ
# Idx     MB     MB     MB       %        %
    0   1024      2      0       -       20
"""

# Output of `nvidia-smi pmon -c 1 -s u`; columns differ between drivers.
PMON = """\
# gpu         pid   type     sm    mem    enc    dec    command
# Idx           #    C/G      %      %      %      %    name
    0       4711     C     45     20      -      -    python
    1       4711     C     15     20      -      -    python
    0       4712   M+C      -      -      -      -    python
    0          -     -      -      -      -      -    -
"""

FAKE_SMI = """#!/bin/sh
case "$1" in
  dmon) echo '    0   1024      2      0      40       10'; exec sleep 1000 ;;
  pmon) ;;
  *) echo 'GPU-other, 17' ;;
esac
"""
# A control daemon with one server, whose clients are listed in a file.
FAKE_MPS = """#!/bin/sh
read -r words
case "$words" in
  get_server_list) echo 99 ;;
  "get_client_list 99") cat "$CUDA_MPS_PIPE_DIRECTORY/clients" ;;
  quit*) echo ended >"$CUDA_MPS_PIPE_DIRECTORY/ended" ;;
esac
"""


def write_program(path, script):
    with open(path, "w", encoding="utf-8") as file:
        file.write(script)
    os.chmod(path, stat.S_IRWXU)


class NvidiaPrograms(unittest.TestCase):
    def test_dmon_is_percent_in_the_last_columns(self):
        found = programs.dmon_means(DMON, ["sm_active", "sm_occupancy"])
        self.assertAlmostEqual(found["sm_active"], 0.5)
        self.assertAlmostEqual(found["sm_occupancy"], 0.2)

    def test_dmon_that_knows_no_gpm_tells_nothing(self):
        for text in ("", "Invalid combination of options\n", "# gpu sm\n    0   -   -   -\n"):
            self.assertEqual(programs.dmon_means(text, ["sm_active", "sm_occupancy"]), {}, text)

    def test_pmon_is_read_by_the_names_of_its_columns(self):
        self.assertEqual(programs.pmon_use(PMON), {4711: 0.6})
        turned = "# gpu sm pid\n# Idx % #\n 0 25 7\n"
        self.assertEqual(programs.pmon_use(turned), {7: 0.25})
        self.assertEqual(programs.pmon_use("Not supported on the device(s)\n"), {})

    def test_compute_apps_are_added_up_by_gpu(self):
        cases = {
            "GPU-a, 100\nGPU-b, 7\nGPU-a, 20\n": {"GPU-a": 120, "GPU-b": 7},
            "": {},
            "No running processes found\n": {},
            "GPU-a, 100\nGPU-a, [N/A]\nGPU-b, 1\n": {"GPU-b": 1},
        }
        for text, expected in cases.items():
            self.assertEqual(programs.compute_apps(text), expected, text)

    def test_a_task_is_believed_its_figures_only_if_they_are_some(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "log")
            for text, steps in (
                ('step 3\n{"steps": 12, "step_ms": 1.5}\n', 12),
                ('{"steps": 5}\nwarning: late\n', 5),
                ("Killed\n", None),
                ("", None),
                ("[1]\n", None),
                ('{"steps": 1', None),
            ):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                self.assertEqual(proof_tasks.training_of(path).get("steps"), steps, text)
        self.assertEqual(proof_tasks.training_of("/no/such/file"), {})


class Overhead(unittest.TestCase):
    def steps(self, with_monitor, without, noise=lambda pair: 0.0):
        """Times at which steps end, in blocks of two seconds that alternate in changing order."""
        ends, blocks, at = [], [], 0.0
        for pair in range(6):
            for monitored in (True, False) if pair % 2 else (False, True):
                begin = at
                length = (with_monitor if monitored else without) * (1 + noise(pair))
                while at < begin + 2:
                    at += length
                    ends.append(at)
                blocks.append((begin, at, monitored))
        return ends, blocks

    def test_a_slower_step_is_found_whatever_the_drift(self):
        found = step_cost.overhead(*self.steps(0.0101, 0.0100, noise=lambda pair: 0.02 * pair))
        self.assertAlmostEqual(found["share"], 0.01, places=4)
        self.assertAlmostEqual(found["step_ms"], 10.5, delta=0.2)
        self.assertEqual(proof_text.verdict(found), "does not hold")

    def test_equal_steps_hold(self):
        found = step_cost.overhead(*self.steps(0.01, 0.01))
        self.assertEqual(proof_text.verdict(found), "holds")
        line = proof_text.overhead_line({**found, "network": "n", "device": "cpu"})
        self.assertIn("6 pairs from +0.00 to +0.00 %", line.replace("-0.00", "+0.00"))

    def test_noise_is_no_verdict(self):
        self.assertEqual(
            proof_text.verdict({"share": -0.03, "standard_error": 0.06}), "too noisy to tell"
        )

    def test_too_few_steps_are_no_figure(self):
        self.assertIsNone(step_cost.overhead([0.1, 0.2], [(0, 1, True), (1, 2, False)]))


class Tasks(unittest.TestCase):
    def test_names_tell_repetitions_apart(self):
        names = [task.name for task in proof_tasks.chosen_tasks(36)]
        self.assertEqual(len(set(names)), 36)
        self.assertEqual(
            {task.weight for task in proof_tasks.chosen_tasks(5)}, {"light", "medium", "heavy"}
        )

    def test_later_phases_do_the_steps_of_the_first(self):
        proof = Proof.__new__(Proof)
        proof.dry, proof.task_seconds, proof.train_task = False, 10.0, "train_task.py"
        proof.steps = {"mnist-cnn-b64": 7}
        commands = {task.name: proof.command(task)[-2:] for task in proof_tasks.chosen_tasks(2)}
        self.assertEqual(
            commands, {"resnet50-b32": ["--seconds", "10.0"], "mnist-cnn-b64": ["--steps", "7"]}
        )

    def test_measured_is_what_the_driver_says_of_processes_if_it_does(self):
        cases = {
            (900, 950): (900, "process"),
            (None, 950): (950, "device"),
            (0, 950): (950, "device"),
            (None, None): (None, "-"),
        }
        for (peak, device), expected in cases.items():
            self.assertEqual(
                proof_text.measured_mib({"peak_mib": peak, "device_mib": device}), expected
            )


class Machine(unittest.TestCase):
    GPUS = [mock.Mock(uuid="GPU-aa"), mock.Mock(uuid="GPU-bb")]

    def test_only_the_gpus_that_cuda_would_see_take_tasks(self):
        cases = {
            None: ["GPU-aa", "GPU-bb"],
            "1": ["GPU-bb"],
            "GPU-a,7,0": ["GPU-aa"],  # CUDA stops reading at an entry that names nothing
            "": [],
            "MIG-": [],
        }
        for visible, expected in cases.items():
            chosen = machine.chosen_uuids(visible, self.GPUS)
            found = [
                gpu.uuid
                for gpu in self.GPUS
                if machine.is_chosen({"uuid": gpu.uuid, "mig_parent": ""}, chosen)
            ]
            self.assertEqual(found, expected, visible)
        instance = {"uuid": "MIG-1", "mig_parent": "GPU-bb"}
        self.assertTrue(machine.is_chosen(instance, ["GPU-bb"]))
        self.assertFalse(machine.is_chosen(instance, ["GPU-aa"]))

    def test_host_memory_is_that_of_the_container_if_that_is_less(self):
        numbers = {
            "/proc/meminfo": 8 << 20,  # kB
            "/sys/fs/cgroup/memory.max": 3 << 30,
            "/sys/fs/cgroup/memory.current": 1 << 30,
        }
        with mock.patch.object(machine, "number_in", side_effect=lambda path, _: numbers.get(path)):
            self.assertEqual(machine.free_host_mib(), 2048)
            del numbers["/sys/fs/cgroup/memory.max"]  # no limit
            self.assertEqual(machine.free_host_mib(), 8192)
            numbers.clear()
            self.assertIsNone(machine.free_host_mib())

    def test_what_disturbs_the_figures_is_said(self):
        gpu = mock.Mock(tells_activity=False, **{"divided.return_value": True})
        gpu.name = "H200"
        text = "\n".join(machine.noticed([gpu], [5000], tasks=10**6))
        for words in ("5000 MiB were in use", "MIG is enabled", "does not report SM activity", "host memory"):
            self.assertIn(words, text)

    def test_a_container_is_one_by_its_pids(self):
        with tempfile.TemporaryDirectory() as folder:
            link = os.path.join(folder, "pid")
            self.assertFalse(machine.in_pid_namespace(link))
            os.symlink(machine.FIRST_PID_NAMESPACE, link)
            self.assertFalse(machine.in_pid_namespace(link))
            os.remove(link)
            os.symlink("pid:[4026532211]", link)
            self.assertTrue(machine.in_pid_namespace(link))


class Clients(unittest.TestCase):
    def test_a_task_is_a_client_if_the_server_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "control")
            write_program(program, FAKE_MPS)
            pipes = os.path.join(folder, "m", "1000", "pipe")
            os.makedirs(pipes)
            for name, text in (
                (mps_clients.PID_FILE, str(os.getpid())),
                ("clients", f"{os.getpid()}\n1\n"),
            ):
                with open(os.path.join(pipes, name), "w", encoding="utf-8") as file:
                    file.write(text)
            clients = mps_clients.MpsClients(program, os.path.join(folder, "m"))
            # This process is a child of its parent, which runs as task 5. Task 6 does not exist.
            clients.look({os.getppid(): 5, 1 << 30: 6})
            clients.end()
            self.assertEqual(
                clients.result(), {"servers": 1, "clients": 2, "tasks_seen": 1, "left_behind": 1}
            )
            self.assertTrue(os.path.exists(os.path.join(pipes, "ended")))
        self.assertIn("not installed", mps_clients.MpsClients.missing("/no/such/program"))


class Looks(unittest.TestCase):
    @staticmethod
    def gpu(tasks, **values):
        return {
            "index": 0,
            "trouble": "",
            "alerts": [],
            "foreign": [],
            "metrics": [],
            "unattributed_mib": None,
            "tasks": [
                {"id": number, "sm_active": part, "sm_active_by": by, "idle_since_ms": idle}
                for number, part, by, idle in tasks
            ],
            **values,
        }

    def test_what_should_be_known_is_kept(self):
        carma = mock.Mock()
        looks = gpu_looks.GpuLooks("/no/such/folder", "streams")
        carma.json.return_value = {
            "gpus": [self.gpu([], trouble="Xid 79", alerts=["hot"], unattributed_mib=300)]
        }
        looks.take(carma)
        foreign = [
            {"pid": 9, "command": "python", "user": "eve"},
            {"pid": 8, "command": "MPS server: nvidia-cuda-mps-server", "user": "ann"},
        ]
        metrics = [{"name": "sm_active", "source": "gpm"}]
        carma.json.return_value = {
            "gpus": [
                self.gpu([], foreign=foreign, metrics=metrics, unattributed_mib=100),
                self.gpu([], index=1, trouble=f"drained by root: {carmad.LEFT_ALONE}"),
            ]
        }
        looks.take(carma)
        text = "\n".join(proof_text.look_lines(looks.result()))
        for words in ("GPU 0: Xid 79", "GPU 0: hot", "python of eve", "at most 300 MiB"):
            self.assertIn(words, text)
        self.assertNotIn("GPU 1", text)  # the proof itself closed it
        self.assertNotIn("MPS server", text)
        phases = {"streams": {"looks": looks.result()}}
        self.assertEqual(proof_text.source_lines(phases), ["reported by gpm: sm_active"])

    def test_parts_of_activity_are_compared_as_shares_of_the_same_tasks(self):
        looks = gpu_looks.GpuLooks("", "streams")
        gpu = self.gpu([(1, 0.3, "kernel-time", None), (2, 0.1, "kernel-time", None)])
        looks.compare_shares([gpu], {1: 11, 2: 12}, lambda: {11: 0.5, 12: 0.5, 13: 0.9})
        gaps = looks.result()["share_gaps"]
        self.assertEqual(gaps["compared"], 2)
        self.assertAlmostEqual(gaps["mean"], 0.25)

    def test_a_task_that_is_alone_is_not_compared(self):
        looks = gpu_looks.GpuLooks("", "streams")
        gpu = self.gpu([(1, 0.3, "alone", None)])
        looks.compare_shares([gpu], {1: 11}, lambda: self.fail("nothing to compare"))
        self.assertIsNone(looks.result()["share_gaps"])

    def test_only_an_idle_span_inside_the_training_is_a_false_alarm(self):
        span_ms = 1000 * gpu_looks.IDLE_AFTER_S
        for since, expected in ((0, 0), (10_000, 1), (40_000 - span_ms + 1, 0)):
            self.assertEqual(gpu_looks.false_alarms({since}, 10_000, 40_000), expected, since)
        self.assertEqual(gpu_looks.false_alarms({20_000}, None, None), 0)


class Sentences(unittest.TestCase):
    def test_processes_that_nobody_can_name_are_no_error_of_memory(self):
        line = proof_text.memory_line(
            {"looks": 3, "largest_gap_mib": 900, "largest_sum_mib": 0, "largest_smi_mib": 900}
        )
        self.assertIn("a container", line)

    def test_promises_are_summed_up(self):
        tasks = [
            {"predicted_mib": 900, "bound_mib": 1100, "peak_mib": 1000},
            {"predicted_mib": 2000, "bound_mib": 2100, "peak_mib": 2200},
            {"predicted_mib": None, "bound_mib": None, "peak_mib": 10},
        ]
        line = proof_text.promise_line(tasks)
        self.assertIn("median 0.90", line)
        self.assertIn("1 of 2 tasks needed no more", line)

    def test_the_doctor_is_heard_where_something_is_wrong(self):
        told = {
            "findings": [
                {"level": "good", "topic": "disk", "text": "room"},
                {"level": "warn", "topic": "clock", "text": "not synchronised"},
            ],
            "contexts": [
                {"gpu_type": "H200", "assumed_mib": 500, "measured_mib": 612},
                {"gpu_type": "L4", "assumed_mib": 300, "not_measured": "others compute there"},
            ],
        }
        self.assertEqual(
            proof_text.doctor_lines(told),
            [
                "carma doctor: warn: clock: not synchronised",
                "CUDA context on H200: 612 MiB; assumed 500 MiB",
                "CUDA context on L4: not measured (others compute there); assumed 300 MiB",
            ],
        )

    def test_a_phase_that_ran_without_mps_in_silence_is_told(self):
        phase = {
            "mps": {"servers": 1, "clients": 1, "tasks_seen": 1, "left_behind": 2},
            "tasks": [{"sharing": "mps"}, {"sharing": "mps"}, {"sharing": "streams"}],
            "watch": {"most_mps_clients": 1},
        }
        lines = proof_text.mps_lines(phase)
        self.assertIn("2 of 3 tasks were started under MPS, 1 were seen", lines[0])
        self.assertIn("silently ran without MPS", lines[0])
        self.assertEqual(lines[1], "2 control daemons outlived carmad and were stopped")


class DryRun(unittest.TestCase):
    def setUp(self):
        self.bin = os.environ.get("CARMA_BIN")
        if not self.bin:
            self.skipTest("CARMA_BIN names no programs")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.output = os.path.join(folder.name, "out")

    def run_proof(self, *options):
        text, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(errors):
            status = gpu_proof.main(["--bin", self.bin, "--output", self.output, *options])
        return status, text.getvalue(), errors.getvalue()

    def result(self):
        with open(os.path.join(self.output, "proof.json"), encoding="utf-8") as file:
            return json.load(file)

    def stand_in_for_smi(self):
        """Puts a stand-in for nvidia-smi first in PATH, for a dry run that uses it."""
        write_program(os.path.join(self.folder, "nvidia-smi"), FAKE_SMI)
        patched = mock.patch.dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}")
        patched.start()
        self.addCleanup(patched.stop)
        simulate = Proof._simulate

        def with_programs(proof):
            simulate(proof)
            proof.nvidia_programs = True

        replaced = mock.patch.object(Proof, "_simulate", with_programs)
        replaced.start()
        self.addCleanup(replaced.stop)

    def test_three_phases_and_their_reports(self):
        self.stand_in_for_smi()
        status, text, errors = self.run_proof(
            "--dry", "--tasks", "4", "--task-seconds", "20", "--no-overhead"
        )
        self.assertEqual((status, errors), (0, ""), text)
        result = self.result()
        self.assertTrue(result["simulated"])
        self.assertIn("SIMULATED", text)
        self.assertEqual(list(result["phases"]), ["exclusive", "streams", "mps"])
        for method, phase in result["phases"].items():
            self.assertEqual(
                [about["state"] for about in phase["tasks"]], ["succeeded"] * 4, method
            )
            # The measured value is the memory that the simulated tasks use, which the driver
            # reports by process.
            self.assertEqual(
                [about["peak_mib"] for about in phase["tasks"]],
                [task.memory_mib for task in proof_tasks.chosen_tasks(4)],
                method,
            )
            self.assertEqual([about["idle_false"] for about in phase["tasks"]], [0] * 4, method)
            self.assertAlmostEqual(phase["dmon"]["sm_occupancy"], 0.1, msg=method)
            self.assertGreater(phase["carmad"]["peak_rss_mib"], 1)
            # Two programs read one counter, over spans that begin and end almost together.
            self.assertAlmostEqual(
                phase["report"]["sm_active"], phase["watch"]["sm_active"], delta=0.15
            )
        exclusive, streams = (
            result["phases"]["exclusive"]["report"],
            result["phases"]["streams"]["report"],
        )
        self.assertLess(streams["trace_total_s"], exclusive["trace_total_s"])
        self.assertGreaterEqual(exclusive["trace_total_s"], 4 * 20)
        mps = result["phases"]["mps"]
        self.assertEqual([about["sharing"] for about in mps["tasks"]], ["mps"] * 4)
        self.assertEqual(mps["mps"]["servers"], 1)
        self.assertEqual(mps["mps"]["tasks_seen"], 4)
        self.assertGreater(mps["mps"]["clients"], 1)
        self.assertEqual(mps["mps"]["left_behind"], 0)
        for name in (
            "proof.txt",
            "proof.html",
            "watch-mps.jsonl",
            "dmon-streams.txt",
            "doctor.json",
            "gpus-streams.json",
            "recording-streams.jsonl",
        ):
            self.assertTrue(os.path.getsize(os.path.join(self.output, name)), name)
        status, _, errors = self.run_proof("--dry")
        self.assertEqual(status, 2)
        self.assertIn("older proof", errors)

    def test_models_are_measured_in_pairs(self):
        self.without_estimates()
        status, text, errors = self.run_proof(
            "--dry",
            "--tasks",
            "2",
            "--task-seconds",
            "60",
            "--no-overhead",
            "--pairs",
            "2",
            "--phases",
            "exclusive",
        )
        self.assertEqual((status, errors), (0, ""), text)
        found = self.result()["pairs"]
        known = {task.model: task for task in proof_tasks.chosen_tasks(2)}
        profiles = {each["workload"]: each for each in found["types"][0]["profiles"]}
        self.assertEqual(list(profiles), list(known))
        for model, task in known.items():
            self.assertAlmostEqual(profiles[model]["sm_active"], task.sm_active, delta=0.05)
            self.assertEqual(profiles[model]["memory_mib"], task.memory_mib)
        self.assertRegex(text, r"pairs: resnet50-b32 on NVIDIA A100-SXM4-40GB: SM activity 0\.6")
        self.assertIn("pairs: mean error of predicted slowdowns: MPS ", text)
        self.assertTrue(os.path.getsize(os.path.join(self.output, "profile", "profiles.csv")))

    def test_a_model_without_its_steps_is_calibrated(self):
        proof = mock.Mock(dry=False, steps={"a": 7}, task_seconds=8.0)
        proof.command.return_value = ["python3", "train_task.py", "train", "a", "--seconds", "8"]
        known, fresh = (mock.Mock(model=name) for name in ("a-b1", "b-b1"))
        known.name, fresh.name = "a", "b"
        self.assertEqual(pairs.workload(proof, known)["iterations"], 7)
        line = pairs.workload(proof, fresh)
        self.assertEqual(line["command"][-2:], ["--steps", "{steps}"])
        self.assertEqual(line["calibrate"][-2:], ["--seconds", "8"])

    def without_estimates(self):
        """Skips the estimates, because PyTorch takes seconds to load."""
        patched = mock.patch.object(gpu_proof, "describe_models", return_value="not asked for")
        patched.start()
        self.addCleanup(patched.stop)

    def test_time_that_is_over_cancels_and_is_told(self):
        self.without_estimates()
        # 20 s are reserved for the reports, so 4 s remain, but the tasks need a thousand seconds of
        # the simulated clock.
        status, text, _ = self.run_proof(
            "--dry",
            "--tasks",
            "2",
            "--task-seconds",
            "1000",
            "--minutes",
            "0.4",
            "--no-overhead",
            "--phases",
            "exclusive,streams",
        )
        self.assertEqual(status, 1, text)
        self.assertIn("exclusive: 0 of 2 tasks succeeded, cut short by the time limit", text)
        self.assertIn("left out: streams: no time was left", text)

    def test_a_machine_without_mps_is_no_failure(self):
        self.without_estimates()
        with mock.patch.object(mps_clients.shutil, "which", return_value=None):
            status, text, _ = self.run_proof(
                "--dry", "--tasks", "1", "--no-overhead", "--phases", "mps"
            )
        self.assertEqual(status, 0, text)
        self.assertIn("left out: mps: ", text)
        self.assertIn("carma-simmps is not installed", text)

    def test_a_daemon_that_ends_at_once_is_told_with_its_last_line(self):
        self.without_estimates()
        with mock.patch.object(carmad, "IDLE_AFTER_S", -1):
            status, text, _ = self.run_proof(
                "--dry", "--tasks", "1", "--no-overhead", "--phases", "streams"
            )
        self.assertEqual(status, 1, text)
        self.assertRegex(text, "left out: streams: carmad: .*idle.after")

    def test_no_driver_is_one_line(self):
        with mock.patch.object(nvml_watch, "open_gpus", side_effect=nvml_watch.NoGpu("no driver")):
            status, _, errors = self.run_proof()
        self.assertEqual(
            (status, errors), (2, "gpu_proof: no driver; --dry runs on simulated GPUs\n")
        )

    def test_wrong_options_are_told(self):
        for options in (
            ["--tasks", "0"],
            ["--tasks", "37"],
            ["--phases", "magic"],
            ["--minutes", "-1"],
        ):
            with self.assertRaises(SystemExit) as end, contextlib.redirect_stderr(io.StringIO()):
                gpu_proof.main(["--bin", self.bin, *options])
            self.assertEqual(end.exception.code, 2, options)


class ProgramsThatFail(unittest.TestCase):
    def test_a_program_that_fails_is_told_with_its_last_line(self):
        with self.assertRaisesRegex(ProofError, "exit code 3: the reason"):
            programs.output_of(["/bin/sh", "-c", "echo first; echo the reason >&2; exit 3"])
        with self.assertRaisesRegex(ProofError, "/no/such"):
            programs.output_of(["/no/such/program"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
