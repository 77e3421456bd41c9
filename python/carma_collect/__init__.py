"""Collects what training really needs: builds random networks, trains each in a process of its own
until its memory is steady, and records the peak together with the layer list.

    carma_collect.py run FOLDER --minutes 60      train one network after the other
    carma_collect.py clean FOLDER                 drop what is torn, unfinished or there twice
    carma_collect.py pack FOLDER -o DATA          DATA/layers.jsonl.gz and DATA/measured.csv

`carma estimate evaluate --layers DATA/layers.jsonl.gz --measured DATA/measured.csv` reads them.

The plan is a function of the seed: run k is the same network on every machine and after every
restart. FOLDER/journal.jsonl is only appended to, one line per event, each on disk before the next
run begins; a collector that is killed loses the run it was in. Networks that run out of memory,
crash or take too long are rows too, marked as censored.

Without a GPU (--device cpu) the same path runs dry: what it measures is the process, not a GPU, and
every row is censored. docs/python.md has the ranges and the columns. Needs PyTorch and
carma_summary.py beside this file.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import ctypes
import dataclasses
import fcntl
import gzip
import io
import json
import math
import os
import random
import resource
import select
import signal
import subprocess
import sys
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

MIB = 1 << 20
FAMILIES = ("mlp", "cnn", "encoder")
OPTIMIZERS = ("adam", "adamw", "sgd", "sgd-momentum")
PRECISIONS = ("fp32", "amp")
PROGRAM = os.path.dirname(os.path.abspath(__file__))  # the folder, or the program of one file


class CollectError(Exception):
    """One line for the person at the terminal."""


# --------------------------------------------------------------------------------------------------
# The plan: run k of a seed.
# --------------------------------------------------------------------------------------------------

ACTIVATIONS = "ReLU ELU Tanh LeakyReLU GELU SELU PReLU SiLU Softplus Mish".split()
MLP_SHAPES = ("pyramid", "uniform", "bottleneck", "gradual")
CNN_SHAPES = ("pyramid", "uniform", "bottleneck", "gradual", "hourglass", "residual", "dense")
SEQUENCE_LENGTHS = (128, 256, 512, 1024)


@dataclasses.dataclass(frozen=True)
class Plan:
    """Which networks a folder collects. A folder has one plan for life."""

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
    """Random sizes of a plan."""

    def __init__(self, chance: random.Random, scale: float):
        self.chance, self.scale = chance, scale

    def size(self, low: int, high: int, floor: int = 1) -> int:
        """low..high, each power of two as likely as the next; scaled, but not below floor."""
        value = round(math.exp(self.chance.uniform(math.log(low), math.log(high + 0.49))))
        return max(floor, round(value * self.scale))

    def count(self, low: int, high: int) -> int:
        """low..high, evenly; the number of layers does not shrink below `low`."""
        return max(low, round(self.chance.randint(low, high) * min(1.0, self.scale**0.5)))

    def choice(self, values: Sequence[Any]) -> Any:
        return self.chance.choice(values)

    def dropout(self, low: float = 0.0) -> float:
        """A rate of `low`..0.5; from 0, half of the networks have none."""
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
    # Rows of a head are whole: its width is a multiple of 4, as fused attention wants it.
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


# --------------------------------------------------------------------------------------------------
# The networks. torch is imported by the process that trains, not by the one that watches.
# --------------------------------------------------------------------------------------------------


def mlp_widths(config: Dict[str, Any]) -> List[int]:
    """Widths from the input to the output, both included."""
    first, last, hidden = config["inputs"], config["outputs"], config["layers"] - 1
    if config["arch"] == "uniform":
        middle = [first] * hidden
    elif config["arch"] == "pyramid":
        middle = [max(last, first >> (i + 1), 1) for i in range(hidden)]
    elif config["arch"] == "bottleneck":  # down to the middle and up again
        middle = [max(1, first >> min(i + 1, hidden - i)) for i in range(hidden)]
    else:  # gradual
        middle = [round(first + (last - first) * (i + 1) / (hidden + 1)) for i in range(hidden)]
    return [first, *middle, last]


def cnn_filters(config: Dict[str, Any]) -> List[int]:
    """Output channels of each convolution in the architectures that are a plain chain."""
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


def build(config: Dict[str, Any]):
    """The torch.nn.Module of a description."""
    return {"mlp": _build_mlp, "cnn": _build_cnn, "encoder": _build_encoder}[config["family"]](
        config
    )


def _after(config: Dict[str, Any], width: int, norm: Any) -> list:
    """What follows a layer with weights: norm, activation and dropout, as far as there are any."""
    from torch import nn

    modules = [norm(width)] if config["batch_norm"] else []
    modules.append(getattr(nn, config["activation"])())
    if config["dropout"]:
        modules.append(nn.Dropout(config["dropout"]))
    return modules


def _build_mlp(config):
    from torch import nn

    widths = mlp_widths(config)
    modules: list = []
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        modules.append(nn.Linear(a, b))
        if i < len(widths) - 2:
            modules += _after(config, b, nn.BatchNorm1d)
    return nn.Sequential(*modules)


def _build_cnn(config):
    from torch import nn

    body = {"residual": _residual_body, "dense": _dense_body}.get(config["arch"], _plain_body)
    modules, width = body(config)
    return nn.Sequential(
        *modules, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, config["classes"])
    )


def _plain_body(config):
    from torch import nn

    modules: list = []
    width, image = config["channels"], config["image"]
    for i, filters in enumerate(cnn_filters(config)):
        # The two outer convolutions of a bottleneck only change the number of channels.
        kernel = 1 if config["arch"] == "bottleneck" and i % 3 != 1 else config["kernel"]
        if config["arch"] == "pyramid" and filters != width and i > 0 and image >= 8:
            modules.append(nn.MaxPool2d(2))
            image //= 2
        modules.append(nn.Conv2d(width, filters, kernel, padding=kernel // 2))
        modules += _after(config, filters, nn.BatchNorm2d)
        width = filters
    return modules, width


def _residual_body(config):
    from torch import nn

    class Block(nn.Module):
        """Two convolutions beside a shortcut."""

        def __init__(self, width: int, filters: int, stride: int):
            super().__init__()
            kernel, pad = config["kernel"], config["kernel"] // 2
            norms = [nn.BatchNorm2d(filters)] if config["batch_norm"] else []
            self.shortcut = (
                nn.Identity()
                if width == filters and stride == 1
                else nn.Conv2d(width, filters, 1, stride)
            )
            self.body = nn.Sequential(
                nn.Conv2d(width, filters, kernel, stride, pad),
                *_after(config, filters, nn.BatchNorm2d),
                nn.Conv2d(filters, filters, kernel, 1, pad),
                *norms,
            )
            self.activation = getattr(nn, config["activation"])()

        def forward(self, x):
            return self.activation(self.body(x) + self.shortcut(x))

    blocks = max(1, config["convolutions"] // 2)
    modules: list = []
    width, image = config["channels"], config["image"]
    for i in range(blocks):
        filters = min(max(config["filters"], 1024), config["filters"] << (4 * i // blocks))
        stride = 2 if filters != width and i > 0 and image >= 8 else 1
        image //= stride
        modules.append(Block(width, filters, stride))
        width = filters
    return modules, width


def _dense_body(config):
    import torch
    from torch import nn

    class Growing(nn.Module):
        """Every convolution reads all results before it."""

        def __init__(self, width: int, count: int, growth: int):
            super().__init__()
            pad = config["kernel"] // 2
            self.steps = nn.ModuleList(
                nn.Sequential(
                    nn.Conv2d(width + i * growth, growth, config["kernel"], padding=pad),
                    *_after(config, growth, nn.BatchNorm2d),
                )
                for i in range(count)
            )

        def forward(self, x):
            for step in self.steps:
                x = torch.cat([x, step(x)], 1)
            return x

    growth = max(2, config["filters"] // 4)
    modules: list = []
    width, image, left = config["channels"], config["image"], config["convolutions"]
    while left > 0:
        count = min(left, 6)
        modules.append(Growing(width, count, growth))
        width += count * growth
        left -= count
        if left > 0:  # a transition halves channels and image
            modules += [nn.Conv2d(width, width // 2, 1), nn.ReLU()]
            width //= 2
            left -= 1
            if image >= 8:
                modules.append(nn.AvgPool2d(2))
                image //= 2
    return modules, width


def _build_encoder(config):
    import torch
    from torch import nn

    class Classifier(nn.Module):
        """Tokens and positions, encoder layers, the mean over the tokens, classes."""

        def __init__(self):
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

    return Classifier()


# --------------------------------------------------------------------------------------------------
# The process that trains one network. It reads the description from its first line of input and
# answers with lines of JSON: {"layers"}, {"steady"}, then {"done"}, {"oom"} or {"too_large"}. It
# leaves when its input ends, so that the collector can look at its memory once more.
# --------------------------------------------------------------------------------------------------

STEADY_STEPS = 8  # so many steps without new memory, and it is taken to be steady
WARM_UP_STEPS = 3  # the optimizer's state appears with the first step


def _say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def die_with_parent() -> None:
    """A collector that is killed must not leave a training behind on the GPU."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class _Training:
    """One network on one device, step by step."""

    def __init__(self, config: Dict[str, Any], model: Any, device: str):
        import torch

        self.config, self.device = config, device
        self.model = model.to(device).train()
        self.optimizer = self._optimizer(torch)
        self.amp = config["precision"] == "amp"
        self.inputs, self.targets = self._data(torch)
        self.multi_class = config.get("outputs", 2) > 1
        amp = torch.amp if hasattr(torch.amp, "GradScaler") else torch.cuda.amp
        self.scaler = amp.GradScaler(enabled=self.amp and device == "cuda")

    def _optimizer(self, torch):
        parameters = self.model.parameters()
        return {
            "adam": lambda: torch.optim.Adam(parameters),
            "adamw": lambda: torch.optim.AdamW(parameters),
            "sgd": lambda: torch.optim.SGD(parameters, lr=1e-3),
            "sgd-momentum": lambda: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9),
        }[self.config["optimizer"]]()

    def _data(self, torch):
        """A batch on the host, copied in every step as a data loader's would be."""
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
        import torch
        import torch.nn.functional as F

        inputs, targets = self.inputs.to(self.device), self.targets.to(self.device)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, enabled=self.amp, dtype=self._half(torch)):
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

    def _half(self, torch):
        return torch.float16 if self.device == "cuda" else torch.bfloat16

    def memory(self) -> Dict[str, float]:
        """Peaks so far, by the framework."""
        import torch

        if self.device == "cuda":
            return {
                "allocated_mib": torch.cuda.max_memory_allocated() / MIB,
                "reserved_mib": torch.cuda.max_memory_reserved() / MIB,
            }
        return {"rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _train_until_steady(training: _Training, limit_s: float) -> Tuple[int, bool]:
    """Steps made, and whether the memory has come to rest."""
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


def _estimated_need_mib(layers: Dict[str, Any], batch: int) -> float:
    """Weights, gradients and kept tensors: less than the training can do with."""
    saved = layers["saved_bytes"]
    return (8 * layers["params"] + saved["constant"] + batch * saved["per_sample"]) / MIB


def train(device: str, steady_limit_s: float, measure_s: float) -> int:
    """The child's main: 0 if it said how it ended."""
    die_with_parent()
    config = json.loads(sys.stdin.readline())
    import torch

    import carma_summary

    if device == "cpu":
        torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = _describe(config, carma_summary)
    _say(layers=layers, torch=str(torch.__version__))
    total_mib = torch.cuda.get_device_properties(0).total_memory / MIB if device == "cuda" else 0
    if device == "cuda" and _estimated_need_mib(layers, config["batch"]) > total_mib:
        _say(too_large=True)
        return 0
    training = None
    try:
        training = _Training(config, build(config), device)
        steps, steady = _train_until_steady(training, steady_limit_s)
        _say(steady=steady)
        begin, more = time.monotonic(), 0
        while time.monotonic() - begin < measure_s or more == 0:
            training.step()
            more += 1
        step_ms = (time.monotonic() - begin) / more * 1000
        _say(done={**training.memory(), "steps": steps + more, "step_ms": round(step_ms, 3)})
    except (RuntimeError, MemoryError) as error:
        if not isinstance(error, MemoryError) and "out of memory" not in str(error).lower():
            raise
        _say(oom=training.memory() if training is not None else {})
    sys.stdin.read()
    return 0


def _describe(config: Dict[str, Any], carma_summary: Any) -> Dict[str, Any]:
    import torch

    spec = {
        "mlp": lambda: carma_summary.InputSpec((config["inputs"],)),
        "cnn": lambda: carma_summary.InputSpec(
            (config["channels"], config["image"], config["image"])
        ),
        "encoder": lambda: carma_summary.InputSpec((config["length"],), torch.int64),
    }[config["family"]]()
    with carma_summary.no_initial_values():
        model = build(config)
    return carma_summary.describe(
        model,
        spec,
        batch=config["batch"],
        optimizer=config["optimizer"],
        precision=config["precision"],
        name=config["model"],
    )


# --------------------------------------------------------------------------------------------------
# NVML by its C interface: memory of a process, activity of a GPU. Every function may be missing.
# --------------------------------------------------------------------------------------------------


class _MemoryV2(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint)] + [
        (name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")
    ]


class _ProcessInfo(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _GpmSupport(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("supported", ctypes.c_uint)]


class _GpmMetric(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_uint),
        ("status", ctypes.c_int),
        ("value", ctypes.c_double),
        ("names", ctypes.c_char_p * 3),
    ]


class _GpmMetrics(ctypes.Structure):
    # 333 entries are the most of any header; the library looks at the first `count`.
    _fields_ = [
        ("version", ctypes.c_uint),
        ("count", ctypes.c_uint),
        ("first", ctypes.c_void_p),
        ("second", ctypes.c_void_p),
        ("metrics", _GpmMetric * 333),
    ]


class Gpu:
    """One GPU as NVML sees it."""

    NO_VALUE = (1 << 64) - 1
    SM_UTILIZATION = 2  # GPM metric: percent of SMs with a warp
    INSUFFICIENT_SIZE = 7

    def __init__(self, library: ctypes.CDLL, handle: ctypes.c_void_p):
        self._nvml, self._device = library, handle
        self.uuid = self._text("nvmlDeviceGetUUID")
        self.name = self._text("nvmlDeviceGetName")
        self._gpm = self._has_gpm()

    @classmethod
    def open(cls, index: int, path: str = "libnvidia-ml.so.1") -> "Gpu":
        """Raises CollectError: no driver, or no such GPU."""
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            raise CollectError(f"no NVIDIA driver: {error}") from None
        code = library.nvmlInit_v2()
        if code != 0:
            raise CollectError(f"nvmlInit failed with code {code}")
        handle = ctypes.c_void_p()
        code = library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
        if code != 0:
            raise CollectError(f"GPU {index}: NVML answers code {code}")
        return cls(library, handle)

    def _call(self, name: str, *arguments: Any) -> bool:
        function = getattr(self._nvml, name, None)
        return function is not None and function(*arguments) == 0

    def _text(self, name: str) -> str:
        text = ctypes.create_string_buffer(96)
        return text.value.decode() if self._call(name, self._device, text, 96) else "unknown"

    def memory(self) -> Optional[Tuple[int, int]]:
        """Bytes in use, as nvidia-smi shows them, and in all; the driver's own share in neither."""
        memory = _MemoryV2(version=ctypes.sizeof(_MemoryV2) | 2 << 24)
        if not self._call("nvmlDeviceGetMemoryInfo_v2", self._device, ctypes.byref(memory)):
            return None
        return memory.used, memory.total - memory.reserved

    def process_bytes(self, pid: int) -> Optional[int]:
        """None: not listed. In a container NVML names processes by the host's numbers."""
        function = getattr(self._nvml, "nvmlDeviceGetComputeRunningProcesses_v3", None)
        if function is None:
            return None
        room = 64
        while room <= 4096:
            count = ctypes.c_uint(room)
            processes = (_ProcessInfo * room)()
            code = function(self._device, ctypes.byref(count), processes)
            if code == 0:
                for process in processes[: count.value]:
                    if process.pid == pid and process.used != self.NO_VALUE:
                        return process.used
                return None
            if code != self.INSUFFICIENT_SIZE:
                return None
            room *= 4
        return None

    def utilisation(self) -> Optional[float]:
        """Share of time in which any kernel ran, 0..1: says little about how busy the SMs are."""
        value = _Utilization()
        if not self._call("nvmlDeviceGetUtilizationRates", self._device, ctypes.byref(value)):
            return None
        return value.gpu / 100

    def _has_gpm(self) -> bool:
        support = _GpmSupport(version=1)
        asked = self._call("nvmlGpmQueryDeviceSupport", self._device, ctypes.byref(support))
        return asked and bool(support.supported)

    def gpm_sample(self) -> Optional[ctypes.c_void_p]:
        """A reading of the hardware counters, to be freed by gpm_free()."""
        sample = ctypes.c_void_p()
        if not self._gpm or not self._call("nvmlGpmSampleAlloc", ctypes.byref(sample)):
            return None
        if not self._call("nvmlGpmSampleGet", self._device, sample):
            self.gpm_free(sample)
            return None
        return sample

    def gpm_free(self, sample: Optional[ctypes.c_void_p]) -> None:
        if sample is not None:
            self._call("nvmlGpmSampleFree", sample)

    def gpm_mean(
        self, metric: int, first: Optional[ctypes.c_void_p], second: Optional[ctypes.c_void_p]
    ) -> Optional[float]:
        """A metric that NVML tells in percent, between two readings, 0..1. The readings stay."""
        if first is None or second is None:
            return None
        asked = _GpmMetrics(version=1, count=1, first=first, second=second)
        asked.metrics[0].id = metric
        if not self._call("nvmlGpmMetricsGet", ctypes.byref(asked)):
            return None
        return asked.metrics[0].value / 100 if asked.metrics[0].status == 0 else None

    def sm_activity(
        self, first: Optional[ctypes.c_void_p], second: Optional[ctypes.c_void_p]
    ) -> Optional[float]:
        """Mean share of SMs with a warp between two readings, 0..1; frees both."""
        try:
            return self.gpm_mean(self.SM_UTILIZATION, first, second)
        finally:
            self.gpm_free(first)
            self.gpm_free(second)


# --------------------------------------------------------------------------------------------------
# The journal.
# --------------------------------------------------------------------------------------------------


class Journal:
    """What happened in a folder, one JSON object per line: {"plan"}, {"started"}, {"finished"}."""

    def __init__(self, folder: str):
        self.path = os.path.join(folder, "journal.jsonl")
        self.plan: Optional[Dict[str, Any]] = None
        self.starts: Dict[int, int] = {}  # of runs without a result
        self.results: Dict[int, Dict[str, Any]] = {}
        self.dropped = 0  # lines that say nothing: torn, repeated
        for entry in self._entries():
            self._take(entry)

    def _entries(self) -> Iterator[Optional[Dict[str, Any]]]:
        try:
            with open(self.path, "rb") as file:
                for line in file:
                    try:
                        entry = json.loads(line)
                    except ValueError:
                        entry = None
                    yield entry if isinstance(entry, dict) and line.endswith(b"\n") else None
        except FileNotFoundError:
            return

    def _take(self, entry: Optional[Dict[str, Any]]) -> None:
        if entry is not None and "plan" in entry and self.plan is None:
            self.plan = entry["plan"]
        elif entry is not None and isinstance(entry.get("started"), int):
            self.starts[entry["started"]] = self.starts.get(entry["started"], 0) + 1
        elif entry is not None and isinstance(entry.get("finished"), int):
            if entry["finished"] in self.results:
                self.dropped += 1
            else:
                self.results[entry["finished"]] = entry
                self.starts.pop(entry["finished"], None)
        else:
            self.dropped += 1

    def append(self, entry: Dict[str, Any]) -> None:
        """On disk when it returns. A line torn by a crash is closed first."""
        with open(self.path, "ab+") as file:
            if file.tell() > 0:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")
            file.write(json.dumps(entry).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._take(entry)

    def rewrite(self) -> None:
        """Only the plan and the results; the old file is there until the new one is complete."""
        temporary = self.path + ".new"
        with open(temporary, "wb") as file:
            if self.plan is not None:
                file.write(json.dumps({"plan": self.plan}).encode() + b"\n")
            for index in sorted(self.results):
                file.write(json.dumps(self.results[index]).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path)


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    """One program at a time works on a folder."""
    with open(os.path.join(folder, "lock"), "w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CollectError(f"{folder}: another collector is at work") from None
        yield


# --------------------------------------------------------------------------------------------------
# The collector.
# --------------------------------------------------------------------------------------------------

POLL_S = 0.05
# A run without a result for the third time takes the machine down with it, or hangs it.
MOST_STARTS = 2
# So many crashes in a row are not the networks' fault: a full disk, a GPU that fell off the bus.
MOST_CRASHES = 5
# At the edge of the card the allocator takes what there is: the value is no need.
SATURATED = 0.95
# Without numbers by process, more change of the GPU's memory than this spoils a run.
DISTURBANCE_MIB = 64


@dataclasses.dataclass(frozen=True)
class Limits:
    steady_s: float = 30.0  # until the memory is steady
    measure_s: float = 2.0  # of steady training, for the activity
    run_s: float = 120.0  # for the whole process


class Watch:
    """Memory and activity of one training process, as far as the machine can tell."""

    def __init__(self, gpu: Optional[Gpu], pid: int):
        self.gpu, self.pid = gpu, pid
        self.process_peak: Optional[int] = None
        self.device_peak = 0
        # Before the process has a context: what others hold.
        self.others = self._device_used()
        self.utilisations: List[float] = []
        self.first_sample: Optional[ctypes.c_void_p] = None
        self.sm_activity: Optional[float] = None
        self.steady = False

    def _device_used(self) -> int:
        memory = self.gpu.memory() if self.gpu else None
        return memory[0] if memory else 0

    def poll(self) -> None:
        if self.gpu is None:
            return
        used = self.gpu.process_bytes(self.pid)
        if used is not None:
            self.process_peak = max(self.process_peak or 0, used)
        self.device_peak = max(self.device_peak, self._device_used())
        utilisation = self.gpu.utilisation() if self.steady else None
        if utilisation is not None:
            self.utilisations.append(utilisation)

    def begin_steady(self) -> None:
        self.steady = True
        self.first_sample = self.gpu.gpm_sample() if self.gpu else None

    def end_steady(self) -> None:
        if self.gpu:
            self.sm_activity = self.gpu.sm_activity(self.first_sample, self.gpu.gpm_sample())
        self.first_sample = None

    def close(self) -> None:
        if self.gpu:
            self.gpu.sm_activity(self.first_sample, None)

    def measured(self) -> Dict[str, Any]:
        """Peak in MiB and how it is known. Where NVML does not name the process, it is what the GPU
        holds more than before."""
        if self.process_peak is not None:
            return {"measured_mib": round(self.process_peak / MIB), "source": "nvml-process"}
        if self.device_peak > self.others:
            own = self.device_peak - self.others
            return {"measured_mib": round(own / MIB), "source": "nvml-device"}
        return {}

    def disturbed(self) -> bool:
        """After the process is gone: whether others came or went, where that counts."""
        by_process = self.process_peak is not None
        return not by_process and abs(self._device_used() - self.others) > DISTURBANCE_MIB * MIB

    def activity(self) -> Dict[str, Any]:
        if self.sm_activity is not None:
            return {"smact": round(self.sm_activity, 4), "smact_source": "gpm"}
        if self.utilisations:
            mean = sum(self.utilisations) / len(self.utilisations)
            return {"utilisation": round(mean, 4)}
        return {}


class Collector:
    """Trains the networks of a plan, one process each, and journals what came of them."""

    def __init__(
        self,
        folder: str,
        plan: Plan,
        device: str,
        gpu: Optional[Gpu] = None,
        limits: Limits = Limits(),
        child: Optional[Sequence[str]] = None,  # command of the training process
    ):
        self.folder, self.plan, self.limits = folder, plan, limits
        self.device, self.gpu = device, gpu
        self.child = list(child) if child else [sys.executable, PROGRAM, "train"]
        self.child += [f"--device={device}", f"--steady-limit={limits.steady_s}"]
        self.child += [f"--measure={limits.measure_s}"]
        self.journal = Journal(folder)
        wanted = json.loads(json.dumps(dataclasses.asdict(plan)))
        if self.journal.plan is None:
            self.journal.append({"plan": wanted})
        elif self.journal.plan != wanted:
            raise CollectError(
                f"{folder} was begun with another plan: {json.dumps(self.journal.plan)}"
            )

    def run(self, count: Optional[int], minutes: Optional[float]) -> int:
        """Runs 0..count-1 as far as they have no result yet, until the time is over. How many."""
        end = time.monotonic() + minutes * 60 if minutes is not None else math.inf
        done = index = crashes = 0
        while (count is None or index < count) and time.monotonic() < end:
            if index not in self.journal.results:
                result = self._run_one(index)
                done += 1
                crashes = crashes + 1 if result.get("reason") == "crashed" else 0
                if crashes == MOST_CRASHES:
                    raise CollectError(f"{crashes} runs in a row crashed: {result['error']}")
            index += 1
        return done

    def _run_one(self, index: int) -> Dict[str, Any]:
        network = self.plan.network(index)
        begin = time.monotonic()
        if self.journal.starts.get(index, 0) >= MOST_STARTS:
            result: Dict[str, Any] = {"censored": 1, "reason": "lost"}
        else:
            self.journal.append({"started": index})
            result = self._train(network)
        result["seconds"] = round(time.monotonic() - begin, 1)
        self.journal.append({"finished": index, "network": network, **result})
        print(_progress(network, result), flush=True)
        return result

    def _environment(self) -> Dict[str, str]:
        environment = dict(os.environ)
        if self.gpu:
            environment["CUDA_VISIBLE_DEVICES"] = self.gpu.uuid
        elif self.device == "cpu":
            environment["CUDA_VISIBLE_DEVICES"] = ""
        return environment

    def _train(self, network: Dict[str, Any]) -> Dict[str, Any]:
        """What is known of the run after its process is gone."""
        errors = os.path.join(self.folder, "stderr.txt")
        with open(errors, "wb") as stderr:
            process = subprocess.Popen(
                self.child,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=self._environment(),
                start_new_session=True,
            )
            watch = Watch(self.gpu, process.pid)
            try:
                events = self._follow(process, network, watch)
            finally:
                watch.close()
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                for pipe in (process.stdin, process.stdout):
                    with contextlib.suppress(OSError):
                        pipe.close()
                status = process.wait()
        return self._judge(events, watch, status, _last_line(errors))

    def _follow(
        self, process: subprocess.Popen, network: Dict[str, Any], watch: Watch
    ) -> Dict[str, Any]:
        """Feeds the process its description and gathers its events until it has ended or must."""
        deadline = time.monotonic() + self.limits.run_s
        events: Dict[str, Any] = {}
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(network).encode() + b"\n")
            process.stdin.flush()
        pending = b""
        while True:
            watch.poll()
            if time.monotonic() > deadline:
                events["timeout"] = True
                return events
            if not select.select([process.stdout], [], [], POLL_S)[0]:
                continue
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                return events
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                self._take_event(line, events, watch)
            if events.keys() & {"done", "oom", "too_large"}:
                watch.poll()  # it still holds what it had at its peak
                process.stdin.close()
                with contextlib.suppress(subprocess.TimeoutExpired):  # has said all: end it
                    process.wait(timeout=max(1.0, deadline - time.monotonic()))
                return events

    @staticmethod
    def _take_event(line: bytes, events: Dict[str, Any], watch: Watch) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return  # a library that prints
        if not isinstance(event, dict):
            return
        events.update(event)
        if event.get("steady"):
            watch.begin_steady()
        if "done" in event:
            watch.end_steady()

    def _judge(
        self, events: Dict[str, Any], watch: Watch, status: int, last_error: str
    ) -> Dict[str, Any]:
        """The row of a run. Censored: its value is not what the network needs."""
        ending = events.get("done") or events.get("oom") or {}
        result = {**ending, **watch.measured(), **watch.activity()}
        if self.gpu is None and "rss_mib" in ending:
            result.update(measured_mib=round(ending["rss_mib"]), source="rss")
        for key in ("layers", "torch"):
            if key in events:
                result[key] = events[key]
        result["device"] = self.gpu.name if self.gpu else self.device
        reason = self._why_censored(events, result, watch)
        result["censored"] = int(bool(reason))
        if reason:
            result["reason"] = reason
        if reason == "crashed":
            result["error"] = last_error or f"exit status {status}"
        return result

    def _why_censored(
        self, events: Dict[str, Any], result: Dict[str, Any], watch: Watch
    ) -> Optional[str]:
        if "oom" in events:
            return "oom"
        if events.get("timeout"):
            return "timeout"
        if events.get("too_large"):
            return "too large"
        if "done" not in events:
            return "crashed"
        if not events.get("steady"):
            return "unsteady"
        if self.gpu is None:
            return "dry"
        if watch.disturbed():
            return "disturbed"
        memory = self.gpu.memory()
        if memory and result.get("measured_mib", 0) * MIB >= SATURATED * memory[1]:
            return "saturated"
        return None if "measured_mib" in result else "not measured"


def _last_line(path: str) -> str:
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - 4096))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else ""


def _progress(network: Dict[str, Any], result: Dict[str, Any]) -> str:
    words = [network["model"], network["arch"], f"batch {network['batch']}:"]
    if "measured_mib" in result:
        words.append(f"{result['measured_mib']} MiB ({result['source']})")
    if "reserved_mib" in result:
        words.append(f"reserved {result['reserved_mib']:.0f}")
    if "reason" in result:
        words.append(f"censored: {result['reason']}")
    if "error" in result:
        words.append(f"({result['error']})")
    words.append(f"{result['seconds']} s")
    return " ".join(words)


# --------------------------------------------------------------------------------------------------
# From the journal to data.
# --------------------------------------------------------------------------------------------------

COLUMNS = (
    "model batch measured_mib censored optimizer smact"  # as in the published data
    " family precision reason source allocated_mib reserved_mib utilisation step_ms device torch"
).split()
# Censored by the size of the card: a lower bound, worth a row. Other failures say nothing.
LOWER_BOUNDS = ("oom", "saturated")


def clean(folder: str, retry_censored: bool) -> Tuple[int, int]:
    """Results kept, and lines dropped: torn ones, runs that never ended, repetitions. With
    retry_censored also censored results: the next `run` makes them anew."""
    journal = Journal(folder)
    if journal.plan is None and not journal.results:
        raise CollectError(f"{folder}: no journal, nothing to clean")
    dropped = journal.dropped + sum(journal.starts.values())
    seen = set()
    for index in sorted(journal.results):
        result = journal.results[index]
        network = {k: v for k, v in result.get("network", {}).items() if k != "model"}
        same = json.dumps(network, sort_keys=True)
        if same in seen or not network or (retry_censored and result.get("censored")):
            del journal.results[index]
            dropped += 1
        else:
            seen.add(same)
    journal.rewrite()
    return len(journal.results), dropped


def pack(folder: str, output: str, everything: bool = False) -> int:
    """Writes layers.jsonl.gz and measured.csv of the runs that measured something; of all that have
    both layers and a value, if asked for. How many."""
    journal = Journal(folder)
    results = [journal.results[index] for index in sorted(journal.results)]
    complete = [
        result
        for result in results
        if "layers" in result
        and "measured_mib" in result
        and (everything or result.get("reason") in (None, *LOWER_BOUNDS))
    ]
    os.makedirs(output, exist_ok=True)
    lines = "".join(json.dumps(_packed_layers(result)) + "\n" for result in complete)
    # No time and no name inside: the same data are the same file.
    with open(os.path.join(output, "layers.jsonl.gz"), "wb") as file:
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
            packed.write(lines.encode())
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for result in complete:
        writer.writerow({**result, **result["network"]})
    with open(os.path.join(output, "measured.csv"), "w", encoding="utf-8") as file:
        file.write(table.getvalue())
    return len(complete)


def _packed_layers(result: Dict[str, Any]) -> Dict[str, Any]:
    network = result["network"]
    known = ("model", "family", "arch", "batch", "optimizer", "precision", "dropout")
    return {
        **result["layers"],
        **{key: network[key] for key in known},
        "config": {key: value for key, value in network.items() if key not in known},
    }


# --------------------------------------------------------------------------------------------------
# Command line.
# --------------------------------------------------------------------------------------------------


def _names(text: str, allowed: Sequence[str], option: str) -> Tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in allowed]
    if unknown:
        raise CollectError(f"{option} {unknown[0]}: expected {', '.join(allowed)}")
    return names


def _command_run(chosen: argparse.Namespace) -> None:
    plan = Plan(
        seed=chosen.seed,
        families=_names(chosen.families, FAMILIES, "--families"),
        optimizers=_names(chosen.optimizers, OPTIMIZERS, "--optimizers"),
        precisions=_names(chosen.precisions, PRECISIONS, "--precisions"),
        scale=chosen.scale,
    )
    if not 0 < plan.scale <= 1:
        raise CollectError(f"--scale {plan.scale}: expected more than 0 and at most 1")
    gpu = Gpu.open(chosen.gpu, chosen.nvml) if chosen.device == "cuda" else None
    os.makedirs(chosen.folder, exist_ok=True)
    with locked(chosen.folder):
        limits = Limits(chosen.steady_limit, chosen.measure, chosen.run_limit)
        collector = Collector(chosen.folder, plan, chosen.device, gpu, limits)
        begin = time.monotonic()
        done = collector.run(chosen.count, chosen.minutes)
    minutes = (time.monotonic() - begin) / 60
    print(f"{done} runs in {minutes:.1f} min, {len(collector.journal.results)} in the journal")


def _command_clean(chosen: argparse.Namespace) -> None:
    with locked(chosen.folder):
        kept, dropped = clean(chosen.folder, chosen.retry_censored)
    print(f"{kept} results kept, {dropped} lines dropped")


def _command_pack(chosen: argparse.Namespace) -> None:
    rows = pack(chosen.folder, chosen.output, chosen.all)
    print(f"{rows} rows in {chosen.output}/measured.csv, their layers in layers.jsonl.gz")


def _command_plan(chosen: argparse.Namespace) -> None:
    plan = Plan(chosen.seed, _names(chosen.families, FAMILIES, "--families"), scale=chosen.scale)
    for index in range(chosen.count):
        print(json.dumps(plan.network(index)))


def _command_train(chosen: argparse.Namespace) -> int:
    return train(chosen.device, chosen.steady_limit, chosen.measure)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="carma_collect.py", description=__doc__.split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, function: Any, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(function=function)
        return added

    def add_plan(to: argparse.ArgumentParser) -> None:
        to.add_argument("--seed", type=int, default=1)
        to.add_argument("--families", default=",".join(FAMILIES), help="%(default)s")
        to.add_argument("--scale", type=float, default=1.0, help="factor on all sizes (1)")

    limits = Limits()
    run = command("run", _command_run, "train one network after the other")
    run.add_argument("folder")
    add_plan(run)
    run.add_argument("--optimizers", default="adam", help=f"of {','.join(OPTIMIZERS)} (adam)")
    run.add_argument("--precisions", default="fp32", help=f"of {','.join(PRECISIONS)} (fp32)")
    run.add_argument("--count", type=int, help="runs 0..N-1 of the plan (no end)")
    run.add_argument("--minutes", type=float, help="begin no run after so many minutes (no end)")
    run.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a dry run")
    run.add_argument("--gpu", type=int, default=0, help="number in NVML's order (0)")
    run.add_argument("--nvml", default="libnvidia-ml.so.1", help="NVML's library")
    for option, value, text in (
        ("--run-limit", limits.run_s, "seconds for a whole run"),
        ("--steady-limit", limits.steady_s, "seconds until the memory is steady"),
        ("--measure", limits.measure_s, "seconds of steady training, for the activity"),
    ):
        run.add_argument(option, type=float, default=value, metavar="S", help=f"{text} ({value:g})")

    cleaner = command("clean", _command_clean, "drop what is torn, unfinished or there twice")
    cleaner.add_argument("folder")
    cleaner.add_argument("--retry-censored", action="store_true")

    packer = command("pack", _command_pack, "write layers.jsonl.gz and measured.csv")
    packer.add_argument("folder")
    packer.add_argument("-o", "--output", required=True)
    packer.add_argument("--all", action="store_true", help="dry, unsteady and failed runs, too")

    planner = command("plan", _command_plan, "print the networks of a plan")
    add_plan(planner)
    planner.add_argument("--count", type=int, default=10)

    trainer = command("train", _command_train, "one training process (for `run`)")
    trainer.add_argument("--device", choices=("cuda", "cpu"), required=True)
    trainer.add_argument("--steady-limit", type=float, required=True)
    trainer.add_argument("--measure", type=float, required=True)
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Exit status 0, 2 with one line on stderr, or 130 when interrupted."""
    chosen = _parser().parse_args(arguments)
    try:
        return chosen.function(chosen) or 0
    except (CollectError, OSError) as error:
        print(f"carma_collect: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
