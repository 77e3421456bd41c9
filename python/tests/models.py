"""Small models whose kept bytes can be counted by hand, and models that are hard to describe."""

import math
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


def conv_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 4 * 4, 10),
    )


class Attention(nn.Module):
    """Self-attention written out, with dropout on the attention matrix."""

    def __init__(self, width: int = 16, heads: int = 2, dropout: float = 0.1):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def split(self, x: torch.Tensor):
        batch, length, width = x.shape
        shape = (batch, length, 3, self.heads, width // self.heads)
        return self.qkv(x).reshape(shape).permute(2, 0, 3, 1, 4).unbind(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.split(x)
        weights = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1)
        weights = F.dropout(weights, self.dropout, self.training)
        return self.out((weights @ v).transpose(1, 2).reshape(x.shape))


class FusedAttention(Attention):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.split(x)
        y = F.scaled_dot_product_attention(q, k, v, None, self.dropout)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class LearnedBias(FusedAttention):
    """Relative positions, as in T5."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1, 2, 8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.split(x)
        y = F.scaled_dot_product_attention(q, k, v, self.bias, self.dropout)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class LanguageModel(nn.Module):
    """Tied weights, token ids, keyword arguments, an output like those of transformers."""

    def __init__(self, vocabulary: int = 50, width: int = 16):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.types = nn.Embedding(3, width)
        self.body = Attention(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.table.weight

    def forward(self, input_ids, token_type_ids=None):
        x = self.table(input_ids)
        if token_type_ids is not None:
            x = x + self.types(token_type_ids)
        return {"logits": self.head(self.body(x))}


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Linear(8, 8)

    def forward(self, x):
        return self.shared(torch.tanh(self.shared(x)))


class LooksAtValues(nn.Module):
    """Cannot run without real tensors: the path depends on the data."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x):
        return self.linear(x) if float(x.sum()) >= 0 else self.linear(-x)


class AsksOfAll(nn.Module):
    """Chooses its path as attention does by its mask, yet can run without real tensors."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        y = self.linear(x)
        if not (x == x).all() or torch.any(torch.isinf(x)):
            y = y * torch.where(x == x, y, -y)
        return y


class OwnLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 16)

    def forward(self, x, labels):
        logits = self.linear(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class FixedBatch(nn.Module):
    def __init__(self, batch: int = 6):
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.register_buffer("state", torch.zeros(batch, 8))

    def forward(self, x):
        return self.linear(x + self.state)


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.inner = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 8))
        self.reentrant = reentrant

    def forward(self, x):
        return checkpoint(self.inner, self.first(x), use_reentrant=self.reentrant)


class PairwiseLoss(nn.Module):
    """What is kept grows with the square of the batch."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 16)

    def forward(self, x):
        y = self.linear(x)
        return (y @ y.t()).softmax(-1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 16, num_layers=2, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Forgotten(nn.Module):
    """Nothing is kept for a branch with an unused result."""

    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(8, 4), nn.Linear(8, 400)

    def forward(self, x):
        torch.tanh(self.unused(x))
        return self.used(x)


def vgg11(norm: bool) -> nn.Module:
    """Like timm's model: the first two dense layers are convolutions."""
    modules: list = []
    width = 3
    for filters in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        if filters == 0:
            modules.append(nn.MaxPool2d(2))
            continue
        modules.append(nn.Conv2d(width, filters, 3, padding=1))
        modules += [nn.BatchNorm2d(filters)] if norm else []
        modules.append(nn.ReLU(inplace=True))
        width = filters
    for width, kernel in ((512, 7), (4096, 1)):
        modules += [nn.Conv2d(width, 4096, kernel), nn.ReLU(inplace=True)]
    return nn.Sequential(*modules, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4096, 1000))


class TransformerBlock(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = FusedAttention(width, heads, dropout=0.0)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self, width: int, heads: int, blocks: int, image: int, patch: int):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


def vision_transformer() -> nn.Module:
    """ViT-B/16 at 224 pixels."""
    return VisionTransformer(768, 12, 12, 224, 16)


def big_language_model() -> nn.Module:
    return LanguageModel(vocabulary=1_000_000, width=1024)


def no_model():
    return 3


def broken():
    raise ValueError("no such backbone\nsecond line")


def endless():
    while True:
        time.sleep(0.01)
