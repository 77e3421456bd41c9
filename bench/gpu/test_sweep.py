#!/usr/bin/env python3
"""Tests the sweep without a GPU: which groups it measures, how it evaluates steps, and a whole
dry run with a simulated driver and a simulated MPS control daemon. Needs CARMA_BIN, a folder of
built programs."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import sweep
import sweep_faults
import sweep_plan
import sweep_table
from sweep_gpu import Mps
from sweep_process import Worker, end_all

BIN = os.environ.get("CARMA_BIN", "")


class Plan(unittest.TestCase):
    def test_each_pair_is_measured_once(self):
        for count in (2, 5, 12):
            names = [str(number) for number in range(count)]
            pairs = [tuple(sorted(pair)) for group in sweep_plan.rounds(names) for pair in group]
            self.assertEqual(len(set(pairs)), count * (count - 1) // 2)
            self.assertEqual(len(pairs), len(set(pairs)))

    def test_a_sweep_cut_off_anywhere_has_met_all_about_equally(self):
        planned = [group for group in sweep_plan.groups() if len(set(group)) == 2 == len(group)]
        self.assertEqual(len(planned), 66, "all pairs of twelve")
        core = planned[: 5 * 6]
        met = Counter(name for group in core for name in group)
        self.assertLessEqual(max(met.values()) - min(met.values()), 2)

    def test_larger_groups_are_planned_once_each(self):
        planned = sweep_plan.groups()
        for group in sweep_plan.LARGER:
            self.assertEqual(planned.count(list(group)), 1, group)
        workers = [SimpleNamespace(name=name) for name in sweep_plan.worker_names()]
        for group in planned:
            found = sweep_plan.members(group, workers)
            self.assertEqual([sweep_plan.base_name(each.name) for each in found], list(group))
            self.assertEqual(len({each.name for each in found}), len(group))
        self.assertEqual(sweep_plan.members(["vgg16-b32"] * 2, workers), [], "there is one only")

    def test_rate_between_the_first_and_the_last_step_of_a_window(self):
        ends = [0.1, 0.6, 0.8, 1.0, 1.2, 1.7]
        found = sweep_plan.rate_of(ends, 0.5, 1.5)
        self.assertEqual((found["steps"], found["rate"]), (4, 5.0))
        self.assertEqual(found["median_ms"], 200.0)
        self.assertEqual(sweep_plan.rate_of([0.9, 1.8, 2.7], 0.5, 2.0)["rate"], 1.11111)
        self.assertIsNone(sweep_plan.rate_of([0.9, 1.8], 0.5, 1.5)["rate"])


def measured(what, mode, rates, **seen):
    tasks = [{"name": name, "rate": rate} for name, rate in rates.items()]
    return {"what": what, "mode": mode, "group": list(rates), "tasks": tasks, **seen}


class Table(unittest.TestCase):
    def test_pairs_against_alone_before_and_after(self):
        lines = [
            {"what": "machine"},
            measured("alone", "mps", {"a": 90}, u=0.5, dram=0.2),
            measured("alone", "mps", {"b": 10}, u=0.8, dram=0.4),
            measured("alone", "streams", {"a": 50}, u=0.5, dram=0.2),
            measured("group", "mps", {"a": 80, "b": 5}),
            measured("group", "streams", {"a": 80, "b": 5}),
            measured("group", "mps", {"a": 80, "b": None}),
            measured("group", "mps", {"a": 80, "b": 5, "c": 4}),
            measured("again", "mps", {"a": 110}, u=0.5, dram=0.2),
        ]
        self.assertEqual(
            sweep_table.pairs_csv(lines).splitlines(),
            [sweep_table.COLUMNS, "mps,a,b,0.8000,0.5000,50.00,80.00,20.00,40.00"],
            "by streams b was never alone; of one nothing was seen",
        )


class Processes(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def worker(self):
        worker = Worker("mnist-b64#2", "streams", "none", self.folder, {})
        self.addCleanup(worker.process.wait)
        self.addCleanup(worker.process.kill)
        self.addCleanup(worker.shut)
        return worker

    def test_one_that_is_late_is_ended(self):
        worker = self.worker()
        self.assertEqual(worker.answer(sweep.time.monotonic() + 60), {})
        worker.tell("steps", steps=10**9)
        self.assertIsNone(worker.answer(sweep.time.monotonic() + 0.1))
        self.assertEqual(worker.process.wait(), -9)

    def test_one_that_dies_says_how(self):
        worker = self.worker()
        self.assertEqual(worker.answer(sweep.time.monotonic() + 60), {})
        worker.tell("fill", mib=64)
        self.assertIsNone(worker.answer(sweep.time.monotonic() + 60))
        self.assertEqual(worker.process.wait(), 1)
        self.assertIn("MemoryError: 64 MiB", worker.words(1_000))
        worker.tell("open")
        end_all([worker])


@unittest.skipUnless(BIN, "needs CARMA_BIN")
class DryRun(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.state = os.path.join(self.folder, "server")
        create = ["create", "--shape", "1xH100-80GB", "--state", self.state]
        subprocess.run([f"{BIN}/carma-simgpu", *create], check=True, stdout=subprocess.DEVNULL)
        self.enterContext(mock.patch.dict(os.environ, {"CARMA_SIMGPU_STATE": self.state}))

    def swept(self, *options):
        output = os.path.join(self.folder, "swept")
        os.makedirs(output, exist_ok=True)
        quick = {"CUT_S": 0.05, "SHORTEST_S": 0.3, "ALONE_S": 0.4, "AGAIN_S": 0.3}
        with contextlib.ExitStack() as patches:
            for name, value in quick.items():
                patches.enter_context(mock.patch.object(sweep, name, value))
            said = patches.enter_context(contextlib.redirect_stdout(io.StringIO()))
            arguments = ["--output", output, "--dry", "--nvml", f"{BIN}/libcarma-simgpu.so"]
            arguments += ["--mps-control", f"{BIN}/carma-simmps", *options]
            self.assertEqual(sweep.main(arguments), 0, said.getvalue())
        with open(os.path.join(output, "results.jsonl"), encoding="utf-8") as file:
            return output, [json.loads(line) for line in file]

    def test_all_groups_in_both_modes(self):
        output, lines = self.swept("--seconds", "60", "--modes", "streams,mps")
        for mode in ("streams", "mps"):
            of_mode = [line for line in lines if line.get("mode") == mode]
            kinds = Counter(line["what"] for line in of_mode)
            self.assertEqual((kinds["alone"], kinds["again"], kinds["group"]), (3, 3, 5), kinds)
            pair = next(line for line in of_mode if line["what"] == "group")
            self.assertEqual(len(pair["tasks"]), 2)
            self.assertGreater(min(task["rate"] for task in pair["tasks"]), 0)
            self.assertIn("u", pair)
            self.assertIn("power_w", pair)
        self.assertIn("exit code 0", next(line for line in lines if line["what"] == "mps")["begun"])
        self.assertEqual(sorted(os.listdir(output)), ["logs.txt", "results.jsonl", "steps.jsonl"])

    def test_a_second_one_in_the_same_folder_is_refused(self):
        os.makedirs(os.path.join(self.folder, "work"))
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(sweep.main(["--output", self.folder, "--dry"]), 2)
        self.assertIn("work", said.getvalue())

    def test_the_control_daemon_ends_with_the_sweep_however_it_ends(self):
        script = (
            "import sys, time; sys.path.insert(0, sys.argv[1]); from sweep_gpu import Mps\n"
            "mps = Mps(sys.argv[2], sys.argv[3]); print(mps.begin(), flush=True); time.sleep(1000)"
        )
        here = os.path.dirname(os.path.abspath(__file__))
        command = [sys.executable, "-c", script, here, self.folder, f"{BIN}/carma-simmps"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            self.assertIn("exit code 0", process.stdout.readline())
            mps = Mps(self.folder, f"{BIN}/carma-simmps")
            self.assertEqual(mps.servers(), [])
            process.kill()
        until = sweep.time.monotonic() + 60
        while not mps.ask("get_server_list") and sweep.time.monotonic() < until:
            sweep.time.sleep(0.05)
        self.assertNotEqual(mps.ask("get_server_list"), "", "nobody answers")

    def test_what_is_tried_with_mps_is_told_whatever_comes_of_it(self):
        quick = {"LONG": 400, "NEWCOMER_S": 2, "OPEN_S": 20}
        with contextlib.ExitStack() as patches:
            for name, value in quick.items():
                patches.enter_context(mock.patch.object(sweep_faults, name, value))
            patches.enter_context(mock.patch.object(sweep_faults.time, "sleep", lambda _: None))
            _, lines = self.swept("--seconds", "120", "--modes", "extra")
        titles = [line["title"] for line in lines if line["what"] == "fault"]
        self.assertEqual(
            titles, ["limit", "SIGTERM", "SIGKILL", "terminate_client", "illegal address"]
        )
        limit = next(line for line in lines if line.get("title") == "limit")
        self.assertIn("MemoryError", limit["workers"][0]["says"])


if __name__ == "__main__":
    unittest.main()
