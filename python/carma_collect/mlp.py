"""Multilayer perceptrons."""

from __future__ import annotations

from typing import Any, Dict, List

from torch import nn

from .layers import after


def mlp_widths(config: Dict[str, Any]) -> List[int]:
    """The widths of all layers, including input and output."""
    first, last, hidden = config["inputs"], config["outputs"], config["layers"] - 1
    if config["arch"] == "uniform":
        middle = [first] * hidden
    elif config["arch"] == "pyramid":
        middle = [max(last, first >> (i + 1), 1) for i in range(hidden)]
    elif config["arch"] == "bottleneck":  # narrows towards the middle, then widens
        middle = [max(1, first >> min(i + 1, hidden - i)) for i in range(hidden)]
    else:  # gradual
        middle = [round(first + (last - first) * (i + 1) / (hidden + 1)) for i in range(hidden)]
    return [first, *middle, last]


def build_mlp(config: Dict[str, Any]) -> nn.Module:
    widths = mlp_widths(config)
    modules: List[nn.Module] = []
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        modules.append(nn.Linear(a, b))
        if i < len(widths) - 2:
            modules += after(config, b, nn.BatchNorm1d)
    return nn.Sequential(*modules)
