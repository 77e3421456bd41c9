"""The time slice of a task on its GPUs: whether it is over, and what to do then."""

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
    """What is known about the time slice of this process."""

    def __init__(self) -> None:
        self.listening = False
        self.asked_at: Optional[float] = None  # time.monotonic()
        self.before: _Handler = None
        self.reported_at: Optional[float] = None  # time.monotonic()

    def take(self, number: int, frame: Any) -> None:
        """The handler of the signal; it also calls the handler that was there before."""
        if self.asked_at is None:
            self.asked_at = time.monotonic()
        if callable(self.before):
            self.before(number, frame)


_turn = _Turn()


def listen() -> bool:
    """Starts listening for the request to save. The other calls do this, too, if they come from the main
    thread; call it as early as possible. False: outside a task, or not in the main thread."""
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
    """Whether the task has been asked to checkpoint; once true, it stays true."""
    listen()
    return _turn.asked_at is not None


def seconds_left() -> Optional[float]:
    """Most seconds left until the task is ended, at least 0; None: it was not asked to checkpoint."""
    listen()
    if _turn.asked_at is None:
        return None
    notice = float(os.environ.get("CARMA_CHECKPOINT_NOTICE") or 0)
    return max(0.0, notice - (time.monotonic() - _turn.asked_at))


def progress(done: float, total: float, loss: Optional[float] = None) -> None:
    """Reports the progress of the whole run, done of total, including earlier starts. Outside a task, and on ranks other than 0, it does nothing.

    It prints a line that CARMA reads, at most one in five seconds and one at the end."""
    if "CARMA_TASK_ID" not in os.environ or os.environ.get("RANK", "0") != "0":
        return
    now = time.monotonic()
    if done < total and _turn.reported_at is not None and now - _turn.reported_at < _REPORT_EVERY_S:
        return
    _turn.reported_at = now
    print(f"carma: progress {done:.15g}/{total:.15g}" + ("" if loss is None else f" loss {loss:g}"), file=sys.stderr, flush=True)


def restarts() -> int:
    """How often the task was started before."""
    return int(os.environ.get("CARMA_RESTARTS") or 0)


def folder(otherwise: str = "checkpoints") -> str:
    """The task's own folder for checkpoints, the same for all its starts; outside a task, the other folder. It is created."""
    listen()
    path = os.environ.get("CARMA_CHECKPOINT_DIR") or otherwise
    os.makedirs(path, exist_ok=True)
    return path


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """A path to write to, which replaces `path` once it is written completely: a process that is ended in between leaves the
    old file intact. Files only: a folder that is written there is removed again, and IsADirectoryError raised."""
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
    """Call it when everything is saved: the process ends, and the task resumes later."""
    # torchrun treats any exit code but 0 as a failure, so the workers are not the ones to end.
    if "TORCHELASTIC_RUN_ID" in os.environ and "CARMA_TASK_ID" in os.environ:
        if os.environ.get("LOCAL_RANK", "0") == "0":
            with contextlib.suppress(OSError):
                subprocess.run(["carma", "requeue", os.environ["CARMA_TASK_ID"]], check=False, stdout=subprocess.DEVNULL)
        threading.Event().wait()
    sys.exit(code)
