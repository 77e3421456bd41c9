"""Dry runs: forward passes of a copy, with more than one batch size if the model accepts that."""

from __future__ import annotations

from typing import List, Optional, Tuple

from torch import nn

from .copies import prepared_copy
from .errors import SummaryError, TooLarge, one_line
from .inputs import Inputs
from .layer_list import layers_of
from .passes import Options, Pass, forward_pass

# Two sizes separate the constant part from the growing part. Size 1 is unsuitable: batch norm refuses it, and squeeze()
# drops that dimension.
SMALL_BATCHES = (2, 4)


def dry_run(
    model: nn.Module, inputs: Inputs, batch: Optional[int], options: Options, notes: List[str]
) -> Tuple[str, List[Pass]]:
    """Runs the model in the first way that works, and returns the passes and their device. The ways are: without memory, on
    the CPU, and both with only the real batch size, for models that accept no other size. Raises SummaryError."""
    attempts = [("meta", SMALL_BATCHES), ("cpu", SMALL_BATCHES)]
    if batch is not None:
        attempts += [("meta", (batch,)), ("cpu", (batch,))]
    errors = {}
    for device, batches in attempts:
        try:
            copied = prepared_copy(model, device, options)
            passes = [forward_pass(copied, inputs, b, device, options, notes) for b in batches]
            if device == "meta" and batch is not None and batch not in batches:
                passes.append(forward_pass(copied, inputs, batch, device, options, notes))
            layers_of(passes)
            return device, passes
        except Exception as error:  # the model's own code may raise anything
            errors.setdefault(device, error)
    error = errors["cpu"]  # this error shows a problem of the model, not of the meta device
    if isinstance(error, TooLarge):
        raise SummaryError(f"{error}; without memory: {one_line(errors['meta'])}") from error
    if isinstance(error, SummaryError):
        raise error
    raise SummaryError(f"the model's forward pass failed: {one_line(error)}") from error
