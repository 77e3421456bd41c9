"""The worker processes of a sweep as its controller sees them, and the results file."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from typing import Any, Dict, Optional, Sequence

from sweep_plan import base_name

HERE = os.path.dirname(os.path.abspath(__file__))


class Log:
    """Lines of JSON, each written immediately, so that an interruption loses no earlier results."""

    def __init__(self, folder: str):
        self._results = open(os.path.join(folder, "results.jsonl"), "a", encoding="utf-8")
        self._ends = open(os.path.join(folder, "steps.jsonl"), "a", encoding="utf-8")
        self.began = time.monotonic()

    def close(self) -> None:
        self._results.close()
        self._ends.close()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:6.1f} s  {text}", flush=True)

    def write(self, what: str, **values: Any) -> None:
        line = {"t": round(time.monotonic() - self.began, 2), "what": what, **values}
        self._results.write(json.dumps(line) + "\n")
        self._results.flush()

    def write_ends(self, **values: Any) -> None:
        self._ends.write(json.dumps(values, separators=(",", ":")) + "\n")
        self._ends.flush()


class Worker:
    """A process that trains on request (sweep_worker.py)."""

    def __init__(self, name: str, mode: str, device: str, folder: str, environment: Dict[str, str]):
        self.name, self.mode, self.base = name, mode, base_name(name)
        self.step_s = 0.0  # seconds per step when alone
        self.held_mib = 0.0  # memory held by PyTorch's allocator
        self._words = os.path.join(folder, f"{mode}-{name}.txt")
        with open(self._words, "wb") as words:
            self.process = subprocess.Popen(
                [sys.executable, os.path.join(HERE, "sweep_worker.py"), name, device],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                text=True,
                env={"OMP_NUM_THREADS": "1", **os.environ, **environment},
            )
        self._answers: "queue.Queue[Optional[Dict[str, Any]]]" = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with self.process.stdout:
            for line in self.process.stdout:
                self._answers.put(json.loads(line))
        self._answers.put(None)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def tell(self, what: str, **values: Any) -> None:
        """Sends a command. A worker that has died is noticed when it gives no answer."""
        try:
            self.process.stdin.write(json.dumps({"do": what, **values}) + "\n")
            self.process.stdin.flush()
        except OSError:
            pass

    def answer(self, until: float) -> Optional[Dict[str, Any]]:
        """Returns None if the worker has died or is late. A late worker is killed, because its
        late answer would be taken for the next one."""
        try:
            answer = self._answers.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            self.process.kill()
            return None
        if answer is not None and "step_s" in answer:
            self.step_s, self.held_mib = answer["step_s"], answer.get("reserved_mib", 0.0)
        return answer

    def words(self, characters: int) -> str:
        """The end of the worker's output."""
        with open(self._words, encoding="utf-8", errors="replace") as file:
            return file.read()[-characters:]

    def shut(self) -> None:
        """Makes the worker end after its last command."""
        try:
            self.process.stdin.close()
        except OSError:
            pass


def end_all(workers: Sequence[Worker], patience_s: float = 8) -> None:
    for worker in workers:
        worker.shut()
    until = time.monotonic() + patience_s
    for worker in workers:
        try:
            worker.process.wait(timeout=max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()
