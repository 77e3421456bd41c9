"""Trains one network until its memory is steady."""

from __future__ import annotations

import resource
import time
from typing import Any, Dict, Tuple

import torch
import torch.nn.functional as F
from torch import nn

from .units import MIB

STEADY_STEPS = 8  # steps without new memory after which memory counts as steady
WARM_UP_STEPS = 3  # the first step creates the optimizer's state


class Training:
    """The training of one network on one device."""

    def __init__(self, config: Dict[str, Any], model: nn.Module, device: str):
        self.config, self.device = config, device
        self.model = model.to(device).train()
        self.optimizer = self._optimizer()
        self.amp = config["precision"] == "amp"
        self.inputs, self.targets = self._data()
        self.multi_class = config.get("outputs", 2) > 1
        amp = torch.amp if hasattr(torch.amp, "GradScaler") else torch.cuda.amp
        self.scaler = amp.GradScaler(enabled=self.amp and device == "cuda")

    def _optimizer(self) -> torch.optim.Optimizer:
        parameters = self.model.parameters()
        return {
            "adam": lambda: torch.optim.Adam(parameters),
            "adamw": lambda: torch.optim.AdamW(parameters),
            "sgd": lambda: torch.optim.SGD(parameters, lr=1e-3),
            "sgd-momentum": lambda: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9),
        }[self.config["optimizer"]]()

    def _data(self) -> Tuple[torch.Tensor, torch.Tensor]:
        """A batch on the host, copied to the device in every step like a data loader's batch."""
        config, batch = self.config, self.config["batch"]
        if config["family"] == "mlp":
            inputs, classes = torch.rand(batch, config["inputs"]), config["outputs"]
        elif config["family"] == "cnn":
            shape = (batch, config["channels"], config["image"], config["image"])
            inputs, classes = torch.rand(shape), config["classes"]
        else:
            inputs = torch.randint(0, config["vocabulary"], (batch, config["length"]))
            classes = config["classes"]
        if classes == 1:
            return inputs, torch.rand(batch, 1)
        return inputs, torch.randint(0, classes, (batch,))

    def step(self) -> None:
        inputs, targets = self.inputs.to(self.device), self.targets.to(self.device)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, enabled=self.amp, dtype=self._half()):
            outputs = self.model(inputs)
            if self.multi_class:
                loss = F.cross_entropy(outputs, targets)
            else:
                loss = F.binary_cross_entropy_with_logits(outputs, targets)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        if self.device == "cuda":
            torch.cuda.synchronize()

    def _half(self) -> torch.dtype:
        return torch.float16 if self.device == "cuda" else torch.bfloat16

    def memory(self) -> Dict[str, float]:
        """Peaks so far, in MiB: those of PyTorch's allocator, or without a GPU those of the process."""
        if self.device == "cuda":
            return {
                "allocated_mib": torch.cuda.max_memory_allocated() / MIB,
                "reserved_mib": torch.cuda.max_memory_reserved() / MIB,
            }
        return {"rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def train_until_steady(training: Training, limit_s: float) -> Tuple[int, bool]:
    """Returns the number of steps, and whether the memory has stopped growing."""
    deadline = time.monotonic() + limit_s
    steps, last_change, seen = 0, 0, None
    while time.monotonic() < deadline:
        training.step()
        steps += 1
        now = training.memory()
        if now != seen:
            seen, last_change = now, steps
        if steps - last_change >= STEADY_STEPS and steps >= WARM_UP_STEPS + STEADY_STEPS:
            return steps, True
    return steps, False
