"""Callbacks for Lightning and for Hugging Face's Trainer. Neither needs to be installed: each is imported only when its callback is created."""

from __future__ import annotations

import importlib
import os
import re
from typing import Any, Optional

from . import turn

_LIGHTNING = "lightning.ckpt"  # name in the task's folder


def lightning_checkpoint() -> Optional[str]:
    """The checkpoint to resume from, or None at the first start: trainer.fit(model, ckpt_path=carma_task.lightning_checkpoint())."""
    path = os.path.join(turn.folder(), _LIGHTNING)
    return path if os.path.exists(path) else None


def lightning_callback() -> Any:
    """Trainer(..., callbacks=[carma_task.lightning_callback()]): when the task is asked to checkpoint, it saves after
    the current batch, exits, and resumes later. Raises ImportError without Lightning."""
    base = None
    for name in ("lightning.pytorch", "pytorch_lightning"):
        try:
            base = importlib.import_module(name).Callback
            break
        except (ImportError, AttributeError):
            continue
    if base is None:
        raise ImportError("lightning_callback: Lightning is not installed")
    turn.listen()

    class CarmaTurn(base):  # type: ignore[misc]
        """Saves and leaves."""

        def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
            """After each step."""
            if not turn.should_save():
                return
            path = os.path.join(turn.folder(), _LIGHTNING)
            trainer.save_checkpoint(path + ".new")  # must be called on all ranks
            if getattr(trainer, "is_global_zero", True):
                os.replace(path + ".new", path)
            turn.leave()

    return CarmaTurn()


def last_checkpoint(output_dir: str) -> Optional[str]:
    """trainer.train(resume_from_checkpoint=carma_task.last_checkpoint(output_dir)): the last checkpoint that Hugging Face's Trainer
    has written completely; None at the first start."""
    steps = []
    for name in os.listdir(output_dir) if os.path.isdir(output_dir) else ():
        found = re.fullmatch(r"checkpoint-(\d+)", name)
        # This file is written last, and contains the step.
        if found and os.path.exists(os.path.join(output_dir, name, "trainer_state.json")):
            steps.append(int(found.group(1)))
    return os.path.join(output_dir, f"checkpoint-{max(steps)}") if steps else None


def trainer_callback() -> Any:
    """Trainer(..., callbacks=[carma_task.trainer_callback()]), of Hugging Face: when the task is asked to checkpoint, the
    Trainer saves after the current step, and the task exits and resumes later. Raises ImportError without transformers."""
    try:
        base = importlib.import_module("transformers").TrainerCallback
    except (ImportError, AttributeError) as error:
        raise ImportError("trainer_callback: transformers is not installed") from error
    turn.listen()

    class CarmaTurn(base):  # type: ignore[misc]
        """Lets the Trainer save, then leaves."""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            """After each step."""
            if turn.should_save():
                control.should_save = True
                control.should_training_stop = True
            return control

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Called once the checkpoint is written completely."""
            if turn.should_save():
                turn.leave()

    return CarmaTurn()
