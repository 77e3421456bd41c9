"""Runs programs for the proof, and parses the output of NVIDIA's programs."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
from typing import Any, Dict, Iterator, List, Sequence


class ProofError(Exception):
    """The error, in one line for the user."""


def output_of(command: Sequence[str], timeout_s: float = 60, **options: Any) -> str:
    """Returns a program's output. Raises ProofError with its last line if the program fails."""
    try:
        done = subprocess.run(
            command, timeout=timeout_s, text=True, capture_output=True, check=False, **options
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProofError(f"{command[0]}: {error}") from None
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or "no word").splitlines()
        raise ProofError(f"{' '.join(command[:4])} … exit code {done.returncode}: {lines[-1]}")
    return done.stdout


@contextlib.contextmanager
def beside(command: Sequence[str], path: str = os.devnull) -> Iterator[None]:
    """Runs a program for as long as the body runs, with its output in a file."""
    with open(path, "wb") as file:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
        )
        try:
            yield
        finally:
            child.terminate()
            child.wait()


def compute_apps(text: str) -> Dict[str, int]:
    """MiB in use by GPU, from `nvidia-smi --query-compute-apps=gpu_uuid,used_memory
    --format=csv,noheader,nounits`. Leaves out a GPU if the memory of one of its processes is not reported."""
    sums: Dict[str, int] = {}
    unknown = set()
    for line in text.splitlines():
        uuid, _, used = (part.strip() for part in line.partition(","))
        if used.isdigit():
            sums[uuid] = sums.get(uuid, 0) + int(used)
        elif uuid:
            unknown.add(uuid)
    return {uuid: used for uuid, used in sums.items() if uuid not in unknown}


def dmon_means(text: str, names: Sequence[str]) -> Dict[str, float]:
    """Means over all rows and GPUs, as fractions, of the last columns of `nvidia-smi dmon`,
    which are those of --gpm-metrics in the requested order. '-': not reported in that second."""
    values: Dict[str, List[float]] = {name: [] for name in names}
    for line in text.splitlines():
        cells = line.split()
        if len(cells) <= len(names) or not cells[0].isdigit():
            continue
        for name, cell in zip(names, cells[-len(names) :]):
            with contextlib.suppress(ValueError):
                values[name].append(float(cell) / 100)
    return {name: statistics.mean(seen) for name, seen in values.items() if seen}


def pmon_use(text: str) -> Dict[int, float]:
    """Share of time in which kernels of each process ran, by pid, from `nvidia-smi pmon -c 1 -s
    u`. Columns are found by their names, because their order differs between drivers."""
    columns: List[str] = []
    use: Dict[int, float] = {}
    for line in text.splitlines():
        cells = line.split()
        if line.startswith("#"):
            if "pid" in cells:
                columns = cells[1:]
        elif "pid" in columns and "sm" in columns and len(cells) >= len(columns):
            with contextlib.suppress(ValueError):
                pid = int(cells[columns.index("pid")])
                use[pid] = use.get(pid, 0) + float(cells[columns.index("sm")]) / 100
    return use
