"""`carma_summary.py --run`: runs the user's own script up to the end of its first step."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import runpy
import sys
import tempfile
import threading
import time
from typing import Callable, Sequence

import torch

from .errors import SummaryError, one_line
from .loading import no_initial_values
from .one_step import OneStep
from .pretend_gpu import pretended_gpu
from .summary import available_bytes, to_json

# Versions of PyTorch. The pretended GPU replaces functions that other versions may call in another way.
OLDEST, NEWEST = (1, 13), (2, 11)


def check_version(text: str) -> None:
    """Raises SummaryError if this version of PyTorch was never tested."""
    parts = text.split("+")[0].split(".")
    try:
        version = (int(parts[0]), int(parts[1]))
    except (ValueError, IndexError):
        version = (0, 0)
    if not OLDEST <= version <= NEWEST:
        raise SummaryError(
            f"PyTorch {text} is not known: expected {OLDEST[0]}.{OLDEST[1]}"
            f" to {NEWEST[0]}.{NEWEST[1]}"
        )


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class _Limits:
    """Ends the process from another thread, because the script may never return."""

    def __init__(self, seconds: float, memory_bytes: float, fail: Callable[[str], None]) -> None:
        self._end, self._memory, self._fail = time.monotonic() + seconds, memory_bytes, fail
        self._seconds = seconds
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while True:
            time.sleep(0.05)
            if time.monotonic() > self._end:
                self._fail(f"no step within {self._seconds:g} s")
            if _resident_bytes() > self._memory:
                self._fail(f"over {self._memory / 2**30:.1f} GiB of host memory before its step")


class _Streams:
    """Discards the script's output, but keeps the last lines for an error message."""

    def __init__(self) -> None:
        self.out, self.err = os.dup(1), os.dup(2)
        for number in (self.out, self.err):
            os.set_inheritable(number, False)
        self._words = tempfile.TemporaryFile()
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        os.dup2(self._words.fileno(), 2)

    def last_words(self) -> str:
        sys.stderr.flush()
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, size - 4096))
        lines = self._words.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""


def _leave(code: int) -> None:
    """Exits at once. No code of the script runs after this, and none of its processes remains."""
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(code)


def _write_all(number: int, text: str) -> None:
    data = text.encode()
    while data:
        data = data[os.write(number, data) :]


def _arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="carma_summary.py --run",
        description="Run a training script to the end of its first step, without a GPU.",
    )
    parser.add_argument("--gpus", type=int, default=1, help="GPUs that the script sees (%(default)s)")
    parser.add_argument("--time-limit", type=float, default=120.0, metavar="S", help="%(default)g")
    parser.add_argument(
        "--memory-limit", type=float, metavar="GIB", help="host memory limit (half of the available)"
    )
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module's name")
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="ARGUMENT")
    return parser.parse_args(arguments)


def _run(chosen: argparse.Namespace) -> None:
    sys.argv = [chosen.script, *chosen.rest]
    if chosen.module:
        sys.path[0] = os.getcwd()
        runpy.run_module(chosen.script, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(chosen.script))
        runpy.run_path(chosen.script, run_name="__main__")


def main(arguments: Sequence[str]) -> int:
    """Prints the layer list and returns 0, or prints one line on stderr and returns 2."""
    # Set before anything looks for GPUs, and before experiment trackers connect.
    os.environ.update(CUDA_VISIBLE_DEVICES="", WANDB_MODE="disabled", CARMA_ESTIMATE_RUN="1")
    chosen = _arguments(arguments)
    streams = _Streams()

    def fail(reason: str) -> None:
        _write_all(streams.err, f"carma_summary: {' '.join(reason.split())}\n")
        _leave(2)

    def done(summary: dict) -> None:
        summary["model"] = summary.get("model") or os.path.basename(chosen.script)
        _write_all(streams.out, to_json(summary))
        _leave(0)

    try:
        check_version(str(torch.__version__))
        if not chosen.module and not os.path.isfile(chosen.script):
            raise SummaryError(f"no script {chosen.script}")
        half = available_bytes() / 2
        memory = half if chosen.memory_limit is None else chosen.memory_limit * 2**30
        _Limits(chosen.time_limit, memory, fail)
        with no_initial_values(), pretended_gpu(max(chosen.gpus, 1)) as gpu:
            step = OneStep(gpu, done)
            step.watch()
            trouble = "it ended before a step"
            try:
                _run(chosen)
            except SystemExit as end:
                if end.code not in (None, 0):
                    words = "" if isinstance(end.code, str) else streams.last_words()
                    trouble = f"it exited with {end.code}" + (f": {words}" if words else "")
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                trouble = one_line(error)
            if not step.began:
                raise SummaryError(f"no model was trained: {trouble}")
            step.finish(trouble)
    except SummaryError as error:
        fail(str(error))
    return 2
