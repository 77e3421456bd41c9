"""Prints the peaks of PyTorch's allocator at the end, in a line that CARMA reads."""

from __future__ import annotations

import sys
from typing import Any

import torch

MIB = 2**20


def tell(stream: Any = None) -> bool:
    """Prints the peaks of allocated and reserved memory on the GPU that used most, as one line on stderr. Returns False if
    this process has used no GPU."""
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return False
    peaks = [
        (torch.cuda.max_memory_reserved(gpu), torch.cuda.max_memory_allocated(gpu))
        for gpu in range(torch.cuda.device_count())
    ]
    reserved, allocated = max(peaks)
    print(
        f"carma_summary: allocated {allocated // MIB} MiB, reserved {reserved // MIB} MiB",
        file=stream or sys.stderr,
        flush=True,
    )
    return True
