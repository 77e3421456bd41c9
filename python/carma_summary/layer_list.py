"""Makes the rows and figures of a layer list from passes."""

from __future__ import annotations

import math
from typing import List, Sequence

from torch import nn

from .errors import SummaryError
from .passes import Pass
from .rows import Row
from .tensors import Shape

# Limit of the reader (src/model/layers.h); a shape beyond it is written as unknown.
MAX_RANK = 8


def _general_shape(small: Shape, small_batch: int, large: Shape, large_batch: int) -> List[int]:
    """-k for a dimension of k times the batch; [] if the shapes do not fit together."""
    if len(small) != len(large) or not small or len(small) > MAX_RANK or 0 in small:
        return []
    general = []
    for a, b in zip(small, large):
        if a == b:
            general.append(a)
        elif a * large_batch == b * small_batch and a % small_batch == 0:
            general.append(-(a // small_batch))
        else:
            return []
    return general


def _shape_of_one(shape: Shape, batch: int) -> List[int]:
    """The shape from a single pass, in which only the first dimension is known to be the batch."""
    if not shape or len(shape) > MAX_RANK or 0 in shape:
        return []
    first = -(shape[0] // batch) if shape[0] % batch == 0 else shape[0]
    return [first, *shape[1:]]


def _own_parameters(module: nn.Module) -> List[nn.Parameter]:
    """A module's own parameters, including those in parameter lists, but not those of its children."""
    own = [p for p in module._parameters.values() if p is not None]
    for child in module.children():
        if isinstance(child, (nn.ParameterList, nn.ParameterDict)):
            own.extend(child.parameters())
    return own


def _kind(module: nn.Module, has_parameters: bool) -> int:
    """0: a leaf. 1: a module with children and parameters of its own. 2: a module with children only."""
    lists = (nn.ParameterList, nn.ParameterDict)
    if all(isinstance(child, lists) for child in module.children()):
        return 0
    return 1 if has_parameters else 2


def _attributes(module: nn.Module) -> dict:
    attributes = {}
    name = type(module).__name__.lower()
    if "drop" in name and isinstance(getattr(module, "p", None), float):
        attributes["p"] = module.p
    if "conv" in name and isinstance(getattr(module, "kernel_size", None), tuple):
        attributes["kernel"] = math.prod(module.kernel_size)
    return attributes


def _layer(row: Row, inputs: List[int], outputs: List[int]) -> list:
    own = _own_parameters(row.module)
    return [
        type(row.module).__name__,
        inputs,
        outputs,
        sum(p.numel() for p in own),
        int(bool(getattr(row.module, "inplace", False))),
        sum(p.numel() for p in own if p.requires_grad),
        _kind(row.module, bool(own)),
        row.name,
        _attributes(row.module),
    ]


def layers_of(passes: Sequence[Pass]) -> List[list]:
    """The rows described in docs/use/layer-lists.md. Raises SummaryError."""
    if len(passes) == 1:
        only = passes[0]
        return [
            _layer(row, *(_shape_of_one(shape, only.batch) for shape in (row.inputs, row.outputs)))
            for row in only.rows
        ]
    small, large = passes[:2]
    if [row.name for row in small.rows] != [row.name for row in large.rows]:
        raise SummaryError("the modules that run differ from one forward pass to the next")
    return [
        _layer(
            a,
            _general_shape(a.inputs, small.batch, b.inputs, large.batch),
            _general_shape(a.outputs, small.batch, b.outputs, large.batch),
        )
        for a, b in zip(small.rows, large.rows)
    ]


def output_shape(passes: Sequence[Pass]) -> List[int]:
    """The shape of the first output, as in a row."""
    if len(passes) == 1:
        return _shape_of_one(passes[0].output, passes[0].batch)
    small, large = passes[:2]
    return _general_shape(small.output, small.batch, large.output, large.batch)


def _whole(number: float) -> float:
    """Converts a whole number to an integer, so that it is written without a decimal point."""
    return int(number) if number == int(number) else number


def saved_bytes(passes: Sequence[Pass], notes: List[str]) -> dict:
    """The line through two batch sizes. If a pass at the real batch size deviates from the line, that pass decides."""
    if len(passes) == 1:
        only = passes[0]
        notes.append(
            f"ran only with batch {only.batch}: the bytes kept are assumed to grow with the batch"
        )
        return {"per_sample": _whole(only.kept_bytes / only.batch), "constant": 0}
    small, large = passes[:2]
    per_sample = (large.kept_bytes - small.kept_bytes) / (large.batch - small.batch)
    constant = small.kept_bytes - per_sample * small.batch
    last = passes[-1]
    expected = constant + per_sample * last.batch
    if constant < 0 or abs(last.kept_bytes - expected) > 1e-3 * expected:
        notes.append("the bytes kept are not proportional to the batch size")
        return {"per_sample": _whole(last.kept_bytes / last.batch), "constant": 0}
    return {"per_sample": _whole(per_sample), "constant": _whole(constant)}
