"""Checks whether tasks really compute through MPS. A program that does not reach its control
daemon silently runs without MPS, so neither CARMA's report nor an environment variable proves
it. Instead, the servers are asked for their clients."""

from __future__ import annotations

import os
import shutil
from typing import Any, Dict, List, Set

from programs import ProofError, output_of

PID_FILE = "nvidia-cuda-mps-control.pid"


def parent_of(pid: int) -> int:
    """The parent's pid; 0 for the first process and for a process that has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def lies_below(pid: int, ancestors: Set[int]) -> int:
    """The first pid in the set, from the process up through its ancestors; 0 if there is none."""
    while pid > 1 and pid not in ancestors:
        pid = parent_of(pid)
    return pid if pid in ancestors else 0


class MpsClients:
    """Queries the control daemons that CARMA runs below a folder."""

    def __init__(self, program: str, folder: str):
        self._program, self._folder = program, folder
        self._most_servers = self._most_clients = self._left_behind = 0
        self._seen: Set[int] = set()  # tasks with a process that was a client

    @staticmethod
    def missing(program: str) -> str:
        """Why MPS is not available here; empty if it is."""
        return "" if shutil.which(program) else f"{program} is not installed"

    def look(self, tasks: Dict[int, int]) -> None:
        """Records which tasks are clients now. tasks: the task number by the pid of each running
        task."""
        clients = [
            pid
            for pipes in self._pipe_folders()
            for server in self._numbers(pipes, "get_server_list")
            for pid in [0, *self._numbers(pipes, f"get_client_list {server}")]
        ]
        self._most_servers = max(self._most_servers, clients.count(0))
        pids = [pid for pid in clients if pid]
        self._most_clients = max(self._most_clients, len(pids))
        for pid in pids:
            ancestor = lies_below(pid, set(tasks))
            if ancestor:
                self._seen.add(tasks[ancestor])

    def _pipe_folders(self) -> List[str]:
        return [folder for folder, _, files in os.walk(self._folder) if PID_FILE in files]

    def _ask(self, pipes: str, words: str) -> str:
        environment = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": pipes}
        try:
            return output_of([self._program], timeout_s=10, input=words + "\n", env=environment)
        except ProofError:
            return ""  # the daemon may just have ended

    def _numbers(self, pipes: str, words: str) -> List[int]:
        return [int(word) for word in self._ask(pipes, words).split() if word.isdigit()]

    def _alive(self, pipes: str) -> bool:
        try:
            with open(os.path.join(pipes, PID_FILE), encoding="ascii") as file:
                return os.path.exists(f"/proc/{int(file.read())}")
        except (OSError, ValueError):
            return False

    def end(self) -> None:
        """Ends control daemons that have outlived carmad, and counts them."""
        for pipes in filter(self._alive, self._pipe_folders()):
            self._left_behind += 1
            self._ask(pipes, "quit -t 10")

    def result(self) -> Dict[str, Any]:
        return {
            "servers": self._most_servers,
            "clients": self._most_clients,
            "tasks_seen": len(self._seen),
            "left_behind": self._left_behind,
        }
