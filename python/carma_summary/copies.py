"""Makes copies of the model that a dry run may change."""

from __future__ import annotations

import copy

import torch
from torch import nn

from .errors import SummaryError, TooLarge, one_line
from .held import is_quantised, plain_linear
from .passes import Options


def _without_compiled(model: nn.Module) -> nn.Module:
    """Removes the wrappers of torch.compile, because a compiler looks at values."""
    for module in list(model.modules()):
        for name, child in list(module._modules.items()):
            if child is not None and "_orig_mod" in child._modules:
                module._modules[name] = child._orig_mod
    return model


def _copy(model: nn.Module, device: str) -> nn.Module:
    """A deep copy on another device. It shares nothing with the model and takes no memory on the model's device."""

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        if device == "meta":
            return torch.empty_like(tensor, device="meta")
        return tensor.detach().to("cpu", copy=True)

    copies: dict = {}
    for module in model.modules():
        if is_quantised(module):
            copies[id(module)] = plain_linear(module, device)
            continue
        for value in vars(module).values():
            if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
                copies[id(value)] = moved(value.detach())
        for buffer in module._buffers.values():
            if buffer is not None:
                copies[id(buffer)] = moved(buffer)
        for parameter in module._parameters.values():
            if parameter is not None:
                copies[id(parameter)] = nn.Parameter(moved(parameter), parameter.requires_grad)
    try:
        return _without_compiled(copy.deepcopy(model, copies))
    except Exception as error:
        raise SummaryError(f"the model cannot be copied: {one_line(error)}") from error


def prepared_copy(model: nn.Module, device: str, options: Options) -> nn.Module:
    """A copy in training mode, converted to 16 bits if the precision is pure half precision. Raises TooLarge."""
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    if device == "cpu" and weights > options.memory_limit_bytes:
        raise TooLarge(options.memory_limit_bytes)
    copied = _copy(model, device).train()
    return copied.to(torch.bfloat16) if options.precision in ("fp16", "bf16") else copied
