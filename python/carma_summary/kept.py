"""What autograd keeps for the backward pass, in bytes."""

from __future__ import annotations

import weakref
from typing import Any, Iterable

import torch
from torch import nn

from .errors import TooLarge


def _storage_of(tensor: torch.Tensor) -> Any:
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()


class _KeptTensor:
    """What a saved-tensor hook hands to autograd: lives as long as the graph needs the tensor."""

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor.detach()  # without the graph: a result would keep itself alive


class KeptBytes:
    """Counts what autograd keeps: unique storages, without those of parameters and buffers."""

    def __init__(
        self, model: nn.Module, limit_bytes: float, others: Iterable[torch.Tensor] = ()
    ):
        """others: tensors that do not count either."""
        known = [*model.parameters(), *model.buffers(), *others]
        self._own = {_storage_of(tensor)._cdata for tensor in known}
        self._kept: "weakref.WeakSet[_KeptTensor]" = weakref.WeakSet()
        self._limit = limit_bytes
        self._seen = 0.0  # upper bound of what is kept now, for the limit

    def pack(self, tensor: torch.Tensor) -> _KeptTensor:
        """Hook of autograd. Raises TooLarge."""
        self._seen += tensor.numel() * tensor.element_size()
        if self._seen > self._limit:
            raise TooLarge(self._limit)
        kept = _KeptTensor(tensor)
        self._kept.add(kept)
        return kept

    @staticmethod
    def unpack(kept: _KeptTensor) -> torch.Tensor:
        return kept.tensor

    def forget(self) -> None:
        """After a backward pass autograd keeps nothing more, even if the script still holds the graph."""
        self._kept = weakref.WeakSet()

    def total(self) -> int:
        """Bytes of what is kept now."""
        sizes = {}
        for kept in self._kept:
            if kept.tensor.dim() == 0:
                continue  # a number: on the host, or one word
            storage = _storage_of(kept.tensor)
            if storage._cdata not in self._own:
                sizes[storage._cdata] = storage.nbytes()
        return sum(sizes.values())
