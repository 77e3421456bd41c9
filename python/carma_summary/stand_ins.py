"""Replacement operations that keep the same tensors as the CUDA kernels."""

from __future__ import annotations

import dataclasses
import math

import torch
import torch.nn.functional as F

from .errors import SummaryError
from .tensors import map_tensors, tensors_in


class _Keeps(torch.autograd.Function):
    """An operation defined by its results and by the tensors that it keeps for the backward pass."""

    @staticmethod
    def forward(ctx, run, *inputs):  # run(*inputs) -> (results, kept)
        results, kept = run(*inputs)
        ctx.save_for_backward(*kept)
        return results

    @staticmethod
    def backward(ctx, *gradients):
        raise SummaryError("a dry run has no backward pass")


def dropout(original, input, p=0.5, training=True, inplace=False):
    """CUDA keeps a mask of one byte per element, while the CPU keeps a mask of the input's type."""
    if not training or inplace or not 0.0 < p < 1.0:
        return original(input, p, training, inplace)

    def run(x):
        return x.clone(), (torch.empty(x.shape, dtype=torch.bool, device=x.device),)

    return _Keeps.apply(run, input)


def usual_answer(usual: bool):
    """Replaces all() and any() of a tensor without memory. Code uses them to choose a path: is nothing masked, is anything
    out of range?"""

    def stand_in(original, tensor, *arguments, **options):
        if tensor.device.type != "meta" or arguments or options:
            return original(tensor, *arguments, **options)
        return torch.tensor(usual)

    return stand_in


def fused_attention(
    original, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **_
):
    """Keeps inputs, result and one float per row (log-sum-exp). The dropout of the attention matrix is recomputed from a seed.
    `original` would choose by the CPU's rules."""
    aligned = query.dim() == 4 and (query.shape[-1] * query.element_size()) % 16 == 0
    learned = attn_mask is not None and attn_mask.requires_grad
    if not aligned or learned:  # not supported by the kernels
        return plain_attention(
            original, query, key, value, attn_mask, dropout_p, is_causal, scale=scale
        )
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype)  # the kernels add a bias

    def run(q, k, v, *mask):
        batch, heads, length, _ = q.shape
        width = v.shape[-1]
        # The layout is (batch, length, heads, width), so callers that transpose it back copy nothing.
        strides = (length * heads * width, width, heads * width, 1)
        shape = (batch, heads, length, width)
        result = torch.empty_strided(shape, strides, dtype=q.dtype, device=q.device).zero_()
        # In 32 bits only the memory-efficient kernel is possible, which rounds the rows up to 32.
        rows = -(-length // 32) * 32 if q.element_size() == 4 else length
        log_sum_exp = torch.zeros((batch, heads, rows), dtype=torch.float32, device=q.device)
        return result, (q, k, v, *mask, result, log_sum_exp)

    return _Keeps.apply(run, query, key, value, *([] if attn_mask is None else [attn_mask]))


def plain_attention(
    original, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **_
):
    """Attention as separate operations, which keep the entire attention matrix."""
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
class RecurrentKind:
    gates: int  # rows of a weight matrix per hidden unit
    # Floats per hidden unit, time step and sample that a layer keeps: gates, states and result. An
    # estimate: cuDNN does not report what its reserve space holds.
    keeps: int


RECURRENT_KINDS = {
    "lstm": RecurrentKind(gates=4, keeps=6),
    "gru": RecurrentKind(gates=3, keeps=5),
    "rnn_tanh": RecurrentKind(gates=1, keeps=2),
    "rnn_relu": RecurrentKind(gates=1, keeps=2),
}


def recurrent(kind, *arguments):
    """A recurrent network as cuDNN runs it: one operation for all time steps. The arguments are those that nn.RNNBase passes: input, states, weights, bias, layers, dropout, training,
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


def checkpoint_arguments_seen(original, function, preserve_rng_state=True, *arguments, **options):
    """Makes the arguments of a non-reentrant checkpoint visible to hooks, as they are only after PyTorch 2.1."""
    result = original(function, preserve_rng_state, *arguments, **options)
    held = [x for x in tensors_in((arguments, options)) if x.is_floating_point()]
    if not (held and torch.is_grad_enabled() and any(x.requires_grad for x in tensors_in(result))):
        return result
    zero = _Keeps.apply(lambda *kept: (kept[0].new_zeros(()).requires_grad_(), kept), *held)
    return map_tensors(result, lambda x: x + zero if x.requires_grad else x)
