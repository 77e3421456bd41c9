"""Runs one training process after the other, and keeps a journal of the results."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
import time
from typing import Any, Dict, Optional, Sequence

from .errors import CollectError
from .journal import Journal
from .nvml import Gpu
from .one_run import OneRun
from .plan import Plan

# What the child process runs: the folder of this package, or the single-file program made from it.
PROGRAM = os.path.dirname(os.path.abspath(__file__))
# A run that ends three times without a result probably crashes or hangs the machine.
MOST_STARTS = 2
# This many crashes in a row have another cause than the networks, such as a full disk or a lost GPU.
MOST_CRASHES = 5


@dataclasses.dataclass(frozen=True)
class Limits:
    """Time limits of one run, in seconds."""

    steady_s: float = 30.0  # until the memory is steady
    measure_s: float = 2.0  # of steady training, for the activity
    run_s: float = 120.0  # for the entire process


class Collector:
    """Trains the networks of a plan, one process each, and records the results in a journal."""

    def __init__(
        self,
        folder: str,
        plan: Plan,
        device: str,
        gpu: Optional[Gpu] = None,
        limits: Limits = Limits(),
        child: Optional[Sequence[str]] = None,  # command of the training process
    ):
        self.folder, self.plan, self.limits = folder, plan, limits
        self.device, self.gpu = device, gpu
        self.child = list(child) if child else [sys.executable, PROGRAM, "train"]
        self.child += [f"--device={device}", f"--steady-limit={limits.steady_s}"]
        self.child += [f"--measure={limits.measure_s}"]
        self.journal = Journal(folder)
        wanted = json.loads(json.dumps(dataclasses.asdict(plan)))
        if self.journal.plan is None:
            self.journal.append({"plan": wanted})
        elif self.journal.plan != wanted:
            raise CollectError(
                f"{folder} was begun with another plan: {json.dumps(self.journal.plan)}"
            )

    def run(self, count: Optional[int], minutes: Optional[float]) -> int:
        """Runs those of 0..count-1 that have no result yet, until the time is over. Returns how many it ran."""
        end = time.monotonic() + minutes * 60 if minutes is not None else math.inf
        done = index = crashes = 0
        while (count is None or index < count) and time.monotonic() < end:
            if index not in self.journal.results:
                result = self._run_one(index)
                done += 1
                crashes = crashes + 1 if result.get("reason") == "crashed" else 0
                if crashes == MOST_CRASHES:
                    raise CollectError(f"{crashes} runs in a row crashed: {result['error']}")
            index += 1
        return done

    def _run_one(self, index: int) -> Dict[str, Any]:
        network = self.plan.network(index)
        begin = time.monotonic()
        if self.journal.starts.get(index, 0) >= MOST_STARTS:
            result: Dict[str, Any] = {"censored": 1, "reason": "lost"}
        else:
            self.journal.append({"started": index})
            result = OneRun(network, self.device, self.gpu).row(
                self.child, self.folder, self.limits.run_s
            )
        result["seconds"] = round(time.monotonic() - begin, 1)
        self.journal.append({"finished": index, "network": network, **result})
        print(_progress(network, result), flush=True)
        return result


def _progress(network: Dict[str, Any], result: Dict[str, Any]) -> str:
    words = [network["model"], network["arch"], f"batch {network['batch']}:"]
    if "measured_mib" in result:
        words.append(f"{result['measured_mib']} MiB ({result['source']})")
    if "reserved_mib" in result:
        words.append(f"reserved {result['reserved_mib']:.0f}")
    if "reason" in result:
        words.append(f"censored: {result['reason']}")
    if "error" in result:
        words.append(f"({result['error']})")
    words.append(f"{result['seconds']} s")
    return " ".join(words)
