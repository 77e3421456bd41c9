"""Runs one training process and makes its row for the journal."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from typing import Any, Dict, Optional, Sequence

from .nvml import Gpu
from .units import MIB
from .watch import Watch

POLL_S = 0.05
# On a nearly full GPU the allocator takes the rest, so the value does not show the need.
SATURATED = 0.95
ENDINGS = {"done", "oom", "too_large"}  # the process has reported everything


class OneRun:
    """A training process with its answers (answers.py) and measurements."""

    def __init__(self, network: Dict[str, Any], device: str, gpu: Optional[Gpu]):
        self._network, self._device, self._gpu = network, device, gpu
        self._events: Dict[str, Any] = {}

    def row(self, child: Sequence[str], folder: str, limit_s: float) -> Dict[str, Any]:
        """Runs the command `child`. Returns the results of the run once its process has ended."""
        errors = os.path.join(folder, "stderr.txt")
        with open(errors, "wb") as stderr:
            process = subprocess.Popen(
                child,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=self._environment(),
                start_new_session=True,
            )
            watch = Watch(self._gpu, process.pid)
            try:
                self._follow(process, watch, time.monotonic() + limit_s)
            finally:
                watch.close()
                status = _end(process)
        return self._judge(watch, status, _last_line(errors))

    def _environment(self) -> Dict[str, str]:
        environment = dict(os.environ)
        if self._gpu:
            environment["CUDA_VISIBLE_DEVICES"] = self._gpu.uuid
        elif self._device == "cpu":
            environment["CUDA_VISIBLE_DEVICES"] = ""
        return environment

    def _follow(self, process: subprocess.Popen, watch: Watch, deadline: float) -> None:
        """Sends the description to the process and collects its events until it ends or reaches a limit."""
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(self._network).encode() + b"\n")
            process.stdin.flush()
        pending = b""
        while not self._events.keys() & ENDINGS:
            watch.poll()
            if time.monotonic() > deadline:
                self._events["timeout"] = True
                return
            if not select.select([process.stdout], [], [], POLL_S)[0]:
                continue
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                self._take_event(line, watch)
        watch.poll()  # the process still holds its peak memory
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # the process has reported everything, so it can end
            process.wait(timeout=max(1.0, deadline - time.monotonic()))

    def _take_event(self, line: bytes, watch: Watch) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return  # output of a library
        if not isinstance(event, dict):
            return
        self._events.update(event)
        if event.get("steady"):
            watch.begin_steady()
        if "done" in event:
            watch.end_steady()

    def _judge(self, watch: Watch, status: int, last_error: str) -> Dict[str, Any]:
        """The row of a run. It is censored if its value does not show what the network needs."""
        events = self._events
        ending = events.get("done") or events.get("oom") or {}
        row = {**ending, **watch.measured(), **watch.activity()}
        if self._gpu is None and "rss_mib" in ending:
            row.update(measured_mib=round(ending["rss_mib"]), source="rss")
        row.update((key, events[key]) for key in ("layers", "torch") if key in events)
        row["device"] = self._gpu.name if self._gpu else self._device
        reason = self._why_censored(row, watch)
        row["censored"] = int(bool(reason))
        if reason:
            row["reason"] = reason
        if reason == "crashed":
            row["error"] = last_error or f"exit status {status}"
        return row

    def _why_censored(self, row: Dict[str, Any], watch: Watch) -> Optional[str]:
        events = self._events
        if "oom" in events:
            return "oom"
        if events.get("timeout"):
            return "timeout"
        if events.get("too_large"):
            return "too large"
        if "done" not in events:
            return "crashed"
        if not events.get("steady"):
            return "unsteady"
        if self._gpu is None:
            return "dry"
        if watch.disturbed():
            return "disturbed"
        memory = self._gpu.memory()
        if memory and row.get("measured_mib", 0) * MIB >= SATURATED * memory[1]:
            return "saturated"
        return None if "measured_mib" in row else "not measured"


def _end(process: subprocess.Popen) -> int:
    """Kills the process and its descendants, and returns its exit status."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            pipe.close()
    return process.wait()


def _last_line(path: str) -> str:
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - 4096))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else ""
