"""The training tasks of the proof, and the results that they print at their end."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from typing import Any, Dict, List

LOAD_S = 4  # simulated tasks: time until the first allocation
TRAINING_FIGURES = (
    "steps",
    "train_s",
    "step_ms",
    "load_s",
    "allocated_mib",
    "reserved_mib",
    "trained_from",
    "trained_to",
)


@dataclasses.dataclass(frozen=True)
class Task:
    """A network of train_task.py with its batch size. The fields after its class are for the dry
    run only, in which a simulated task takes its place; they resemble the workloads of
    data/workloads/catalogue.csv."""

    network: str
    batch: int
    weight: str  # the catalogue's class
    memory_mib: int
    sm_active: float
    sensitivity: float
    pressure: float
    round: int = 1

    @property
    def model(self) -> str:
        return f"{self.network}-b{self.batch}"

    @property
    def name(self) -> str:
        return self.model if self.round == 1 else f"{self.model}.{self.round}"


# Light, medium and heavy tasks alternate, so that any first part of the list is a mix.
MIX = (
    Task("resnet50", 32, "medium", 4790, 0.62, 2.09, 0.38),
    Task("mnist-cnn", 64, "light", 1260, 0.07, 0.30, 0.04),
    Task("resnet18-cifar", 32, "light", 1960, 0.15, 0.40, 0.09),
    Task("mobilenet", 64, "medium", 6660, 0.34, 0.65, 0.21),
    Task("bert-base", 32, "heavy", 9000, 0.80, 0.42, 1.20),
    Task("mobilenet-cifar", 64, "light", 1790, 0.11, 0.40, 0.07),
    Task("encoder-small", 32, "light", 1900, 0.20, 0.40, 0.12),
    Task("vgg16", 32, "medium", 6810, 0.86, 1.02, 0.96),
    Task("resnet34-cifar", 128, "light", 2190, 0.24, 0.40, 0.14),
    Task("resnet50", 64, "medium", 7470, 0.61, 1.22, 0.47),
    Task("mobilenet", 32, "medium", 4270, 0.34, 1.12, 0.17),
    Task("bert-large", 8, "heavy", 9600, 0.85, 0.42, 1.20),
)


def chosen_tasks(count: int) -> List[Task]:
    return [dataclasses.replace(MIX[i % len(MIX)], round=1 + i // len(MIX)) for i in range(count)]


def training_of(path: str) -> Dict[str, Any]:
    """The result that train_task.py printed at its end; None if it did not get that far.
    Libraries may print text after it."""
    with contextlib.suppress(OSError):
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
        for line in reversed(lines):
            with contextlib.suppress(ValueError):
                said = json.loads(line)
                if isinstance(said, dict) and "steps" in said:
                    return {key: said[key] for key in TRAINING_FIGURES if key in said}
    return {}
