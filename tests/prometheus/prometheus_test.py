#!/usr/bin/env python3
"""Tests alert rules and the Grafana board with a real Prometheus that scrapes a carmad on simulated GPUs: prometheus_test.py BIN_DIR.
Exit status 77: there is no prometheus with its promtool (Debian's package prometheus)."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
FILES = os.path.join(SOURCE, "packaging", "prometheus")
sys.path.insert(0, os.path.join(SOURCE, "tests", "page"))
from carma_site import Site, free_port  # noqa: E402 pylint: disable=wrong-import-position

PROGRAMS = None
LIMIT_S = 60


def get(address):
    """The answer of an HTTP server, as text."""
    with urllib.request.urlopen(address, timeout=LIMIT_S) as answer:
        return answer.read().decode()


class Prometheus:
    """A Prometheus that scrapes one carmad every second, with our rules, in its own folder."""

    def __init__(self, target_port):
        self.folder = tempfile.mkdtemp(prefix="carma-prometheus.", dir="/tmp")
        self.address = f"http://127.0.0.1:{free_port()}"
        config = os.path.join(self.folder, "prometheus.yml")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"},  # JSON is valid YAML
                       "rule_files": [os.path.join(FILES, "carma.rules.yml")],
                       "scrape_configs": [{"job_name": "carma", "static_configs": [{"targets": [f"localhost:{target_port}"]}]}]}, file)
        subprocess.run(["promtool", "check", "config", config], check=True, capture_output=True, timeout=LIMIT_S)
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self._process = subprocess.Popen(  # pylint: disable=consider-using-with
                ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder}/data",
                 f"--web.listen-address={self.address.removeprefix('http://')}"], stdout=log, stderr=log)

    def close(self):
        """Stops Prometheus and removes its files."""
        self._process.terminate()
        self._process.wait(LIMIT_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def api(self, path, **parameters):
        """The data of an answer; None while it is not ready yet."""
        try:
            answer = json.loads(get(f"{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"))
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return None
            raise AssertionError(f"{path} {parameters}: {error.read().decode()}") from error
        except OSError:
            return None
        return answer["data"]

    def values(self, expression):
        """[(labels, value)] of an instant query."""
        data = self.api("query", query=expression)
        if data is None:
            return []
        return [(each["metric"], float(each["value"][1])) for each in data["result"]]


class PrometheusTest(unittest.TestCase):
    """One server with a running, a waiting and a failed task, scraped by one Prometheus."""

    @classmethod
    def setUpClass(cls):
        cls.site = Site(PROGRAMS)
        cls.site.start()
        cls.addClassCleanup(cls.site.close)
        cls.site.carma("submit", "-o", "/dev/null", "-J", "bad", "--gpu-mem", "1G", "--", "false")
        cls.site.train("resnet50", "--gpu-mem", "12G")
        cls.site.train("big", "--exclusive", "-G", "4", "--gpu-mem", "30G")
        cls.metrics = f"{cls.site.address}metrics"
        cls.prometheus = Prometheus(cls.site.port)
        cls.addClassCleanup(cls.prometheus.close)

    def until(self, expression, holds=lambda values: values):
        """The values of an expression, once there are any."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            values = self.prometheus.values(expression)
            if holds(values):
                return values
            self.assertLess(time.monotonic(), deadline, f"{expression}: {values}")
            time.sleep(0.1)

    def test_the_text_is_well_formed(self):
        done = subprocess.run(["promtool", "check", "metrics"], input=get(self.metrics), capture_output=True, text=True, check=False,
                              timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_rules_are_sound_and_raise_what_they_should(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(os.path.join(FILES, "carma.rules.yml"), folder)
            shutil.copy(os.path.join(HERE, "carma.rules.test.yml"), folder)
            done = subprocess.run(["promtool", "test", "rules", "carma.rules.test.yml"], cwd=folder, capture_output=True, text=True,
                                  check=False, timeout=LIMIT_S)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_rules_and_board_ask_for_metrics_that_exist(self):
        families = set(re.findall(r"^# TYPE (\S+)", get(self.metrics), re.MULTILINE))
        with open(os.path.join(FILES, "carma.rules.yml"), encoding="utf-8") as file:
            asked = set(re.findall(r"\b(?:carma|process)_[a-z0-9_]+", file.read()))
        for expression in self.board():
            asked |= set(re.findall(r"\b(?:carma|process)_[a-z0-9_]+", expression))
        self.assertGreater(len(asked), 20)
        self.assertEqual([name for name in asked if name.removesuffix("_bucket") not in families], [])

    def test_every_state_has_a_series_from_the_start(self):
        states = {labels["state"]: value for labels, value in self.until("carma_tasks")}
        self.assertEqual(len(states), 13)
        self.assertEqual(states["out_of_memory"], 0)
        self.until('carma_tasks{state="running"}', lambda values: values and values[0][1] == 1)
        self.until('carma_ended_total{state="failed"}', lambda values: values and values[0][1] == 1)
        self.assertEqual(self.until('carma_ended_total{state="timed_out"}')[0][1], 0)

    def test_the_server_is_told(self):
        self.assertEqual(self.until("up{job='carma'}", lambda values: values and values[0][1] == 1)[0][1], 1)
        user = self.until("carma_user_tasks_waiting", lambda values: values and values[0][1] == 1)[0][0]["user"]
        self.assertTrue(user)
        self.until("carma_user_gpus", lambda values: values and values[0][1] == 1)
        self.until("carma_queue_oldest_wait_seconds > 0")
        self.until("carma_gpu_power_watts > 0", lambda values: len(values) == 4)
        self.until("carma_gpu_temperature_celsius > 0", lambda values: len(values) == 4)
        promised = self.until('carma_gpu_memory_promised_bytes{gpu="0"} > 0 or carma_gpu_memory_promised_bytes > 0')
        free = dict((labels["gpu"], value) for labels, value in self.until("carma_gpu_memory_free_bytes"))
        self.assertLess(free[promised[0][0]["gpu"]], max(free.values()))
        self.until("process_resident_memory_bytes{job='carma'} > 1e6")
        started = self.until("process_start_time_seconds{job='carma'}")[0][1]
        self.assertLess(abs(started - time.time()), 600)

    def board(self):
        """The expressions of the Grafana board, for this server."""
        with open(os.path.join(FILES, "carma-board.json"), encoding="utf-8") as file:
            board = json.load(file)
        for panel in board["panels"]:
            self.assertEqual(panel["datasource"]["uid"], "${source}")
            for target in panel["targets"]:
                yield target["expr"].replace("$instance", ".+")

    def test_the_board_finds_values(self):
        self.until("carma_tasks")
        empty = []
        for expression in self.board():
            if "rate(" in expression or "increase(" in expression:
                self.prometheus.values(expression)  # it may need several scrapes, so only its syntax is checked
            elif not self.until(expression, lambda _: True):
                empty.append(expression)
        self.assertEqual(empty, [])

    def test_an_alert_is_raised(self):
        loaded = None
        while loaded is None:  # until it listens
            loaded = self.prometheus.api("rules")
        rules = [rule for group in loaded["groups"] for rule in group["rules"]]
        self.assertEqual(len(rules), 21)
        self.until("carma_gpu_drained")
        subprocess.run([self.site.program("carma-simgpu"), "xid", "--state", f"{self.site.folder}/gpus", "3", "79"],
                       check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)
        alerts = self.until('ALERTS{alertname="CarmaGpuClosed",alertstate="firing"}')
        self.assertEqual(alerts[0][0]["gpu"], "3")
        self.until('ALERTS{alertname="CarmaGpuXid",alertstate="firing",xid="79"}')


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PROGRAMS = sys.argv.pop(1)
    if not (shutil.which("prometheus") and shutil.which("promtool")):
        print("skipped: needs Debian's package prometheus")
        sys.exit(77)
    unittest.main(verbosity=2)
