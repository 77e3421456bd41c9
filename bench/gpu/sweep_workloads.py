"""The workloads of the sweep: networks from a digit classifier to a language model, each with a
common batch size. Needs PyTorch."""

from __future__ import annotations

import ctypes
import time
from typing import Any, Callable, Dict

import torch
import torch.nn.functional as F
from torch import nn

from sweep_plan import base_name
from train_task import MIB, NETWORKS, Training

LOADER_S = 0.025  # CPU work before each step of the workload that waits for its data


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention."""
    fused = getattr(F, "scaled_dot_product_attention", None)
    if fused is not None:
        return fused(q, k, v, is_causal=True)
    later = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).triu(1)
    scores = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).masked_fill(later, float("-inf"))
    return scores.softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        batch, tokens, width = x.shape
        parts = self.qkv(self.before(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        x = x + self.out(attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width))
        return x + self.feed(self.between(x))


class Decoder(nn.Module):
    """A language model like GPT-2; the word table is also the output layer."""

    def __init__(self, width: int, depth: int, heads: int, tokens: int, vocabulary: int):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.zeros(tokens, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.norm(self.blocks(self.words(tokens) + self.places))
        return F.linear(x, self.words.weight)


class WordLstm(nn.Module):
    def __init__(self, width: int, layers: int, vocabulary: int):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.lstm(self.words(tokens))[0])


class NextWord:
    """Training of a model that predicts the next token after each token."""

    def __init__(self, model: nn.Module, batch: int, tokens: int, vocabulary: int, device: str):
        self.device, self.vocabulary = torch.device(device), vocabulary
        self.model = model.to(self.device).train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.tokens = torch.randint(vocabulary, (batch, tokens + 1))
        if device == "cuda":
            self.tokens = self.tokens.pin_memory()

    def step(self) -> None:
        tokens = self.tokens.to(self.device, non_blocking=True)
        self.optimizer.zero_grad(set_to_none=True)
        answer = self.model(tokens[:, :-1].contiguous())
        loss = F.cross_entropy(answer.float().view(-1, self.vocabulary), tokens[:, 1:].reshape(-1))
        loss.backward()
        self.optimizer.step()


class Mixed:
    """Wraps a Training to run the forward pass and loss in bfloat16 where that is safe."""

    def __init__(self, training: Training):
        self.training = training
        model, loss = training.model, training.loss
        kind = training.device.type

        def forward(samples):
            with torch.autocast(kind, dtype=torch.bfloat16):
                return model(samples).float()

        training.model, training.loss = forward, loss

    def step(self) -> None:
        self.training.step()


class WaitsForData:
    """Wraps a Training so that each step first prepares its batch on one core."""

    def __init__(self, training: Training):
        self.training = training
        self.picture = torch.randn(16, 3, 32, 32)
        self.turn()
        begin = time.process_time()
        for _ in range(20):
            self.turn()
        self.turns = max(1, round(LOADER_S / ((time.process_time() - begin) / 20)))

    def turn(self) -> None:
        F.interpolate(self.picture, scale_factor=2.0, mode="bilinear", align_corners=False).mean()

    def step(self) -> None:
        for _ in range(self.turns):
            self.turn()
        self.training.step()


def plain(name: str, batch: int) -> Callable[[str], object]:
    return lambda device: Training(NETWORKS[name], batch, device)


def mixed(name: str, batch: int) -> Callable[[str], object]:
    return lambda device: Mixed(Training(NETWORKS[name], batch, device))


def waits_for_data(name: str, batch: int) -> Callable[[str], object]:
    return lambda device: WaitsForData(Training(NETWORKS[name], batch, device))


def language(device: str) -> NextWord:
    tokens, vocabulary = 1024, 50_257
    model = Decoder(1024, 24, 16, tokens, vocabulary).to(torch.bfloat16)
    return NextWord(model, 4, tokens, vocabulary, device)


def lstm(device: str) -> NextWord:
    return NextWord(WordLstm(650, 2, 10_000), 32, 35, 10_000, device)


class Workload:
    """layers: the number of convolutions, recurrent and linear layers."""

    def __init__(self, build: Callable[[str], Any], batch: int, layers: int):
        self.build, self.batch, self.layers = build, batch, layers


WORKLOADS: Dict[str, Workload] = {
    "mnist-b64": Workload(plain("mnist-cnn", 64), 64, 4),
    "resnet50-b32": Workload(plain("resnet50", 32), 32, 54),
    "resnet18-cifar-b32": Workload(plain("resnet18-cifar", 32), 32, 21),
    "bert-base-amp-b32": Workload(mixed("bert-base", 32), 32, 73),
    "resnet18-cifar-b128": Workload(plain("resnet18-cifar", 128), 128, 21),
    "gpt2-medium-bf16-b4": Workload(language, 4, 97),
    "lstm-b32": Workload(lstm, 32, 3),
    "mobilenet-b32": Workload(plain("mobilenet", 32), 32, 53),
    "resnet50-amp-b128": Workload(mixed("resnet50", 128), 128, 54),
    "bert-base-b32": Workload(plain("bert-base", 32), 32, 73),
    "loader-b64": Workload(waits_for_data("resnet18-cifar", 64), 64, 21),
    "vgg16-b32": Workload(plain("vgg16", 32), 32, 16),
}


# Writes to address 16, which is never mapped.
BAD_KERNEL = b"""
.version 7.0
.target sm_52
.address_size 64
.visible .entry bad()
{
    .reg .b64 %place;
    .reg .b32 %value;
    mov.u64 %place, 16;
    mov.u32 %value, 1;
    st.global.u32 [%place], %value;
    ret;
}
"""


class OnGpu:
    """A workload that trains on GPU 0."""

    def __init__(self, name: str):
        torch.set_num_threads(1)
        self._workload = WORKLOADS[base_name(name)]
        self._training: Any = None

    def open(self) -> Dict[str, float]:
        begin = time.monotonic()
        torch.manual_seed(1)
        torch.zeros(1, device="cuda")
        self.synchronize()
        context_s = round(time.monotonic() - begin, 3)
        self._training = self._workload.build("cuda")
        return {"context_s": context_s}

    def step(self) -> None:
        self._training.step()

    def done(self) -> Callable[[], None]:
        """Waits until the GPU has done everything queued so far."""
        event = torch.cuda.Event()
        event.record()
        return event.synchronize

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def memory(self) -> Dict[str, float]:
        """Peaks of PyTorch's allocator, and the memory that the driver reports as available to
        this process."""
        free, total = torch.cuda.mem_get_info()
        return {
            "allocated_mib": round(torch.cuda.max_memory_allocated() / MIB, 1),
            "reserved_mib": round(torch.cuda.max_memory_reserved() / MIB, 1),
            "free_mib": round(free / MIB),
            "total_mib": round(total / MIB),
        }

    def write_nowhere(self) -> None:
        cuda = ctypes.CDLL("libcuda.so.1")
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        cuda.cuModuleLoadData(ctypes.byref(module), BAD_KERNEL)
        cuda.cuModuleGetFunction(ctypes.byref(function), module, b"bad")
        cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        self.synchronize()

    def take(self, mib: int) -> Any:
        return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")
