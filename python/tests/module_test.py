#!/usr/bin/env python3
"""The module carma against a real carmad on simulated GPUs: module_test.py BIN_DIR."""

import concurrent.futures
import http.server
import importlib.util
import itertools
import json
import math
import os
import pickle
import shlex
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(os.path.dirname(HERE)), "tests", "page")]
import carma  # noqa: E402 pylint: disable=wrong-import-position
from carma.client import mib, seconds  # noqa: E402 pylint: disable=wrong-import-position
from carma.socket_path import _socket_in  # noqa: E402 pylint: disable=wrong-import-position

PROGRAMS = sys.argv.pop(1) if __name__ == "__main__" and len(sys.argv) > 1 else None
LIMIT_S = 60


# ---- what tasks run ----


class Point:
    """An instance of a class of this script travels to the task and back."""

    def __init__(self, x):
        self.x = x


def twice(point, *, more=0):
    """Prints, and returns a result."""
    print("twice", flush=True)
    return Point(2 * point.x + more)


def gpus_seen(_):
    """The GPUs that CARMA gives the task."""
    return os.environ["CUDA_VISIBLE_DEVICES"]


def fails(key):
    """Raises an exception that can be pickled."""
    return {}[key]


class OwnError(Exception):
    """Cannot be unpickled: the constructor needs two values, and the exception holds one."""

    def __init__(self, code, why):
        super().__init__(f"{why} ({code})")


def fails_in_its_own_way():
    """Raises an exception that cannot be unpickled."""
    raise OwnError(3, "out of paper")


def needs_more_room():
    """Runs out of memory in the first attempt."""
    attempt = int(os.environ["CARMA_ATTEMPT"])
    if attempt == 1:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    return attempt


def needs_more_room_and_is_killed():
    """Leaves a result in the first attempt only."""
    needs_more_room()
    is_killed()


def needs_more_room_and_is_met(path):
    """Ends in the first attempt only."""
    needs_more_room()
    is_met(path)


def is_killed():
    """Leaves no result."""
    os.kill(os.getpid(), signal.SIGKILL)


def exits_early():
    """Leaves no result either."""
    sys.exit(0)


def waits_for(path):
    """Waits until a line is written to the pipe."""
    with open(path, encoding="utf-8") as pipe:
        pipe.readline()
    return path


def is_met(path):
    """Reports that it runs, and does not end."""
    with open(path, "w", encoding="utf-8") as pipe:
        pipe.write("running\n")
    threading.Event().wait()


# The part of the package that a function without globals needs.
CLOUDPICKLE = """
import io, marshal, pickle, types

def made(code):
    return types.FunctionType(marshal.loads(code), globals())

class Pickler(pickle.Pickler):
    def reducer_override(self, value):
        if isinstance(value, types.FunctionType) and value.__module__ == "__main__":
            return made, (marshal.dumps(value.__code__),)
        return NotImplemented

def dumps(value):
    text = io.BytesIO()
    Pickler(text).dump(value)
    return text.getvalue()
"""


class ModuleTest(unittest.TestCase):
    """All tests share one server."""

    @classmethod
    def setUpClass(cls):
        from carma_site import Site  # pylint: disable=import-outside-toplevel

        cls.site = Site(PROGRAMS)
        cls.site.start()
        cls.addClassCleanup(cls.site.close)
        os.environ["CARMA_SOCKET"] = cls.site.socket
        cls.client = carma.Client()
        cls.addClassCleanup(cls.client.close)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="carma-module.", dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        """A path in the test's own folder."""
        return os.path.join(self.folder, name)

    def executor(self, **options):
        """An executor with its files in the test's own folder."""
        executor = carma.Executor(self.path("jobs"), **{"memory": "1G", **options})
        self.addCleanup(executor.shutdown)
        return executor

    # ---- tasks ----

    def test_a_task_is_submitted_and_waited_for(self):
        task = carma.submit(["sh", "-c", "echo $WORD; exit 3"], cwd=self.folder, env={"WORD": "hello", "PATH": "/usr/bin:/bin"},
                            name="three", memory="1G", time="1h", output="%x-%j.txt", comment="from Python")
        ended, = carma.wait(task, timeout=LIMIT_S)
        self.assertEqual((ended.state, ended.exit_code, ended.name, ended.done, ended.succeeded), ("failed", 3, "three", True, False))
        self.assertEqual(ended.details["time_limit_s"], 3600)
        self.assertEqual(ended.details["comment"], "from Python")
        with open(self.path(f"three-{task.id}.txt"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "hello\n")
        self.assertEqual(self.client.output(task), "hello\n")

    def test_a_serving_task_says_so(self):
        task = carma.submit(["true"], cwd=self.folder, memory="1G", serve=True, hold=True)
        details = self.client.show(task).details
        self.assertEqual((details["serve"], details["max_slowdown"]), (True, 1.25))
        carma.cancel(task)

    def test_a_task_in_a_container(self):
        """The tool is a stand-in for Apptainer, which writes down its command line and runs the command."""
        tool, image = self.path("apptainer"), self.path("a.sif")
        for path, text in ((tool, '#!/bin/sh\necho "$*" >> line\nwhile [ "${1%.sif}" = "$1" ]; do shift; done\nshift\nexec "$@"\n'),
                           (image, ""), (self.path("b.sh"), f"#!/bin/sh\n#CARMA --container {image} -G 0\necho $1\nexit 6\n")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)
        env = {**os.environ, "PATH": f"{self.folder}:/usr/bin:/bin"}
        task = carma.submit(["sh", "-c", "echo inside; exit 5"], cwd=self.folder, memory="1G", env=env, container=image,
                            container_mounts=["/etc:/settings:ro"])
        ended, = carma.wait(task, timeout=LIMIT_S)
        self.assertEqual((ended.exit_code, ended.details["container"], self.client.output(task)), (5, image, "inside\n"))
        number = int(subprocess.run([self.site.program("carma"), "submit", "--parsable", self.path("b.sh"), "by a directive"], check=True,
                                    cwd=self.folder, env=env, capture_output=True, text=True).stdout)
        ended, = carma.wait(number, timeout=LIMIT_S)
        self.assertEqual((ended.exit_code, ended.details["container"], self.client.output(ended)), (6, image, "by a directive\n"))
        with open(self.path("line"), encoding="utf-8") as file:
            first, second = file.read().splitlines()
        self.assertIn("exec --nv --pwd", first)
        self.assertIn("--mount type=bind,source=/etc,destination=/settings,ro ", first)
        self.assertTrue(first.endswith(f" {image} sh -c echo inside; exit 5"), first)
        self.assertNotIn("--nv", second)
        with self.assertRaisesRegex(carma.InvalidError, "container mounts need a container"):
            carma.submit(["true"], cwd=self.folder, memory="1G", container_mounts=["/etc"])

    def test_a_line_is_run_by_the_shell_and_one_task_after_another(self):
        first = carma.submit("echo first > made", cwd=self.folder, memory="1G", hold=True)
        second = carma.submit("cat made > seen", cwd=self.folder, after=first, memory="1G")
        self.client.change(first, "release")
        self.assertEqual([task.state for task in carma.wait([first, second.id], timeout=LIMIT_S)], ["succeeded", "succeeded"])
        with open(self.path("seen"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "first\n")

    def test_a_submitted_task_has_the_gpus_of_its_description(self):
        for gpus in (0, 1, 2):
            task = carma.submit("true", gpus=gpus, cwd=self.folder, hold=True, memory="1G" if gpus else None)
            self.assertEqual(task.gpus, gpus)
            self.assertIn(task.id, [each.id for each in carma.list("all", name="true")])
            carma.cancel(task)

    def test_values_of_the_wrong_kind_are_named(self):
        for command, options, text in (
                ("true", {"memory": 12.5}, "memory 12.5: expected a size"), ("true", {"mem": [1]}, r"mem \[1\]: expected a size"),
                ("true", {"env": {"A": 1}}, "env: 'A': 1: expected texts"), ("", {}, "the command is empty"),
                (["python3", "t.py", "--lr", 0.1], {}, r"command\[3\]: 0.1: expected text"),
                (["cat", b"file"], {}, r"command\[1\]: b'file': expected text"),
                (" ", {}, "the command is empty"), ([], {}, "the command is empty"), (5, {}, "command 5: expected a line for the shell"),
                ("true", {"memory": True}, "memory True: expected a size"), ("true", {"time": math.nan}, "time nan: expected a span"),
                ("true", {"time": True}, "time True: expected a span"), ("true", {"time": []}, r"time \[\]: expected a span"),
                ("true", {"time": -1}, "time -1: expected a span"), ("true", {"time": "0s"}, "time '0s': expected a span"),
                ("true", {"cwd": 5}, "cwd 5: expected a path"), ("true", {"output": 5}, "output 5: expected a path"),
                ("true", {"error": [1]}, r"error \[1\]: expected a path"), ("true", {"env": 5}, "env 5: expected a mapping"),
                ("true", {"after": 1.5}, "1.5: expected a task"), ("true", {"retries": math.nan}, "retries nan: expected text in UTF-8, a finite"),
                ("true", {"comment": "\ud800"}, r"comment '\\ud800': expected text in UTF-8"),
                ("echo \udcff", {}, r"command '.*\\udcff\\n': expected text in UTF-8"),
                (["echo", "\udcff"], {}, r"command \['echo', '\\udcff'\]: expected text in UTF-8")):
            with self.subTest(text), self.assertRaisesRegex(carma.InvalidError, f"^{text}.*$"):
                carma.submit(command, **{"cwd": self.folder, **options})

    def test_no_time_limit_is_asked_for_as_with_the_command(self):
        for time_limit in (0, "0", "unlimited"):
            task = carma.submit("true", cwd=self.folder, gpus=0, hold=True, time=time_limit)
            carma.cancel(task)
            self.assertIsNone(self.client.show(task).details["time_limit_s"])
        number = int(self.site.carma("submit", "--parsable", "--hold", "-G", "0", "--time", "0", "true"))
        carma.cancel(number)
        self.assertIsNone(self.client.show(number).details["time_limit_s"])

    def test_tasks_are_listed_and_cancelled(self):
        held = self.client.submit_all([["true"], ["true"]], hold=True, name="held", cwd=self.folder)
        self.assertEqual([task.id for task in carma.list(name="held")], [task.id for task in held])
        self.assertEqual({task.state for task in carma.cancel(held)}, {"cancelled"})
        self.assertEqual(carma.list(name="held"), [])
        self.assertEqual(len(carma.list(name="held", state="cancelled", limit=1)), 1)
        self.assertEqual(carma.list("all", name="held", qos="background"), [])

    def test_get_escapes_what_a_url_cannot_contain(self):
        task = carma.submit("true", cwd=self.folder, gpus=0, hold=True, name="zwei Ä 100%")
        found = self.client.get("/v1/tasks?name=zwei Ä 100%25")
        self.assertEqual([each["id"] for each in found["tasks"]], [task.id])
        self.assertEqual(self.client.get("/v1/tasks?name=\udcff")["tasks"], [])

    def test_all_are_cancelled_before_a_refusal_is_raised(self):
        first, ended, last = self.client.submit_all([["true"]] * 3, hold=True, cwd=self.folder)
        carma.cancel(ended)
        with self.assertRaisesRegex(carma.ConflictError, f"2 of 4 tasks not cancelled: task {ended.id} has already been cancelled; no task 999999"):
            carma.cancel([first, ended, 999999, last])
        self.assertEqual({self.client.show(task).state for task in (first, last)}, {"cancelled"})
        with self.assertRaisesRegex(carma.ConflictError, f"^task {ended.id} has already been cancelled$"):
            carma.cancel(ended)
        with self.assertRaises(carma.NotFoundError):
            carma.cancel([999998, 999999])
        many = self.client.submit_all([["true"]] * 1001, hold=True, cwd=self.folder, array=True)
        self.assertEqual([task.id for task in carma.cancel(many)], [task.id for task in many])
        self.assertEqual(carma.cancel([]), [])

    def test_waiting_has_an_end(self):
        task = carma.submit(["true"], hold=True, cwd=self.folder)
        before = time.monotonic()
        with self.assertRaises(TimeoutError):
            carma.wait(task, timeout=0.3)
        self.assertLess(time.monotonic() - before, 30)
        carma.cancel(task)

    def test_mistakes_are_told_by_kind(self):
        with self.assertRaisesRegex(carma.NotFoundError, "999999"):
            carma.wait(999999)
        with self.assertRaisesRegex(carma.InvalidError, "'12': expected a task, its number"):
            carma.wait("12")
        with self.assertRaisesRegex(carma.InvalidError, "gpus"):
            carma.submit(["true"], gpus=-1)
        with self.assertRaisesRegex(carma.InvalidError, "expected a size"):
            carma.submit(["true"], memory="much")
        with self.assertRaises(carma.ConflictError):
            carma.submit(["true"], gpus=64)
        with self.assertRaisesRegex(carma.UnavailableError, "is carmad running"):
            carma.Client("/nonexistent/socket").list()
        with self.assertRaisesRegex(carma.InvalidError, "'gpu_typ'; did you mean gpu_type?"):
            carma.submit(["true"], gpu_typ="a100")

    def test_a_lost_submission_is_repeated_until_carmad_answers(self):
        client = carma.Client("/nonexistent/socket")
        answers = [carma.connection.Lost("ended"), carma.UnavailableError("is carmad running?", "unavailable"), {"first": 7, "count": 1}]

        def answer(*_):
            given = answers.pop(0)
            if isinstance(given, Exception):
                raise given
            return given
        client._connection.call = answer
        self.assertEqual(client.submit(["true"]).id, 7)

    def test_what_cannot_start_is_refused_before_the_queue(self):
        with open(self.path("train.py"), "w", encoding="utf-8") as file:
            file.write("print(1)\n")
        with open(self.path("train.sh"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n")
        for command, options, expected in (
                (["nosuchprogram"], {}, "no program 'nosuchprogram'"), (["train.py"], {}, "did you mean .'python3', 'train.py'"),
                (["./train.sh"], {}, "no program './train.sh'; that file is not executable .chmod .x"),
                ([self.folder], {}, "no program '.*'; that is a folder"),
                (["python3", "-u", "trian.py"], {}, "no file 'trian.py' in .*did you mean train.py"),
                (["true"], {"cwd": "/no/such"}, "working directory /no/such"),
                (["true"], {"output": "train.py/%j.out"}, "train.py/%j.out: cannot be written")):
            with self.assertRaisesRegex(carma.InvalidError, expected):
                carma.submit(command, **{"cwd": self.folder, "memory": "1G", **options})
        task = carma.submit(["python3", "later.py"], cwd=self.folder, check=False, hold=True)
        carma.cancel(task)
        with self.assertWarnsRegex(UserWarning, "sets CUDA_VISIBLE_DEVICES"):
            carma.cancel(carma.submit("export CUDA_VISIBLE_DEVICES=1\ntrue", cwd=self.folder, hold=True))

    # ---- the executor ----

    def test_functions_run_as_tasks(self):
        with self.executor(gpus=1) as gpus:
            future = gpus.submit(twice, Point(4), more=1)
            self.assertEqual(future.result(LIMIT_S).x, 9)
            seen = list(gpus.map(gpus_seen, range(3), timeout=LIMIT_S))
        self.assertEqual(len([uuid for uuid in seen if uuid.startswith("GPU-")]), 3)
        self.assertEqual(self.client.show(future.task).name, "twice")
        self.assertEqual(os.stat(self.path("jobs")).st_mode & 0o777, 0o700)
        for name in os.listdir(self.path("jobs")):
            if not name.endswith(".out"):
                self.assertEqual(os.stat(self.path(f"jobs/{name}")).st_mode & 0o777, 0o600, name)
        with open(self.path(f"jobs/{future.task.id}.out"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "twice\n")

    def test_a_call_has_only_the_given_environment(self):
        with mock.patch.dict(os.environ, {"CARMA_TEST_WORD": "here"}):
            for options, word in (({}, "here"), ({"env": {}}, None), ({"env": {"CARMA_TEST_WORD": "there"}}, "there")):
                self.assertEqual(self.executor(gpus=0, **options).submit(os.getenv, "CARMA_TEST_WORD").result(LIMIT_S), word)

    def test_a_script_for_submitit_runs(self):
        executor = carma.AutoExecutor(folder=self.path("log"))
        self.addCleanup(executor.shutdown)
        executor.update_parameters(timeout_min=60, gpus_per_node=1, cpus_per_task=1, slurm_array_parallelism=2, name="points",
                                   slurm_mem="1G")
        with self.assertWarnsRegex(UserWarning, "slurm_partition: has no meaning"):
            executor.update_parameters(slurm_partition="gpu", nodes=1, tasks_per_node=1, memory="1G")
        jobs = executor.map_array(divmod, [7, 8, 9], [2, 3, 5])
        self.assertEqual([job.result(LIMIT_S) for job in jobs], [(3, 1), (2, 2), (1, 4)])
        details = [self.client.show(int(job.job_id)).details for job in jobs]
        self.assertEqual([(each["array_id"], each["array_index"]) for each in details], [(jobs[0].task.id, i) for i in range(3)])
        self.assertEqual([details[0][key] for key in ("time_limit_s", "name", "host_memory_mib")], [3600, "points", 1024])
        self.assertEqual(jobs[0].state, "succeeded")
        job = executor.submit(twice, Point(1))
        job.result(LIMIT_S)
        self.assertEqual(job.stdout(), "twice\n")
        for wrong, expected in (({"nodes": 2}, "one server"), ({"timeout_mn": 5}, "did you mean timeout_min"),
                                ({"slurm_gres": "gpu:2"}, "'slurm_gres'; expected an option of submit"),
                                ({"slurm_gpus_per_task": "a100:1"}, "slurm_gpus_per_task='a100:1': expected a number; gpu_type")):
            with self.assertRaisesRegex(carma.InvalidError, expected):
                executor.update_parameters(**wrong)

    def test_map_keeps_the_order(self):
        os.chdir(self.folder)
        self.addCleanup(os.chdir, HERE)
        self.assertEqual(list(carma.map(divmod, [7, 8, 9], [2, 3, 5], memory="1G", timeout=LIMIT_S)), [(3, 1), (2, 2), (1, 4)])
        self.assertTrue(os.path.isdir(self.path("carma-jobs")))

    def test_map_submits_before_its_results_are_read(self):
        results = carma.map(abs, [-1, -2], gpus=0, folder=self.path("jobs"), name="eager")
        tasks = carma.list("all", name="eager")
        self.assertEqual(len(tasks), 2)
        self.assertTrue(all(task.succeeded for task in carma.wait(tasks, timeout=LIMIT_S)))
        self.assertEqual(list(results), [1, 2])

    def test_what_a_call_raises_is_raised(self):
        future = self.executor().submit(fails, "key")
        with self.assertRaises(KeyError) as raised:
            future.result(LIMIT_S)
        cause = raised.exception.__cause__
        self.assertIsInstance(cause, carma.TaskFailed)
        self.assertIn("in fails", str(cause))
        self.assertEqual(cause.task.exit_code, 1)

    def test_an_exception_that_cannot_be_pickled_keeps_its_text(self):
        with self.assertRaisesRegex(RuntimeError, r"OwnError: out of paper \(3\); the exception cannot be pickled: .*'why'$") as raised:
            self.executor(gpus=0).submit(fails_in_its_own_way).result(LIMIT_S)
        self.assertIn("in fails_in_its_own_way", str(raised.exception.__cause__))

    def test_a_task_that_is_killed_has_no_result(self):
        with self.assertRaisesRegex(carma.TaskFailed, "task [0-9]+ failed: .*signal 9"):
            self.executor().submit(is_killed).result(LIMIT_S)

    def test_a_task_that_exits_early_has_no_result(self):
        with self.assertRaisesRegex(carma.TaskFailed, "task [0-9]+ succeeded, but left no result"):
            self.executor().submit(exits_early).result(LIMIT_S)

    def test_out_of_memory_is_tried_again(self):
        self.assertEqual(self.executor(retries=2).submit(needs_more_room).result(LIMIT_S), 2)

    def test_the_exception_of_an_earlier_attempt_is_not_raised(self):
        executor = self.executor(retries=2)
        with self.assertRaisesRegex(carma.TaskFailed, "signal 9"):
            executor.submit(needs_more_room_and_is_killed).result(LIMIT_S)
        path, _ = self.gate()
        future = executor.submit(needs_more_room_and_is_met, path)
        with open(path, encoding="utf-8") as pipe:
            self.assertEqual(pipe.readline(), "running\n")
        carma.cancel(future.task)
        with self.assertRaisesRegex(carma.TaskFailed, "was cancelled"):
            future.result(LIMIT_S)

    def test_a_task_cancelled_between_attempts_has_no_result(self):
        executor = carma.Executor(self.folder, client=mock.Mock(spec=carma.Client))
        executor.client.output.return_value = ""
        future = carma.TaskFuture(executor.client, self.path("call"))
        with open(future.path + ".result", "wb") as file:
            pickle.dump((False, RuntimeError("CUDA out of memory"), ""), file)
        executor._finish(future, carma.Task(1, state="cancelled"))  # pylint: disable=protected-access
        self.assertIsInstance(future.exception(), carma.TaskFailed)

    def gate(self):
        """Returns the path of a named pipe, and a function that ends waits_for(path), even if that has not begun to read yet."""
        path = self.path("gate")
        os.mkfifo(path)
        pipe = os.open(path, os.O_RDWR)
        self.addCleanup(os.close, pipe)
        return path, lambda: os.write(pipe, b"go\n")

    def test_only_what_does_not_run_is_cancelled(self):
        executor = self.executor()
        go, let_go = self.gate()
        running = executor.submit(waits_for, go)
        deadline = time.monotonic() + LIMIT_S
        while not running.running():
            self.assertLess(time.monotonic(), deadline, running.task)
            time.sleep(0.05)
        self.assertFalse(running.cancel())
        held = self.executor(hold=True).submit(twice, Point(1))
        self.assertTrue(held.cancel())
        self.assertEqual(carma.wait(held.task, timeout=LIMIT_S)[0].state, "cancelled")
        let_go()
        self.assertEqual(running.result(LIMIT_S), go)

    def test_a_call_that_has_just_started_is_not_cancelled(self):
        path, _ = self.gate()
        running = self.executor(gpus=0).submit(is_met, path)
        with open(path, encoding="utf-8") as pipe:
            self.assertEqual(pipe.readline(), "running\n")
        self.assertFalse(running.cancel())
        carma.cancel(running.task)
        with self.assertRaisesRegex(carma.TaskFailed, "was cancelled"):
            running.result(LIMIT_S)

    def test_a_daemon_that_is_started_anew_is_waited_for(self):
        go, let_go = self.gate()
        future = self.executor().submit(waits_for, go)
        self.site.stop(signal.SIGKILL)
        let_go()
        self.site.start()
        self.assertEqual(future.result(LIMIT_S), go)

    def test_jobs_of_hydra_are_tasks(self):
        with open(self.path("train.py"), "w", encoding="utf-8") as file:
            file.write("import os, hydra_stand_in\nhydra_stand_in.install()\nimport hydra\n\n@hydra.main\ndef train(config):\n"
                       "    return config.lr, os.environ['CUDA_VISIBLE_DEVICES'][:4]\n\nif __name__ == '__main__':\n    train()\n")
        done = subprocess.run([sys.executable, "train.py", self.folder, "lr=0.1", "lr=0.01"], cwd=self.folder, timeout=LIMIT_S,
                              env={**os.environ, "PYTHONPATH": f"{os.path.dirname(HERE)}:{HERE}"}, capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "('0.1', 'GPU-') 3\n('0.01', 'GPU-') 4\n"), done.stderr)

    def test_a_script_without_a_guard_does_not_submit_itself_again_and_again(self):
        with open(self.path("bare.py"), "w", encoding="utf-8") as file:
            file.write("import carma\n\ndef same(x):\n    return x\n\nprint(carma.Executor(gpus=0).submit(same, 3).result())\n")
        done = subprocess.run([sys.executable, "bare.py"], cwd=self.folder, timeout=LIMIT_S,
                              env={**os.environ, "PYTHONPATH": os.path.dirname(HERE)}, capture_output=True, text=True, check=False)
        self.assertIn('bare.py submits tasks while a task reads it to find its function: move the submission below if __name__ == "__main__":',
                      done.stderr)
        self.assertEqual(len(json.loads(self.site.carma("list", "--all", "--name", "same", "--json"))["tasks"]), 1)

    def python(self, *words, **options):
        """Runs Python in the test's own folder with the module."""
        return subprocess.run([sys.executable, *words], cwd=self.folder, timeout=LIMIT_S, capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": os.path.dirname(HERE)}, **options)

    def test_functions_without_a_file_travel_by_cloudpickle(self):
        """As in a notebook, where __main__ has no file. The module that is imported is a stand-in."""
        with open(self.path("cloudpickle.py"), "w", encoding="utf-8") as file:
            file.write(CLOUDPICKLE)
        program = ("import carma\ndef by_value(x):\n    return x + 1\nwith carma.Executor(gpus=0) as tasks:\n"
                   "    print(tasks.submit(divmod, 7, 2).result(), tasks.submit(by_value, 3).result())\n")
        for done in (self.python("-c", program), self.python("-", input=program)):
            self.assertEqual((done.returncode, done.stdout), (0, "(3, 1) 4\n"), done.stderr)
        refused = self.python("-c", "import sys\nsys.modules['cloudpickle'] = None\n" + program)
        self.assertIn("carma.errors.CarmaError: by_value is defined in a notebook, on a command line or on standard input", refused.stderr)
        self.assertEqual(len(json.loads(self.site.carma("list", "--all", "--name", "by_value", "--json"))["tasks"]), 2)

    def test_functions_of_a_module_that_is_run_are_found(self):
        os.mkdir(self.path("package"))
        submits = "if __name__ == '__main__':\n    with carma.Executor(gpus=0) as tasks:\n        print(tasks.submit(f, Point(3)).result().x)\n"
        for name, text in (("__init__", ""), ("point", "class Point:\n    def __init__(self, x):\n        self.x = x\n"),
                           ("run", "import carma\nfrom . import point\n\nclass Point(point.Point):\n    pass\n\n"
                                   "def f(it):\n    return Point(it.x + 1)\n\n" + submits),
                           ("__main__", "import carma\nfrom .point import Point\nwith carma.Executor(gpus=0) as tasks:\n"
                                        "    print(tasks.submit(Point, 5).result().x)\n")):
            with open(self.path(f"package/{name}.py"), "w", encoding="utf-8") as file:
                file.write(text)
        for name, printed in (("package.run", "4\n"), ("package", "5\n")):
            done = self.python("-m", name)
            self.assertEqual((done.returncode, done.stdout), (0, printed), done.stderr)

    def test_what_cannot_travel_is_refused(self):
        if importlib.util.find_spec("cloudpickle"):
            self.skipTest("with cloudpickle it can")
        with self.assertRaisesRegex(carma.CarmaError, "cloudpickle"):
            self.executor().submit(lambda: 1)


    def test_the_version_is_that_of_the_command(self):
        said = subprocess.run([os.path.join(PROGRAMS, "carma"), "version", "--json"], capture_output=True, text=True, check=True,
                              timeout=LIMIT_S)
        self.assertEqual(json.loads(said.stdout)["version"], carma.__version__)


class WithoutADaemon(unittest.TestCase):
    """What needs none."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="carma-module.", dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_sizes_and_spans(self):
        self.assertEqual([mib("12G"), mib("800"), mib("1.5T"), mib("1K"), mib(7)], [12288, 800, 1572864, 1, 7])
        self.assertEqual([seconds("90s"), seconds("1h30m"), seconds(5), seconds(0.5), seconds("0")], [90, 5400, 5, 1, 0])
        for wrong in ("2 hours", "h", ""):
            with self.assertRaises(carma.InvalidError):
                seconds(wrong)

    def test_a_line_is_named_by_its_first_program(self):
        client = carma.Client("/nonexistent/socket")
        for line, name in (("/usr/bin/python3 t.py", "python3"), ("A=1 B='x y' env", "env"), ("# a comment\necho hi", "echo"),
                           ("echo hi # it's fine", "echo"), ("cat <<E\nit's\nE", "cat"), ("'two words' 1", "two words"),
                           ("python3 -c '\nprint(1)'", "python3"), ("# nothing", "script"), ("A=1", "script")):
            with self.subTest(line):
                self.assertEqual(client.description(line)["name"], name)

    def test_only_the_start_of_a_long_line_is_searched_for_its_name(self):
        with mock.patch("carma.client.shlex.split", side_effect=shlex.split) as split:
            spec = carma.Client("/nonexistent/socket").description("A=1 echo " + "x" * 10000)
        self.assertEqual((spec["name"], [len(call.args[0]) for call in split.mock_calls], len(spec["script"])), ("echo", [4096], 10020))

    def test_the_socket_is_that_of_the_configuration(self):
        self.assertEqual(_socket_in('[daemon]\n#socket = "/a"\nsocket = "/srv/b" # mine\n[policy]\nsocket = "/c"\n'), "/srv/b")
        self.assertEqual(_socket_in("daemon.socket = '/srv/d'\n"), "/srv/d")
        self.assertIsNone(_socket_in('[other]\nsocket = "/e"\n'))
        program = "import carma; print(carma.default_socket())"
        for variables, expected in (({"CARMA_DAEMON_SOCKET": "/srv/f"}, "/srv/f"),
                                    ({"CARMA_DAEMON_SOCKET": "/srv/f", "CARMA_SOCKET": "/srv/g"}, "/srv/g")):
            done = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": os.path.dirname(HERE), **variables}, check=True,
                                  capture_output=True, text=True, timeout=LIMIT_S)
            self.assertEqual(done.stdout.strip(), expected)

    def listen(self, answer):
        """Returns the path of a socket, on which answer(connection, request) answers each request."""
        path = os.path.join(self.folder, "s")
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen()
        self.addCleanup(server.close)

        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    head, _, body = connection.recv(1 << 20).partition(b"\r\n\r\n")
                    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
                    while len(body) < length:
                        body += connection.recv(1 << 20)
                    answer(connection, body)

        threading.Thread(target=serve, daemon=True).start()
        return path

    def test_a_submission_that_was_cut_is_sent_again_under_its_name(self):
        names = []

        def answer(connection, body):
            names.append(json.loads(body)["request"])
            if len(names) > 2:
                text = b'{"first":42,"count":1,"warnings":[]}'
                connection.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))

        with carma.Client(self.listen(answer)) as client:
            self.assertEqual(client.submit(["true"]).id, 42)
        self.assertEqual((len(names), len(set(names))), (3, 1))

    def test_a_change_is_sent_again_if_the_idle_connection_was_closed(self):
        text = b'{"id":7}'
        path = self.listen(lambda connection, _: connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)))
        with carma.Client(path) as client:
            self.assertEqual(client.show(7).id, 7)
            self.assertEqual(client._connection._kept().sock.recv(1), b"")  # closed
            self.assertEqual(client.change(7, "hold").id, 7)

    def test_the_reason_is_read_if_a_request_is_refused_before_its_end(self):
        server = socket.socket(socket.AF_UNIX)
        self.addCleanup(server.close)
        server.bind(os.path.join(self.folder, "early"))
        server.listen()

        def refuse():
            connection, _ = server.accept()
            with connection:
                text = b'{"error":{"code":"invalid","message":"too large"}}'
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 413 No\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))

        threading.Thread(target=refuse, daemon=True).start()
        with self.assertRaisesRegex(carma.InvalidError, "too large"):
            carma.Client(server.getsockname()).change(7, "hold", {"text": "x" * 10_000_000})

    def listen_and_keep(self, answer):
        """The path of a socket that keeps its connections; answer(connection, method) is the JSON for a request. Connections count from 1."""
        path = os.path.join(self.folder, "kept")
        numbers = itertools.count(1)

        class Handler(http.server.BaseHTTPRequestHandler):
            """One connection."""

            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                self.number = next(numbers)

            def handle_one_request(self):
                try:
                    super().handle_one_request()
                except OSError:  # the client has gone
                    self.close_connection = True

            def do_GET(self):  # pylint: disable=invalid-name
                """Any request."""
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                text = json.dumps(answer(self.number, self.command)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_POST = do_GET

            def log_message(self, format, *_):  # pylint: disable=redefined-builtin
                """Logs nothing."""

        class Server(socketserver.ThreadingUnixStreamServer):
            """Ends without waiting for connections that are still open."""

            daemon_threads = True
            block_on_close = False

        server = Server(path, Handler)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return path

    def test_a_list_contains_the_tasks_of_all_pages(self):
        pages = iter([{"tasks": [{"id": number} for number in range(1, 1001)], "next": 1000}, {"tasks": [{"id": 1001}], "next": None}])
        with carma.Client(self.listen_and_keep(lambda *_: next(pages))) as client:
            self.assertEqual([task.id for task in client.list()], list(range(1, 1002)))

    def test_a_forked_process_has_its_own_connection(self):
        with carma.Client(self.listen_and_keep(lambda connection, _: connection)) as client:
            self.assertEqual(client.get("/"), 1)
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                try:
                    os.write(writer, b"%d" % client.get("/"))
                finally:
                    os._exit(0)  # pylint: disable=protected-access
            os.close(writer)
            with os.fdopen(reader) as answer:
                self.assertEqual(answer.read(), "2")
            os.waitpid(child, 0)
            self.assertEqual(client.get("/"), 1)

    def test_an_interrupted_call_leaves_nothing_for_the_next(self):
        with carma.Client(self.listen_and_keep(lambda connection, _: {"id": connection})) as client:
            self.assertEqual(client.show(1).id, 1)
            with mock.patch("http.client.HTTPConnection.getresponse", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
                client.wait(1)
            self.assertEqual(client.change(1, "hold").id, 2)

    def test_a_future_that_is_cancelled_as_it_starts_holds_up_no_other(self):
        looks = itertools.count()

        def view(number):
            return {"id": number, "state": "running" if next(looks) < 6 else "failed"}

        def cancelled_meanwhile(future):
            if future.task.id == 1:
                concurrent.futures.Future.cancel(future)
            return notice(future)

        client = mock.Mock(spec=carma.Client)
        client.submit_all.return_value = [carma.Task(1), carma.Task(2)]
        client.get.side_effect = lambda target, **_: view(int(target.split("/")[-1].split("?")[0]))
        client.show.side_effect = lambda number: carma.Task.of(view(number))
        client.list.return_value = []
        client.output.return_value = ""
        notice = concurrent.futures.Future.set_running_or_notify_cancel
        with mock.patch.object(carma.TaskFuture, "set_running_or_notify_cancel", cancelled_meanwhile):
            first, second = carma.Executor(self.folder, client=client).map_array(abs, [1, 2])
            with self.assertRaisesRegex(carma.TaskFailed, "task 2 failed"):
                second.result(LIMIT_S)
        self.assertTrue(first.cancelled())

    def test_nothing_is_sent_to_a_stranger(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        os.chmod(self.folder, 0o777)
        path = os.path.join(self.folder, "strange")
        stranger = subprocess.Popen([sys.executable, "-c", "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX);"
                                     f"s.bind({path!r}); s.listen(); print('up', flush=True); c, _ = s.accept(); print(c.recv(99))"],
                                    stdout=subprocess.PIPE, text=True)
        self.addCleanup(stranger.stdout.close)
        self.assertEqual(stranger.stdout.readline(), "up\n")
        with self.assertRaisesRegex(carma.DeniedError, "neither root nor you"):
            carma.Client(path).submit(["true"])
        self.assertEqual(stranger.stdout.read(), "b''\n")
        stranger.wait(LIMIT_S)


if __name__ == "__main__":
    unittest.main(verbosity=2)
