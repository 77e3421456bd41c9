"""Tasks as described by the daemon."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

FINAL = frozenset(("succeeded", "failed", "out_of_memory", "timed_out", "cancelled", "rejected", "lost"))
# Words for how a task ended, to follow "task 42".
ENDS = {"succeeded": "succeeded", "failed": "failed", "out_of_memory": "ran out of GPU memory", "timed_out": "reached its time limit",
        "cancelled": "was cancelled", "rejected": "was rejected", "lost": "was lost"}
ON_GPUS = frozenset(("launching", "running", "stopping"))


@dataclass(frozen=True)
class Task:
    """A task at one moment. Client.show() fetches its current state. Times are seconds since the epoch on the daemon's clock."""

    id: int
    name: str = ""
    user: str = ""
    state: str = "submitted"
    reason: str = ""  # one sentence: why the task waits, or how it ended
    gpus: int = 1
    gpu_indices: List[int] = field(default_factory=list)
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    attempt: int = 0
    peak_mib: int = 0
    submitted: Optional[float] = None
    started: Optional[float] = None
    ended: Optional[float] = None
    stdout_path: str = ""
    stderr_path: str = ""
    details: Dict[str, Any] = field(default_factory=dict, repr=False, compare=False)  # the full answer of GET /v1/tasks/{id}

    @property
    def done(self) -> bool:
        """Whether the task has ended."""
        return self.state in FINAL

    @property
    def succeeded(self) -> bool:
        """Whether the task has succeeded."""
        return self.state == "succeeded"

    @property
    def sentence(self) -> str:
        """"task 42 failed: exit code 9."; the state of the task if it has not ended."""
        said = f"task {self.id} " + ENDS.get(self.state, f"is {self.state}")
        why = self.reason
        prefix = "Failed: "  # already in the text
        if why.startswith(prefix):
            why = why[len(prefix):]
        return f"{said}: {why}" if why else said

    @property
    def on_gpus(self) -> bool:
        """Whether the task holds GPUs."""
        return self.state in ON_GPUS

    @staticmethod
    def of(view: Dict[str, Any]) -> "Task":
        """Makes a task from an answer of the API."""

        def seconds(name: str) -> Optional[float]:
            value = view.get(name)
            return None if value is None else value / 1000

        return Task(id=view["id"], name=view.get("name", ""), user=view.get("user", ""), state=view.get("state", ""),
                    reason=view.get("reason_text", ""), gpus=view.get("gpus", 1), gpu_indices=view.get("gpu_indices") or [],
                    exit_code=view.get("exit_code"), signal=view.get("signal"), attempt=view.get("attempt", 0),
                    peak_mib=view.get("peak_mib") or 0, submitted=seconds("submitted_ms"), started=seconds("first_start_ms"),
                    ended=seconds("ended_ms"), stdout_path=view.get("stdout_path", ""), stderr_path=view.get("stderr_path") or "",
                    details=view)
