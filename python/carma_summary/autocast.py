"""torch.autocast with CUDA's behaviour, from PyTorch's table of autocast operations."""

from __future__ import annotations

import functools
from typing import Callable

import torch
from torch import nn

from .tensors import map_tensors

# Operations that run in 16 bits.
IN_16_BITS = (
    "__matmul__ addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d"
    " conv_transpose1d conv_transpose2d conv_transpose3d einsum linear matmul mm mv prelu"
    " scaled_dot_product_attention"
).split()
# Operations that run in 32 bits.
IN_32_BITS = (
    "__pow__ acos asin binary_cross_entropy_with_logits cosh cosine_embedding_loss cdist"
    " cosine_similarity cross_entropy cumprod cumsum dist erfinv exp expm1 group_norm"
    " hinge_embedding_loss kl_div l1_loss layer_norm log log10 log_softmax log1p log2"
    " margin_ranking_loss mse_loss multilabel_margin_loss multi_margin_loss nll_loss norm normalize"
    " poisson_nll_loss pow prod reciprocal rms_norm rsqrt sinh smooth_l1_loss soft_margin_loss"
    " softmax softmin softplus sum renorm tan triplet_margin_loss"
).split()


class Autocast:
    """Converts the inputs of an operation. A weight is converted once per step, and its copy is kept."""

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
