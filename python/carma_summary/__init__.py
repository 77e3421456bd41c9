"""Writes down what a PyTorch model needs for training: every layer with its shapes, and the exact
bytes that autograd keeps for the backward pass. No GPU is touched.

On the command line, with a function that returns the model (or a class that is one):

    python3 carma_summary.py package.module:factory --input 3,224,224 --batch 32 -o model.json

In a training script, one line before the loop; it never raises:

    carma_summary.write("model.json", model, batch, optimizer=optimizer)

How: a copy of the model without memory (PyTorch's meta device) runs forward with two batch sizes.
Forward hooks see each module's shapes; saved-tensor hooks see what autograd keeps. What grows from
one batch size to the other grows with the batch. Code that looks at values cannot run without
memory; it runs on the CPU instead, with tiny batches.

Where a GPU would keep something else than the CPU (byte masks of dropout, fused attention,
recurrent networks of cuDNN, autocast), stand-ins keep what the GPU keeps: docs/python.md.

The file is CARMA's layer list, docs/layer-lists.md. Needs PyTorch 1.13 or newer, nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import json
import math
import os
import random
import signal
import sys
import threading
import time
import warnings
import weakref
from typing import Any, Callable, Iterator, List, Mapping, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import nn

# Two sizes tell a constant from what grows. Not 1: batch norm refuses it, and squeeze() drops it.
SMALL_BATCHES = (2, 4)
PRECISIONS = ("fp32", "tf32", "amp", "amp-fp16", "amp-bf16", "fp16", "bf16")
# Limits of the reader (src/model/layers.h); a shape beyond them is written as "not known".
MAX_RANK = 8
MAX_ROWS = 200_000

Shape = Tuple[int, ...]


class SummaryError(Exception):
    """What kept the model from being described, as one line for its author."""


class _TooLarge(SummaryError):
    """A dry run on the CPU would take more memory than it may."""

    def __init__(self, limit_bytes: float):
        super().__init__(f"a dry run on the CPU needs over {limit_bytes / 2**30:.1f} GiB")


# --------------------------------------------------------------------------------------------------
# Inputs: descriptions or real tensors, and batches of any size made from them.
# --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class InputSpec:
    """One input of the model: the shape of a sample, without the batch, which stands first."""

    shape: Shape
    dtype: torch.dtype = torch.float32
    name: Optional[str] = None  # keyword argument of forward(); None: by position


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
        raise SummaryError(f"{name!r} is no data type of PyTorch, as float32, int64 and bool are")
    return dtype


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same nest of tuples, lists and mappings with each tensor changed."""
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


class Inputs:
    """Makes the arguments of forward() for any batch size.

    From InputSpecs, or from one real batch: a tensor, a tuple (positional) or a mapping (by name).
    A real batch is recognised by the first dimension of its first tensor; tensors with another
    first dimension belong to the whole batch and are passed as they are.
    """

    def __init__(self, source: Any, token_limit: int = 2):
        self.token_limit = token_limit  # whole numbers stay below: valid in every embedding
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
        """Of the first input, without the batch."""
        if self.specs is not None:
            return self.specs[0].shape
        first = next(tensor for tensor in tensors_in(self.sample) if tensor.dim())
        return tuple(first.shape[1:])

    def make(self, batch: int, device: str, half: Optional[torch.dtype]) -> Tuple[tuple, dict]:
        """Positional and keyword arguments. half: type of the floating inputs, if not their own."""

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


# --------------------------------------------------------------------------------------------------
# Stand-ins: operations that keep what the CUDA kernels keep.
# --------------------------------------------------------------------------------------------------


class _Keeps(torch.autograd.Function):
    """An operation known by its results and by the tensors it keeps for backward."""

    @staticmethod
    def forward(ctx, run, *inputs):  # run(*inputs) -> (results, kept)
        results, kept = run(*inputs)
        ctx.save_for_backward(*kept)
        return results

    @staticmethod
    def backward(ctx, *gradients):
        raise SummaryError("a dry run has no backward pass")


def _dropout(original, input, p=0.5, training=True, inplace=False):
    """CUDA keeps a mask of one byte per element; the CPU keeps one of the input's type."""
    if not training or inplace or not 0.0 < p < 1.0:
        return original(input, p, training, inplace)

    def run(x):
        return x.clone(), (torch.empty(x.shape, dtype=torch.bool, device=x.device),)

    return _Keeps.apply(run, input)


def _fused_attention(
    original, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **_
):
    """Keeps inputs, result and one float per row (log-sum-exp). The dropout of the attention
    matrix is made again from a seed. `original` would choose by the CPU's rules."""
    if query.dim() != 4 or (query.shape[-1] * query.element_size()) % 16:  # the kernels' alignment
        return _plain_attention(
            original, query, key, value, attn_mask, dropout_p, is_causal, scale=scale
        )
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype)  # the kernels add a bias

    def run(q, k, v, *mask):
        batch, heads, length, _ = q.shape
        width = v.shape[-1]
        # Laid out (batch, length, heads, width): callers that turn it back copy nothing.
        strides = (length * heads * width, width, heads * width, 1)
        shape = (batch, heads, length, width)
        result = torch.empty_strided(shape, strides, dtype=q.dtype, device=q.device).zero_()
        # In 32 bits only the memory-efficient kernel serves; it rounds the rows up to 32.
        rows = -(-length // 32) * 32 if q.element_size() == 4 else length
        log_sum_exp = torch.zeros((batch, heads, rows), dtype=torch.float32, device=q.device)
        return result, (q, k, v, *mask, result, log_sum_exp)

    return _Keeps.apply(run, query, key, value, *([] if attn_mask is None else [attn_mask]))


def _plain_attention(
    original, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **_
):
    """Operation by operation: the whole attention matrix is kept."""
    groups = query.shape[-3] // key.shape[-3] if query.dim() > 2 else 1
    if groups > 1:  # several heads read the same keys and values
        key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
    factor = math.sqrt(scale if scale is not None else 1.0 / math.sqrt(query.shape[-1]))
    logits = (query * factor) @ (key * factor).transpose(-2, -1)
    if attn_mask is not None:
        logits = logits + torch.zeros_like(attn_mask, dtype=query.dtype)
    elif is_causal:
        logits = logits + torch.zeros(logits.shape[-2:], dtype=logits.dtype, device=logits.device)
    weights = logits.softmax(-1)
    return (F.dropout(weights, dropout_p) if dropout_p > 0.0 else weights) @ value


@dataclasses.dataclass(frozen=True)
class _RecurrentKind:
    gates: int  # rows of a weight matrix per hidden unit
    # Floats per hidden unit, time step and sample that a layer keeps: gates, states and result. An
    # estimate: cuDNN does not say what its reserve space holds.
    keeps: int


_RECURRENT_KINDS = {
    "lstm": _RecurrentKind(gates=4, keeps=6),
    "gru": _RecurrentKind(gates=3, keeps=5),
    "rnn_tanh": _RecurrentKind(gates=1, keeps=2),
    "rnn_relu": _RecurrentKind(gates=1, keeps=2),
}


def _recurrent(kind, *arguments):
    """A recurrent network as cuDNN runs it: one operation for all time steps.

    arguments as nn.RNNBase passes them: input, states, weights, bias, layers, dropout, training,
    bidirectional, ...; with the batch sizes after the input if it is packed.
    """
    packed = isinstance(arguments[1], torch.Tensor) and arguments[1].dtype == torch.int64
    input, states = arguments[0], arguments[2 if packed else 1]
    weights, _, layers, _, _, bidirectional = arguments[3 if packed else 2 :][:6]
    states = tuple(states) if isinstance(states, (tuple, list)) else (states,)
    directions = 2 if bidirectional else 1
    hidden = weights[1].shape[0] // kind.gates * directions
    width = states[0].shape[-1] * directions
    steps = input.numel() // input.shape[-1]

    def run(x, *states_and_weights):
        result = x.new_zeros((*x.shape[:-1], width))
        reserve = x.new_zeros(steps * hidden * layers * kind.keeps)
        ends = tuple(torch.zeros_like(state) for state in states)
        return (result, *ends), (x, *states_and_weights, result, reserve)

    return _Keeps.apply(run, input, *states, *weights)


def _checkpoint_arguments_seen(original, function, preserve_rng_state=True, *arguments, **options):
    """Until PyTorch 2.1 a non-reentrant checkpoint holds its arguments where no hook sees them."""
    result = original(function, preserve_rng_state, *arguments, **options)
    held = [x for x in tensors_in((arguments, options)) if x.is_floating_point()]
    if not (held and torch.is_grad_enabled() and any(x.requires_grad for x in tensors_in(result))):
        return result
    zero = _Keeps.apply(lambda *kept: (kept[0].new_zeros(()).requires_grad_(), kept), *held)
    return map_tensors(result, lambda x: x + zero if x.requires_grad else x)


# torch.autocast on CUDA, after PyTorch's table of autocast operations: these run in 16 bits …
_AUTOCAST_16 = (
    "__matmul__ addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d"
    " conv_transpose1d conv_transpose2d conv_transpose3d einsum linear matmul mm mv prelu"
    " scaled_dot_product_attention"
).split()
# … and these in 32.
_AUTOCAST_32 = (
    "__pow__ acos asin binary_cross_entropy_with_logits cosh cosine_embedding_loss cdist"
    " cosine_similarity cross_entropy cumprod cumsum dist erfinv exp expm1 group_norm"
    " hinge_embedding_loss kl_div l1_loss layer_norm log log10 log_softmax log1p log2"
    " margin_ranking_loss mse_loss multilabel_margin_loss multi_margin_loss nll_loss norm normalize"
    " poisson_nll_loss pow prod reciprocal rms_norm rsqrt sinh smooth_l1_loss soft_margin_loss"
    " softmax softmin softplus sum renorm tan triplet_margin_loss"
).split()


class _Autocast:
    """Converts what goes into an operation; a weight once per step, and its copy is kept."""

    def __init__(self) -> None:
        self.copies: dict = {}

    def to(self, dtype: torch.dtype) -> Callable:
        def stand_in(original, *arguments, **options):
            cast = functools.partial(self._cast, dtype=dtype)
            return original(*map_tensors(arguments, cast), **map_tensors(options, cast))

        return stand_in

    def _cast(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        if not tensor.is_floating_point() or tensor.dtype in (dtype, torch.float64):
            return tensor
        if not (isinstance(tensor, nn.Parameter) and tensor.requires_grad):
            return tensor.to(dtype)
        if id(tensor) not in self.copies:
            self.copies[id(tensor)] = tensor.to(dtype)
        return self.copies[id(tensor)]


@contextlib.contextmanager
def _replaced(owner: Any, name: str, new: Any) -> Iterator[None]:
    """owner.name is `new` for a while; a name that the owner only inherits is inherited again."""
    had, old = name in vars(owner), vars(owner).get(name)
    setattr(owner, name, new)
    try:
        yield
    finally:
        if had:
            setattr(owner, name, old)
        else:
            delattr(owner, name)


class _LikeAGpu(contextlib.ExitStack):
    """Within, PyTorch's functions keep what they would keep on a GPU, and `notes` fills with what
    the reader of the result should know."""

    def __init__(self, precision: str, attention: str) -> None:
        super().__init__()
        self.precision, self.attention = precision, attention
        self.notes: List[str] = []

    def __enter__(self) -> "_LikeAGpu":
        super().__enter__()
        self._replace(F, "dropout", _dropout)
        attention = _fused_attention if self.attention == "fused" else _plain_attention
        self._replace(F, "scaled_dot_product_attention", attention)
        self._replace_recurrent()
        self._replace_checkpoints()
        if self.precision.startswith("amp"):
            self._replace_autocast()
        return self

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _replace(self, owner: Any, name: str, stand_in: Callable, wrap: Callable = lambda f: f):
        original = getattr(owner, name, None)
        if original is None:  # another version of PyTorch
            return

        def call(*arguments, **options):
            return stand_in(original, *arguments, **options)

        self.enter_context(_replaced(owner, name, wrap(call)))

    def _replace_recurrent(self) -> None:
        def stand_in_for(kind: _RecurrentKind) -> Callable:
            def stand_in(original, *arguments):
                self.note("recurrent layers: what cuDNN keeps is estimated, not counted")
                return _recurrent(kind, *arguments)

            return stand_in

        for name, kind in _RECURRENT_KINDS.items():
            self._replace(torch._VF, name, stand_in_for(kind))

    def _replace_checkpoints(self) -> None:
        def noting(original, *arguments, **options):
            self.note(
                "gradient checkpointing: what one segment makes again in the backward pass"
                " comes on top of the kept bytes"
            )
            return original(*arguments, **options)

        module = importlib.import_module("torch.utils.checkpoint")
        if not hasattr(module, "_NoopSaveInputs"):
            self._replace(module, "_checkpoint_without_reentrant", _checkpoint_arguments_seen)
        self._replace(module, "_checkpoint_without_reentrant", noting)
        self._replace(module, "_checkpoint_without_reentrant_generator", noting)
        self._replace(module.CheckpointFunction, "forward", noting, wrap=staticmethod)

    def _replace_autocast(self) -> None:
        autocast = _Autocast()
        # bfloat16 stands for float16 too: it has its size and runs on any CPU.
        table = ((_AUTOCAST_16, torch.bfloat16), (_AUTOCAST_32, torch.float32))
        for names, dtype in table:
            for name in names:
                for owner in (torch, F, torch.Tensor):
                    self._replace(owner, name, autocast.to(dtype))


# --------------------------------------------------------------------------------------------------
# One forward pass, watched.
# --------------------------------------------------------------------------------------------------


def _storage_of(tensor: torch.Tensor) -> Any:
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()


class _KeptTensor:
    """What a saved-tensor hook hands to autograd: lives as long as the graph needs the tensor."""

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor.detach()  # without the graph: a result would keep itself alive


class _KeptBytes:
    """Counts what autograd keeps: unique storages, without those of parameters and buffers."""

    def __init__(self, model: nn.Module, limit_bytes: float):
        self._own = {_storage_of(t)._cdata for t in [*model.parameters(), *model.buffers()]}
        self._kept: "weakref.WeakSet[_KeptTensor]" = weakref.WeakSet()
        self._limit = limit_bytes
        self._seen = 0.0  # upper bound of what is kept now, for the limit

    def pack(self, tensor: torch.Tensor) -> _KeptTensor:
        self._seen += tensor.numel() * tensor.element_size()
        if self._seen > self._limit:
            raise _TooLarge(self._limit)
        kept = _KeptTensor(tensor)
        self._kept.add(kept)
        return kept

    @staticmethod
    def unpack(kept: _KeptTensor) -> torch.Tensor:
        return kept.tensor

    def total(self) -> int:
        sizes = {}
        for kept in self._kept:
            if kept.tensor.dim() == 0:
                continue  # a number: on the host, or one word
            storage = _storage_of(kept.tensor)
            if storage._cdata not in self._own:
                sizes[storage._cdata] = storage.nbytes()
        return sum(sizes.values())


@dataclasses.dataclass
class _Row:
    """A module that ran, with the shapes of this one pass; see docs/layer-lists.md."""

    module: nn.Module
    name: str
    inputs: Shape
    outputs: Shape


def _first_shape(value: Any) -> Shape:
    return next((tuple(tensor.shape) for tensor in tensors_in(value)), ())


class _RowRecorder:
    """Forward hooks on every module but plain lists of modules."""

    LISTS = (nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)

    def __init__(self, model: nn.Module, deadline: Optional[float]):
        self.rows: List[_Row] = []
        self._deadline = deadline
        self._handles = []
        with_kwargs = "with_kwargs" in inspect.signature(nn.Module.register_forward_hook).parameters
        for name, module in model.named_modules():
            if type(module) in self.LISTS:
                continue
            if with_kwargs:
                handle = module.register_forward_hook(self._hook(name), with_kwargs=True)
            else:
                handle = module.register_forward_hook(self._hook_without_kwargs(name))
            self._handles.append(handle)

    def _hook(self, name: str) -> Callable:
        def hook(module, arguments, options, output):
            if self._deadline is not None and time.monotonic() > self._deadline:
                raise SummaryError("the dry run exceeds its time limit")
            if len(self.rows) >= MAX_ROWS:
                raise SummaryError(f"more than {MAX_ROWS} modules run in one forward pass")
            inputs = _first_shape((arguments, options))
            self.rows.append(_Row(module, name, inputs, _first_shape(output)))

        return hook

    def _hook_without_kwargs(self, name: str) -> Callable:
        hook = self._hook(name)
        return lambda module, arguments, output: hook(module, arguments, {}, output)

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()


@dataclasses.dataclass
class _Pass:
    batch: int
    rows: List[_Row]
    kept_bytes: int
    output: Shape


@dataclasses.dataclass(frozen=True)
class _Options:
    precision: str
    loss: str
    attention: str
    memory_limit_bytes: float
    deadline: Optional[float]  # time.monotonic()


def _sum_loss(output: Any) -> torch.Tensor:
    """The model's own loss if it has one, else a sum, which keeps nothing itself."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(loss, torch.Tensor):
        return loss
    floating = [tensor for tensor in tensors_in(output) if tensor.is_floating_point()]
    if not floating:
        raise SummaryError("the model's output holds no floating-point tensor to train on")
    return sum(tensor.sum() for tensor in floating)


def _cross_entropy_loss(output: Any) -> torch.Tensor:
    """Of the first output: (batch, classes), (batch, tokens, classes) or (batch, classes, h, w)."""
    logits = next(tensor for tensor in tensors_in(output) if tensor.is_floating_point())
    if logits.dim() == 3:
        logits = logits.flatten(0, 1)
    targets = logits.shape[:1] + logits.shape[2:]
    return F.cross_entropy(logits, torch.zeros(targets, dtype=torch.int64, device=logits.device))


def _loss_function(name: str) -> Callable[[Any], torch.Tensor]:
    if name == "sum":
        return _sum_loss
    if name == "cross-entropy":
        return _cross_entropy_loss
    return _load(name, "--loss")


def _forward(
    model: nn.Module, inputs: Inputs, batch: int, device: str, options: _Options, notes: List[str]
) -> _Pass:
    """Runs the model in training mode and looks at what is kept while the loss is in hand."""
    half = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    arguments, named = inputs.make(batch, device, half if half != torch.float32 else None)
    kept = _KeptBytes(model, options.memory_limit_bytes if device == "cpu" else math.inf)
    recorder = _RowRecorder(model, options.deadline)
    chance = random.getstate()
    try:
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(0)
            random.seed(0)
            with _LikeAGpu(options.precision, options.attention) as gpu:
                with torch.autograd.graph.saved_tensors_hooks(kept.pack, kept.unpack):
                    output = model(*arguments, **named)
                    loss = _loss_function(options.loss)(output)
                notes[:] = gpu.notes
            total = kept.total()
            del loss
    finally:
        random.setstate(chance)
        recorder.close()
    shapes = [tuple(tensor.shape) for tensor in tensors_in(output) if tensor.dim()]
    return _Pass(batch, recorder.rows, total, shapes[0] if shapes else ())


# --------------------------------------------------------------------------------------------------
# From passes to a layer list.
# --------------------------------------------------------------------------------------------------


def _general_shape(small: Shape, small_batch: int, large: Shape, large_batch: int) -> List[int]:
    """-k for a dimension of k times the batch; [] if the shapes do not fit together."""
    if len(small) != len(large) or not small or len(small) > MAX_RANK or 0 in small:
        return []
    general = []
    for a, b in zip(small, large):
        if a == b:
            general.append(a)
        elif a * large_batch == b * small_batch and a % small_batch == 0:
            general.append(-(a // small_batch))
        else:
            return []
    return general


def _shape_of_one(shape: Shape, batch: int) -> List[int]:
    """With one pass only the first dimension can be told to be the batch."""
    if not shape or len(shape) > MAX_RANK or 0 in shape:
        return []
    first = -(shape[0] // batch) if shape[0] % batch == 0 else shape[0]
    return [first, *shape[1:]]


def _own_parameters(module: nn.Module) -> List[nn.Parameter]:
    """Its own, with those in its lists of parameters, but not those of its children."""
    own = [p for p in module._parameters.values() if p is not None]
    for child in module.children():
        if isinstance(child, (nn.ParameterList, nn.ParameterDict)):
            own.extend(child.parameters())
    return own


def _kind(module: nn.Module, has_parameters: bool) -> int:
    lists = (nn.ParameterList, nn.ParameterDict)
    if all(isinstance(child, lists) for child in module.children()):
        return 0
    return 1 if has_parameters else 2


def _attributes(module: nn.Module) -> dict:
    attributes = {}
    name = type(module).__name__.lower()
    if "drop" in name and isinstance(getattr(module, "p", None), float):
        attributes["p"] = module.p
    if "conv" in name and isinstance(getattr(module, "kernel_size", None), tuple):
        attributes["kernel"] = math.prod(module.kernel_size)
    return attributes


def _layer(row: _Row, inputs: List[int], outputs: List[int]) -> list:
    own = _own_parameters(row.module)
    return [
        type(row.module).__name__,
        inputs,
        outputs,
        sum(p.numel() for p in own),
        int(bool(getattr(row.module, "inplace", False))),
        sum(p.numel() for p in own if p.requires_grad),
        _kind(row.module, bool(own)),
        row.name,
        _attributes(row.module),
    ]


def _layers(passes: Sequence[_Pass]) -> List[list]:
    if len(passes) == 1:
        only = passes[0]
        return [
            _layer(row, *(_shape_of_one(shape, only.batch) for shape in (row.inputs, row.outputs)))
            for row in only.rows
        ]
    small, large = passes[:2]
    if [row.name for row in small.rows] != [row.name for row in large.rows]:
        raise SummaryError("the modules that run differ from one forward pass to the next")
    return [
        _layer(
            a,
            _general_shape(a.inputs, small.batch, b.inputs, large.batch),
            _general_shape(a.outputs, small.batch, b.outputs, large.batch),
        )
        for a, b in zip(small.rows, large.rows)
    ]


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number


def _saved_bytes(passes: Sequence[_Pass], notes: List[str]) -> dict:
    """The line through two batch sizes; a pass at the real batch size has the last word."""
    if len(passes) == 1:
        only = passes[0]
        notes.append(
            f"ran only with batch {only.batch}: the bytes kept are taken to grow with the batch"
        )
        return {"per_sample": _whole(only.kept_bytes / only.batch), "constant": 0}
    small, large = passes[:2]
    per_sample = (large.kept_bytes - small.kept_bytes) / (large.batch - small.batch)
    constant = small.kept_bytes - per_sample * small.batch
    last = passes[-1]
    expected = constant + per_sample * last.batch
    if constant < 0 or abs(last.kept_bytes - expected) > 1e-3 * expected:
        notes.append("the bytes kept are not in proportion to the batch size")
        return {"per_sample": _whole(last.kept_bytes / last.batch), "constant": 0}
    return {"per_sample": _whole(per_sample), "constant": _whole(constant)}


def _copy(model: nn.Module, device: str) -> nn.Module:
    """A deep copy on another device that shares nothing and takes no memory on the old one."""

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        if device == "meta":
            return torch.empty_like(tensor, device="meta")
        return tensor.detach().to("cpu", copy=True)

    copies: dict = {}
    for module in model.modules():
        for value in vars(module).values():
            if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
                copies[id(value)] = moved(value.detach())
        for buffer in module._buffers.values():
            if buffer is not None:
                copies[id(buffer)] = moved(buffer)
        for parameter in module._parameters.values():
            if parameter is not None:
                copies[id(parameter)] = nn.Parameter(moved(parameter), parameter.requires_grad)
    try:
        return copy.deepcopy(model, copies)
    except Exception as error:
        raise SummaryError(f"the model cannot be copied: {_one_line(error)}") from error


def _prepared(model: nn.Module, device: str, options: _Options) -> nn.Module:
    """The copy that the dry run may change."""
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    if device == "cpu" and weights > options.memory_limit_bytes:
        raise _TooLarge(options.memory_limit_bytes)
    prepared = _copy(model, device).train()
    return prepared.to(torch.bfloat16) if options.precision in ("fp16", "bf16") else prepared


def _one_line(error: BaseException) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _run(
    model: nn.Module, inputs: Inputs, batch: Optional[int], options: _Options, notes: List[str]
) -> Tuple[str, List[_Pass]]:
    """The first way that works: without memory, on the CPU, and both at the real batch size only,
    for models that take no other."""
    attempts = [("meta", SMALL_BATCHES), ("cpu", SMALL_BATCHES)]
    if batch is not None:
        attempts += [("meta", (batch,)), ("cpu", (batch,))]
    errors = {}
    for device, batches in attempts:
        try:
            prepared = _prepared(model, device, options)
            passes = [_forward(prepared, inputs, b, device, options, notes) for b in batches]
            if device == "meta" and batch is not None and batch not in batches:
                passes.append(_forward(prepared, inputs, batch, device, options, notes))
            _layers(passes)
            return device, passes
        except Exception as error:  # the model's own code: anything can come out of it
            errors.setdefault(device, error)
    error = errors["cpu"]  # says what is wrong with the model, not with the meta device
    if isinstance(error, _TooLarge):
        raise SummaryError(f"{error}; without memory: {_one_line(errors['meta'])}") from error
    if isinstance(error, SummaryError):
        raise error
    raise SummaryError(f"the model's forward pass failed: {_one_line(error)}") from error


def _token_limit(model: nn.Module) -> int:
    """Token ids below it are valid in every table of the model."""
    tables = [m for m in model.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))]
    return min((table.num_embeddings for table in tables), default=2)


def _plain_model(model: nn.Module) -> nn.Module:
    """Without the wrappers of torch.compile and of data parallelism."""
    while True:
        if hasattr(model, "_orig_mod"):
            model = model._orig_mod
        elif type(model).__name__ in ("DataParallel", "DistributedDataParallel"):
            model = model.module
        else:
            return model


def _optimizer_name(optimizer: Any) -> Optional[str]:
    if optimizer is None or isinstance(optimizer, str):
        return optimizer
    name = type(optimizer).__name__.lower()
    if name == "sgd" and any(group.get("momentum") for group in optimizer.param_groups):
        return "sgd-momentum"
    return name


def _precision_in_use(model: nn.Module) -> str:
    if torch.is_autocast_enabled():
        if hasattr(torch, "get_autocast_dtype"):
            half = torch.get_autocast_dtype("cuda")
        else:
            half = torch.get_autocast_gpu_dtype()
        return "amp-bf16" if half == torch.bfloat16 else "amp-fp16"
    dtypes = {p.dtype for p in model.parameters() if p.is_floating_point()}
    names = {torch.bfloat16: "bf16", torch.float16: "fp16"}
    return names.get(dtypes.pop(), "fp32") if len(dtypes) == 1 else "fp32"


def _available_bytes() -> float:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 8 * 2**30


def describe(
    model: nn.Module,
    inputs: Any,
    *,
    batch: Optional[int] = None,
    optimizer: Any = None,
    precision: Optional[str] = None,
    loss: str = "sum",
    name: Optional[str] = None,
    attention: str = "fused",
    memory_limit_bytes: Optional[float] = None,
    time_limit_s: Optional[float] = None,
) -> dict:
    """The model's layer list (docs/layer-lists.md).

    inputs: InputSpecs, or one real batch: a tensor, a tuple (positional) or a mapping (by name).
    batch: of the training; default: that of the real batch. optimizer: a name or the optimizer.
    precision: one of PRECISIONS; default: what autocast and the parameters say. loss: "sum",
    "cross-entropy" or "package.module:function" of the model's output. attention: "fused" or
    "math", what scaled_dot_product_attention does on the GPU. memory_limit_bytes: of a dry run on
    the CPU; default: half of what is available. time_limit_s: checked after every module.

    The model stays as it is: all runs see a copy. Functions of PyTorch are replaced meanwhile, so
    other threads should not run models. Raises SummaryError.
    """
    model = _plain_model(model)
    precision = precision or _precision_in_use(model)
    if precision not in PRECISIONS:
        raise SummaryError(f"precision {precision!r}: expected one of {', '.join(PRECISIONS)}")
    if attention not in ("fused", "math"):
        raise SummaryError(f"attention {attention!r}: expected fused or math")
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in model.parameters()):
        raise SummaryError("the model has lazy layers: run it once before describing it")
    source = Inputs(inputs, _token_limit(model))
    batch = batch if batch is not None else source.batch
    if batch is not None and batch < 1:
        raise SummaryError(f"batch {batch}: expected at least 1")
    limit = memory_limit_bytes if memory_limit_bytes is not None else _available_bytes() / 2
    deadline = None if time_limit_s is None else time.monotonic() + time_limit_s
    options = _Options(precision, loss, attention, limit, deadline)
    notes: List[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        device, passes = _run(model, source, batch, options, notes)

    layers = _layers(passes)
    parameters = list(model.parameters())  # tied weights once
    large = passes[min(1, len(passes) - 1)]
    output = (
        _shape_of_one(large.output, large.batch)
        if len(passes) == 1
        else _general_shape(passes[0].output, passes[0].batch, large.output, large.batch)
    )
    summary = {
        "model": name or type(model).__name__,
        "input": list(source.sample_shape()),
        "output": output,
        "params": sum(p.numel() for p in parameters),
        "trainable": sum(p.numel() for p in parameters if p.requires_grad),
        "param_tensors": len(parameters),
        "listed_params": sum(layer[3] for layer in layers),
        "buffer_bytes": sum(b.numel() * b.element_size() for b in model.buffers()),
        "batch": batch,
        "optimizer": _optimizer_name(optimizer),
        "precision": precision,
        "loss": loss,
        "saved_bytes": _saved_bytes(passes, notes),
        "dry_run": device,
        "torch": str(torch.__version__),
        "notes": notes,
        "layers": layers,
    }
    return {key: value for key, value in summary.items() if value not in (None, [])}


def to_json(summary: dict) -> str:
    """One layer per line: people read these files too."""
    pairs = [(key, json.dumps(value)) for key, value in summary.items() if key != "layers"]
    layers = ",\n".join("  " + json.dumps(layer) for layer in summary.get("layers", []))
    pairs.append(("layers", f"[\n{layers}\n ]"))
    return "{\n" + ",\n".join(f' "{key}": {text}' for key, text in pairs) + "\n}\n"


def write(path: str, model: nn.Module, inputs: Any, **options: Any) -> bool:
    """describe(), into a file. For training scripts: a failure is a line on stderr and False."""
    options.setdefault("time_limit_s", 60.0)
    try:
        text = to_json(describe(model, inputs, **options))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except Exception as error:
        reason = str(error) if isinstance(error, SummaryError) else _one_line(error)
        print(f"carma_summary: {path} not written: {reason}", file=sys.stderr)
        return False
    return True


# --------------------------------------------------------------------------------------------------
# Command line.
# --------------------------------------------------------------------------------------------------


def _load(text: str, what: str) -> Any:
    """package.module:name, or path/to/file.py:name."""
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
        raise SummaryError(f"{what} {text}: import failed: {_one_line(error)}") from error
    try:
        for part in attribute.split("."):
            module = getattr(module, part)
    except AttributeError:
        raise SummaryError(f"{what} {text}: {module_name} has no {attribute}") from None
    return module


@contextlib.contextmanager
def no_initial_values() -> Iterator[None]:
    """Large weights are left as they are allocated: untouched pages cost neither time nor memory,
    and no result depends on their values."""
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
            stack.enter_context(_replaced(nn.init, name, skipping(getattr(nn.init, name))))
        for name in ("normal_", "uniform_"):
            stack.enter_context(
                _replaced(torch.Tensor, name, skipping(getattr(torch.Tensor, name)))
            )
        yield


def _build(text: str) -> nn.Module:
    factory = _load(text, "model")
    if isinstance(factory, nn.Module):
        return factory
    if not callable(factory):
        raise SummaryError(f"model {text}: expected a function that returns the model")
    try:
        with no_initial_values():
            model = factory()
    except (Exception, SystemExit) as error:
        raise SummaryError(f"model {text}: failed: {_one_line(error)}") from error
    if not isinstance(model, nn.Module):
        raise SummaryError(f"model {text}: returned {type(model).__name__}, expected nn.Module")
    return model


@contextlib.contextmanager
def _answer_within(seconds: float) -> Iterator[None]:
    """Ends the program from outside: the model's code may never come back."""

    def end() -> None:
        print(f"carma_summary: no answer within {seconds:g} s (--time-limit)", file=sys.stderr)
        sys.stderr.flush()
        os._exit(2)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    # Code in C that lets no thread run is ended by the kernel.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + 5)
    try:
        yield
    finally:
        timer.cancel()
        signal.setitimer(signal.ITIMER_REAL, 0)


def _parse_arguments(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="carma_summary.py",
        description="Write a PyTorch model's layers and the bytes kept for backward, for CARMA.",
    )
    parser.add_argument("model", help="package.module:factory or file.py:factory")
    parser.add_argument(
        "--input",
        action="append",
        required=True,
        metavar="SPEC",
        help="[NAME=]DIM,DIM,...[:DTYPE] of one sample, without the batch; once per input",
    )
    parser.add_argument("--dtype", default="float32", help="of inputs without one (%(default)s)")
    parser.add_argument("--batch", type=int, help="samples per GPU and step of the training")
    parser.add_argument("--optimizer", help="sgd, sgd-momentum, adam, adamw ...")
    parser.add_argument("--precision", choices=PRECISIONS, help="default: as the parameters are")
    parser.add_argument("--loss", default="sum", help="sum, cross-entropy or module:function")
    parser.add_argument("--attention", choices=("fused", "math"), default="fused")
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="S", help="%(default)g s")
    parser.add_argument("--memory-limit", type=float, metavar="GIB", help="of a run on the CPU")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    return parser.parse_args(arguments)


def _describe_chosen(chosen: argparse.Namespace) -> dict:
    inputs = [parse_input(text, chosen.dtype) for text in chosen.input]
    return describe(
        _build(chosen.model),
        inputs,
        batch=chosen.batch,
        optimizer=chosen.optimizer,
        precision=chosen.precision,
        loss=chosen.loss,
        name=chosen.model.rpartition(":")[2],
        attention=chosen.attention,
        memory_limit_bytes=None if chosen.memory_limit is None else chosen.memory_limit * 2**30,
    )


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Exit status 0, or 2 with one line on stderr."""
    # Before anybody looks for GPUs: a dry run must not open a context on one.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    chosen = _parse_arguments(arguments)
    try:
        with _answer_within(chosen.time_limit):
            summary = _describe_chosen(chosen)
        text = to_json(summary)
        if chosen.output is None:
            sys.stdout.write(text)
        else:
            with open(chosen.output, "w", encoding="utf-8") as file:
                file.write(text)
    except (SummaryError, OSError) as error:
        print(f"carma_summary: {error}", file=sys.stderr)
        return 2
    for note in summary.get("notes", []):
        print(f"carma_summary: note: {note}", file=sys.stderr)
    return 0
