"""Checks whether the time slice of a task has ended, and saves and exits in that case."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Iterator, NoReturn, Optional, Union

# The exit code that means: checkpoint saved, requeue the task (slots.exit_codes of the configuration).
SAVED = 85
_REPORT_EVERY_S = 5.0

_Handler = Union[Callable[[int, Any], Any], int, None]


class _Turn:
    """The state of this process's time slice."""

    def __init__(self) -> None:
        self.listening = False
        self.asked_at: Optional[float] = None  # time.monotonic()
        self.before: _Handler = None
        self.reported_at: Optional[float] = None  # time.monotonic()

    def take(self, number: int, frame: Any) -> None:
        """Handles the checkpoint signal, and also calls the handler that was installed before."""
        if self.asked_at is None:
            self.asked_at = time.monotonic()
        if callable(self.before):
            self.before(number, frame)


_turn = _Turn()


def listen() -> bool:
    """Starts listening for checkpoint requests. Other functions also do this when called from the main thread, but call
    this one as early as possible. Returns False outside a task or outside the main thread."""
    if _turn.listening:
        return True
    name = os.environ.get("CARMA_CHECKPOINT_SIGNAL", "")
    number = getattr(signal, "SIG" + name, None)
    if not name or number is None or threading.current_thread() is not threading.main_thread():
        return False
    _turn.before = signal.signal(number, _turn.take)
    _turn.listening = True
    return True


def should_save() -> bool:
    """Whether the task has been asked to checkpoint. Once true, this stays true."""
    listen()
    return _turn.asked_at is not None


def seconds_left() -> Optional[float]:
    """Seconds left until the task is stopped, at least 0, or infinity if it may stay after all. None if the task was not
    asked to checkpoint."""
    listen()
    if _turn.asked_at is None:
        return None
    with contextlib.suppress(KeyError, OSError, ValueError):
        with open(os.path.join(os.environ["CARMA_ATTEMPT_DIR"], "leaves_by_ms"), encoding="ascii") as file:
            return max(0.0, float(file.read()) / 1000 - time.time())
    # A container has no access to that file. A preemption or a shutdown may use another notice than this one.
    notice = float(os.environ.get("CARMA_CHECKPOINT_NOTICE") or 0)
    return max(0.0, notice - (time.monotonic() - _turn.asked_at))


def progress(done: float, total: float, loss: Optional[float] = None) -> None:
    """Reports the progress of the whole run, done of total, including earlier starts. It prints a line that CARMA reads,
    at most one in five seconds and one at the end. Outside a task, and on ranks other than 0, it does nothing."""
    if "CARMA_TASK_ID" not in os.environ or os.environ.get("RANK", "0") != "0":
        return
    now = time.monotonic()
    if done < total and _turn.reported_at is not None and now - _turn.reported_at < _REPORT_EVERY_S:
        return
    _turn.reported_at = now
    print(f"carma: progress {done:.15g}/{total:.15g}" + ("" if loss is None else f" loss {loss:g}"), file=sys.stderr, flush=True)


def restarts() -> int:
    """The number of earlier starts of the task."""
    return int(os.environ.get("CARMA_RESTARTS") or 0)


def folder(otherwise: str = "checkpoints") -> str:
    """Creates and returns the task's folder for checkpoints, which is the same at every start. Outside a task: `otherwise`."""
    listen()
    path = os.environ.get("CARMA_CHECKPOINT_DIR") or otherwise
    os.makedirs(path, exist_ok=True)
    return path


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """Gives a temporary path that replaces `path` once the block has ended. A process that is killed before then leaves
    the old file intact. It works for files only: a folder written there is removed, and IsADirectoryError is raised."""
    temporary = f"{path}.{os.getpid()}.new"
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        if os.path.isdir(temporary):
            shutil.rmtree(temporary, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.remove(temporary)


def leave(code: int = SAVED) -> NoReturn:
    """Ends the process so that the task resumes later. Call this when everything is saved."""
    # torchrun treats every exit code except 0 as a failure, so the task is requeued instead.
    if "TORCHELASTIC_RUN_ID" in os.environ and "CARMA_TASK_ID" in os.environ:
        if os.environ.get("LOCAL_RANK", "0") == "0":
            with contextlib.suppress(OSError):
                subprocess.run(["carma", "requeue", os.environ["CARMA_TASK_ID"]], check=False, stdout=subprocess.DEVNULL)
        threading.Event().wait()
    sys.exit(code)
