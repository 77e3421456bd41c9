"""Counts the bytes that autograd keeps for the backward pass."""

from __future__ import annotations

import weakref
from typing import Any, Iterable

import torch
from torch import nn

from .errors import TooLarge


def _storage_of(tensor: torch.Tensor) -> Any:
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()


class _KeptTensor:
    """What a saved-tensor hook gives to autograd. It lives as long as the graph needs the tensor."""

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor.detach()  # detached from the graph, because a result would keep itself alive


class KeptBytes:
    """Counts what autograd keeps: unique storages, without those of parameters and buffers."""

    def __init__(
        self, model: nn.Module, limit_bytes: float, others: Iterable[torch.Tensor] = ()
    ):
        """others: more tensors that do not count."""
        known = [*model.parameters(), *model.buffers(), *others]
        self._own = {_storage_of(tensor)._cdata for tensor in known}
        self._kept: "weakref.WeakSet[_KeptTensor]" = weakref.WeakSet()
        self._limit = limit_bytes
        self._seen = 0.0  # upper bound of the bytes kept now, compared with the limit

    def pack(self, tensor: torch.Tensor) -> _KeptTensor:
        """The saved-tensor hook of autograd. Raises TooLarge."""
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
        """Called after a backward pass: autograd then keeps nothing, even if the script still holds the graph."""
        self._kept = weakref.WeakSet()

    def total(self) -> int:
        """The bytes kept now."""
        sizes = {}
        for kept in self._kept:
            if kept.tensor.dim() == 0:
                continue  # a number, on the host or in one element
            storage = _storage_of(kept.tensor)
            if storage._cdata not in self._own:
                sizes[storage._cdata] = storage.nbytes()
        return sum(sizes.values())
