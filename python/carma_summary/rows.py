"""Records the modules that run in a forward pass."""

from __future__ import annotations

import dataclasses
import inspect
import time
from typing import Callable, List, Optional

from torch import nn

from .errors import SummaryError
from .tensors import Shape, first_shape

MAX_ROWS = 200_000  # limit of the reader (src/model/layers.h)


@dataclasses.dataclass
class Row:
    """A module that ran, with the shapes of this one pass; see docs/use/layer-lists.md."""

    module: nn.Module
    name: str
    inputs: Shape
    outputs: Shape


class RowRecorder:
    """Records rows through forward hooks on every module except lists of modules."""

    LISTS = (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)

    def __init__(self, model: nn.Module, deadline: Optional[float]):
        self.rows: List[Row] = []
        self.paused = False  # modules that run now have their rows already
        self._deadline = deadline
        self._handles = []
        with_kwargs = "with_kwargs" in inspect.signature(nn.Module.register_forward_hook).parameters
        for name, module in model.named_modules():
            if type(module) in self.LISTS:
                continue
            if with_kwargs:
                handle = module.register_forward_hook(self._hook(name), with_kwargs=True)
            else:
                handle = module.register_forward_hook(self._hook_without_kwargs(name))
            self._handles.append(handle)

    def _hook(self, name: str) -> Callable:
        def hook(module, arguments, options, output):
            if self._deadline is not None and time.monotonic() > self._deadline:
                raise SummaryError("the dry run exceeds its time limit")
            if self.paused:
                return
            if len(self.rows) >= MAX_ROWS:
                raise SummaryError(f"more than {MAX_ROWS} modules run in one forward pass")
            inputs = first_shape((arguments, options))
            self.rows.append(Row(module, name, inputs, first_shape(output)))

        return hook

    def _hook_without_kwargs(self, name: str) -> Callable:
        hook = self._hook(name)
        return lambda module, arguments, output: hook(module, arguments, {}, output)

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
