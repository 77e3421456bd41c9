"""Convolutional networks: a body in one of several architectures, a mean over the pixels, and classes. The names Block and
Growing appear in layer lists."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import torch
from torch import nn

from .layers import after

Body = Tuple[List[nn.Module], int]  # modules, and the output channels of the last one


def cnn_filters(config: Dict[str, Any]) -> List[int]:
    """Output channels of each convolution, for the architectures that are a simple chain."""
    base, count, arch = config["filters"], config["convolutions"], config["arch"]
    most = max(base, 1024)
    if arch == "uniform":
        return [base] * count
    if arch == "pyramid":  # doubles in four stages
        return [min(most, base << (4 * i // count)) for i in range(count)]
    if arch == "gradual":  # up to four times, step by step
        return [min(most, round(base * (1 + 3 * i / count))) for i in range(count)]
    if arch == "bottleneck":  # narrow, narrow, wide
        return [base if i % 3 == 2 else max(1, base // 4) for i in range(count)]
    # hourglass: a quarter in the middle
    waist = (count - 1) / 2
    from_waist = [abs(i - waist) / max(waist, 1) for i in range(count)]  # 0..1
    return [max(1, round(base * (0.25 + 0.75 * distance))) for distance in from_waist]


def build_cnn(config: Dict[str, Any]) -> nn.Module:
    body = {"residual": _residual_body, "dense": _dense_body}.get(config["arch"], _plain_body)
    modules, width = body(config)
    return nn.Sequential(
        *modules, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, config["classes"])
    )


def _plain_body(config: Dict[str, Any]) -> Body:
    modules: List[nn.Module] = []
    width, image = config["channels"], config["image"]
    for i, filters in enumerate(cnn_filters(config)):
        # The outer two convolutions of a bottleneck only change the number of channels.
        kernel = 1 if config["arch"] == "bottleneck" and i % 3 != 1 else config["kernel"]
        if config["arch"] == "pyramid" and filters != width and i > 0 and image >= 8:
            modules.append(nn.MaxPool2d(2))
            image //= 2
        modules.append(nn.Conv2d(width, filters, kernel, padding=kernel // 2))
        modules += after(config, filters, nn.BatchNorm2d)
        width = filters
    return modules, width


class Block(nn.Module):
    """Two convolutions with a shortcut around them."""

    def __init__(self, config: Dict[str, Any], width: int, filters: int, stride: int):
        super().__init__()
        kernel, pad = config["kernel"], config["kernel"] // 2
        norms = [nn.BatchNorm2d(filters)] if config["batch_norm"] else []
        same = width == filters and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(width, filters, 1, stride)
        self.body = nn.Sequential(
            nn.Conv2d(width, filters, kernel, stride, pad),
            *after(config, filters, nn.BatchNorm2d),
            nn.Conv2d(filters, filters, kernel, 1, pad),
            *norms,
        )
        self.activation = getattr(nn, config["activation"])()

    def forward(self, x):
        return self.activation(self.body(x) + self.shortcut(x))


def _residual_body(config: Dict[str, Any]) -> Body:
    blocks = max(1, config["convolutions"] // 2)
    modules: List[nn.Module] = []
    width, image = config["channels"], config["image"]
    for i in range(blocks):
        filters = min(max(config["filters"], 1024), config["filters"] << (4 * i // blocks))
        stride = 2 if filters != width and i > 0 and image >= 8 else 1
        image //= stride
        modules.append(Block(config, width, filters, stride))
        width = filters
    return modules, width


class Growing(nn.Module):
    """Each convolution reads the results of all earlier convolutions."""

    def __init__(self, config: Dict[str, Any], width: int, count: int, growth: int):
        super().__init__()
        pad = config["kernel"] // 2
        self.steps = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width + i * growth, growth, config["kernel"], padding=pad),
                *after(config, growth, nn.BatchNorm2d),
            )
            for i in range(count)
        )

    def forward(self, x):
        for step in self.steps:
            x = torch.cat([x, step(x)], 1)
        return x


def _dense_body(config: Dict[str, Any]) -> Body:
    growth = max(2, config["filters"] // 4)
    modules: List[nn.Module] = []
    width, image, left = config["channels"], config["image"], config["convolutions"]
    while left > 0:
        count = min(left, 6)
        modules.append(Growing(config, width, count, growth))
        width += count * growth
        left -= count
        if left > 0:  # a transition halves channels and image size
            modules += [nn.Conv2d(width, width // 2, 1), nn.ReLU()]
            width //= 2
            left -= 1
            if image >= 8:
                modules.append(nn.AvgPool2d(2))
                image //= 2
    return modules, width
