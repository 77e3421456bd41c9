"""Reads facts about a model and its optimizer without running them."""

from __future__ import annotations

from typing import Any, Dict, Optional

import torch
from torch import nn

from .optimizers import class_name, innermost


def token_limit(model: nn.Module) -> int:
    """A limit below which all token ids are valid in every embedding table of the model."""
    tables = [m for m in model.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))]
    return min((table.num_embeddings for table in tables), default=2)


def plain_model(model: nn.Module) -> nn.Module:
    """The model without the wrappers of torch.compile and data parallelism."""
    while True:
        if hasattr(model, "_orig_mod"):
            model = model._orig_mod
        elif type(model).__name__ in ("DataParallel", "DistributedDataParallel"):
            model = model.module
        else:
            return model


def optimizer_name(optimizer: Any) -> Optional[str]:
    """The optimizer's name for `carma submit --optimizer`. None if unknown."""
    if optimizer is None or isinstance(optimizer, str):
        return optimizer
    optimizer = innermost(optimizer)
    name = class_name(optimizer)
    for word in ("8bit", "4bit", "fp8", "paged"):
        name = name.replace(word, "")
    if name == "sgd" and any(group.get("momentum") for group in optimizer.param_groups):
        return "sgd-momentum"
    return name


def precision_in_use(model: nn.Module) -> str:
    """The precision, determined from autocast (if on) and the parameters."""
    if torch.is_autocast_enabled():
        if hasattr(torch, "get_autocast_dtype"):
            half = torch.get_autocast_dtype("cuda")
        else:
            half = torch.get_autocast_gpu_dtype()
        return "amp-bf16" if half == torch.bfloat16 else "amp-fp16"
    dtypes = {p.dtype for p in model.parameters() if p.is_floating_point()}
    names = {torch.bfloat16: "bf16", torch.float16: "fp16"}
    return names.get(dtypes.pop(), "fp32") if len(dtypes) == 1 else "fp32"


def parameter_figures(model: nn.Module) -> Dict[str, int]:
    """The keys of a layer list with the number of parameters and tensors. Tied weights count once."""
    parameters = list(model.parameters())
    return {
        "params": sum(p.numel() for p in parameters),
        "trainable": sum(p.numel() for p in parameters if p.requires_grad),
        "param_tensors": len(parameters),
    }
