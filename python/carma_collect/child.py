"""The process that trains one network. It reads the description from its first line of input and
answers with lines of JSON (answers.py). It leaves when its input ends, so that the collector can
look at its memory once more."""

from __future__ import annotations

import ctypes
import json
import signal
import sys


def die_with_parent() -> None:
    """A collector that is killed must not leave a training behind on the GPU."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def train(device: str, steady_limit_s: float, measure_s: float) -> int:
    """The child's main: 0 if it reported how it ended."""
    die_with_parent()
    config = json.loads(sys.stdin.readline())
    from .answers import answer  # brings PyTorch, whose import takes a second

    answer(config, device, steady_limit_s, measure_s)
    return 0
