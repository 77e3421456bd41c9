"""Samples the GPUs independently of CARMA, to check CARMA's figures: memory, power, energy and,
by GPM, SM activity and occupancy. Each sample is a line of JSON. A value that the GPU or its
driver does not report is absent, never 0."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time
from typing import Any, Dict, List, Optional, Sequence

HERE = os.path.dirname(os.path.abspath(__file__))
# In a tarball, the modules are next to this folder; in a checkout, two levels above it.
sys.path[:0] = [os.path.join(HERE, "..", "python"), os.path.join(HERE, "..", "..", "python")]

from carma_collect import CollectError, Gpu  # noqa: E402

MIB = 1 << 20
GPM = {"sm_active": 2, "sm_occupancy": 3}  # NVML's numbers for metrics in percent


class NoGpu(Exception):
    """The error, in one line for the user."""


class WatchedGpu(Gpu):
    """A GPU with values that are not needed to collect memory figures."""

    def energy_j(self) -> Optional[float]:
        """Energy used since the driver was loaded."""
        value = ctypes.c_ulonglong()
        asked = self._call("nvmlDeviceGetTotalEnergyConsumption", self._device, ctypes.byref(value))
        return value.value / 1000 if asked else None

    def power_w(self) -> Optional[float]:
        value = ctypes.c_uint()
        return (
            value.value / 1000
            if self._call("nvmlDeviceGetPowerUsage", self._device, ctypes.byref(value))
            else None
        )

    @property
    def tells_activity(self) -> bool:
        return self._gpm

    def mps_clients(self) -> Optional[int]:
        """The number of processes that compute through an MPS server; None if this driver does
        not report it."""
        function = getattr(self._nvml, "nvmlDeviceGetMPSComputeRunningProcesses_v3", None)
        count = ctypes.c_uint(0)  # a count of 0 only asks for the number
        if function is None or function(self._device, ctypes.byref(count), None) not in (
            0,
            self.INSUFFICIENT_SIZE,
        ):
            return None
        return count.value

    def divided(self) -> bool:
        """Whether the GPU is divided into MIG instances. This watch does not sample instances."""
        now, later = ctypes.c_uint(), ctypes.c_uint()
        asked = self._call(
            "nvmlDeviceGetMigMode", self._device, ctypes.byref(now), ctypes.byref(later)
        )
        return asked and now.value == 1

    def activity(self, first: Any, second: Any) -> Dict[str, float]:
        """Means between two readings of the counters, as fractions."""
        means = {name: self.gpm_mean(number, first, second) for name, number in GPM.items()}
        return {name: mean for name, mean in means.items() if mean is not None}


def open_gpus(library: str) -> List[WatchedGpu]:
    """Opens all GPUs of the driver. Raises NoGpu."""
    found: List[WatchedGpu] = []
    while True:
        try:
            found.append(WatchedGpu.open(len(found), library))
        except CollectError as error:
            if found:
                return found
            raise NoGpu(str(error)) from None


class Watch(threading.Thread):
    """Samples all GPUs until stop(), and writes each sample to `path`."""

    def __init__(self, gpus: Sequence[WatchedGpu], period_s: float, path: str):
        super().__init__(daemon=True)
        self.looks: List[Dict[str, Any]] = []
        self._gpus, self._period_s, self._path = gpus, period_s, path
        self._end = threading.Event()

    def run(self) -> None:
        last = [gpu.gpm_sample() for gpu in self._gpus]
        with open(self._path, "w", encoding="utf-8") as file:
            while not self._end.wait(self._period_s):
                for index, gpu in enumerate(self._gpus):
                    sample = gpu.gpm_sample()
                    look = {
                        "at": round(time.time(), 3),
                        "gpu": index,
                        **self._look(gpu, last[index], sample),
                    }
                    gpu.gpm_free(last[index])
                    last[index] = sample
                    self.looks.append(look)
                    file.write(json.dumps(look) + "\n")
        for gpu, sample in zip(self._gpus, last):
            gpu.gpm_free(sample)

    @staticmethod
    def _look(gpu: WatchedGpu, first: Any, second: Any) -> Dict[str, Any]:
        memory = gpu.memory()
        values = {
            "used_mib": round(memory[0] / MIB) if memory else None,
            "power_w": gpu.power_w(),
            "energy_j": gpu.energy_j(),
            "mps_clients": gpu.mps_clients(),
            **gpu.activity(first, second),
        }
        return {name: value for name, value in values.items() if value is not None}

    def stop(self) -> None:
        self._end.set()
        self.join()

    def means(self) -> Dict[str, float]:
        """Means over all samples and GPUs. Energy is the total of all GPUs from the first to the
        last sample; MPS clients are the maximum on one GPU."""
        found = {}
        for name in ("used_mib", "power_w", "sm_active", "sm_occupancy"):
            values = [look[name] for look in self.looks if name in look]
            if values:
                found[name] = sum(values) / len(values)
        energies = [
            [look["energy_j"] for look in self.looks if look["gpu"] == index and "energy_j" in look]
            for index in range(len(self._gpus))
        ]
        if energies and all(len(values) > 1 for values in energies):
            found["energy_j"] = sum(values[-1] - values[0] for values in energies)
        clients = [look["mps_clients"] for look in self.looks if "mps_clients" in look]
        if clients:
            found["most_mps_clients"] = max(clients)
        return found

    def most_used_mib(self, gpu: int, begin: float, end: float) -> Optional[int]:
        """The most memory used on one GPU between two times (seconds since 1970)."""
        values = [
            look["used_mib"]
            for look in self.looks
            if look["gpu"] == gpu and begin <= look["at"] <= end and "used_mib" in look
        ]
        return max(values, default=None)
