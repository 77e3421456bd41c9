"""Writes a summary from the training's own first step, so that inputs need no description."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict

from torch import nn

from .model import plain_model
from .summary import write


def by_name(forward: Callable, arguments: tuple, named: Dict[str, Any]) -> Any:
    """The arguments of a call as one batch. It is a mapping if all arguments have names."""
    if not named:
        return arguments
    try:
        bound = inspect.signature(forward).bind(*arguments, **named)
    except (TypeError, ValueError):
        return {**named}
    batch = dict(bound.arguments)
    for parameter in inspect.signature(forward).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL and parameter.name in batch:
            return {**named}
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            batch.update(batch.pop(parameter.name, {}))
    return batch


def watch(path: str, model: nn.Module, **options: Any) -> None:
    """Writes the summary when the model first runs in training mode, with that batch, and then removes itself. options:
    those of describe(). Never raises an error of its own."""
    inner = plain_model(model)
    own = vars(inner).get("forward")
    forward = inner.forward

    def first(*arguments: Any, **named: Any) -> Any:
        if inner.training:
            if own is None:
                del inner.forward
            else:
                inner.forward = own
            write(path, inner, by_name(forward, arguments, named), **options)
        return forward(*arguments, **named)

    inner.forward = first
