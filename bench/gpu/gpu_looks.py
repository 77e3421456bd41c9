"""Records the output of `carma gpus` while the tasks of a phase run: what should be reported
afterwards, and what can be compared with NVIDIA's programs."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable, Dict, List, Optional, Set

from carmad import IDLE_AFTER_S, LEFT_ALONE, Carma
from programs import ProofError

MPS_SERVER = "MPS server: "  # the MPS server, which computes for the tasks


class GpuLooks:
    def __init__(self, output: str, name: str):
        self._output, self._name = output, name
        self._most_tasks = 0
        self._closed: Set[str] = set()
        self._alerts: Set[str] = set()
        self._foreign: Set[str] = set()
        self._sources: Dict[str, str] = {}
        self._unattributed: List[int] = []
        self._shares_by: Dict[str, int] = {}
        self._share_gaps: List[float] = []
        # for each task, the start times of the idle spans that were reported
        self.idle: Dict[int, Set[int]] = {}

    def take(self, carma: Carma) -> List[Dict[str, Any]]:
        """Takes one reading. The reading with the most tasks is stored in a file."""
        gpus: List[Dict[str, Any]] = carma.json("gpus")["gpus"]
        for gpu in gpus:
            self._take_gpu(gpu)
        tasks = sum(len(gpu["tasks"]) for gpu in gpus)
        if tasks > self._most_tasks:
            self._most_tasks = tasks
            # a failure to store the files does not end the phase
            with contextlib.suppress(ProofError):
                self._keep("json", carma.call("gpus", "--json"))
                self._keep("txt", carma.call("gpus", "-v"))
        return gpus

    def _keep(self, ending: str, text: str) -> None:
        path = os.path.join(self._output, f"gpus-{self._name}.{ending}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def _take_gpu(self, gpu: Dict[str, Any]) -> None:
        place = f"GPU {gpu['index']}"
        if gpu["trouble"] and LEFT_ALONE not in gpu["trouble"]:
            self._closed.add(f"{place}: {gpu['trouble']}")
        self._alerts.update(f"{place}: {alert}" for alert in gpu["alerts"])
        self._foreign.update(
            f"{place}: {process['command'] or 'a process'} of {process['user'] or 'unknown'}"
            for process in gpu["foreign"]
            if not process["command"].startswith(MPS_SERVER)
        )
        self._sources.update((metric["name"], metric["source"]) for metric in gpu["metrics"])
        if gpu["unattributed_mib"] is not None:
            self._unattributed.append(gpu["unattributed_mib"])
        for task in gpu["tasks"]:
            if task["sm_active_by"]:
                by = task["sm_active_by"]
                self._shares_by[by] = self._shares_by.get(by, 0) + 1
            if task["idle_since_ms"] is not None:
                self.idle.setdefault(task["id"], set()).add(task["idle_since_ms"])

    def compare_shares(
        self,
        gpus: List[Dict[str, Any]],
        pids: Dict[int, int],
        use_of: Callable[[], Dict[int, float]],
    ) -> None:
        """Compares the shares of a GPU's activity that CARMA assigns to tasks by kernel time
        with the result of use_of(), which is called only if there is something to compare."""
        shared = [
            {
                pids[task["id"]]: task["sm_active"]
                for task in gpu["tasks"]
                if task["sm_active_by"] == "kernel-time" and task["id"] in pids
            }
            for gpu in gpus
        ]
        shared = [parts for parts in shared if len(parts) > 1]
        use = use_of() if shared else {}
        for parts in shared:
            ours, theirs = sum(parts.values()), sum(use.get(pid, 0) for pid in parts)
            if ours > 0 and theirs > 0 and all(pid in use for pid in parts):
                self._share_gaps += [
                    abs(part / ours - use[pid] / theirs) for pid, part in parts.items()
                ]

    def result(self) -> Dict[str, Any]:
        return {
            "closed": sorted(self._closed),
            "alerts": sorted(self._alerts),
            "foreign": sorted(self._foreign),
            "sources": self._sources,
            "unattributed_mib": max(self._unattributed, default=None),
            "shares_by": self._shares_by,
            "share_gaps": {
                "compared": len(self._share_gaps),
                "mean": sum(self._share_gaps) / len(self._share_gaps),
                "largest": max(self._share_gaps),
            }
            if self._share_gaps
            else None,
        }


def false_alarms(since_ms: Set[int], begin_ms: Optional[float], end_ms: Optional[float]) -> int:
    """How often a task was reported as idle for a span between begin and end of its training.
    While a task loads, it does not use its GPU, so such a report is correct."""
    if begin_ms is None or end_ms is None:
        return 0
    return sum(begin_ms <= since and since + 1000 * IDLE_AFTER_S <= end_ms for since in since_ms)
