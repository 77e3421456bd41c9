"""A process that trains one workload on request. Lines of JSON arrive on standard input, and each
gets one answer on standard output; all other output goes to standard error. The first command
creates the CUDA context, which stays. Between commands the process waits for input and computes
nothing.

    {"do": "open"}                                    makes the model and warms up
    {"do": "run", "begin": 12.5, "end": 14.5}         trains between two times (monotonic clock)
    {"do": "steps", "steps": 1000000}                 trains on; an error ends the process, as usual
    {"do": "illegal"}                                 writes through a bad pointer on the GPU
    {"do": "fill", "mib": 64}                         allocates memory until an allocation fails
"""

from __future__ import annotations

import collections
import ctypes
import json
import os
import sys
import time
from typing import Any, Callable, Deque, Dict

IN_FLIGHT = 2  # the host may be this many steps ahead of the GPU
WARM_UP_STEPS = 5  # in which cuDNN chooses algorithms and the allocator grows
TIMED_STEPS = 3
PRETENDED_STEP_S = 0.004
DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class Pretended:
    """Stands in for training: its steps only sleep, so it needs neither a GPU nor PyTorch."""

    def open(self) -> Dict[str, float]:
        return {}

    def step(self) -> None:
        time.sleep(PRETENDED_STEP_S)

    def done(self) -> Callable[[], None]:
        return lambda: None

    def synchronize(self) -> None:
        pass

    def memory(self) -> Dict[str, float]:
        return {}

    def write_nowhere(self) -> None:
        os.abort()

    def take(self, mib: int) -> Any:
        raise MemoryError(f"{mib} MiB")


def training_of(name: str, device: str) -> Any:
    if device == "none":
        return Pretended()
    from sweep_workloads import OnGpu  # imported here, because PyTorch takes seconds to load

    return OnGpu(name)


class Worker:
    def __init__(self, training: Any):
        self._training = training

    def open(self) -> Dict[str, Any]:
        begin = time.monotonic()
        answer = self._training.open()
        self._steps(WARM_UP_STEPS)
        warm = time.monotonic()
        self._steps(TIMED_STEPS)
        end = time.monotonic()
        answer.update(self._training.memory())
        return {**answer, "open_s": round(warm - begin, 3), "step_s": (end - warm) / TIMED_STEPS}

    def _steps(self, count: int) -> None:
        for _ in range(count):
            self._training.step()
        self._training.synchronize()

    def run(self, begin: float, end: float) -> Dict[str, Any]:
        """Returns the ends of its steps in seconds after `begin`, and its CPU time as a share of
        one core."""
        flying: Deque[Callable[[], None]] = collections.deque()
        ends = []

        def land() -> None:
            flying.popleft()()
            ends.append(time.monotonic())

        time.sleep(max(0.0, begin - time.monotonic()))
        cpu = time.process_time()
        while time.monotonic() < end:
            self._training.step()
            flying.append(self._training.done())
            if len(flying) > IN_FLIGHT:
                land()
        while flying:
            land()
        core = (time.process_time() - cpu) / (time.monotonic() - begin)
        return {"ends": [round(each - begin, 5) for each in ends], "core": round(core, 3)}

    def steps(self, steps: int) -> Dict[str, Any]:
        for _ in range(0, steps, 4):
            self._steps(4)
        return {}

    def illegal(self) -> Dict[str, Any]:
        self._training.write_nowhere()
        return {}

    def fill(self, mib: int) -> Dict[str, Any]:
        kept = []
        while True:
            kept.append(self._training.take(mib))
            print(f"has {len(kept) * mib} MiB", file=sys.stderr, flush=True)


def main() -> None:
    name, device = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    ctypes.CDLL(None).prctl(DIES_WITH_PARENT, 9)  # even in the middle of a step
    worker = Worker(training_of(name, device))
    print("{}", file=answers)  # the libraries are loaded
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(getattr(worker, command.pop("do"))(**command)), file=answers)


if __name__ == "__main__":
    main()
