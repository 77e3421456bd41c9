"""Loads the models and functions named on a command line."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from typing import Any, Callable, Iterator

import torch
from torch import nn

from .errors import SummaryError, one_line
from .replaced import replaced


def load(text: str, what: str) -> Any:
    """Loads package.module:name or path/to/file.py:name."""
    module_name, colon, attribute = text.rpartition(":")
    if not colon or not module_name or not attribute:
        raise SummaryError(f"{what} {text}: expected package.module:name")
    sys.path[:0] = [path for path in [os.getcwd()] if path not in sys.path]
    try:
        if module_name.endswith(".py"):
            spec = importlib.util.spec_from_file_location("carma_described_model", module_name)
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise SummaryError(f"{what} {text}: import failed: {one_line(error)}") from error
    try:
        for part in attribute.split("."):
            module = getattr(module, part)
    except AttributeError:
        raise SummaryError(f"{what} {text}: {module_name} has no {attribute}") from None
    return module


@contextlib.contextmanager
def no_initial_values() -> Iterator[None]:
    """Leaves large weights uninitialised: untouched pages cost neither time nor memory, and no result depends on the values."""
    large = 1 << 16

    def skipping(original: Callable) -> Callable:
        def call(tensor, *arguments, **options):
            if tensor.numel() >= large:
                return tensor
            return original(tensor, *arguments, **options)

        return call

    names = [n for n in dir(nn.init) if n.endswith("_") and not n.startswith("_")]
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(replaced(nn.init, name, skipping(getattr(nn.init, name))))
        for name in ("normal_", "uniform_"):
            stack.enter_context(replaced(torch.Tensor, name, skipping(getattr(torch.Tensor, name))))
        yield


def build_model(text: str) -> nn.Module:
    factory = load(text, "model")
    if isinstance(factory, nn.Module):
        return factory
    if not callable(factory):
        raise SummaryError(f"model {text}: expected a function that returns the model")
    try:
        with no_initial_values():
            model = factory()
    except (Exception, SystemExit) as error:
        raise SummaryError(f"model {text}: failed: {one_line(error)}") from error
    if not isinstance(model, nn.Module):
        raise SummaryError(f"model {text}: returned {type(model).__name__}, expected nn.Module")
    return model
