"""One step of a user's own training, on tensors without memory: what autograd keeps at the backward
pass, and what parameters, gradients and optimizer hold."""

from __future__ import annotations

import contextlib
import gc
import math
from typing import Any, Callable, Dict, List, Optional, Set

import torch
from torch import nn

from .errors import SummaryError, one_line
from .held import held_bytes, stored_bytes
from .inputs import Inputs
from .kept import KeptBytes
from .layer_list import layers_of
from .like_a_gpu import LikeAGpu
from .model import plain_model, precision_in_use
from .optimizers import innermost, optimizer_bytes
from .passes import Pass
from .pretend_gpu import PretendGpu
from .replaced import replaced
from .rows import RowRecorder
from .segments import LargestSegment
from .summary import describe
from .tensors import tensors_in
from .watching import by_name

MOST_PASSES = 256  # backward passes without a step, as in gradient accumulation


def _all_of(kind: type) -> List[Any]:
    """All living objects of a class, wherever the script created them."""
    return [each for each in gc.get_objects() if issubclass(type(each), kind)]


def _trained_by(optimizer: Any) -> Set[int]:
    return {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}


def _to_meta(optimizers: List[Any]) -> None:
    """Moves all modules and optimizers to the meta device. Shared parameters stay shared."""
    moved: Dict[int, torch.Tensor] = {}

    def on_meta(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in moved:
            empty = torch.empty_like(tensor, device="meta")
            if isinstance(tensor, nn.Parameter):
                empty = nn.Parameter(empty, tensor.requires_grad)
            moved[id(tensor)] = empty
        return moved[id(tensor)]

    for module in _all_of(nn.Module):
        for held in (module._parameters, module._buffers, vars(module)):
            for name, value in list(held.items()):
                if isinstance(value, torch.Tensor):
                    held[name] = on_meta(value)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["params"] = [on_meta(parameter) for parameter in group["params"]]
        optimizer.state.clear()


class OneStep:
    """Watches the script while it runs. `done` is called with the layer list, after the step."""

    def __init__(self, gpu: PretendGpu, done: Callable[[dict], None]) -> None:
        self._gpu, self._done = gpu, done
        self._depth = 0  # rows of the modules that run now
        self._model: Optional[nn.Module] = None  # the first model that is trained
        self._base: Optional[dict] = None  # options of describe()
        self._trained: List[nn.Module] = []  # models that ran with a graph
        self._peak_bytes, self._passes = 0, 0
        self._amp: Optional[str] = None
        self._stepped: List[Any] = []
        self._states, self._step_bytes = 0, 0
        self._stack = contextlib.ExitStack()
        self.notes: List[str] = []

    # ---- before the step ----

    def watch(self) -> None:
        """Starts watching, until the process ends."""
        self._replace(nn.Module, "__call__", self._calling)
        self._replace(torch.Tensor, "backward", self._going_back)
        self._replace(torch.autograd, "backward", self._going_back)
        self._replace(torch.autocast, "__enter__", self._entering_autocast)

    def _replace(self, owner: Any, name: str, wrap: Callable) -> None:
        self._stack.enter_context(replaced(owner, name, wrap(getattr(owner, name))))

    def _entering_autocast(self, original: Callable) -> Callable:
        def enter(autocast):
            if getattr(autocast, "device", "cuda") == "cuda" and autocast._enabled:
                half = "bf16" if autocast.fast_dtype == torch.bfloat16 else "fp16"
                self._amp = f"amp-{half}"
            return original(autocast)

        return enter

    def _calling(self, original: Callable) -> Callable:
        def call(module, *arguments, **options):
            if self._depth == 0 and self._is_trained(module, arguments, options):
                if self._model is None:
                    self._begin(plain_model(module), arguments, options)
                if not any(module is each for each in self._trained):
                    self._trained.append(module)
            self._depth += 1
            try:
                return original(module, *arguments, **options)
            finally:
                self._depth -= 1

        return call

    @staticmethod
    def _is_trained(module: nn.Module, arguments: tuple, options: dict) -> bool:
        if not (module.training and torch.is_grad_enabled()):
            return False
        return any(p.requires_grad for p in module.parameters()) and any(
            tensor.dim() for tensor in tensors_in((arguments, options))
        )

    def _begin(self, model: nn.Module, arguments: tuple, options: dict) -> None:
        """Starts the step. Rows and per-sample figures come from the model, and bytes come from the step."""
        self._model = model
        batch = by_name(model.forward, arguments, options)
        self._batch = Inputs(batch).batch
        optimizers = _all_of(torch.optim.Optimizer)
        own = {id(p) for p in model.parameters()}
        mine = [each for each in optimizers if own & _trained_by(each)]
        self._optimizer = innermost(mine[0]) if mine else None
        self._depth += 1
        try:
            with self._gpu.paused():
                self._describe(model, batch)
                _to_meta(optimizers)
        finally:
            self._depth -= 1
        for optimizer in optimizers:
            self._await_step(optimizer)
        self._replace(torch.optim.Optimizer, "__init__", self._making_optimizer)
        self._gpu.began = True
        self._precision = self._amp or precision_in_use(model)
        recorder = self._recorder = RowRecorder(model, None)
        self._segments = LargestSegment(model, recorder, math.inf)
        modules = _all_of(nn.Module)
        everything = [t for m in modules for t in [*m.parameters(False), *m.buffers(False)]]
        self._kept = KeptBytes(model, math.inf, everything)
        self._like = self._stack.enter_context(LikeAGpu(self._precision, "fused", self._segments))
        hooks = torch.autograd.graph.saved_tensors_hooks(self._kept.pack, self._kept.unpack)
        self._stack.enter_context(hooks)

    def _describe(self, model: nn.Module, batch: Any) -> None:
        for _ in range(2):
            precision = self._amp
            try:
                self._base = describe(
                    model, batch, optimizer=self._optimizer, precision=precision, time_limit_s=60
                )
            except SummaryError as error:
                self.notes.append(f"of the model alone: {error}")
                return
            if precision == self._amp:  # otherwise autocast was only active inside the model
                return

    # ---- the step ----

    def _making_optimizer(self, original: Callable) -> Callable:
        def make(optimizer, *arguments, **options):
            original(optimizer, *arguments, **options)
            self._await_step(optimizer)

        return make

    def _await_step(self, optimizer: Any) -> None:
        own = optimizer.step  # a scheduler may have wrapped the class's method
        optimizer.step = lambda *arguments, **options: self._step(optimizer, own)

    def _going_back(self, _: Callable) -> Callable:
        def backward(*losses, **__):  # `losses` keeps the graph alive during the call
            if self.began:
                self._backward()

        return backward

    def _backward(self) -> None:
        """The bytes kept at this moment are the peak. A backward pass frees them and leaves gradients."""
        self._peak_bytes = max(self._peak_bytes, self._kept.total() + self._segments.bytes)
        self._kept.forget()
        self._passes += 1
        for model in self._trained:
            for parameter in model.parameters():
                if parameter.requires_grad and parameter.grad is None:
                    parameter.grad = torch.empty_like(parameter)
        if self._passes >= MOST_PASSES:
            self.notes.append(f"no optimizer stepped within {MOST_PASSES} backward passes")
            self.finish()

    def _step(self, optimizer: Any, own: Callable) -> None:
        if any(optimizer is each for each in self._stepped):
            return self.finish()
        self._stepped.append(optimizer)
        plain = innermost(optimizer)
        reckoned = optimizer_bytes(plain) or {"states": 0, "step": 0}
        self._step_bytes = max(self._step_bytes, reckoned["step"])
        try:
            own()
            self._states += sum(
                stored_bytes(tensor)
                for state in plain.state.values()
                for tensor in tensors_in(state)
                if tensor.dim()
            )
        except Exception as error:
            self.notes.append(f"states of {type(plain).__name__} are estimated: {one_line(error)}")
            self._states += reckoned["states"]
        trained = {id(p) for model in self._trained for p in model.parameters()}
        waiting = [
            each
            for each in _all_of(torch.optim.Optimizer)
            if not any(each is done for done in self._stepped) and trained & _trained_by(each)
        ]
        if not waiting:
            self.finish()

    # ---- after it ----

    @property
    def began(self) -> bool:
        return self._model is not None

    def finish(self, trouble: str = "") -> None:
        """Passes on the layer list. trouble: why the script did not reach the end of the step."""
        summary = self._base
        with self._gpu.paused():
            if summary is None and self._passes > 0:
                summary = self._from_step()
            if summary is None:
                raise SummaryError(trouble or self.notes[0])
            notes = summary.setdefault("notes", [])
            notes += [note for note in self.notes if note not in notes]
            if trouble:
                notes.append(f"stopped in its first step ({trouble})")
            if self._passes > 0:
                self._count(summary)
            else:
                notes.append("no backward pass was seen: the loss is not counted")
        self._done({key: value for key, value in summary.items() if value not in (None, [], {})})

    def _from_step(self) -> dict:
        """The rows of the step, for one batch size. Used if the model cannot run by itself."""
        parameters = list(self._model.parameters())
        only = Pass(self._batch, self._recorder.rows, self._peak_bytes, (), "own")
        return {
            "model": type(self._model).__name__,
            "params": sum(p.numel() for p in parameters),
            "trainable": sum(p.numel() for p in parameters if p.requires_grad),
            "param_tensors": len(parameters),
            "batch": self._batch,
            "precision": self._precision,
            "saved_bytes": {"per_sample": 0, "constant": 0},
            "dry_run": "meta",
            "torch": str(torch.__version__),
            "notes": [],
            "layers": layers_of([only]),
        }

    def _count(self, summary: dict) -> None:
        """Replaces the model's bytes by the bytes that the step kept."""
        constant = min(summary["saved_bytes"]["constant"], self._peak_bytes)
        summary["saved_bytes"] = {
            "per_sample": (self._peak_bytes - constant) / self._batch,
            "constant": constant,
        }
        summary["loss"] = "script"
        trained = nn.ModuleList(self._trained)
        own = {id(p) for p in trained.parameters()}
        gc.collect()  # copies of the model that are held only by reference cycles
        beside = [
            module
            for module in _all_of(nn.Module)
            if module._parameters and not own & {id(p) for p in module.parameters()}
        ]
        reckoned = optimizer_bytes(self._optimizer) or {"states": 0, "step": 0}
        if self._stepped:
            reckoned = {"states": self._states, "step": self._step_bytes}
        in_16_bits = summary["precision"] in ("fp16", "bf16")
        summary["held_bytes"] = held_bytes(trained, beside, reckoned, in_16_bits)
