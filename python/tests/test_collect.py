"""carma_collect: the plan, the journal, and the outcome of every kind of run."""

import contextlib
import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "carma_collect")
FAKE_TRAINING = [sys.executable, os.path.join(HERE, "fake_training.py")]
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import torch
from torch import nn

import carma_collect
from carma_collect import CollectError, Collector, Journal, Limits, Plan
from carma_collect.cnn import cnn_filters
from carma_collect.mlp import mlp_widths
from carma_collect.networks import build
from carma_collect.training import Training

torch.set_num_threads(1)


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        output = contextlib.redirect_stdout(io.StringIO())
        output.__enter__()
        self.addCleanup(output.__exit__, None, None, None)

    def journal_lines(self):
        with open(os.path.join(self.folder, "journal.jsonl"), encoding="utf-8") as file:
            return file.read().splitlines()


class ThePlan(unittest.TestCase):
    def test_a_seed_is_a_plan(self):
        first = [Plan(seed=7).network(index) for index in range(30)]
        self.assertEqual(first, [Plan(seed=7).network(index) for index in range(30)])
        self.assertNotEqual(first, [Plan(seed=8).network(index) for index in range(30)])

    def test_ranges(self):
        ranges = {
            "mlp": {
                "inputs": (4, 4096),
                "outputs": (1, 1024),
                "batch": (4, 1024),
                "layers": (2, 12),
            },
            "cnn": {
                "channels": (1, 3),
                "classes": (2, 22_000),
                "filters": (16, 512),
                "kernel": (3, 7),
                "convolutions": (1, 29),
                "batch": (2, 62),
            },
            "encoder": {
                "classes": (2, 1000),
                "width": (128, 2048),
                "heads": (2, 16),
                "layers": (2, 39),
                "length": (128, 1024),
                "vocabulary": (50_000, 1_000_000),
                "batch": (1, 128),
            },
        }
        seen = {}
        for index in range(3000):
            network = Plan().network(index)
            for name, (low, high) in ranges[network["family"]].items():
                self.assertTrue(low <= network[name] <= high, (name, network))
                seen.setdefault((network["family"], name), []).append(network[name])
            if network["family"] == "encoder":
                self.assertEqual(network["width"] % network["heads"], 0)
                self.assertTrue(1.9 < network["feed_forward"] / network["width"] < 4.1, network)
        for (family, name), values in seen.items():  # and their ends are reached
            low, high = ranges[family][name]
            self.assertLessEqual(min(values), low * 1.3, (family, name))
            self.assertGreaterEqual(max(values), high * 0.8, (family, name))

    def test_widths(self):
        for arch, expected in (
            ("uniform", [64, 64, 64, 64, 2]),
            ("pyramid", [64, 32, 16, 8, 2]),
            ("bottleneck", [64, 32, 16, 32, 2]),
            ("gradual", [64, 48, 33, 18, 2]),
        ):
            config = {"arch": arch, "inputs": 64, "outputs": 2, "layers": 4}
            self.assertEqual(mlp_widths(config), expected, arch)
        for arch, expected in (
            ("uniform", [64] * 6),
            ("pyramid", [64, 64, 128, 256, 256, 512]),
            ("bottleneck", [16, 16, 64, 16, 16, 64]),
            ("hourglass", [64, 45, 26, 26, 45, 64]),
        ):
            config = {"arch": arch, "filters": 64, "convolutions": 6}
            self.assertEqual(cnn_filters(config), expected, arch)

    def test_every_architecture_can_be_built_and_run(self):
        plan = Plan(scale=0.02)
        seen = set()
        for index in range(200):
            network = plan.network(index)
            if (network["family"], network["arch"]) in seen:
                continue
            seen.add((network["family"], network["arch"]))
            training = Training(network, build(network), "cpu")
            training.step()
            if network["family"] == "cnn" and network["arch"] not in ("residual", "dense"):
                convolutions = [m for m in training.model.modules() if isinstance(m, nn.Conv2d)]
                self.assertEqual(len(convolutions), network["convolutions"])
        self.assertEqual(len(seen), 4 + 7 + 4)


class TheJournal(InAFolder):
    def test_a_torn_line_costs_only_itself(self):
        journal = Journal(self.folder)
        journal.append({"plan": {"seed": 1}})
        journal.append({"started": 0})
        journal.append({"finished": 0, "measured_mib": 5})
        with open(journal.path, "ab") as file:
            file.write(b'{"finished": 1, "measu')
        again = Journal(self.folder)
        self.assertEqual((sorted(again.results), again.dropped), ([0], 1))
        again.append({"started": 1})
        self.assertEqual(json.loads(self.journal_lines()[-1]), {"started": 1})
        self.assertEqual(Journal(self.folder).starts, {1: 1})

    def test_clean(self):
        journal = Journal(self.folder)
        journal.append({"plan": {"seed": 1}})
        a, b, c = ({"model": name, "inputs": size} for name, size in (("a", 1), ("b", 2), ("c", 1)))
        for entry in (
            {"finished": 0, "network": a},
            {"finished": 0, "network": a},  # twice
            {"finished": 1, "network": b, "censored": 1, "reason": "oom"},
            {"finished": 2, "network": c},  # the same network as run 0
            {"finished": 3},  # of no network
            {"started": 4},  # never ended
        ):
            journal.append(entry)
        with open(journal.path, "ab") as file:
            file.write(b"\x00\n[]\n")
        self.assertEqual(carma_collect.clean(self.folder, retry_censored=False), (2, 6))
        self.assertEqual(carma_collect.clean(self.folder, retry_censored=True), (1, 1))
        self.assertEqual(len(self.journal_lines()), 2)


class WhatBecomesOfARun(InAFolder):
    def collect(self, behaviour, count=1, **options):
        with mock.patch.dict(os.environ, {"FAKE_TRAINING": behaviour}):
            collector = Collector(
                self.folder, Plan(), "cpu", child=FAKE_TRAINING, limits=Limits(run_s=20), **options
            )
            collector.run(count, None)
        return collector.journal.results

    def test_reasons(self):
        results = self.collect("done,oom,crash,kill,unsteady", 5)
        reasons = [results[index]["reason"] for index in range(5)]
        self.assertEqual(reasons, ["dry", "oom", "crashed", "crashed", "unsteady"])
        self.assertTrue(all(results[index]["censored"] for index in range(5)))
        self.assertEqual(results[0]["measured_mib"], 100)
        self.assertIn("illegal memory access", results[2]["error"])
        self.assertIn("-9", results[3]["error"])
        self.assertTrue(all("layers" in result for result in results.values()))

    def test_crashes_in_a_row_end_the_collection(self):
        with self.assertRaisesRegex(CollectError, "5 runs in a row crashed: .*illegal memory"):
            self.collect("done,crash,crash,crash,crash,crash", 12)
        self.assertEqual(len(Journal(self.folder).results), 6)

    def test_a_run_that_hangs_is_ended(self):
        environment = {"FAKE_TRAINING_PID": os.path.join(self.folder, "pid")}
        with mock.patch.dict(os.environ, {"FAKE_TRAINING": "hang", **environment}):
            limits = Limits(run_s=1.5)
            collector = Collector(self.folder, Plan(), "cpu", None, limits, FAKE_TRAINING)
            collector.run(1, None)
        self.assertEqual(collector.journal.results[0]["reason"], "timeout")

    def test_what_is_done_is_not_done_again(self):
        self.collect("done", 3)
        lines = len(self.journal_lines())
        self.collect("crash", 4)
        results = Journal(self.folder).results
        self.assertEqual([results[i]["reason"] for i in range(4)], ["dry"] * 3 + ["crashed"])
        self.assertEqual(len(self.journal_lines()), lines + 2)

    def test_another_plan_does_not_mix_in(self):
        self.collect("done")
        with self.assertRaises(CollectError):
            Collector(self.folder, Plan(seed=2), "cpu", child=FAKE_TRAINING)

    def test_a_run_that_takes_the_collector_down_is_given_up(self):
        self.collect("done", 1)
        journal = Journal(self.folder)
        for _ in range(2):
            journal.append({"started": 1})
        self.assertEqual(self.collect("done", 2)[1]["reason"], "lost")

    def test_a_killed_collector_loses_one_run_and_leaves_no_process(self):
        pid_file = os.path.join(self.folder, "pid")
        program = (
            "import sys; sys.path.insert(0, sys.argv[1]); import carma_collect as c;"
            "c.Collector(sys.argv[2], c.Plan(), 'cpu', child=sys.argv[3:]).run(2, None)"
        )
        collector = subprocess.Popen(
            [sys.executable, "-c", program, os.path.dirname(HERE), self.folder, *FAKE_TRAINING],
            env={**os.environ, "FAKE_TRAINING": "done,hang", "FAKE_TRAINING_PID": pid_file},
            stdout=subprocess.DEVNULL,
        )
        self._until(lambda: os.path.exists(pid_file) and os.path.getsize(pid_file) > 0)
        with open(pid_file, encoding="ascii") as file:
            child = int(file.read())
        collector.send_signal(signal.SIGKILL)
        collector.wait()
        self._until(lambda: not _alive(child))
        results = self.collect("done", 2)
        self.assertEqual([results[index]["reason"] for index in range(2)], ["dry", "dry"])

    def _until(self, condition):
        end = time.monotonic() + 20
        while not condition():
            self.assertLess(time.monotonic(), end, "waited in vain")
            time.sleep(0.01)

    def test_pack(self):
        self.collect("done,oom", 4)
        data = os.path.join(self.folder, "data")
        self.assertEqual(carma_collect.pack(self.folder, data), 0)
        self.assertEqual(carma_collect.pack(self.folder, data, everything=True), 2)
        with open(os.path.join(data, "measured.csv"), newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        with gzip.open(os.path.join(data, "layers.jsonl.gz"), "rt", encoding="utf-8") as file:
            models = [json.loads(line) for line in file]
        self.assertEqual([row["model"] for row in rows], [model["model"] for model in models])
        self.assertEqual((rows[0]["measured_mib"], rows[0]["censored"]), ("100", "1"))
        self.assertEqual((models[0]["family"], models[0]["batch"]), ("mlp", int(rows[0]["batch"])))

    def test_one_collector_at_a_time(self):
        with carma_collect.locked(self.folder), self.assertRaises(CollectError):
            with carma_collect.locked(self.folder):
                pass


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


SIMGPU_DRIVER = os.path.join(os.environ.get("CARMA_SIMGPU_BIN", ""), "libcarma-simgpu.so")


@unittest.skipUnless(os.path.exists(SIMGPU_DRIVER), "the simulated GPU is not built")
class OnASimulatedGpu(InAFolder):
    """libcarma-simgpu.so stands in for NVML."""

    def setUp(self):
        super().setUp()
        self.bin = os.environ["CARMA_SIMGPU_BIN"]
        state = os.path.join(self.folder, "server")
        create = [self.program("carma-simgpu"), "create", "--shape", "2xA100-40GB"]
        subprocess.run([*create, "--state", state], check=True, stdout=subprocess.DEVNULL)
        patch = mock.patch.dict(os.environ, {"CARMA_SIMGPU_STATE": state})
        patch.start()
        self.addCleanup(patch.stop)
        self.gpu = carma_collect.Gpu.open(1, SIMGPU_DRIVER)

    def program(self, name):
        return os.path.join(self.bin, name)

    def test_memory_of_a_process(self):
        used, total = self.gpu.memory()
        self.assertEqual((used, total >> 20), (0, 40_536))
        self.assertIsNone(self.gpu.process_bytes(os.getpid()))
        hold = [self.program("carma-simgpu"), "hold", "--gpu", "1", "--mib", "9000"]
        holder = subprocess.Popen(hold, stdout=subprocess.PIPE)
        try:
            end = time.monotonic() + 20
            while not self.gpu.process_bytes(holder.pid):
                self.assertLess(time.monotonic(), end)
                time.sleep(0.01)
            self.assertEqual(self.gpu.process_bytes(holder.pid), 9000 << 20)
        finally:
            holder.kill()
            holder.communicate()

    def test_a_run(self):
        with mock.patch.dict(os.environ, {"FAKE_TRAINING": "simgpu"}):
            collector = Collector(
                self.folder, Plan(), "cuda", self.gpu, Limits(run_s=20), FAKE_TRAINING
            )
            collector.run(1, None)
        result = collector.journal.results[0]
        self.assertNotIn("reason", result)
        self.assertEqual((result["measured_mib"], result["source"]), (3000, "nvml-device"))
        self.assertEqual(result["smact_source"], "gpm")
        self.assertAlmostEqual(result["smact"], 0.5, delta=0.1)
        self.assertEqual(carma_collect.pack(self.folder, os.path.join(self.folder, "data")), 1)


class CommandLine(unittest.TestCase):
    def run_program(self, *arguments):
        return subprocess.run(
            [sys.executable, PROGRAM, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def test_a_dry_run_from_plan_to_data(self):
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "data")
            dry = ("--device", "cpu", "--scale", "0.02", "--count", "3", "--measure", "0.05")
            done = self.run_program("run", folder, *dry)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(self.run_program("clean", folder).returncode, 0)
            self.assertEqual(self.run_program("pack", folder, "-o", data, "--all").returncode, 0)
            with gzip.open(os.path.join(data, "layers.jsonl.gz"), "rt", encoding="utf-8") as file:
                models = [json.loads(line) for line in file]
        self.assertEqual([model["family"] for model in models], ["mlp", "cnn", "encoder"])
        for model in models:
            self.assertGreater(model["saved_bytes"]["per_sample"], 0)
            config = model["config"]
            self.assertEqual(model["output"], [-1, config.get("outputs", config.get("classes"))])

    def test_failures_exit_2_with_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            for arguments, expected in (
                (("run", folder, "--families", "rnn"), "expected mlp"),
                (("run", folder, "--device", "cpu", "--scale", "0"), "--scale"),
                (("run", folder, "--nvml", "/nonexistent.so"), "no NVIDIA driver"),
                (("clean", folder), "nothing to clean"),
            ):
                with self.subTest(arguments):
                    done = self.run_program(*arguments)
                    self.assertEqual(done.returncode, 2)
                    self.assertIn(expected, done.stderr)
                    self.assertEqual(len(done.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
