"""What the networks have in common."""

from __future__ import annotations

from typing import Any, Dict, List

from torch import nn


def after(config: Dict[str, Any], width: int, norm: Any) -> List[nn.Module]:
    """What follows a layer with weights: norm, activation and dropout, as far as there are any."""
    modules = [norm(width)] if config["batch_norm"] else []
    modules.append(getattr(nn, config["activation"])())
    if config["dropout"]:
        modules.append(nn.Dropout(config["dropout"]))
    return modules
