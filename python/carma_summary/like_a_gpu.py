"""Replaces PyTorch's functions by operations that keep what a GPU keeps."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any, Callable, List

import torch
import torch.nn.functional as F

from .autocast import Autocast, IN_16_BITS, IN_32_BITS
from .replaced import replaced
from .segments import LargestSegment, own_parameters
from .stand_ins import (
    RECURRENT_KINDS,
    RecurrentKind,
    checkpoint_arguments_seen,
    dropout,
    fused_attention,
    plain_attention,
    recurrent,
    usual_answer,
)


class LikeAGpu(contextlib.ExitStack):
    """Inside this context PyTorch's functions keep what they would keep on a GPU. `notes` collects remarks for the reader of
    the result."""

    def __init__(self, precision: str, attention: str, segments: LargestSegment) -> None:
        super().__init__()
        self.precision, self.attention, self.segments = precision, attention, segments
        self.notes: List[str] = []

    def __enter__(self) -> "LikeAGpu":
        super().__enter__()
        self._replace(F, "dropout", dropout)
        attention = fused_attention if self.attention == "fused" else plain_attention
        self._replace(F, "scaled_dot_product_attention", attention)
        self._replace_questions()
        self._replace_recurrent()
        self._replace_checkpoints()
        if self.precision.startswith("amp"):
            self._replace_autocast()
        return self

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _replace(self, owner: Any, name: str, stand_in: Callable, wrap: Callable = lambda f: f):
        original = getattr(owner, name, None)
        if original is None:  # another version of PyTorch
            return

        def call(*arguments, **options):
            return stand_in(original, *arguments, **options)

        self.enter_context(replaced(owner, name, wrap(call)))

    def _replace_questions(self) -> None:
        for owner in (torch, torch.Tensor):
            self._replace(owner, "all", usual_answer(True))
            self._replace(owner, "any", usual_answer(False))

    def _replace_recurrent(self) -> None:
        def stand_in_for(kind: RecurrentKind) -> Callable:
            def stand_in(original, *arguments):
                self.note("recurrent layers: what cuDNN keeps is estimated, not counted")
                return recurrent(kind, *arguments)

            return stand_in

        for name, kind in RECURRENT_KINDS.items():
            self._replace(torch._VF, name, stand_in_for(kind))

    def _replace_checkpoints(self) -> None:
        def noting(own: int, function_at: int = 0) -> Callable:
            def stand_in(original, *arguments, **options):
                self.note(
                    "gradient checkpointing: what the largest segment recomputes in the backward"
                    " pass is among the kept bytes"
                )
                self.segments.look_at(arguments[function_at], arguments[own:], options)
                return original(*arguments, **options)

            return stand_in

        module = importlib.import_module("torch.utils.checkpoint")
        plain = "_checkpoint_without_reentrant"
        generator = plain + "_generator"
        own = {name: own_parameters(getattr(module, name, None)) for name in (plain, generator)}
        of_function = own_parameters(module.CheckpointFunction.forward)
        if not hasattr(module, "_NoopSaveInputs"):
            self._replace(module, plain, checkpoint_arguments_seen)
        for name, parameters in own.items():
            self._replace(module, name, noting(parameters))
        # The first argument is the autograd function's context.
        self._replace(
            module.CheckpointFunction, "forward", noting(of_function, 1), wrap=staticmethod
        )

    def _replace_autocast(self) -> None:
        autocast = Autocast()
        # bfloat16 also replaces float16, because it has the same size and runs on every CPU.
        table = ((IN_16_BITS, torch.bfloat16), (IN_32_BITS, torch.float32))
        for names, dtype in table:
            for name in names:
                for owner in (torch, F, torch.Tensor):
                    self._replace(owner, name, autocast.to(dtype))
