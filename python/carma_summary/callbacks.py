"""Callbacks for Hugging Face's Trainer and for Lightning. Neither needs to be installed: each is imported only when its callback is created."""

from __future__ import annotations

import importlib
from typing import Any

from torch import nn

from .errors import SummaryError
from .told import tell
from .watching import watch


def trainer_callback(path: str, **options: Any) -> Any:
    """Trainer(..., callbacks=[carma_summary.trainer_callback("model.json")]): writes the summary at the first step, and prints the allocator's peaks at the end. options: those of describe()."""
    try:
        base = importlib.import_module("transformers").TrainerCallback
    except (ImportError, AttributeError) as error:
        raise SummaryError("trainer_callback: transformers is not installed") from error

    class CarmaCallback(base):
        def on_train_begin(self, args, state, control, model=None, optimizer=None, **_):
            if model is not None and getattr(state, "is_world_process_zero", True):
                watch(path, model, **{"optimizer": optimizer, **options})

        def on_train_end(self, args, state, control, **_):
            tell()

    return CarmaCallback()


def _most_of(module: nn.Module) -> nn.Module:
    """The child that a LightningModule's steps call, or else the module. The steps seldom call the module's own forward()."""

    def size(each: nn.Module) -> int:
        return sum(p.numel() for p in each.parameters())

    children = sorted(module.children(), key=size)
    whole = size(module)
    return children[-1] if children and 2 * size(children[-1]) > whole else module


def lightning_callback(path: str, **options: Any) -> Any:
    """Trainer(..., callbacks=[carma_summary.lightning_callback("model.json")]), of Lightning: like
    trainer_callback(), for the child that holds most of the parameters."""
    base = None
    for name in ("lightning.pytorch", "pytorch_lightning"):
        try:
            base = importlib.import_module(name).Callback
            break
        except (ImportError, AttributeError):
            continue
    if base is None:
        raise SummaryError("lightning_callback: Lightning is not installed")

    class CarmaCallback(base):
        def on_train_start(self, trainer, pl_module):
            if not getattr(trainer, "is_global_zero", True):
                return
            optimizers = getattr(trainer, "optimizers", None) or [None]
            watch(path, _most_of(pl_module), **{"optimizer": optimizers[0], **options})

        def on_train_end(self, trainer, pl_module):
            tell()

    return CarmaCallback()
