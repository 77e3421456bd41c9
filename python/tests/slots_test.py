#!/usr/bin/env python3
"""Fifty loops take turns on two simulated GPUs while their daemon is killed: slots_test.py BIN_DIR."""

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
LIMIT_S = 500
LOOPS = 50
STEPS = 80
RULES = """
[policy]
settle = false
sm_cap = false
margin = "0M"
backfill = 100
stale_after = "60s"
[slots]
length = "6s"
notice = "3s"
[task]
kill_grace = "20s"
"""
# A step is so long: the time of work elsewhere, which nothing here waits for. It is counted when it is done.
LOOP = f"""
import json, os, sys, time
import carma_task
carma_task.listen()
state = os.path.join(carma_task.folder(), "state")
step, total = 0, 0
if os.path.exists(state):
    step, total = json.load(open(state))
while step < {STEPS}:
    time.sleep(0.1)
    step, total = step + 1, total + step + 1
    with carma_task.replacing(state) as path:
        json.dump([step, total], open(path, "w"))
    if step < {STEPS} and carma_task.should_save():
        carma_task.leave()
with carma_task.replacing("done-" + os.environ["CARMA_TASK_ID"]) as path:
    json.dump([step, total], open(path, "w"))
with open("bell", "w") as bell:
    bell.write("x")
"""


class SlotsTest(unittest.TestCase):
    """Real processes, a real daemon."""

    def test_loops_take_turns_and_none_counts_a_step_twice(self):
        site = Site(PROGRAMS, "2xA100-40GB", time_scale=1)
        self.addCleanup(site.close)
        with open(os.path.join(site.folder, "carma.toml"), "a", encoding="utf-8") as file:
            file.write(RULES)
        with open(os.path.join(site.folder, "loop.py"), "w", encoding="utf-8") as file:
            file.write(LOOP)
        bell = os.path.join(site.folder, "bell")
        os.mkfifo(bell)
        self.bell = os.open(bell, os.O_RDWR | os.O_NONBLOCK)  # nobody who rings waits for us
        self.addCleanup(os.close, self.bell)
        site.start()
        client = carma.Client(site.socket)
        self.addCleanup(client.close)
        environment = {**os.environ, "PYTHONPATH": os.path.dirname(HERE)}
        tasks = client.submit_all([[sys.executable, "loop.py"]] * LOOPS, name="loop", memory="10G", cwd=site.folder,
                                  env=environment, checkpoint_signal="USR1")
        for more in (10, 15, 15):
            self.until_done(more)
            site.stop(signal.SIGKILL)
            site.start()
        ended = client.wait(tasks, timeout=LIMIT_S)
        self.assertEqual({task.state for task in ended}, {"succeeded"}, [task for task in ended if task.state != "succeeded"])
        for task in tasks:
            with open(os.path.join(site.folder, f"done-{task.id}"), encoding="utf-8") as file:
                self.assertEqual(json.load(file), [STEPS, STEPS * (STEPS + 1) // 2], task)
        turns = [task.details["checkpoints"] for task in ended]
        self.assertGreater(sum(turns), LOOPS // 2, turns)
        # Nothing was left unsaid about why they came back.
        history = json.loads(site.carma("history", "--json", str(tasks[0].id), "--limit", "200"))
        self.assertTrue(any(event["what"] == "asked_to_save" for event in history["events"]), history)

    def until_done(self, count):
        """So many more loops have ended."""
        deadline = time.monotonic() + LIMIT_S
        while count > 0:
            ready, _, _ = select.select([self.bell], [], [], deadline - time.monotonic())
            self.assertTrue(ready, "the loops do not get on")
            count -= len(os.read(self.bell, count))


if __name__ == "__main__":
    unittest.main(verbosity=2)
