"""Makes batches of any size from descriptions of inputs or from real tensors."""

from __future__ import annotations

import dataclasses
from typing import Any, List, Optional, Tuple

import torch

from .errors import SummaryError
from .tensors import Shape, map_tensors, tensors_in


@dataclasses.dataclass(frozen=True)
class InputSpec:
    """One input of the model: the shape of a sample, without the batch as the first dimension."""

    shape: Shape
    dtype: torch.dtype = torch.float32
    name: Optional[str] = None  # keyword argument of forward(); None: positional


def parse_input(text: str, default_dtype: str = "float32") -> InputSpec:
    """[NAME=]DIM,DIM,...[:DTYPE], for example 3,224,224 or input_ids=128:int64."""
    name, equals, rest = text.rpartition("=")
    dims, _, dtype = rest.partition(":")
    if equals and not name.isidentifier():
        raise SummaryError(f"--input {text}: {name!r} cannot be the name of an argument")
    try:
        shape = tuple(int(dim) for dim in dims.split(",")) if dims else ()
    except ValueError:
        raise SummaryError(f"--input {text}: expected [NAME=]DIM,DIM,...[:DTYPE]") from None
    if any(dim < 1 for dim in shape):
        raise SummaryError(f"--input {text}: dimensions are at least 1")
    return InputSpec(shape, parse_dtype(dtype or default_dtype), name or None)


def parse_dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise SummaryError(f"{name!r} is not a data type of PyTorch such as float32, int64 or bool")
    return dtype


class Inputs:
    """Makes the arguments of forward() for any batch size, from InputSpecs or from one real batch: a tensor, a tuple
    (positional) or a mapping (by name). The first dimension of a real batch's first tensor is the batch size. Tensors with
    another first dimension belong to the entire batch and are passed unchanged.
    """

    def __init__(self, source: Any, token_limit: int = 2):
        self.token_limit = token_limit  # integers stay below this, so they are valid in every embedding
        self.specs: Optional[List[InputSpec]] = None
        if isinstance(source, InputSpec):
            source = [source]
        if isinstance(source, (list, tuple)) and source and isinstance(source[0], InputSpec):
            self.specs = list(source)
            self.batch: Optional[int] = None
            return
        self.sample = source
        first = next((tensor for tensor in tensors_in(source) if tensor.dim()), None)
        if first is None:
            raise SummaryError("inputs: expected at least one tensor with a batch dimension")
        self.batch = int(first.shape[0])

    def sample_shape(self) -> Shape:
        """The shape of the first input, without the batch."""
        if self.specs is not None:
            return self.specs[0].shape
        first = next(tensor for tensor in tensors_in(self.sample) if tensor.dim())
        return tuple(first.shape[1:])

    def make(self, batch: int, device: str, half: Optional[torch.dtype]) -> Tuple[tuple, dict]:
        """Returns positional and keyword arguments. half: the type of floating-point inputs, if not their own."""

        def typed(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(half) if half and tensor.is_floating_point() else tensor

        if self.specs is not None:
            tensors = [typed(self._invent(spec, batch, device)) for spec in self.specs]
            pairs = list(zip(self.specs, tensors))
            return (
                tuple(tensor for spec, tensor in pairs if spec.name is None),
                {spec.name: tensor for spec, tensor in pairs if spec.name is not None},
            )
        resized = map_tensors(
            self.sample, lambda tensor: typed(self._resize(tensor.detach(), batch, device))
        )
        if isinstance(resized, dict):
            return (), resized
        return (tuple(resized) if isinstance(resized, (tuple, list)) else (resized,)), {}

    def _invent(self, spec: InputSpec, batch: int, device: str) -> torch.Tensor:
        shape = (batch, *spec.shape)
        if device == "meta":
            return torch.empty(shape, dtype=spec.dtype, device="meta")
        if spec.dtype.is_floating_point:
            return torch.rand(shape).to(spec.dtype)
        if spec.dtype == torch.bool:
            return torch.ones(shape, dtype=torch.bool)
        return torch.randint(0, self.token_limit, shape, dtype=spec.dtype)

    def _resize(self, tensor: torch.Tensor, batch: int, device: str) -> torch.Tensor:
        if tensor.dim() == 0 or tensor.shape[0] != self.batch:
            return tensor.to(device)
        if device == "meta":
            return torch.empty((batch, *tensor.shape[1:]), dtype=tensor.dtype, device="meta")
        few = tensor[:batch].to(device)
        return few[torch.arange(batch) % few.shape[0]]
