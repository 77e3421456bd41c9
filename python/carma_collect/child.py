"""The process that trains one network. It reads the description from its first line of input and
answers with lines of JSON (answers.py). It exits when its input ends, so that the collector can read its memory once more before."""

from __future__ import annotations

import ctypes
import json
import signal
import sys


def die_with_parent() -> None:
    """Makes this process die with the collector, so that no training run is left on the GPU."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def train(device: str, steady_limit_s: float, measure_s: float) -> int:
    """The child's main function. Returns 0 if the child has reported how it ended."""
    die_with_parent()
    config = json.loads(sys.stdin.readline())
    from .answers import answer  # imports PyTorch, which takes a second

    answer(config, device, steady_limit_s, measure_s)
    return 0
