"""Reads a GPU through NVML during a window of a sweep, and runs the sweep's MPS server."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, Optional

from nvml_watch import MIB, WatchedGpu

GPM = {  # NVML's numbers for metrics in percent
    "u": 2,
    "occupancy": 3,
    "tensor": 5,
    "dram": 10,
    "fp32": 12,
    "fp16": 13,
}
CLOCK_SM = 1
LOG_CHARACTERS = 200_000
# maximum length in bytes of a folder of sockets; a longer one leaves no room for their names
SOCKET_PATH = 80


class SweptGpu(WatchedGpu):
    def clock_mhz(self, kind: int) -> Optional[int]:
        value = ctypes.c_uint()
        asked = self._call("nvmlDeviceGetClockInfo", self._device, kind, ctypes.byref(value))
        return value.value if asked else None

    def temperature_c(self) -> Optional[int]:
        value = ctypes.c_uint()
        asked = self._call("nvmlDeviceGetTemperature", self._device, 0, ctypes.byref(value))
        return value.value if asked else None

    def process_mib(self, pid: int) -> Optional[int]:
        """The memory of a process; None if it is not reported. The driver may list MPS clients
        separately."""
        used = self.process_bytes(pid)
        return None if used is None else round(used / MIB)


class Window:
    """Samples a GPU from now to end(). If gpu is None, nothing is sampled."""

    def __init__(self, gpu: Optional[SweptGpu]):
        self._gpu = gpu
        self._looks: List[Dict[str, Optional[float]]] = []
        self._begin = time.monotonic()
        if gpu is not None:
            self._sample, self._energy = gpu.gpm_sample(), gpu.energy_j()

    def look(self) -> None:
        if self._gpu is None:
            return
        self._looks.append(
            {"utilization": self._gpu.utilisation(), "sm_mhz": self._gpu.clock_mhz(CLOCK_SM)}
        )

    def end(self) -> Dict[str, Any]:
        """Returns the means, without values that are not reported."""
        if self._gpu is None:
            return {}
        sample, energy = self._gpu.gpm_sample(), self._gpu.energy_j()
        seconds = time.monotonic() - self._begin
        found: Dict[str, Any] = {
            name: self._gpu.gpm_mean(number, self._sample, sample) for name, number in GPM.items()
        }
        self._gpu.gpm_free(self._sample)
        self._gpu.gpm_free(sample)
        if energy is not None and self._energy is not None:
            found["power_w"] = (energy - self._energy) / seconds
        for name in ("utilization", "sm_mhz"):
            values = [look[name] for look in self._looks if look[name] is not None]
            if values:
                found[name] = sum(values) / len(values)
        memory = self._gpu.memory()
        if memory is not None:
            found["used_mib"] = round(memory[0] / MIB)
        found["temperature_c"] = self._gpu.temperature_c()
        return {name: round(value, 4) for name, value in found.items() if value is not None}


# Ends the control daemon, and any processes of it that remain, when the script's standard input
# delivers a line or is closed because the process at the other end has died.
GUARD = """
read line
echo quit | timeout 5 "$0"
for pid in $(cat "$CUDA_MPS_PIPE_DIRECTORY"/*.pid 2>/dev/null); do kill -9 "$pid"; done
"""


class Mps:
    """A separate control daemon, with its folders below `folder`. It ends with end(), or when
    this process dies."""

    def __init__(self, folder: str, control: str):
        self._control = control
        self._log = os.path.join(folder, "log")
        self._pipe = os.path.join(folder, "pipe")
        if len(self._pipe) > SOCKET_PATH:
            self._pipe = tempfile.mkdtemp(prefix="sweep-mps-")
        self._guard: Optional[subprocess.Popen] = None

    @property
    def environment(self) -> Dict[str, str]:
        """The environment of its clients."""
        return {"CUDA_MPS_PIPE_DIRECTORY": self._pipe, "CUDA_MPS_LOG_DIRECTORY": self._log}

    def begin(self) -> str:
        """Starts the daemon and returns the outcome in one line."""
        if self._guard is not None:
            return "runs already"
        for folder in (self._pipe, self._log):
            os.makedirs(folder, exist_ok=True)
        environment = {**os.environ, **self.environment}
        # The daemon would keep pipes open, so its output goes to a file.
        with tempfile.TemporaryFile() as said:
            try:
                done = subprocess.run(
                    [self._control, "-d"],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    timeout=20,
                )
                outcome = f"exit code {done.returncode}"
            except (OSError, subprocess.TimeoutExpired) as error:
                outcome = str(error)
            said.seek(0)
            words = said.read().decode(errors="replace").strip()
        self._guard = subprocess.Popen(
            ["sh", "-c", GUARD, self._control],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return f"{outcome} {words}".strip()

    def ask(self, command: str, timeout_s: float = 5) -> str:
        try:
            answer = subprocess.run(
                [self._control],
                input=command + "\n",
                text=True,
                env={**os.environ, **self.environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        return answer.stdout.strip()

    def _numbers(self, command: str) -> List[int]:
        return [int(word) for word in self.ask(command).split() if word.isdigit()]

    def servers(self) -> List[int]:
        return self._numbers("get_server_list")

    def clients(self) -> List[int]:
        return [
            pid for server in self.servers() for pid in self._numbers(f"get_client_list {server}")
        ]

    def status(self) -> str:
        states = [f"{each}: {self.ask(f'get_server_status {each}')}" for each in self.servers()]
        return "; ".join(states) or "no server"

    def end(self) -> None:
        if self._guard is None:
            return
        try:
            self._guard.communicate(b"\n", timeout=15)
        except subprocess.TimeoutExpired:
            os.killpg(self._guard.pid, signal.SIGKILL)
        self._guard = None

    def logs(self) -> str:
        texts = []
        for name in ("control.log", "server.log"):
            try:
                with open(
                    os.path.join(self._log, name), encoding="utf-8", errors="replace"
                ) as file:
                    texts.append(f"--- {name}\n{file.read()[-LOG_CHARACTERS:]}")
            except OSError as error:
                texts.append(f"--- {name}: {error}")
        return "\n".join(texts)


# Prints what CUDA reports to a new process, without PyTorch.
NEWCOMER = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def expect(what, code):
    name = ctypes.c_char_p()
    if code == 0:
        return
    cuda.cuGetErrorName(code, ctypes.byref(name))
    sys.exit(f"{what}: {code} {(name.value or b'?').decode()}")
device, context, place = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
mib = ctypes.c_size_t(1 << 20)
expect("cuInit", cuda.cuInit(0))
expect("cuDeviceGet", cuda.cuDeviceGet(ctypes.byref(device), 0))
expect("cuDevicePrimaryCtxRetain", cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
expect("cuCtxSetCurrent", cuda.cuCtxSetCurrent(context))
expect("cuMemAlloc", cuda.cuMemAlloc_v2(ctypes.byref(place), mib))
expect("cuMemsetD8", cuda.cuMemsetD8_v2(place, ctypes.c_ubyte(1), mib))
expect("cuCtxSynchronize", cuda.cuCtxSynchronize())
"""


def newcomer(environment: Dict[str, str], timeout_s: float) -> Dict[str, Any]:
    """Tests whether a new process can compute. exit is None if it did not end in time."""
    begin = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-S", "-c", NEWCOMER],
            env={**os.environ, **environment},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
        )
        code, says = done.returncode, done.stdout.strip()[-300:]
    except subprocess.TimeoutExpired:
        code, says = None, ""
    return {"took_s": round(time.monotonic() - begin, 2), "exit": code, "says": says}
