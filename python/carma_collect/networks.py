"""Builds the networks of a plan."""

from __future__ import annotations

from typing import Any, Dict

from torch import nn

from .cnn import build_cnn
from .encoder import build_encoder
from .mlp import build_mlp


def build(config: Dict[str, Any]) -> nn.Module:
    """Builds a network from its description (Plan.network())."""
    return {"mlp": build_mlp, "cnn": build_cnn, "encoder": build_encoder}[config["family"]](config)
