"""Finds out which parts of the machine the proof may use, and what a reader should know about
the machine before trusting the figures."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from typing import Any, Dict, List, Optional, Sequence

from nvml_watch import WatchedGpu

FOREIGN_MIB = 1024  # memory in use before anything was started: above this, the GPU has other users
HOST_MIB_PER_TASK = 3072  # of host memory, for a PyTorch process with CUDA
# Where the driver's libraries are, in the usual places and in containers.
DRIVERS = (
    "libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
)
PROGRAM_FOLDERS = ("/usr/local/nvidia/bin", "/usr/lib/wsl/lib")
FIRST_PID_NAMESPACE = "pid:[4026531836]"  # fixed by the kernel for the machine's own namespace
# Variables that point to a foreign MPS daemon, which tasks must not use.
MPS_VARIABLES = re.compile(r"CUDA_MPS_")


def chosen_uuids(visible: Optional[str], gpus: Sequence[WatchedGpu]) -> Optional[List[str]]:
    """The beginnings of the UUIDs that CUDA_VISIBLE_DEVICES names; None: all GPUs. As in CUDA,
    the list ends at the first entry that matches no GPU."""
    if visible is None:
        return None
    chosen: List[str] = []
    for word in (word.strip() for word in visible.split(",")):
        if word.isdigit() and int(word) < len(gpus):
            chosen.append(gpus[int(word)].uuid)
        elif word.startswith(("GPU-", "MIG-")):
            chosen.append(word)
        else:
            break
    return chosen


def is_chosen(gpu: Dict[str, Any], chosen: Optional[List[str]]) -> bool:
    """gpu: an entry of `carma gpus --json`. Instances of a chosen GPU are chosen with it."""
    names = (gpu["uuid"], gpu["mig_parent"] or gpu["uuid"])
    return chosen is None or any(name.startswith(tuple(chosen)) for name in names)


def leave_foreign_mps() -> None:
    for name in [name for name in os.environ if MPS_VARIABLES.match(name)]:
        del os.environ[name]


def find_driver() -> str:
    """The first driver library that can be loaded. If there is none, returns the usual name, and
    loading it will fail with a message."""
    for name in DRIVERS:
        with contextlib.suppress(OSError):
            ctypes.CDLL(name)
            return name
    return DRIVERS[0]


def find_programs() -> None:
    """Finds nvidia-smi and the MPS control daemon, for this process and for the programs that it
    starts."""
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), *PROGRAM_FOLDERS])


def number_in(path: str, pattern: str) -> Optional[int]:
    """The first group of the pattern's match in a file; None if the file does not exist or
    nothing matches."""
    with contextlib.suppress(OSError):
        with open(path, encoding="ascii", errors="replace") as file:
            found = re.search(pattern, file.read(), re.MULTILINE)
        return int(found.group(1)) if found else None
    return None


def free_host_mib() -> Optional[int]:
    """Free memory of the machine, or of the container if that is less."""
    kib = number_in("/proc/meminfo", r"^MemAvailable:\s+(\d+) kB")
    free = [kib >> 10] if kib is not None else []
    limit, used = (
        number_in(f"/sys/fs/cgroup/memory.{name}", r"^(\d+)$") for name in ("max", "current")
    )
    if limit is not None and used is not None:
        free.append(max(0, limit - used) >> 20)
    return min(free, default=None)


def in_pid_namespace(link: str = "/proc/self/ns/pid") -> bool:
    """Whether pids here differ from the pids that the driver reports, which are the machine's."""
    with contextlib.suppress(OSError):
        return os.readlink(link) != FIRST_PID_NAMESPACE
    return False


def noticed(gpus: Sequence[WatchedGpu], idle_mib: Sequence[int], tasks: int) -> List[str]:
    """Reasons why the figures will differ from those of an empty server, one sentence each."""
    found = []
    for gpu, used in zip(gpus, idle_mib):
        if used > FOREIGN_MIB:
            found.append(f"{gpu.name}: {used} MiB were in use before the proof: other programs use this GPU")
        if gpu.divided():
            found.append(
                f"MIG is enabled on {gpu.name}: tasks run on its instances, but readings taken outside "
                "CARMA cover the whole GPU"
            )
        if not gpu.tells_activity:
            found.append(
                f"{gpu.name}: NVML does not report SM activity to this program (no GPM, or no permission)"
            )
    free = free_host_mib()
    if free is not None and free < tasks * HOST_MIB_PER_TASK:
        found.append(
            f"{free} MiB of host memory are free, {tasks} PyTorch processes may need "
            f"{tasks * HOST_MIB_PER_TASK} MiB: some may be killed by the kernel"
        )
    if in_pid_namespace():
        found.append(
            "this is a container: the driver reports host PIDs, so their memory "
            "may not be attributed to tasks"
        )
    return found
