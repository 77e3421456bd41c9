"""Chooses the loss of the training."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional

import torch
import torch.nn.functional as F

from .errors import SummaryError
from .loading import load
from .tensors import tensors_in


def own_loss(output: Any) -> Optional[torch.Tensor]:
    """The loss computed by the model itself, or None."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    return loss if isinstance(loss, torch.Tensor) else None


def _sum_loss(output: Any) -> torch.Tensor:
    """The model's own loss if it has one, else a sum, which keeps no tensors."""
    loss = own_loss(output)
    if loss is not None:
        return loss
    floating = [tensor for tensor in tensors_in(output) if tensor.is_floating_point()]
    if not floating:
        raise SummaryError("the model's output holds no floating-point tensor to train on")
    return sum(tensor.sum() for tensor in floating)


def _cross_entropy_loss(output: Any) -> torch.Tensor:
    """Cross-entropy of the first output: (batch, classes), (batch, tokens, classes) or (batch, classes, h, w)."""
    logits = next(tensor for tensor in tensors_in(output) if tensor.is_floating_point())
    if logits.dim() == 3:
        logits = logits.flatten(0, 1)
    targets = logits.shape[:1] + logits.shape[2:]
    return F.cross_entropy(logits, torch.zeros(targets, dtype=torch.int64, device=logits.device))


def loss_function(name: str) -> Callable[[Any], torch.Tensor]:
    """The loss function by name: "sum", "cross-entropy" or "package.module:function". Raises SummaryError."""
    if name == "sum":
        return _sum_loss
    if name == "cross-entropy":
        return _cross_entropy_loss
    return load(name, "--loss")
