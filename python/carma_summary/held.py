"""Bytes that a training holds beside what autograd keeps: weights as they are stored, models beside
the one that is trained."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Optional

import torch
from torch import nn


def _quantisation_bytes(state: Any, depth: int = 2) -> int:
    """Scales of a quantised weight, and the scales of these."""
    size = 0
    for value in vars(state).values() if hasattr(state, "__dict__") else ():
        if isinstance(value, torch.Tensor):
            size += value.numel() * value.element_size()
        elif depth > 0 and hasattr(value, "__dict__"):
            size += _quantisation_bytes(value, depth - 1)
    return size


def stored_bytes(tensor: torch.Tensor) -> int:
    """Of bitsandbytes' 4-bit and 8-bit weights with their scales; of a tensor made of others
    (torchao) the sum of these."""
    if hasattr(tensor, "__tensor_flatten__"):
        try:
            names, _ = tensor.__tensor_flatten__()
            return sum(stored_bytes(getattr(tensor, name)) for name in names)
        except Exception:
            pass  # a subclass that only looks like one
    size = tensor.numel() * tensor.element_size()
    for name in ("quant_state", "SCB"):
        state = getattr(tensor, name, None)
        if isinstance(state, torch.Tensor):
            size += state.numel() * state.element_size()
        elif state is not None:
            size += _quantisation_bytes(state)
    return size


def is_quantised(module: nn.Module) -> bool:
    """A linear layer whose weight is packed: it only runs on a GPU."""
    weight = getattr(module, "weight", None)
    return (
        isinstance(weight, torch.Tensor)
        and hasattr(module, "in_features")
        and hasattr(module, "out_features")
        and not weight.is_floating_point()
    )


def plain_linear(module: nn.Module, device: str) -> nn.Linear:
    """Stands for a quantised layer in a dry run: a frozen weight keeps nothing for the backward
    pass, however it is stored."""
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
    """Keys of held_bytes in a layer list. optimizer: its part, if it is known. in_16_bits: the model
    will be made so, whatever it is now."""
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
    """Numbers stored, by type: {"bfloat16": 8030261248}."""
    counts: Dict[str, int] = {}
    for parameter in parameters:
        name = str(parameter.dtype).replace("torch.", "")
        counts[name] = counts.get(name, 0) + parameter.numel()
    return counts
