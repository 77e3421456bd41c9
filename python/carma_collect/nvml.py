"""Reads processes' memory and GPUs' activity through NVML's C interface. Each function may be missing."""

from __future__ import annotations

import ctypes
from typing import Any, List, Optional, Tuple

from .errors import CollectError


class _MemoryV2(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint)] + [
        (name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")
    ]


class _ProcessInfo(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _GpmSupport(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("supported", ctypes.c_uint)]


class _GpmMetric(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_uint),
        ("status", ctypes.c_int),
        ("value", ctypes.c_double),
        ("names", ctypes.c_char_p * 3),
    ]


class _GpmMetrics(ctypes.Structure):
    # No header has more than 333 entries. The library reads only the first `count`.
    _fields_ = [
        ("version", ctypes.c_uint),
        ("count", ctypes.c_uint),
        ("first", ctypes.c_void_p),
        ("second", ctypes.c_void_p),
        ("metrics", _GpmMetric * 333),
    ]


class Gpu:
    """One GPU, read through NVML."""

    NO_VALUE = (1 << 64) - 1
    SM_UTILIZATION = 2  # GPM metric: percent of SMs with a warp
    INSUFFICIENT_SIZE = 7

    def __init__(self, library: ctypes.CDLL, handle: ctypes.c_void_p):
        self._nvml, self._device = library, handle
        self.uuid = self._text("nvmlDeviceGetUUID")
        self.name = self._text("nvmlDeviceGetName")
        self._gpm = self._has_gpm()

    @classmethod
    def open(cls, index: int, path: str = "libnvidia-ml.so.1") -> "Gpu":
        """Raises CollectError if there is no driver or no such GPU."""
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            raise CollectError(f"no NVIDIA driver: {error}") from None
        code = library.nvmlInit_v2()
        if code != 0:
            raise CollectError(f"nvmlInit failed with code {code}")
        handle = ctypes.c_void_p()
        code = library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
        if code != 0:
            raise CollectError(f"GPU {index}: NVML answers code {code}")
        return cls(library, handle)

    def _call(self, name: str, *arguments: Any) -> bool:
        function = getattr(self._nvml, name, None)
        return function is not None and function(*arguments) == 0

    def _text(self, name: str) -> str:
        text = ctypes.create_string_buffer(96)
        return text.value.decode() if self._call(name, self._device, text, 96) else "unknown"

    def memory(self) -> Optional[Tuple[int, int]]:
        """Used and total bytes, as shown by nvidia-smi. Neither includes the driver's reserve."""
        memory = _MemoryV2(version=ctypes.sizeof(_MemoryV2) | 2 << 24)
        if not self._call("nvmlDeviceGetMemoryInfo_v2", self._device, ctypes.byref(memory)):
            return None
        return memory.used, memory.total - memory.reserved

    def process_bytes(self, pid: int) -> Optional[int]:
        """The memory of a process. None if NVML does not list the process: in a container NVML uses the host's pids."""
        for process in self._processes():
            if process.pid == pid and process.used != self.NO_VALUE:
                return process.used
        return None

    def _processes(self) -> List[_ProcessInfo]:
        """The computing processes. Empty if NVML does not list them."""
        function = getattr(self._nvml, "nvmlDeviceGetComputeRunningProcesses_v3", None)
        room = 64
        while function is not None and room <= 4096:
            count = ctypes.c_uint(room)
            processes = (_ProcessInfo * room)()
            code = function(self._device, ctypes.byref(count), processes)
            if code != self.INSUFFICIENT_SIZE:
                return list(processes[: count.value]) if code == 0 else []
            room *= 4
        return []

    def utilisation(self) -> Optional[float]:
        """Share of time in which any kernel ran, 0..1. It says little about how busy the SMs are."""
        value = _Utilization()
        if not self._call("nvmlDeviceGetUtilizationRates", self._device, ctypes.byref(value)):
            return None
        return value.gpu / 100

    def _has_gpm(self) -> bool:
        support = _GpmSupport(version=1)
        asked = self._call("nvmlGpmQueryDeviceSupport", self._device, ctypes.byref(support))
        return asked and bool(support.supported)

    def gpm_sample(self) -> Optional[ctypes.c_void_p]:
        """A reading of the hardware counters, to be freed by gpm_free()."""
        sample = ctypes.c_void_p()
        if not self._gpm or not self._call("nvmlGpmSampleAlloc", ctypes.byref(sample)):
            return None
        if not self._call("nvmlGpmSampleGet", self._device, sample):
            self.gpm_free(sample)
            return None
        return sample

    def gpm_free(self, sample: Optional[ctypes.c_void_p]) -> None:
        if sample is not None:
            self._call("nvmlGpmSampleFree", sample)

    def gpm_mean(
        self, metric: int, first: Optional[ctypes.c_void_p], second: Optional[ctypes.c_void_p]
    ) -> Optional[float]:
        """The mean of a metric between two readings, converted from percent to 0..1. Does not free the readings."""
        if first is None or second is None:
            return None
        asked = _GpmMetrics(version=1, count=1, first=first, second=second)
        asked.metrics[0].id = metric
        if not self._call("nvmlGpmMetricsGet", ctypes.byref(asked)):
            return None
        return asked.metrics[0].value / 100 if asked.metrics[0].status == 0 else None

    def sm_activity(
        self, first: Optional[ctypes.c_void_p], second: Optional[ctypes.c_void_p]
    ) -> Optional[float]:
        """Mean share of SMs with a warp between two readings, 0..1; frees both."""
        try:
            return self.gpm_mean(self.SM_UTILIZATION, first, second)
        finally:
            self.gpm_free(first)
            self.gpm_free(second)
