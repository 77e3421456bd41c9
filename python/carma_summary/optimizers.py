"""The memory of an optimizer: its states, and the temporaries of its step."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch

# The number of states with a parameter's size and type, by class name (torch.optim and others).
_STATES = {"adam": 2, "adamw": 2, "adamax": 2, "nadam": 2, "radam": 2, "lamb": 2, "adadelta": 2}
_STATES.update({"adagrad": 1, "lion": 1, "rprop": 2, "asgd": 1})

# Bytes per number of compressed states. Each block of 256 numbers has a scale of 4 bytes.
_SCALES = 2 * 4 / 256
_PACKED = {"8bit": 2 + _SCALES, "fp8": 2 + _SCALES, "4bit": 1 + 2 * _SCALES}


def innermost(optimizer: Any) -> Any:
    """The optimizer without the wrappers of Accelerate and others."""
    for _ in range(8):
        inner = getattr(optimizer, "optimizer", None)
        if inner is None or inner is optimizer:
            break
        optimizer = inner
    return optimizer


def class_name(optimizer: Any) -> str:
    return type(optimizer).__name__.lower()


def flags(optimizer: Any) -> List[str]:
    """How the optimizer's step runs and stores its states: fused, foreach, 8bit, 4bit, paged."""
    group = optimizer.param_groups[0] if optimizer.param_groups else {}
    found = [name for name in ("fused", "foreach", "capturable") if group.get(name)]
    known = ("8bit", "4bit", "fp8", "paged")
    name = class_name(optimizer)
    found += [word for word in known if word in name]
    if getattr(optimizer, "is_paged", False) and "paged" not in found:
        found.append("paged")
    arguments = getattr(optimizer, "args", None)
    if getattr(arguments, "optim_bits", 32) == 8 and "8bit" not in found:
        found.append("8bit")
    return found


def _runs_foreach(optimizer: Any, group: Dict[str, Any]) -> bool:
    """Whether the step uses foreach on a GPU. By default PyTorch 2.0 and newer do."""
    if group.get("fused") or "foreach" not in group:
        return False
    if group["foreach"] is None:
        return int(str(torch.__version__).split(".")[0]) >= 2
    return bool(group["foreach"])


def _factored(parameter: torch.Tensor) -> int:
    """Adafactor stores a row and a column instead of a matrix."""
    if parameter.dim() < 2:
        return 4 * parameter.numel()
    return 4 * (parameter.numel() // parameter.shape[-1] + parameter.numel() // parameter.shape[-2])


def _state_bytes(optimizer: Any, group: Dict[str, Any], parameter: torch.Tensor) -> float:
    name, words = class_name(optimizer), flags(optimizer)
    if "paged" in words:
        return 0  # paged states move to host memory when the GPU is full
    for word, per_number in _PACKED.items():
        if word in words:
            # bitsandbytes keeps small tensors and embedding tables in 32 bits.
            small = parameter.numel() < 4096
            return parameter.numel() * (8 if small else per_number)
    if "adafactor" in name:
        return _factored(parameter)
    size = parameter.numel() * parameter.element_size()
    if name == "sgd":
        return size if group.get("momentum") else 0
    if name == "rmsprop":
        return size * (1 + bool(group.get("momentum")) + bool(group.get("centered")))
    for known, states in _STATES.items():
        if name == known or (name.endswith(known) and len(name) > len(known)):
            return size * (states + bool(group.get("amsgrad")))
    return 2 * size  # unknown optimizers count as Adam


def optimizer_bytes(optimizer: Any) -> Optional[Dict[str, int]]:
    """Bytes of the states from the second step on, and of the step's temporaries. None if the optimizer is only a name, because
    CARMA decides what a name means."""
    if optimizer is None or isinstance(optimizer, str):
        return None
    optimizer = innermost(optimizer)
    if not hasattr(optimizer, "param_groups"):
        return None
    states, step, largest = 0.0, 0, 0
    for group in optimizer.param_groups:
        foreach = _runs_foreach(optimizer, group)
        for parameter in group["params"]:
            if not parameter.requires_grad:
                continue
            states += _state_bytes(optimizer, group, parameter)
            size = parameter.numel() * parameter.element_size()
            largest = max(largest, size)
            if foreach:
                step += size
    return {"states": round(states), "step": max(step, largest)}
