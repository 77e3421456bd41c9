"""Makes a model's layer list as a dictionary, as text or in a file."""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any, List, Optional, Sequence

import torch
from torch import nn

from .dry_run import dry_run
from .errors import SummaryError, one_line
from .held import held_bytes, types_of
from .inputs import Inputs
from .layer_list import layers_of, output_shape, saved_bytes
from .model import optimizer_name, parameter_figures, plain_model, precision_in_use, token_limit
from .optimizers import flags, innermost, optimizer_bytes
from .passes import Options

PRECISIONS = ("fp32", "tf32", "amp", "amp-fp16", "amp-bf16", "fp16", "bf16")


def available_bytes() -> float:
    """Available host memory in bytes, or a guess if the kernel does not report it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 8 * 2**30


def _check(model: nn.Module, options: Options) -> None:
    """Raises SummaryError for arguments that cannot be described."""
    if options.precision not in PRECISIONS:
        raise SummaryError(
            f"precision {options.precision!r}: expected one of {', '.join(PRECISIONS)}"
        )
    if options.attention not in ("fused", "math"):
        raise SummaryError(f"attention {options.attention!r}: expected fused or math")
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in model.parameters()):
        raise SummaryError("the model has lazy layers: run it once before describing it")


def describe(
    model: nn.Module,
    inputs: Any,
    *,
    batch: Optional[int] = None,
    optimizer: Any = None,
    precision: Optional[str] = None,
    loss: str = "sum",
    name: Optional[str] = None,
    attention: str = "fused",
    memory_limit_bytes: Optional[float] = None,
    time_limit_s: Optional[float] = None,
    beside: Sequence[nn.Module] = (),
) -> dict:
    """The model's layer list (docs/use/layer-lists.md).

    inputs: InputSpecs, or one real batch: a tensor, a tuple (positional) or a mapping (by name).
    batch: of the training; default: that of the real batch. optimizer: a name or the optimizer.
    precision: one of PRECISIONS; default: what autocast and the parameters say. loss: "sum"
    (the model's own, if its output has one), "cross-entropy" or "package.module:function" of the
    model's output. attention: "fused" or
    "math", what scaled_dot_product_attention does on the GPU. memory_limit_bytes: of a dry run on
    the CPU; default: half of what is available. time_limit_s: checked after every module. beside: other models that the training holds, such as a running mean of the weights or a teacher.

    The model is not changed: all runs use a copy. Functions of PyTorch are replaced during the call, so other threads should
    not run models. Raises SummaryError.
    """
    model = plain_model(model)
    limit = memory_limit_bytes if memory_limit_bytes is not None else available_bytes() / 2
    deadline = None if time_limit_s is None else time.monotonic() + time_limit_s
    precision = precision or precision_in_use(model)
    options = Options(precision, loss, attention, limit, deadline)
    _check(model, options)
    source = Inputs(inputs, token_limit(model))
    batch = batch if batch is not None else source.batch
    if batch is not None and batch < 1:
        raise SummaryError(f"batch {batch}: expected at least 1")
    notes: List[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        device, passes = dry_run(model, source, batch, options, notes)
    layers = layers_of(passes)
    states = optimizer_bytes(optimizer)
    summary = {
        "model": name or type(model).__name__,
        "input": list(source.sample_shape()),
        "output": output_shape(passes),
        **parameter_figures(model),
        "listed_params": sum(layer[3] for layer in layers),
        "buffer_bytes": sum(b.numel() * b.element_size() for b in model.buffers()),
        "batch": batch,
        "optimizer": optimizer_name(optimizer),
        "optimizer_flags": flags(innermost(optimizer)) if states else None,
        "held_bytes": held_bytes(
            model,
            [plain_model(each) for each in beside],
            states,
            precision in ("fp16", "bf16"),
        ),
        "trained_types": types_of(p for p in model.parameters() if p.requires_grad),
        "frozen_types": types_of(p for p in model.parameters() if not p.requires_grad),
        "precision": precision,
        "loss": passes[0].loss,
        "saved_bytes": saved_bytes(passes, notes),
        "dry_run": device,
        "torch": str(torch.__version__),
        "notes": notes,
        "layers": layers,
    }
    return {key: value for key, value in summary.items() if value not in (None, [], {})}


def to_json(summary: dict) -> str:
    """One layer per line, because people read these files too."""
    pairs = [(key, json.dumps(value)) for key, value in summary.items() if key != "layers"]
    layers = ",\n".join("  " + json.dumps(layer) for layer in summary.get("layers", []))
    pairs.append(("layers", f"[\n{layers}\n ]"))
    return "{\n" + ",\n".join(f' "{key}": {text}' for key, text in pairs) + "\n}\n"


def write(path: str, model: nn.Module, inputs: Any, **options: Any) -> bool:
    """Writes the result of describe() to a file. Because training scripts call it, a failure only prints a line on stderr and
    returns False."""
    options.setdefault("time_limit_s", 60.0)
    try:
        text = to_json(describe(model, inputs, **options))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except Exception as error:
        reason = str(error) if isinstance(error, SummaryError) else one_line(error)
        print(f"carma_summary: {path} not written: {reason}", file=sys.stderr)
        return False
    return True
