"""Measures a training process from outside."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Optional

from .nvml import Gpu
from .units import MIB

# If memory is not known per process, a larger change of the GPU's memory than this invalidates a run.
DISTURBANCE_MIB = 64


class Watch:
    """Memory and activity of one training process, if the machine reports them."""

    def __init__(self, gpu: Optional[Gpu], pid: int):
        self.gpu, self.pid = gpu, pid
        self.process_peak: Optional[int] = None
        self.device_peak = 0
        # Memory held by other processes, read before this process has a context.
        self.others = self._device_used()
        self.utilisations: List[float] = []
        self.first_sample: Optional[ctypes.c_void_p] = None
        self.sm_activity: Optional[float] = None
        self.steady = False

    def _device_used(self) -> int:
        memory = self.gpu.memory() if self.gpu else None
        return memory[0] if memory else 0

    def poll(self) -> None:
        if self.gpu is None:
            return
        used = self.gpu.process_bytes(self.pid)
        if used is not None:
            self.process_peak = max(self.process_peak or 0, used)
        self.device_peak = max(self.device_peak, self._device_used())
        utilisation = self.gpu.utilisation() if self.steady else None
        if utilisation is not None:
            self.utilisations.append(utilisation)

    def begin_steady(self) -> None:
        self.steady = True
        self.first_sample = self.gpu.gpm_sample() if self.gpu else None

    def end_steady(self) -> None:
        if self.gpu:
            self.sm_activity = self.gpu.sm_activity(self.first_sample, self.gpu.gpm_sample())
        self.first_sample = None

    def close(self) -> None:
        if self.gpu:
            self.gpu.sm_activity(self.first_sample, None)

    def measured(self) -> Dict[str, Any]:
        """The peak in MiB, and its source. If NVML does not list the process, it is the increase of the GPU's used memory."""
        if self.process_peak is not None:
            return {"measured_mib": round(self.process_peak / MIB), "source": "nvml-process"}
        if self.device_peak > self.others:
            own = self.device_peak - self.others
            return {"measured_mib": round(own / MIB), "source": "nvml-device"}
        return {}

    def disturbed(self) -> bool:
        """Called after the process has ended. Whether other processes came or went, if that affects the result."""
        by_process = self.process_peak is not None
        return not by_process and abs(self._device_used() - self.others) > DISTURBANCE_MIB * MIB

    def activity(self) -> Dict[str, Any]:
        if self.sm_activity is not None:
            return {"smact": round(self.sm_activity, 4), "smact_source": "gpm"}
        if self.utilisations:
            mean = sum(self.utilisations) / len(self.utilisations)
            return {"utilisation": round(mean, 4)}
        return {}
