"""Gradient checkpoints: counts what a segment keeps when the backward pass recomputes it."""

from __future__ import annotations

import inspect
import random
from typing import Any, Callable, Tuple

import torch
from torch import nn

from .kept import KeptBytes
from .rows import RowRecorder
from .tensors import map_tensors, tensors_in


def own_parameters(implementation: Any) -> int:
    """The number of parameters of a checkpoint's implementation before its segment's arguments."""
    if implementation is None:  # another version of PyTorch
        return 0
    kinds = [p.kind for p in inspect.signature(implementation).parameters.values()]
    return kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)


class LargestSegment:
    """Runs segments once more, as the backward pass does, and records the largest number of bytes besides their arguments,
    which are kept anyway. Other hooks ignore these runs."""

    def __init__(self, model: nn.Module, recorder: RowRecorder, limit_bytes: float) -> None:
        self.bytes = 0
        self._model, self._recorder, self._limit = model, recorder, limit_bytes

    def look_at(self, function: Callable, arguments: Tuple, options: dict) -> None:
        if self._recorder.paused:  # a checkpoint inside a segment
            return
        arguments, options = map_tensors(
            (arguments, options),
            lambda x: x.detach().requires_grad_(x.is_floating_point()),
        )
        kept = KeptBytes(self._model, self._limit, tensors_in((arguments, options)))
        chance = random.getstate()
        self._recorder.paused = True
        try:
            with torch.random.fork_rng(devices=[]), torch.enable_grad():
                with torch.autograd.graph.saved_tensors_hooks(kept.pack, kept.unpack):
                    result = function(*arguments, **options)
                    self.bytes = max(self.bytes, kept.total())
                    del result
        finally:
            self._recorder.paused = False
            random.setstate(chance)
