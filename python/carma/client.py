"""Calls of the API as functions."""

from __future__ import annotations

import datetime
import json
import math
import os
import re
import reprlib
import shlex
import string
import time
import uuid
import warnings
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import quote, urlencode

from .checks import check as check_it_can_start, suggestion
from .connection import Connection, Lost
from .errors import CarmaError, InvalidError, UnavailableError, error_of
from .socket_path import default_socket
from .task import Task

TaskOrId = Union[Task, int]
Submittable = Union[str, Sequence[str]]
Span = Union[int, float, str, datetime.timedelta]

LONG_POLL_S = 30
PATIENCE_S = 60.0  # a restarting daemon is back sooner
RETRY_S = 0.2
PAGE = 1000  # in a list or a call of changes
NAMED = 10  # refused tasks named in a message
NAME_WITHIN = 4096  # letters
# Fields of a description in addition to the arguments of description().
FIELDS = frozenset((
    "account", "append_output", "array_index", "array_limit", "batch_size", "begin_ms", "checkpoint_signal", "comment", "conda_env",
    "container", "container_mounts", "cpus", "gpu_memory_min_mib", "gpu_type", "linked_gpus", "max_slowdown", "model_summary", "no_progress", "no_slots", "not_on_gpus",
    "notify", "on_gpus", "optimizer", "own_cpus", "parameters", "precision", "priority", "qos", "requeue", "script_args", "serve", "signal",
    "signal_before_s", "signal_main", "sm_share", "training"))
OPTIONS = frozenset(("name", "gpus", "memory", "mem", "exclusive", "time", "cwd", "env", "output", "error", "after", "hold", "retries",
                     "check"))
# Fields of a description that are set by an argument with another name.
ARGUMENTS = {"workdir": "cwd", "script": "command", "max_recoveries": "retries", "held": "hold", "stdout_path": "output",
             "stderr_path": "error", "dependencies": "after"}
UNITS_MIB = {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}
NO_LIMIT = ("0", "unlimited", "infinite")
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def mib(size: Union[int, str], argument: str = "memory") -> int:
    """Memory in MiB from "12G", "800M" or a number of MiB."""
    if isinstance(size, int) and not isinstance(size, bool):
        return size
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", size, re.IGNORECASE) if isinstance(size, str) else None
    if not found:
        raise InvalidError(f"{argument} {size!r}: expected a size like '12G' or '800M', or a whole number of MiB", "invalid")
    return -int(-float(found[1]) * UNITS_MIB[found[2].upper()] // 1)


def seconds(span: Span) -> int:
    """Whole seconds, rounded up, from a number, a timedelta, "90s", "2h" or "1h30m". 0, "0", "unlimited": no limit."""
    if isinstance(span, str):
        if span.lower() in NO_LIMIT:
            return 0
        parts = re.findall(r"(\d+)([smhd])", span)
        whole = sum(int(n) * UNITS_S[unit] for n, unit in parts)
        if whole and "".join(n + unit for n, unit in parts) == span:
            return whole
    else:
        number = span.total_seconds() if isinstance(span, datetime.timedelta) else span
        if isinstance(number, (int, float)) and not isinstance(number, bool) and 0 <= number < math.inf:
            return math.ceil(number)
    raise InvalidError(f"time {span!r}: expected a span like '90s', '2h', '1h30m', a number of seconds, or 0 for no limit", "invalid")


def _umask() -> str:
    with open("/proc/self/status", encoding="utf-8", errors="replace") as file:
        return next((line.split()[1][-3:] for line in file if line.startswith("Umask:")), "022")


def _environment(given: Optional[Mapping[str, str]]) -> Dict[str, str]:
    """The given variables, by default the caller's. Variables that are not UTF-8 cannot be sent."""
    def travels(text: str) -> bool:
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
        return True

    if given is not None and not isinstance(given, Mapping):
        raise InvalidError(f"env {given!r}: expected a mapping of texts", "invalid")
    for name, value in (given or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidError(f"env: {name!r}: {value!r}: expected texts", "invalid")
    return {name: value for name, value in (os.environ if given is None else given).items() if travels(name) and travels(value)}


def _name_of(text: str) -> str:
    """The first program in a shell command: python3 in "A=1 python3 t.py"."""
    for line in text[:NAME_WITHIN].splitlines():  # because shlex takes 20 s for a line of 1 MB
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # a quote that ends on another line, or belongs to a here-document
            words = line.split()
        for word in words:
            name = os.path.basename(word)
            if name and name.isprintable() and not re.match(r"\w+=", word):
                return name[:60]
    return "script"


def _words(command: Sequence[Any]) -> List[str]:
    words = [os.fspath(word) if isinstance(word, os.PathLike) else word for word in command]
    for index, word in enumerate(words):
        if not isinstance(word, str):
            raise InvalidError(f"command[{index}]: {word!r}: expected text", "invalid")
    return words


def _path(name: str, given: Any) -> str:
    try:
        return os.fsdecode(given)
    except TypeError:
        raise InvalidError(f"{name} {given!r}: expected a path", "invalid") from None


def _check_sendable(spec: Mapping[str, Any]) -> None:
    for field, value in spec.items():
        try:
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError):
            raise InvalidError(f"{ARGUMENTS.get(field, field)} {reprlib.repr(value)}: expected text in UTF-8, a finite number, or a list of them",
                               "invalid") from None


def number_of(task: TaskOrId) -> int:
    """The number of a task, given as a task or as a number."""
    return task.id if isinstance(task, Task) else task


def _numbers(tasks: Union[TaskOrId, Iterable[TaskOrId]]) -> List[int]:
    if isinstance(tasks, str) or not isinstance(tasks, (Task, int, Iterable)):
        raise InvalidError(f"{tasks!r}: expected a task, its number, or a list of them", "invalid")
    return [number_of(tasks)] if isinstance(tasks, (Task, int)) else [number_of(each) for each in tasks]

# The caller's script while a task of the executor reads it; otherwise empty.
script_being_read = ""  # pylint: disable=invalid-name


class Client:
    """A client of the daemon at one socket. Threads may share it."""

    def __init__(self, socket: Optional[str] = None) -> None:
        self.socket = socket or default_socket()
        self._connection = Connection(self.socket)

    def close(self) -> None:
        """Closes this thread's connection. The next call opens another."""
        self._connection.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- submitting ----

    def description(self, command: Submittable, *, name: Optional[str] = None, gpus: int = 1, memory: Union[int, str, None] = None,
                    mem: Union[int, str, None] = None, exclusive: bool = False, time: Optional[Span] = None,  # pylint: disable=redefined-outer-name
                    cwd: Optional[str] = None, env: Optional[Mapping[str, str]] = None, output: Optional[str] = None,
                    error: Optional[str] = None, after: Union[TaskOrId, Iterable[TaskOrId]] = (), hold: bool = False,
                    retries: Optional[int] = None, **fields: Any) -> Dict[str, Any]:
        """The body of POST /v1/tasks. memory is GPU memory per GPU, and mem is host memory. Other fields of the API have the same names
        (cpus, priority, qos, comment …)."""
        for field in fields:
            near = suggestion(field, FIELDS | OPTIONS)
            if field not in FIELDS and near:  # a newer daemon may have more fields
                raise InvalidError(f"unknown option {field!r}{near}", "invalid")
        folder = os.path.abspath(_path("cwd", cwd or os.getcwd()))
        spec: Dict[str, Any] = {"workdir": folder, "umask": _umask(), "gpus": gpus, **fields}
        if not isinstance(command, (str, Iterable)):
            raise InvalidError(f"command {command!r}: expected a line for the shell or a list of words", "invalid")
        if not (command.strip() if isinstance(command, str) else command):
            raise InvalidError("the command is empty: expected a line for the shell or a list of words", "invalid")
        if isinstance(command, str):
            spec["script"] = f"#!/bin/sh\n{command}\n"
            spec["name"] = _name_of(command)
        else:
            spec["command"] = _words(command)
        optional: Tuple[Tuple[str, Any], ...] = (
            ("name", name), ("memory_mib", None if memory is None else mib(memory)),
            ("host_memory_mib", None if mem is None else mib(mem, "mem")), ("exclusive", exclusive or None),
            ("time_limit_s", None if time is None else seconds(time) or None), ("max_recoveries", retries), ("held", hold or None),
            ("stdout_path", None if output is None else os.path.join(folder, _path("output", output))),
            ("stderr_path", None if error is None else os.path.join(folder, _path("error", error))),
            ("dependencies", [{"task": task, "kind": "afterok"} for task in _numbers(after)] or None))
        spec.update((key, value) for key, value in optional if value is not None)
        _check_sendable(spec)
        spec["environment"] = _environment(env)
        return spec

    def submit(self, command: Submittable, **options: Any) -> Task:
        """Submits one task: a list of words, run without a shell, or a line for /bin/sh. Options: those of description(). Returns once the
        task is on the daemon's disk; it is submitted only once, even if the connection breaks. A task that cannot start (no such program,
        script or folder) is refused unless check is False."""
        return self.submit_all([command], **options)[0]

    def submit_all(self, commands: Iterable[Submittable], *, array: bool = False, check: bool = True, **options: Any) -> List[Task]:
        """Submits many tasks with the same options: all of them or none. With array they form one array, which is one row in lists."""
        if script_being_read:
            raise RuntimeError(f"{script_being_read} submits tasks while a task reads it to find its function: move the submission "
                               'below if __name__ == "__main__":')
        specs = [self.description(command, **options) for command in commands]
        if not specs:
            return []
        if array:
            for index, spec in enumerate(specs):
                spec["array_index"] = index
        if check and not specs[0].get("dependencies"):  # files missing now may be created by tasks that this task waits for
            check_it_can_start(specs[0])
        shared = ("workdir", "environment", "umask")
        common = {key: specs[0][key] for key in shared}
        tasks = [{key: value for key, value in spec.items() if key not in shared} for spec in specs]
        answer = self._again({"tasks": tasks, "common": common, "request": uuid.uuid4().hex})
        for remark in answer.get("warnings", []):
            warnings.warn(remark, stacklevel=3)
        return [Task(answer["first"] + i, name=tasks[i].get("name", ""), gpus=tasks[i]["gpus"]) for i in range(answer["count"])]

    def _again(self, body: Dict[str, Any]) -> Any:
        """Submits a request with a unique name, so that repeating it submits nothing twice."""
        give_up = time.monotonic() + PATIENCE_S
        lost = False
        while True:
            try:
                return self._connection.call("POST", "/v1/tasks", body)
            except (Lost, UnavailableError) as error:
                lost = lost or isinstance(error, Lost)  # once a request was lost, carmad may have accepted it before it stopped
                if not lost:
                    raise
                if time.monotonic() > give_up:
                    raise UnavailableError(f"{self.socket}: {error}", "unavailable") from error
                time.sleep(RETRY_S)

    # ---- reading ----

    def show(self, task: TaskOrId) -> Task:
        """The task in its current state."""
        return Task.of(self.get(f"/v1/tasks/{number_of(task)}"))

    def list(self, state: str = "", user: str = "", name: str = "", limit: Optional[int] = None, newest_first: bool = False,
             account: str = "", qos: str = "") -> List[Task]:
        """Unfinished tasks, or tasks in the given states ("failed,running", "all"), oldest first. limit: at most this number."""
        tasks: List[Task] = []
        before = None
        while limit is None or len(tasks) < limit:
            most = PAGE if limit is None else min(limit - len(tasks), PAGE)
            query = {"state": state, "user": user, "name": name, "account": account, "qos": qos, "limit": most,
                     "order": "desc" if newest_first else "asc", "before": before}
            page = self.get("/v1/tasks?" + urlencode({key: value for key, value in query.items() if value not in ("", None)}))
            tasks += [Task.of(view) for view in page["tasks"]]
            before = page.get("next")
            if before is None:
                break
        return tasks

    def get(self, target: str, timeout: float = 60.0) -> Any:
        """Makes any GET call of the API and returns the answer."""
        try:
            return self._connection.call("GET", quote(target, safe=string.punctuation, errors="surrogateescape"), timeout=timeout)
        except Lost as error:
            raise UnavailableError(f"{self.socket}: {error}", "unavailable") from error

    def output(self, task: TaskOrId, *, stderr: bool = False, limit: int = 16384) -> str:
        """The last bytes of a task's output, read from its file on this machine."""
        shown = self.show(task)
        path = shown.stderr_path if stderr and shown.stderr_path else shown.stdout_path
        try:
            with open(path, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - limit))
                return file.read().decode(errors="replace")
        except OSError as error:
            raise CarmaError(f"{path}: {error.strerror}") from error

    def wait(self, tasks: Union[TaskOrId, Iterable[TaskOrId]], timeout: Optional[float] = None) -> List[Task]:
        """Waits until the tasks have ended and returns them in the order given. Waits for a daemon that restarts.
        Raises TimeoutError."""
        end = None if timeout is None else time.monotonic() + timeout
        return [self._wait_for(number, end) for number in _numbers(tasks)]

    def _wait_for(self, number: int, end: Optional[float]) -> Task:
        away_since: Optional[float] = None
        while True:
            left = LONG_POLL_S if end is None else max(0.0, min(LONG_POLL_S, end - time.monotonic()))
            try:
                # The API takes whole seconds, so the last fraction of a second is waited for here.
                task = Task.of(self.get(f"/v1/tasks/{number}?wait_s={int(left)}", timeout=left + 60))
            except UnavailableError:
                now = time.monotonic()
                away_since = away_since or now
                if now - away_since > PATIENCE_S:
                    raise
                task = Task(number)
                time.sleep(RETRY_S)
            else:
                away_since = None
            if task.done:
                return task
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"task {number} is still {task.state} after the timeout")
            if left < 1:
                time.sleep(min(left, RETRY_S))

    # ---- changing ----

    def cancel(self, tasks: Union[TaskOrId, Iterable[TaskOrId]]) -> List[Task]:
        """Cancels running or waiting tasks. If some are refused, for example because they have ended, the other tasks
        are still cancelled. Then the error of the refusals is raised, or ConflictError if they have different errors."""
        numbers = list(dict.fromkeys(_numbers(tasks)))
        cancelled: Dict[int, Task] = {}
        refused: List[Dict[str, Any]] = []
        for start in range(0, len(numbers), PAGE):
            try:
                answer = self._connection.call("POST", "/v1/changes", {"verb": "cancel", "tasks": numbers[start:start + PAGE]})
            except Lost as error:
                raise UnavailableError(f"{self.socket}: {error}", "unavailable") from error
            cancelled.update((view["id"], Task.of(view)) for view in answer["tasks"])
            refused += answer["refused"]
        if refused:
            kinds = {each["code"] for each in refused}
            message = "; ".join(each["message"] for each in refused[:NAMED])
            if len(refused) > NAMED:
                message += f"; and {len(refused) - NAMED} more"
            if len(numbers) > 1:
                message = f"{len(refused)} of {len(numbers)} tasks not cancelled: {message}"
            raise error_of(kinds.pop() if len(kinds) == 1 else "conflict", message)
        return [cancelled[number] for number in numbers]

    def change(self, task: TaskOrId, verb: str, body: Optional[Dict[str, Any]] = None) -> Task:
        """POST /v1/tasks/{id}/VERB: cancel, hold, release, requeue, priority."""
        try:
            return Task.of(self._connection.call("POST", f"/v1/tasks/{number_of(task)}/{verb}", body))
        except Lost as error:
            raise UnavailableError(f"{self.socket}: {error}", "unavailable") from error
