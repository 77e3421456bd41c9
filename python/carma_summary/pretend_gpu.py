"""Makes PyTorch report GPUs on a machine without GPUs, so that a script runs as it does on a server.

Until the step begins, tensors that the script moves to "cuda" stay on the CPU. From then on they are on the meta device, which has shapes and types but stores no values."""

from __future__ import annotations

import contextlib
import importlib
import types
from typing import Any, Callable, Iterator

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from .replaced import replaced
from .tensors import map_tensors, tensors_in

GIB = 2**30
MOST_VALUES = 1 << 24  # largest tensor whose values the script may read: zeros, on the host


class PlainScaler:
    """Replaces GradScaler. It scales nothing and skips no step."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def scale(self, outputs: Any) -> Any:
        return outputs

    def step(self, optimizer: Any, *arguments: Any, **options: Any) -> Any:
        return optimizer.step(*arguments, **options)

    def unscale_(self, optimizer: Any) -> None:
        pass

    def update(self, new_scale: Any = None) -> None:
        pass

    def get_scale(self) -> float:
        return 1.0

    def is_enabled(self) -> bool:
        return True

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        pass


class Nothing:
    """Replaces streams, events and contexts of a device. Calls and with-blocks do nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> "Nothing":
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Callable:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: 0.0


def _is_cuda(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


def _usual_value(dtype: torch.dtype) -> Any:
    """The value that a script gets when it reads a number, chosen so that no loss is NaN and no mask is empty."""
    if dtype == torch.bool:
        return False
    return 1.0 if dtype.is_floating_point else 0


def _moved(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's counterpart on the meta device. It is always the same tensor, so that bytes kept by two operations count once."""
    if tensor.device.type == "meta" or tensor.requires_grad:
        return tensor.to("meta")
    if not hasattr(tensor, "_carma_moved"):
        tensor._carma_moved = tensor.to("meta")
    return tensor._carma_moved


class PretendGpu(TorchFunctionMode):
    """Inside this context PyTorch's functions accept tensors of the pretended GPU. Enter it only once."""

    def __init__(self) -> None:
        super().__init__()
        self.began = False  # whether the step has begun; tensors then have no values
        self._paused = False

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stops pretending for a while: tensors then report their real devices."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def __torch_function__(self, function, types_, arguments=(), options=None):
        options = options or {}
        if self._paused:
            return function(*arguments, **options)
        name = getattr(function, "__name__", "")
        on = "meta" if self.began else "cpu"
        first = arguments[0] if arguments else None
        if name == "cuda" and isinstance(first, torch.Tensor):
            return first.to(on)
        if name == "pin_memory":
            return first
        if "device" in options and (_is_cuda(options["device"]) or type(options["device"]) is int):
            options = {**options, "device": on}
        arguments = tuple(on if _is_cuda(each) else each for each in arguments)
        if not self.began:
            return function(*arguments, **options)
        if isinstance(first, torch.Tensor) and first.device.type == "meta":
            seen = self._seen(function, name, first, arguments, options)
            if seen is not NotImplemented:
                return seen
        return function(*self._together(arguments), **self._together(options))

    @staticmethod
    def _seen(function: Callable, name: str, tensor: torch.Tensor, arguments, options) -> Any:
        """Returns what a script gets when it reads a tensor's device or values. Returns NotImplemented for other functions."""
        if function is torch.Tensor.device.__get__:
            return torch.device("cuda", 0)
        if function is torch.Tensor.is_cuda.__get__:
            return True
        if function is torch.Tensor.is_meta.__get__:
            return False
        value = _usual_value(tensor.dtype)
        numbers = {"item": lambda v: v, "__bool__": bool, "__float__": float, "__int__": int}
        numbers["__index__"] = int
        if name in numbers:
            return numbers[name](value)
        if name == "__format__":
            return format(value, arguments[1]) if tensor.dim() == 0 else repr(tensor)
        to_host = [*arguments[1:], options.get("device")]
        if name == "to" and any(str(each) == "cpu" for each in to_host) or name == "cpu":
            name = "zeros"
        if name in ("zeros", "numpy", "tolist") and tensor.numel() <= MOST_VALUES:
            zeros = torch.zeros(tensor.shape, dtype=tensor.dtype)
            return zeros if name == "zeros" else getattr(zeros, name)()
        return NotImplemented

    @staticmethod
    def _together(arguments: Any) -> Any:
        """Moves all tensors of a call to the pretended GPU if one of them is on it."""
        devices = {tensor.device.type for tensor in tensors_in(arguments)}
        if "meta" not in devices or len(devices) == 1:
            return arguments
        return map_tensors(arguments, _moved)


def _plain_loader(original: Callable) -> Callable:
    """Loads batches in this process, so that no worker and no pinned memory remains."""

    def make(self, *arguments: Any, **options: Any) -> None:
        for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context"):
            options.pop(name, None)
        arguments = arguments[:5]  # dataset, batch_size, shuffle, sampler, batch_sampler
        options.update(num_workers=0, pin_memory=False)
        original(self, *arguments, **options)

    return make


def _uncompiled(model: Any = None, *_: Any, **__: Any) -> Any:
    return (lambda function: function) if model is None else model


def _of_cuda(gpus: int) -> dict:
    """The replacement of torch.cuda."""

    def always(value: Any) -> Callable:
        return lambda *_, **__: value

    properties = types.SimpleNamespace(
        name="GPU", major=8, minor=0, total_memory=80 * GIB, multi_processor_count=108
    )
    answers = {name: always(None) for name in (
        "set_device synchronize empty_cache reset_peak_memory_stats ipc_collect init _lazy_init"
        " reset_max_memory_allocated reset_max_memory_cached manual_seed manual_seed_all seed"
        " seed_all set_per_process_memory_fraction memory_summary"
    ).split()}
    answers.update({name: always(0) for name in (
        "current_device memory_allocated max_memory_allocated memory_reserved"
        " max_memory_reserved utilization"
    ).split()})
    answers.update({name: always(True) for name in (
        "is_available is_initialized is_bf16_supported"
    ).split()})
    answers.update({name: Nothing for name in "Stream Event device stream".split()})
    answers.update(
        device_count=always(gpus),
        current_stream=always(Nothing()),
        default_stream=always(Nothing()),
        get_device_name=always("GPU"),
        get_device_capability=always((8, 0)),
        get_device_properties=always(properties),
        mem_get_info=always((80 * GIB, 80 * GIB)),
    )
    return answers


@contextlib.contextmanager
def pretended_gpu(gpus: int) -> Iterator[PretendGpu]:
    """Pretends that the machine has this many GPUs: replaces torch.cuda, and enters the mode that their tensors need."""
    mode = PretendGpu()
    with contextlib.ExitStack() as stack:

        def replace(owner: Any, name: str, new: Any) -> None:
            if hasattr(owner, name):
                stack.enter_context(replaced(owner, name, new))

        for name, answer in _of_cuda(gpus).items():
            replace(torch.cuda, name, answer)
        for module in ("torch.cuda.amp", "torch.amp", "torch.cuda.amp.grad_scaler"):
            with contextlib.suppress(ImportError):
                replace(importlib.import_module(module), "GradScaler", PlainScaler)
        replace(nn.Module, "cuda", lambda self, device=None: self)
        replace(nn.DataParallel, "forward", lambda self, *a, **k: self.module(*a, **k))
        replace(torch, "compile", _uncompiled)
        loader = torch.utils.data.DataLoader
        replace(loader, "__init__", _plain_loader(loader.__init__))
        stack.enter_context(mode)
        yield mode
