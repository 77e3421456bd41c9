"""Layers that all networks use."""

from __future__ import annotations

from typing import Any, Dict, List

from torch import nn


def after(config: Dict[str, Any], width: int, norm: Any) -> List[nn.Module]:
    """The modules that follow a layer with weights: norm, activation and dropout, if the description has them."""
    modules = [norm(width)] if config["batch_norm"] else []
    modules.append(getattr(nn, config["activation"])())
    if config["dropout"]:
        modules.append(nn.Dropout(config["dropout"]))
    return modules
