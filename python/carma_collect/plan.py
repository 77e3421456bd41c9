"""The plan: derives run k from a seed."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any, Dict, Sequence, Tuple

FAMILIES = ("mlp", "cnn", "encoder")
OPTIMIZERS = ("adam", "adamw", "sgd", "sgd-momentum")
PRECISIONS = ("fp32", "amp")
ACTIVATIONS = "ReLU ELU Tanh LeakyReLU GELU SELU PReLU SiLU Softplus Mish".split()
MLP_SHAPES = ("pyramid", "uniform", "bottleneck", "gradual")
CNN_SHAPES = ("pyramid", "uniform", "bottleneck", "gradual", "hourglass", "residual", "dense")
SEQUENCE_LENGTHS = (128, 256, 512, 1024)


@dataclasses.dataclass(frozen=True)
class Plan:
    """Determines the networks of a folder. The plan of a folder never changes."""

    seed: int = 1
    families: Tuple[str, ...] = FAMILIES
    optimizers: Tuple[str, ...] = ("adam",)
    precisions: Tuple[str, ...] = ("fp32",)
    scale: float = 1.0  # factor on all sizes; below 1 for dry runs

    def network(self, index: int) -> Dict[str, Any]:
        """The description of run `index`: everything that building and training it needs."""
        chance = random.Random(f"{self.seed}:{index}")
        family = self.families[index % len(self.families)]
        draw = _Draw(chance, self.scale)
        config = {"mlp": _draw_mlp, "cnn": _draw_cnn, "encoder": _draw_encoder}[family](draw)
        prefix = "enc" if family == "encoder" else family
        return {
            "model": f"{prefix}-s{self.seed}-{index:06d}",
            "family": family,
            "optimizer": chance.choice(self.optimizers),
            "precision": chance.choice(self.precisions),
            **config,
        }


class _Draw:
    """Draws the random sizes of a plan."""

    def __init__(self, chance: random.Random, scale: float):
        self.chance, self.scale = chance, scale

    def size(self, low: int, high: int, floor: int = 1) -> int:
        """A size in low..high, uniform in its logarithm. It is scaled, but not below floor."""
        value = round(math.exp(self.chance.uniform(math.log(low), math.log(high + 0.49))))
        return max(floor, round(value * self.scale))

    def count(self, low: int, high: int) -> int:
        """A uniform number of layers in low..high. Scaling does not reduce it below `low`."""
        return max(low, round(self.chance.randint(low, high) * min(1.0, self.scale**0.5)))

    def choice(self, values: Sequence[Any]) -> Any:
        return self.chance.choice(values)

    def dropout(self, low: float = 0.0) -> float:
        """A dropout rate in `low`..0.5. If `low` is 0, half of the networks have no dropout."""
        rate = round(self.chance.uniform(max(low, 0.05), 0.5), 3)
        return rate if low > 0 or self.chance.random() < 0.5 else 0.0


def _draw_mlp(draw: _Draw) -> Dict[str, Any]:
    return {
        "arch": draw.choice(MLP_SHAPES),
        "batch": draw.size(4, 1024, floor=4),
        "inputs": draw.size(4, 4096, floor=4),
        "outputs": draw.size(1, 1024),
        "layers": draw.count(2, 12),
        "activation": draw.choice(ACTIVATIONS),
        "batch_norm": draw.choice((False, True)),
        "dropout": draw.dropout(),
    }


def _draw_cnn(draw: _Draw) -> Dict[str, Any]:
    return {
        "arch": draw.choice(CNN_SHAPES),
        "batch": draw.size(2, 62, floor=2),
        "channels": draw.choice((1, 3)),
        "image": draw.size(32, 224, floor=16),
        "classes": draw.size(2, 22_000, floor=2),
        "filters": draw.size(16, 512, floor=4),
        "kernel": draw.choice((3, 5, 7)),
        "convolutions": draw.count(1, 29),
        "activation": draw.choice(ACTIVATIONS),
        "batch_norm": draw.choice((False, True)),
        "dropout": draw.dropout(),
    }


def _draw_encoder(draw: _Draw) -> Dict[str, Any]:
    heads = draw.choice((2, 4, 8, 16))
    # A head's width is a multiple of 4, as fused attention requires.
    per_head = max(1, draw.size(128, 2048) // (4 * heads)) * 4
    width = heads * per_head
    return {
        "arch": draw.choice(("postnorm", "prenorm")) + "-" + draw.choice(("relu", "gelu")),
        "batch": draw.size(1, 128),
        "classes": draw.size(2, 1000, floor=2),
        "width": width,
        "heads": heads,
        "feed_forward": round(width * draw.chance.uniform(2, 4)),
        "layers": draw.size(2, 39),
        "length": max(4, round(draw.choice(SEQUENCE_LENGTHS) * draw.scale)),
        "vocabulary": draw.size(50_000, 1_000_000, floor=100),
        "dropout": draw.dropout(low=0.1),
    }
