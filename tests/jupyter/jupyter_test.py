#!/usr/bin/env python3
"""Tests the notebook recipe in docs/use/notebooks.md with a real Jupyter: jupyter_test.py BIN_DIR. Exit status 77: there is no Jupyter."""

import json
import os
import re
import select
import shutil
import subprocess
import sys
import time
import unittest
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "page"))
from carma_site import LIMIT_S, Site, free_port  # noqa: E402 pylint: disable=wrong-import-position

PROGRAMS = None
# The simulated server's clock is sixty times as fast.
IDLE = """
[idle]
after = "5m"
action = "{action}"
[notify]
admin = ["{program}"]
"""
# The content of the first cell, which IPython runs when a kernel starts.
FIRST_CELL = """
import os, subprocess
training = subprocess.Popen(["{simtask}", "--memory-mib", "9000", "--solo-s", "1000000", "--sm-active", "0.4", "--load-s", "0"])
"""


class JupyterTest(unittest.TestCase):
    """A notebook as a task."""

    def serve(self, action):
        """A server with that idle action, and a bell that rings for each message to administrators."""
        self.site = Site(PROGRAMS, "1xA100-40GB")
        self.addCleanup(self.site.close)
        bell = os.path.join(self.site.folder, "told")
        os.mkfifo(bell)
        self.bell = os.open(bell, os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, self.bell)
        program = os.path.join(self.site.folder, "tell")
        with open(program, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nexec cat > {bell}\n")
        os.chmod(program, 0o755)
        with open(os.path.join(self.site.folder, "carma.toml"), "a", encoding="utf-8") as file:
            file.write(IDLE.format(action=action, program=program))
        startup = os.path.join(self.site.folder, "ipython", "profile_default", "startup")
        os.makedirs(startup)
        with open(os.path.join(startup, "first_cell.py"), "w", encoding="utf-8") as file:
            file.write(FIRST_CELL.format(simtask=self.site.program("carma-simtask")))
        self.site.start()

    def submit(self):
        """The notebook's task number, and the address that it prints."""
        as_root = ["--allow-root"] if os.getuid() == 0 else []
        number = self.site.carma(
            "submit", "--parsable", "-J", "notebook", "--gpu-mem", "16G", "--time", "12h", "--export",
            f"ALL,HOME={self.site.folder},IPYTHONDIR={self.site.folder}/ipython", "--", "jupyter", "notebook", "--no-browser", "--port",
            str(free_port()), *as_root).strip()
        with subprocess.Popen([self.site.program("carma"), "--socket", self.site.socket, "logs", "-f", number],
                              stdout=subprocess.PIPE, text=True) as logs:
            self.addCleanup(logs.kill)
            for line in logs.stdout:
                found = re.search(r"(http://localhost:\d+)/\?token=(\w+)", line)
                if found:
                    logs.kill()
                    return int(number), found[1], found[2]
        self.fail(f"no address: {self.site.task(number)}")
        return None

    def told(self):
        """The next message to an administrator."""
        self.assertTrue(select.select([self.bell], [], [], LIMIT_S)[0], "nobody is told")
        return json.loads(os.read(self.bell, 1 << 16))

    def test_a_forgotten_notebook_is_told_and_one_that_computes_is_not(self):
        self.serve("tell")
        number, address, token = self.submit()
        told = self.told()
        self.assertEqual((told["event"], told["task"], told["name"], told["action"]), ("idle_holder", number, "notebook", "tell"))
        self.assertIn("(idle)", self.site.carma("gpus"))
        ask = urllib.request.Request(f"{address}/api/kernels", data=b"{}", headers={"Authorization": f"token {token}"})
        with urllib.request.urlopen(ask, timeout=LIMIT_S) as answer:
            self.assertEqual(answer.status, 201)
        deadline = time.monotonic() + LIMIT_S
        while self.site.task(number)["idle_since_ms"] is not None:
            self.assertLess(time.monotonic(), deadline, "it computes, but is reported as idle")
            select.select([], [], [], 0.2)
        task = self.site.task(number)
        self.assertEqual(task["state"], "running")
        self.assertGreaterEqual(task["observed_mib"], 9000)

    def test_where_the_rule_says_so_it_is_ended_with_its_kernels(self):
        self.serve("end")
        number, address, _ = self.submit()
        with urllib.request.urlopen(f"{self.site.address}v1/tasks/{number}?wait_s={LIMIT_S}", timeout=LIMIT_S) as answer:
            task = json.load(answer)
        self.assertEqual((task["state"], task["reason"]), ("cancelled", "IdleHolder"), task)
        self.assertEqual(self.told()["action"], "end")
        with self.assertRaises(OSError):
            urllib.request.urlopen(address, timeout=LIMIT_S)


if __name__ == "__main__":
    if shutil.which("jupyter-notebook") is None:
        print("skipped: needs Debian's package jupyter-notebook")
        sys.exit(77)
    PROGRAMS = sys.argv.pop(1)
    unittest.main(verbosity=2)
