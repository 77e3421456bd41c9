"""Runs and observes one forward pass."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import List, Optional

import torch
from torch import nn

from .inputs import Inputs
from .kept import KeptBytes
from .like_a_gpu import LikeAGpu
from .losses import loss_function, own_loss
from .rows import Row, RowRecorder
from .segments import LargestSegment
from .tensors import Shape, tensors_in


@dataclasses.dataclass(frozen=True)
class Options:
    """The arguments of describe(), which documents them."""

    precision: str
    loss: str
    attention: str
    memory_limit_bytes: float  # limit for a run on the CPU
    deadline: Optional[float]  # a time of time.monotonic()


@dataclasses.dataclass
class Pass:
    """The results of one forward pass."""

    batch: int
    rows: List[Row]  # in the order in which the modules finished
    kept_bytes: int
    output: Shape  # shape of the first tensor with dimensions; () if there is none
    loss: str  # what was used as the loss: "own", or a word of Options


def forward_pass(
    model: nn.Module, inputs: Inputs, batch: int, device: str, options: Options, notes: List[str]
) -> Pass:
    """Runs the model in training mode and counts what is kept while the loss exists."""
    half = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    arguments, named = inputs.make(batch, device, half if half != torch.float32 else None)
    kept = KeptBytes(model, options.memory_limit_bytes if device == "cpu" else math.inf)
    recorder = RowRecorder(model, options.deadline)
    segments = LargestSegment(
        model, recorder, options.memory_limit_bytes if device == "cpu" else math.inf
    )
    chance = random.getstate()
    try:
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(0)
            random.seed(0)
            with LikeAGpu(options.precision, options.attention, segments) as gpu:
                with torch.autograd.graph.saved_tensors_hooks(kept.pack, kept.unpack):
                    output = model(*arguments, **named)
                    loss = loss_function(options.loss)(output)
                notes[:] = gpu.notes
            total = kept.total() + segments.bytes
            del loss
    finally:
        random.setstate(chance)
        recorder.close()
    shapes = [tuple(tensor.shape) for tensor in tensors_in(output) if tensor.dim()]
    is_own = options.loss == "sum" and own_loss(output) is not None
    return Pass(
        batch,
        recorder.rows,
        total,
        shapes[0] if shapes else (),
        "own" if is_own else options.loss,
    )
