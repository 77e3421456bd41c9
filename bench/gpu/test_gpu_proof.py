#!/usr/bin/env python3
"""The proof without a GPU: what is read from NVIDIA's programs, what is concluded, and whole dry
runs on simulated GPUs, one of them with stand-ins for nvidia-smi and the MPS control daemon. Needs
CARMA_BIN, a folder of built programs."""

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

import gpu_proof
import proof_text
from gpu_proof import ProofError

# As `nvidia-smi dmon -s m --gpm-metrics=2,3` prints it: the header comes again and again, '-' is
# no value.
DMON = """\
# gpu     fb   bar1   ccpm  gpm:sm  gpm:occ
# Idx     MB     MB     MB       %        %
    0   1024      2      0      40       10
    1   1024      2      0      60       30
# gpu     fb   bar1   ccpm  gpm:sm  gpm:occ
# Idx     MB     MB     MB       %        %
    0   1024      2      0       -       20
"""

FAKE_SMI = """#!/bin/sh
case "$1" in
  dmon) echo '    0   1024      2      0      40       10'; exec sleep 1000 ;;
  *) echo 'GPU-other, 17' ;;
esac
"""
# Keeps the words it was told, and answers like the control daemon.
FAKE_MPS = """#!/bin/sh
[ "$1" = -d ] && exit 0
read -r words
echo "$words" >>"$CUDA_MPS_LOG_DIRECTORY/words"
case "$words" in
  get_default*) echo 100.0 ;;
  get_server_list) echo 4711 ;;
  quit*) cp "$CUDA_MPS_LOG_DIRECTORY/words" "$FAKE_MPS_WORDS" ;;
esac
"""


class NvidiaPrograms(unittest.TestCase):
    def test_dmon_is_percent_in_the_last_columns(self):
        found = gpu_proof.dmon_means(DMON, ["sm_active", "sm_occupancy"])
        self.assertAlmostEqual(found["sm_active"], 0.5)
        self.assertAlmostEqual(found["sm_occupancy"], 0.2)

    def test_dmon_that_knows_no_gpm_tells_nothing(self):
        for text in ("", "Invalid combination of options\n", "# gpu sm\n    0   -   -   -\n"):
            self.assertEqual(gpu_proof.dmon_means(text, ["sm_active", "sm_occupancy"]), {}, text)

    def test_compute_apps_are_added_up_by_gpu(self):
        cases = {
            "GPU-a, 100\nGPU-b, 7\nGPU-a, 20\n": {"GPU-a": 120, "GPU-b": 7},
            "": {},
            "No running processes found\n": {},
            "GPU-a, 100\nGPU-a, [N/A]\nGPU-b, 1\n": {"GPU-b": 1},
        }
        for text, expected in cases.items():
            self.assertEqual(gpu_proof.compute_apps(text), expected, text)

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
                self.assertEqual(gpu_proof.training_of(path).get("steps"), steps, text)
        self.assertEqual(gpu_proof.training_of("/no/such/file"), {})


class Overhead(unittest.TestCase):
    def steps(self, with_monitor, without, noise=lambda pair: 0.0):
        """Ends of steps over blocks of two seconds, whose order changes."""
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
        found = gpu_proof.overhead(*self.steps(0.0101, 0.0100, noise=lambda pair: 0.02 * pair))
        self.assertAlmostEqual(found["share"], 0.01, places=4)
        self.assertAlmostEqual(found["step_ms"], 10.5, delta=0.2)
        self.assertEqual(proof_text.verdict(found), "does not hold")

    def test_equal_steps_hold(self):
        found = gpu_proof.overhead(*self.steps(0.01, 0.01))
        self.assertEqual(proof_text.verdict(found), "holds")

    def test_noise_is_no_verdict(self):
        self.assertEqual(
            proof_text.verdict({"share": -0.03, "standard_error": 0.06}), "too noisy to tell"
        )

    def test_too_few_steps_are_no_figure(self):
        self.assertIsNone(gpu_proof.overhead([0.1, 0.2], [(0, 1, True), (1, 2, False)]))


class Tasks(unittest.TestCase):
    def test_names_tell_repetitions_apart(self):
        names = [task.name for task in gpu_proof.chosen_tasks(36)]
        self.assertEqual(len(set(names)), 36)
        self.assertEqual(
            {task.weight for task in gpu_proof.chosen_tasks(5)}, {"light", "medium", "heavy"}
        )

    def test_later_phases_do_the_steps_of_the_first(self):
        proof = gpu_proof.Proof.__new__(gpu_proof.Proof)
        proof.dry, proof.task_seconds, proof.steps = False, 10.0, {"mnist-cnn-b64": 7}
        commands = {task.name: proof.command(task)[-2:] for task in gpu_proof.chosen_tasks(2)}
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

    def stand_ins(self):
        """nvidia-smi and MPS first in PATH, for a dry run that takes them for real."""
        words = os.path.join(self.folder, "words")
        for name, script in (("nvidia-smi", FAKE_SMI), (gpu_proof.Mps.PROGRAM, FAKE_MPS)):
            path = os.path.join(self.folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(script)
            os.chmod(path, stat.S_IRWXU)
        environment = {"PATH": f"{self.folder}:{os.environ['PATH']}", "FAKE_MPS_WORDS": words}
        patched = mock.patch.dict(os.environ, environment)
        patched.start()
        self.addCleanup(patched.stop)
        simulate = gpu_proof.Proof._simulate

        def with_programs(proof):
            simulate(proof)
            proof.nvidia_programs = True

        replaced = mock.patch.object(gpu_proof.Proof, "_simulate", with_programs)
        replaced.start()
        self.addCleanup(replaced.stop)
        return words

    def test_three_phases_and_their_reports(self):
        words = self.stand_ins()
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
            # Measured is what the simulated tasks take; the driver tells it of their processes.
            self.assertEqual(
                [about["peak_mib"] for about in phase["tasks"]],
                [task.memory_mib for task in gpu_proof.chosen_tasks(4)],
                method,
            )
            self.assertAlmostEqual(phase["dmon"]["sm_occupancy"], 0.1, msg=method)
            self.assertGreater(phase["carmad"]["peak_rss_mib"], 1)
            # Two readers of one counter, over spans that begin and end nearly together.
            self.assertAlmostEqual(
                phase["report"]["sm_active"], phase["watch"]["sm_active"], delta=0.15
            )
        exclusive, streams = (
            result["phases"]["exclusive"]["report"],
            result["phases"]["streams"]["report"],
        )
        self.assertLess(streams["trace_total_s"], exclusive["trace_total_s"])
        self.assertGreaterEqual(exclusive["trace_total_s"], 4 * 20)
        self.assertEqual(result["phases"]["mps"]["mps_servers"], 1)
        with open(words, encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines()[0], "get_default_active_thread_percentage")
        for name in (
            "proof.txt",
            "proof.html",
            "watch-mps.jsonl",
            "dmon-streams.txt",
            "doctor.txt",
            "recording-streams.jsonl",
        ):
            self.assertTrue(os.path.getsize(os.path.join(self.output, name)), name)
        status, _, errors = self.run_proof("--dry")
        self.assertEqual(status, 2)
        self.assertIn("older proof", errors)

    def test_time_that_is_over_cancels_and_is_told(self):
        # 20 s are kept back for the reports: 4 s remain, and the tasks want a thousand seconds of
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
        self.assertIn("left out: streams: the time was over", text)

    def test_a_machine_without_mps_is_no_failure(self):
        self.stand_ins()
        with open(os.path.join(self.folder, gpu_proof.Mps.PROGRAM), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexit 1\n")
        status, text, _ = self.run_proof(
            "--dry", "--tasks", "1", "--no-overhead", "--phases", "mps"
        )
        self.assertEqual(status, 0, text)
        self.assertIn("left out: mps: nvidia-cuda-mps-control -d: exit code 1", text)

    def test_no_driver_is_one_line(self):
        with mock.patch.object(
            gpu_proof.nvml_watch, "open_gpus", side_effect=gpu_proof.nvml_watch.NoGpu("no driver")
        ):
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
            gpu_proof.output_of(["/bin/sh", "-c", "echo first; echo the reason >&2; exit 3"])
        with self.assertRaisesRegex(ProofError, "/no/such"):
            gpu_proof.output_of(["/no/such/program"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
