"""Describes what a PyTorch model needs for training: every layer with its shapes, and the exact bytes that
autograd keeps for the backward pass. It never touches a GPU.

On the command line, with a function that returns the model, or with the model's class:

    python3 carma_summary.py package.module:factory --input 3,224,224 --batch 32 -o model.json

In a training script, one line before the loop; it never raises:

    carma_summary.write("model.json", model, batch, optimizer=optimizer)
    carma_summary.watch("model.json", model, optimizer=optimizer)  # or at the first step

How: a copy of the model without memory (PyTorch's meta device) runs forward with two batch sizes.
Forward hooks record each module's shapes, and saved-tensor hooks record what autograd keeps. The difference between the
batch sizes gives the part per sample. Code that depends on values cannot run without memory, so it runs on the CPU with
tiny batches.

If a GPU would keep other tensors than the CPU (byte masks of dropout, fused attention, cuDNN's recurrent networks,
autocast), replacement operations keep what the GPU keeps: docs/use/python.md.

The file is CARMA's layer list, docs/use/layer-lists.md. Needs only PyTorch 1.13 or newer.
"""

from .callbacks import lightning_callback, trainer_callback
from .command import main
from .errors import SummaryError
from .inputs import InputSpec, parse_input
from .loading import no_initial_values
from .summary import describe, to_json, write
from .told import tell
from .watching import watch

__all__ = [
    "InputSpec",
    "SummaryError",
    "describe",
    "lightning_callback",
    "main",
    "no_initial_values",
    "parse_input",
    "tell",
    "to_json",
    "trainer_callback",
    "watch",
    "write",
]
