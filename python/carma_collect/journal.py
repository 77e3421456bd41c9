"""The journal of a folder, from which a collection can continue."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from typing import Any, Dict, Iterator, Optional

from .errors import CollectError


class Journal:
    """The events in a folder, one JSON object per line: {"plan"}, {"started"}, {"finished"}."""

    def __init__(self, folder: str):
        self.path = os.path.join(folder, "journal.jsonl")
        self.plan: Optional[Dict[str, Any]] = None
        self.starts: Dict[int, int] = {}  # of runs without a result
        self.results: Dict[int, Dict[str, Any]] = {}
        self.dropped = 0  # torn or repeated lines, which carry no information
        for entry in self._entries():
            self._take(entry)

    def _entries(self) -> Iterator[Optional[Dict[str, Any]]]:
        try:
            with open(self.path, "rb") as file:
                for line in file:
                    try:
                        entry = json.loads(line)
                    except ValueError:
                        entry = None
                    yield entry if isinstance(entry, dict) and line.endswith(b"\n") else None
        except FileNotFoundError:
            return

    def _take(self, entry: Optional[Dict[str, Any]]) -> None:
        if entry is not None and "plan" in entry and self.plan is None:
            self.plan = entry["plan"]
        elif entry is not None and isinstance(entry.get("started"), int):
            self.starts[entry["started"]] = self.starts.get(entry["started"], 0) + 1
        elif entry is not None and isinstance(entry.get("finished"), int):
            if entry["finished"] in self.results:
                self.dropped += 1
            else:
                self.results[entry["finished"]] = entry
                self.starts.pop(entry["finished"], None)
        else:
            self.dropped += 1

    def append(self, entry: Dict[str, Any]) -> None:
        """Appends a line, which is on disk on return. If a crash has left a torn line, that line is ended first."""
        with open(self.path, "ab+") as file:
            if file.tell() > 0:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")
            file.write(json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._take(entry)

    def rewrite(self) -> None:
        """Keeps only the plan and the results. The old file remains until the new file is complete."""
        temporary = self.path + ".new"
        with open(temporary, "wb") as file:
            if self.plan is not None:
                file.write(json.dumps({"plan": self.plan}).encode() + b"\n")
            for index in sorted(self.results):
                file.write(json.dumps(self.results[index]).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path)


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    """Locks the folder, because only one program at a time may work on it."""
    with open(os.path.join(folder, "lock"), "w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CollectError(f"{folder}: another collector is at work") from None
        yield
