"""Bytes that training holds in addition to what autograd keeps: weights as stored, and models that are not trained."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Optional

import torch
from torch import nn


def _quantisation_bytes(state: Any, depth: int = 2) -> int:
    """Bytes of a quantised weight's scales, and of the scales of those scales."""
    size = 0
    for value in vars(state).values() if hasattr(state, "__dict__") else ():
        if isinstance(value, torch.Tensor):
            size += value.numel() * value.element_size()
        elif depth > 0 and hasattr(value, "__dict__"):
            size += _quantisation_bytes(value, depth - 1)
    return size


def stored_bytes(tensor: torch.Tensor) -> int:
    """The stored bytes of a tensor: for bitsandbytes' 4-bit and 8-bit weights with their scales, and for a tensor that
    consists of other tensors (torchao) their sum."""
    if hasattr(tensor, "__tensor_flatten__"):
        try:
            names, _ = tensor.__tensor_flatten__()
            return sum(stored_bytes(getattr(tensor, name)) for name in names)
        except Exception:
            pass  # a subclass that only looks like a quantised tensor
    size = tensor.numel() * tensor.element_size()
    for name in ("quant_state", "SCB"):
        state = getattr(tensor, name, None)
        if isinstance(state, torch.Tensor):
            size += state.numel() * state.element_size()
        elif state is not None:
            size += _quantisation_bytes(state)
    return size


def is_quantised(module: nn.Module) -> bool:
    """Whether a module is a linear layer with a packed weight, which runs only on a GPU."""
    weight = getattr(module, "weight", None)
    return (
        isinstance(weight, torch.Tensor)
        and hasattr(module, "in_features")
        and hasattr(module, "out_features")
        and not weight.is_floating_point()
    )


def plain_linear(module: nn.Module, device: str) -> nn.Linear:
    """Replaces a quantised layer in a dry run. A frozen weight keeps nothing for the backward pass, in any format."""
    dtype = getattr(module, "compute_dtype", None) or torch.float32
    bias = getattr(module, "bias", None)
    made = nn.Linear(
        module.in_features, module.out_features, bias is not None, device=device, dtype=dtype
    )
    return made.requires_grad_(False)


def held_bytes(
    model: nn.Module,
    beside: Iterable[nn.Module],
    optimizer: Optional[Dict[str, int]],
    in_16_bits: bool = False,
) -> Dict[str, int]:
    """The keys of held_bytes in a layer list. optimizer: the optimizer's part, if known. in_16_bits: the model will be
    converted to 16 bits."""
    trained, frozen, seen = 0, 0, set()
    for parameter in model.parameters():
        seen.add(id(parameter))
        size = stored_bytes(parameter)
        if in_16_bits and parameter.is_floating_point():
            size = min(size, 2 * parameter.numel())
        if parameter.requires_grad:
            trained += size
        else:
            frozen += size
    others = 0
    for other in beside:
        for tensor in [*other.parameters(), *other.buffers()]:
            if id(tensor) not in seen:
                seen.add(id(tensor))
                others += stored_bytes(tensor)
    return {"trained": trained, "frozen": frozen, "others": others, **(optimizer or {})}


def types_of(parameters: Iterable[torch.Tensor]) -> Dict[str, int]:
    """How many numbers of each type are stored: {"bfloat16": 8030261248}."""
    counts: Dict[str, int] = {}
    for parameter in parameters:
        name = str(parameter.dtype).replace("torch.", "")
        counts[name] = counts.get(name, 0) + parameter.numel()
    return counts
