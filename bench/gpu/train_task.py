#!/usr/bin/env python3
"""Trains one network, chosen by name, on synthetic data: a task of the proof on real hardware.
Needs PyTorch.

    train_task.py train resnet50 --batch 32 --seconds 14   for a time; prints the number of steps
    train_task.py train resnet50 --batch 32 --steps 310    the same amount of work again
    train_task.py describe FOLDER resnet50:32 vgg16:64     FOLDER/resnet50-b32.json …, to submit

The last line of `train` is a JSON object with steps, seconds, and memory as PyTorch's allocator
counts it. Running out of memory is not handled: the error ends the task, as usual.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

BEGAN = time.monotonic()  # before torch is imported, because a task's load time counts

import torch
from torch import nn

MIB = 1 << 20
OPTIMIZER = "adam"
WARM_UP_STEPS = 5  # in which cuDNN chooses algorithms and the allocator grows


# --------------------------------------------------------------------------------------------------
# Networks, as their papers describe them.
# --------------------------------------------------------------------------------------------------


def small_cnn() -> nn.Module:
    """Two convolutions for digits of 28 x 28 pixels."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(64 * 12 * 12, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def convolution(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> List[nn.Module]:
    """A convolution without bias and its batch norm."""
    same = kernel // 2
    return [
        nn.Conv2d(inputs, outputs, kernel, stride, same, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]


class Residual(nn.Module):
    """A body with a shortcut; the shortcut is a convolution if the shapes differ."""

    def __init__(self, body: nn.Module, shortcut: nn.Module, after: nn.Module):
        super().__init__()
        self.body, self.shortcut, self.after = body, shortcut, after

    def forward(self, x):
        return self.after(self.body(x) + self.shortcut(x))


def residual_block(inputs: int, width: int, stride: int, expansion: int) -> Residual:
    """A basic block (expansion 1) or a bottleneck block."""
    outputs = width * expansion
    if expansion == 1:
        layers = [
            *convolution(inputs, width, 3, stride),
            nn.ReLU(inplace=True),
            *convolution(width, width, 3),
        ]
    else:
        layers = [
            *convolution(inputs, width, 1),
            nn.ReLU(inplace=True),
            *convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            *convolution(width, outputs, 1),
        ]
    same = stride == 1 and inputs == outputs
    shortcut = nn.Identity() if same else nn.Sequential(*convolution(inputs, outputs, 1, stride))
    return Residual(nn.Sequential(*layers), shortcut, nn.ReLU(inplace=True))


def resnet(depths: Sequence[int], expansion: int, pixels: int, classes: int) -> nn.Module:
    """ResNet with the stem for ImageNet or, for small images, a single convolution."""
    stem = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    if pixels < 64:
        stem = [*convolution(3, 64, 3), nn.ReLU(inplace=True)]
    channels, blocks = 64, []
    for stage, depth in enumerate(depths):
        for index in range(depth):
            width = 64 << stage
            blocks.append(
                residual_block(channels, width, 2 if stage and not index else 1, expansion)
            )
            channels = width * expansion
    return nn.Sequential(
        *stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
    )


def mobilenet(pixels: int, classes: int) -> nn.Module:
    """MobileNetV2: inverted residuals with depthwise convolutions. Small images are halved less
    often."""
    tiny = pixels < 64
    layers: List[nn.Module] = [*convolution(3, 32, 3, 1 if tiny else 2), nn.ReLU6(inplace=True)]
    channels = 32
    stages = (
        (1, 16, 1, 1),
        (6, 24, 2, 1 if tiny else 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    for expansion, outputs, depth, first_stride in stages:
        for index in range(depth):
            stride, hidden = first_stride if index == 0 else 1, channels * expansion
            expand = (
                [*convolution(channels, hidden, 1), nn.ReLU6(inplace=True)] if expansion > 1 else []
            )
            depthwise = [
                *convolution(hidden, hidden, 3, stride, groups=hidden),
                nn.ReLU6(inplace=True),
            ]
            body = nn.Sequential(*expand, *depthwise, *convolution(hidden, outputs, 1))
            alike = stride == 1 and channels == outputs
            layers.append(Residual(body, nn.Identity(), nn.Identity()) if alike else body)
            channels = outputs
    layers += [
        *convolution(channels, 1280, 1),
        nn.ReLU6(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    ]
    return nn.Sequential(*layers, nn.Dropout(0.2), nn.Linear(1280, classes))


def vgg16(classes: int) -> nn.Module:
    layers: List[nn.Module] = []
    channels = 3
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    head = [
        nn.Linear(512 * 7 * 7, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(4096, 4096),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(4096, classes),
    ]
    return nn.Sequential(*layers, nn.Flatten(), *head)


class Encoder(nn.Module):
    """A transformer that reads tokens and predicts a class."""

    def __init__(
        self, width: int, depth: int, heads: int, tokens: int, vocabulary: int, classes: int = 2
    ):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.zeros(tokens, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, "gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, depth)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens):
        return self.head(self.layers(self.words(tokens) + self.places)[:, 0])


class Network:
    """How to build a network, and the form of one input sample."""

    def __init__(
        self,
        build: Callable[[], nn.Module],
        sample: Tuple[int, ...],
        classes: int,
        vocabulary: int = 0,
    ):
        self.build, self.sample, self.classes, self.vocabulary = build, sample, classes, vocabulary

    def batch(self, size: int) -> Tuple[torch.Tensor, torch.Tensor]:
        """Synthetic samples and their labels, in host memory."""
        if self.vocabulary:
            samples = torch.randint(self.vocabulary, (size, *self.sample))
        else:
            samples = torch.randn(size, *self.sample)
        return samples, torch.randint(self.classes, (size,))


def encoder(width: int, depth: int, heads: int, tokens: int, vocabulary: int) -> Network:
    return Network(
        lambda: Encoder(width, depth, heads, tokens, vocabulary), (tokens,), 2, vocabulary
    )


NETWORKS: Dict[str, Network] = {
    "mnist-cnn": Network(small_cnn, (1, 28, 28), 10),
    "resnet18-cifar": Network(lambda: resnet((2, 2, 2, 2), 1, 32, 100), (3, 32, 32), 100),
    "resnet34-cifar": Network(lambda: resnet((3, 4, 6, 3), 1, 32, 100), (3, 32, 32), 100),
    "mobilenet-cifar": Network(lambda: mobilenet(32, 100), (3, 32, 32), 100),
    "mobilenet": Network(lambda: mobilenet(224, 1000), (3, 224, 224), 1000),
    "resnet50": Network(lambda: resnet((3, 4, 6, 3), 4, 224, 1000), (3, 224, 224), 1000),
    "vgg16": Network(lambda: vgg16(1000), (3, 224, 224), 1000),
    "encoder-small": encoder(256, 4, 4, 128, 30_000),
    "bert-base": encoder(768, 12, 12, 128, 30_522),
    "bert-large": encoder(1024, 24, 16, 128, 30_522),
}


# --------------------------------------------------------------------------------------------------
# Training.
# --------------------------------------------------------------------------------------------------


class Training:
    """A network in training. Each step copies a batch from the host, as an input pipeline does."""

    def __init__(self, network: Network, batch: int, device: str):
        self.cuda = device == "cuda"
        self.device = torch.device(device)
        self.model = network.build().to(self.device).train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.loss = nn.CrossEntropyLoss()
        samples, labels = network.batch(batch)
        self.samples = samples.pin_memory() if self.cuda else samples
        self.labels = labels.pin_memory() if self.cuda else labels

    def step(self) -> torch.Tensor:
        samples = self.samples.to(self.device, non_blocking=True)
        labels = self.labels.to(self.device, non_blocking=True)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.model(samples), labels)
        loss.backward()
        self.optimizer.step()
        return loss

    def synchronize(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def memory(self) -> Dict[str, float]:
        """Peaks of PyTorch's allocator. The driver's figure is larger by the CUDA context."""
        if not self.cuda:
            return {}
        return {
            "allocated_mib": round(torch.cuda.max_memory_allocated() / MIB, 1),
            "reserved_mib": round(torch.cuda.max_memory_reserved() / MIB, 1),
        }


class Progress:
    """Runs the steps of a Training and prints its progress."""

    def __init__(self, training: Training, step_log: Optional[str]):
        self._training = training
        self._log = open(step_log, "w", encoding="utf-8") if step_log else None
        self._said = time.monotonic()
        self.steps = 0
        self.loss: Optional[torch.Tensor] = None  # of the last step

    def step(self) -> None:
        self.loss = self._training.step()
        self.steps += 1
        if self._log or self.steps % 16 == 0:  # so that the host does not run far ahead of the GPU
            self._training.synchronize()
        if self._log:
            self._log.write(f"{time.monotonic():.6f}\n")
        if time.monotonic() - self._said > 5:
            self._said = time.monotonic()
            print(f"step {self.steps}, loss {self.loss.item():.4f}", flush=True)

    def end(self) -> None:
        self._training.synchronize()
        if self._log:
            self._log.close()


def train(chosen: argparse.Namespace) -> int:
    torch.manual_seed(1)
    training = Training(NETWORKS[chosen.network], chosen.batch, chosen.device)
    for _ in range(WARM_UP_STEPS):
        training.step()
    training.synchronize()
    begin, began_at = time.monotonic(), time.time()
    print(f"loaded in {begin - BEGAN:.1f} s", flush=True)
    done = Progress(training, chosen.step_log)
    while done.steps < chosen.steps if chosen.steps else time.monotonic() - begin < chosen.seconds:
        done.step()
    done.end()
    seconds = time.monotonic() - begin
    answer = {
        "network": chosen.network,
        "batch": chosen.batch,
        "steps": done.steps,
        "load_s": round(begin - BEGAN, 2),
        "train_s": round(seconds, 3),
        "step_ms": round(1000 * seconds / max(1, done.steps), 3),
        "trained_from": round(began_at, 3),  # seconds since 1970
        "trained_to": round(began_at + seconds, 3),
        "loss": round(done.loss.item(), 4) if done.loss is not None else None,
        **training.memory(),
    }
    print(json.dumps(answer), flush=True)
    return 0


# --------------------------------------------------------------------------------------------------
# Layer lists for the memory estimate.
# --------------------------------------------------------------------------------------------------


def describe(chosen: argparse.Namespace) -> int:
    """Writes NETWORK-bBATCH.json for each network. Returns exit status 1 if any file could not
    be written."""
    if chosen.need_cuda and not torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} sees no GPU", file=sys.stderr)
        return 1
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:0] = [os.path.join(here, "..", "python"), os.path.join(here, "..", "..", "python")]
    import carma_summary

    written = True
    for text in chosen.networks:
        name, _, batch = text.partition(":")
        network = NETWORKS[name]
        samples, _ = network.batch(int(batch))
        path = os.path.join(chosen.folder, f"{name}-b{batch}.json")
        written &= carma_summary.write(
            path,
            network.build(),
            samples,
            optimizer=OPTIMIZER,
            precision="fp32",
            loss="cross-entropy",
            name=f"{name}-b{batch}",
        )
    return 0 if written else 1


def network_and_batch(text: str) -> str:
    name, _, batch = text.partition(":")
    if name not in NETWORKS or not batch.isdigit() or not int(batch):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected NETWORK:BATCH, NETWORK one of {', '.join(NETWORKS)}"
        )
    return text


def positive(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number above 0")
    return int(text)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="train_task.py", description=__doc__.split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    trainer = commands.add_parser("train", help="train one network")
    trainer.set_defaults(function=train)
    trainer.add_argument("network", choices=sorted(NETWORKS))
    trainer.add_argument("--batch", type=positive, required=True)
    amount = trainer.add_mutually_exclusive_group(required=True)
    amount.add_argument("--steps", type=positive, help="number of steps to train")
    amount.add_argument("--seconds", type=float, help="how long to train, excluding loading")
    trainer.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    trainer.add_argument(
        "--step-log",
        metavar="FILE",
        help="print when each step ends (monotonic seconds); synchronizes after each step",
    )
    describer = commands.add_parser("describe", help="write layer lists")
    describer.set_defaults(function=describe)
    describer.add_argument("--need-cuda", action="store_true", help="fail without a GPU")
    describer.add_argument("folder")
    describer.add_argument("networks", nargs="+", type=network_and_batch, metavar="NETWORK:BATCH")
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    chosen: Any = parser().parse_args(arguments)
    return chosen.function(chosen)


if __name__ == "__main__":
    sys.exit(main())
