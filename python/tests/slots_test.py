#!/usr/bin/env python3
"""Fifty loops, and a few trainings with PyTorch, take turns on two simulated GPUs while their daemon is killed: slots_test.py BIN_DIR.

CARMA_TRAININGS=50 for as many trainings as loops: minutes, most of them the start of PyTorch."""

import importlib.util
import json
import os
import select
import signal
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(os.path.dirname(HERE)), "tests", "page")]
import carma  # noqa: E402 pylint: disable=wrong-import-position
from carma_site import Site  # noqa: E402 pylint: disable=wrong-import-position

PROGRAMS = sys.argv.pop(1) if __name__ == "__main__" and len(sys.argv) > 1 else None
TRAININGS = int(os.environ.get("CARMA_TRAININGS", "12"))
LIMIT_S = 500 + 20 * TRAININGS
STEPS = 80
POLICY = """
settle = false
sm_cap = false
margin = "0M"
backfill = 100
stale_after = "60s"
"""
RULES = """
[slots]
length = "6s"
notice = "3s"
[task]
kill_grace = "20s"
"""
# Each loop is in the middle of its work when its slot ends: in its first start it waits, at a step of its own, to be asked to
# checkpoint. Some task always waits for the GPU then: at the latest the last one in the queue, which needs both GPUs.
WAITS = """
import os, signal
import carma_task
carma_task.listen()
asked, ask = os.pipe()
os.set_blocking(ask, False)
signal.set_wakeup_fd(ask)
stop_at = 1 + int(os.environ["CARMA_TASK_ID"]) * 7 % (STEPS - 1)
def leaves_after(step):
    if carma_task.restarts() == 0 and step == stop_at:
        os.read(asked, 1)
    return step < STEPS and carma_task.should_save()
def ends_with(write):
    with carma_task.replacing("done-" + os.environ["CARMA_TASK_ID"]) as path:
        write(path)
    with open("bell", "w") as bell:
        bell.write("x")
"""
PLAIN = """
import json
state = os.path.join(carma_task.folder(), "state")
step, total = 0, 0
if os.path.exists(state):
    step, total = json.load(open(state))
write = lambda path: json.dump([step, total], open(path, "w"))
while step < STEPS:
    step, total = step + 1, total + step + 1
    with carma_task.replacing(state) as path:
        write(path)
    if leaves_after(step):
        carma_task.leave()
ends_with(write)
"""
# The same training in every task: wherever each was interrupted, all come to the same loss.
TRAINING = """
import json, torch
torch.set_num_threads(1)
torch.manual_seed(0)
data = torch.randn(64, 8)
wanted = data @ torch.randn(8, 1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
state = os.path.join(carma_task.folder(), "state.pt")
step, total = 0, 0
if os.path.exists(state):
    kept = torch.load(state)
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    torch.set_rng_state(kept["chance"])
    step, total = kept["step"], kept["total"]
while step < STEPS:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(data), wanted)
    loss.backward()
    optimizer.step()
    step, total = step + 1, total + step + 1
    if leaves_after(step):
        with carma_task.replacing(state) as path:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "chance": torch.get_rng_state(),
                        "step": step, "total": total}, path)
        carma_task.leave()
ends_with(lambda path: json.dump([step, total, loss.item()], open(path, "w")))
"""


class SlotsTest(unittest.TestCase):
    """Real processes, a real daemon."""

    def take_turns(self, program, loops, kills):
        """Returns what each loop wrote at its end. kills: carmad is killed each time this many more loops have ended."""
        site = Site(PROGRAMS, "2xA100-40GB", time_scale=3, policy=POLICY)
        self.addCleanup(site.close)
        with open(os.path.join(site.folder, "carma.toml"), "a", encoding="utf-8") as file:
            file.write(RULES)
        with open(os.path.join(site.folder, "loop.py"), "w", encoding="utf-8") as file:
            file.write(f"STEPS = {STEPS}\n{WAITS}{program}")
        bell = os.path.join(site.folder, "bell")
        os.mkfifo(bell)
        self.bell = os.open(bell, os.O_RDWR | os.O_NONBLOCK)  # a task that rings does not wait for us
        self.addCleanup(os.close, self.bell)
        site.start()
        client = carma.Client(site.socket)
        self.addCleanup(client.close)
        environment = {**os.environ, "PYTHONPATH": os.path.dirname(HERE)}
        tasks = client.submit_all([[sys.executable, "loop.py"]] * loops, name="loop", memory="10G", cwd=site.folder,
                                  env=environment, checkpoint_signal="USR1")
        client.submit(["true"], gpus=2, exclusive=True, cwd=site.folder)
        for more in kills:
            self.until_done(more)
            site.stop(signal.SIGKILL)
            site.start()
        ended = client.wait(tasks, timeout=LIMIT_S)
        self.assertEqual({task.state for task in ended}, {"succeeded"}, [task for task in ended if task.state != "succeeded"])
        turns = [task.details["attempt"] for task in ended]
        self.assertGreaterEqual(min(turns), 2, turns)
        saved = [task.details["checkpoints"] for task in ended]
        # On a busy machine PyTorch may take longer to load than a slot lasts, and a program that still loads saves nothing.
        self.assertGreaterEqual(max(saved) if "torch" in program else min(saved), 1, saved)
        # The history says why they returned to the queue.
        history = json.loads(site.carma("history", "--json", str(tasks[0].id), "--limit", "200"))
        self.assertTrue(any(event["what"] == "asked_to_save" for event in history["events"]), history)
        written = []
        for task in tasks:
            with open(os.path.join(site.folder, f"done-{task.id}"), encoding="utf-8") as file:
                written.append(json.load(file))
        return written

    def test_loops_take_turns_and_none_counts_a_step_twice(self):
        for written in self.take_turns(PLAIN, 50, (10, 15, 15)):
            self.assertEqual(written, [STEPS, STEPS * (STEPS + 1) // 2])

    @unittest.skipIf(importlib.util.find_spec("torch") is None, "needs Debian's package python3-torch")
    def test_trainings_with_pytorch_take_turns_and_learn_what_they_would_have_alone(self):
        written = self.take_turns(TRAINING, TRAININGS, (TRAININGS // 6, TRAININGS // 3))
        for steps, total, loss in written:
            self.assertEqual((steps, total), (STEPS, STEPS * (STEPS + 1) // 2))
            self.assertEqual(loss, written[0][2])
        self.assertGreater(written[0][2], 0)

    def until_done(self, count):
        """Waits until this many more loops have ended."""
        deadline = time.monotonic() + LIMIT_S
        while count > 0:
            ready, _, _ = select.select([self.bell], [], [], deadline - time.monotonic())
            self.assertTrue(ready, "the loops make no progress")
            count -= len(os.read(self.bell, count))


if __name__ == "__main__":
    unittest.main(verbosity=2)
