"""The answers of a training process, each a line of JSON: {"layers"}, {"steady"}, then {"done"}, {"oom"}
or {"too_large"}."""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Dict, Optional

import torch

import carma_summary

from .networks import build
from .training import Training, train_until_steady
from .units import MIB


def answer(config: Dict[str, Any], device: str, steady_limit_s: float, measure_s: float) -> None:
    """Trains the described network, reports the outcome, and waits for the end of input."""
    if device == "cpu":
        torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = _describe(config)
    _say(layers=layers, torch=str(torch.__version__))
    if device == "cuda" and _estimated_need_mib(layers, config["batch"]) > _gpu_mib():
        _say(too_large=True)
        return
    training: Optional[Training] = None
    try:
        training = Training(config, build(config), device)
        _train(training, steady_limit_s, measure_s)
    except (RuntimeError, MemoryError) as error:
        if not isinstance(error, MemoryError) and "out of memory" not in str(error).lower():
            raise
        _say(oom=training.memory() if training is not None else {})
    sys.stdin.read()  # keeps `training` alive while the collector reads its memory


def _train(training: Training, steady_limit_s: float, measure_s: float) -> None:
    steps, steady = train_until_steady(training, steady_limit_s)
    _say(steady=steady)
    begin, more = time.monotonic(), 0
    while time.monotonic() - begin < measure_s or more == 0:
        training.step()
        more += 1
    step_ms = (time.monotonic() - begin) / more * 1000
    _say(done={**training.memory(), "steps": steps + more, "step_ms": round(step_ms, 3)})


def _say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def _gpu_mib() -> float:
    return torch.cuda.get_device_properties(0).total_memory / MIB


def _estimated_need_mib(layers: Dict[str, Any], batch: int) -> float:
    """Memory of weights, gradients and kept tensors, which is a lower bound of what training needs."""
    saved = layers["saved_bytes"]
    return (8 * layers["params"] + saved["constant"] + batch * saved["per_sample"]) / MIB


def _describe(config: Dict[str, Any]) -> Dict[str, Any]:
    """The layer list of an untrained network."""
    with carma_summary.no_initial_values():
        model = build(config)
    return carma_summary.describe(
        model,
        _sample(config),
        batch=config["batch"],
        optimizer=config["optimizer"],
        precision=config["precision"],
        name=config["model"],
    )


def _sample(config: Dict[str, Any]) -> carma_summary.InputSpec:
    if config["family"] == "mlp":
        return carma_summary.InputSpec((config["inputs"],))
    if config["family"] == "cnn":
        return carma_summary.InputSpec((config["channels"], config["image"], config["image"]))
    return carma_summary.InputSpec((config["length"],), torch.int64)
