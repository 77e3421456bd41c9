"""Finds the tensors in the arguments and results of a model: tuples, mappings, dataclasses, nested."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterator, Mapping, Tuple

import torch

Shape = Tuple[int, ...]


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same nested tuples, lists and mappings with each tensor changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(item, change) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(map_tensors(item, change) for item in value)
    if isinstance(value, Mapping):
        return {key: map_tensors(item, change) for key, item in value.items()}
    return value


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """All tensors of an input or output: tuples, mappings, dataclasses, nested."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from tensors_in(getattr(value, field.name))


def first_shape(value: Any) -> Shape:
    """The shape of the first tensor, or () if there is none."""
    return next((tuple(tensor.shape) for tensor in tensors_in(value)), ())
