"""Transformer encoders that classify sequences of tokens. The name Classifier appears in layer lists."""

from __future__ import annotations

from typing import Any, Dict

import torch
from torch import nn


class Classifier(nn.Module):
    """Tokens and positions, encoder layers, the mean over the tokens, classes."""

    def __init__(self, config: Dict[str, Any]):
        super().__init__()
        width = config["width"]
        self.tokens = nn.Embedding(config["vocabulary"], width)
        self.positions = nn.Parameter(torch.zeros(1, config["length"], width))
        norm, activation = config["arch"].split("-")
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width,
                config["heads"],
                config["feed_forward"],
                config["dropout"],
                activation,
                batch_first=True,
                norm_first=norm == "prenorm",
            )
            for _ in range(config["layers"])
        )
        self.head = nn.Linear(width, config["classes"])

    def forward(self, ids):
        x = self.tokens(ids) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


def build_encoder(config: Dict[str, Any]) -> nn.Module:
    return Classifier(config)
