"""carma_summary: memory beyond what autograd keeps, optimizers, a training's first step."""

import contextlib
import io
import json
import os
import sys
import tempfile
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import torch
from torch import nn

import carma_summary
from carma_summary import InputSpec, SummaryError, describe
from carma_summary.callbacks import lightning_callback, trainer_callback
from carma_summary.held import stored_bytes
from carma_summary.optimizers import optimizer_bytes

torch.set_num_threads(1)

VECTOR = InputSpec((8,))


class Scales:
    """Like bitsandbytes' QuantState: scales, and the scales of the scales."""

    def __init__(self):
        self.absmax = torch.zeros(4)
        self.state2 = types.SimpleNamespace(absmax=torch.zeros(2))


class Linear4bit(nn.Module):
    """Like bitsandbytes' class: two numbers in a byte, and no forward pass without a GPU."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.in_features, self.out_features, self.bias = inputs, outputs, None
        packed = torch.zeros((inputs * outputs // 2, 1), dtype=torch.uint8)
        self.weight = nn.Parameter(packed, requires_grad=False)
        self.weight.quant_state = Scales()

    def forward(self, x):
        raise RuntimeError("needs a GPU")


class Compiled(nn.Module):
    """Wraps a part of a model as torch.compile does."""

    def __init__(self, module):
        super().__init__()
        self._orig_mod = module

    def forward(self, x):
        raise RuntimeError("compiling looks at values")


class Adam8bit(torch.optim.Adam):
    """Has the name of bitsandbytes' optimizer."""


class Weights(unittest.TestCase):
    def test_trained_and_frozen_by_type(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8, bias=False).to(torch.bfloat16))
        model[1].requires_grad_(False)
        model[1].forward = lambda x: x
        summary = describe(model, VECTOR)
        self.assertEqual(summary["held_bytes"], {"trained": 72 * 4, "frozen": 64 * 2, "others": 0})
        self.assertEqual(summary["trained_types"], {"float32": 72})
        self.assertEqual(summary["frozen_types"], {"bfloat16": 64})

    def test_four_bits(self):
        adapter = nn.Linear(8, 8, bias=False)
        model = nn.Sequential(adapter, Linear4bit(8, 16))
        summary = describe(model, VECTOR)
        # 128 numbers in 64 bytes, and six scales. The frozen layer keeps nothing, the adapter its input.
        self.assertEqual(summary["held_bytes"]["frozen"], 64 + 6 * 4)
        self.assertEqual(summary["saved_bytes"], {"per_sample": 8 * 4, "constant": 0})
        self.assertEqual(summary["output"], [-1, 16])

    def test_tensors_made_of_others(self):
        made = types.SimpleNamespace(inner=torch.zeros(3), scale=torch.zeros(1))
        made.__tensor_flatten__ = lambda: (["inner", "scale"], None)
        self.assertEqual(stored_bytes(made), 16)

    def test_models_beside(self):
        model = nn.Linear(8, 8)
        mean = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
        summary = describe(model, VECTOR, beside=[mean, model])
        self.assertEqual(summary["held_bytes"]["others"], (72 + 16 + 16) * 4 + 8)

    def test_compiled_parts(self):
        model = nn.Sequential(Compiled(nn.Linear(8, 8)), nn.Linear(8, 8))
        self.assertEqual(describe(model, VECTOR)["saved_bytes"]["per_sample"], 2 * 8 * 4)


class Optimizers(unittest.TestCase):
    def bytes_of(self, make, size=8192):
        return optimizer_bytes(make([nn.Parameter(torch.zeros(size)), nn.Parameter(torch.zeros(4))]))

    def test_states(self):
        size = 4 * (8192 + 4)
        self.assertEqual(self.bytes_of(lambda p: torch.optim.SGD(p, 0.1))["states"], 0)
        for make, states in (
            (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), size),
            (lambda p: torch.optim.Adam(p), 2 * size),
            (lambda p: torch.optim.AdamW(p, amsgrad=True), 3 * size),
            (lambda p: Adam8bit(p), 8192 * 2 + 8192 * 8 // 256 + 4 * 8),
        ):
            self.assertEqual(self.bytes_of(make)["states"], states)

    def test_the_step(self):
        whole, largest = 4 * (8192 + 4), 4 * 8192
        foreach = self.bytes_of(lambda p: torch.optim.Adam(p, foreach=True))
        loop = self.bytes_of(lambda p: torch.optim.Adam(p, foreach=False))
        self.assertEqual((foreach["step"], loop["step"]), (whole, largest))

    def test_wrapped_and_named(self):
        inner = Adam8bit([nn.Parameter(torch.zeros(8))])
        wrapped = types.SimpleNamespace(optimizer=inner, param_groups=inner.param_groups)
        summary = describe(nn.Linear(8, 8), VECTOR, optimizer=wrapped)
        self.assertEqual(summary["optimizer"], "adam")
        self.assertEqual(summary["optimizer_flags"], ["8bit"])
        named = describe(nn.Linear(8, 8), VECTOR, optimizer="adamw")
        self.assertNotIn("states", named["held_bytes"])


class FirstStep(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "model.json")

    def summary(self):
        with open(self.path, encoding="utf-8") as file:
            return json.load(file)

    def test_of_a_plain_loop(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        carma_summary.watch(self.path, model, optimizer=torch.optim.SGD(model.parameters(), 0.1))
        model.eval()
        model(torch.zeros(2, 8))
        self.assertFalse(os.path.exists(self.path), "an evaluation before the training")
        model.train()
        result = model(torch.zeros(16, 8))
        self.assertEqual(result.shape, (16, 8))
        self.assertEqual(self.summary()["batch"], 16)
        self.assertNotIn("forward", vars(model), "and left alone")
        self.assertEqual(self.summary()["saved_bytes"]["per_sample"], 2 * 8 * 4)

    def test_named_arguments(self):
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(8, 8)

            def forward(self, x, scale=None, **more):
                return self.linear(x) * scale

        model = Two()
        carma_summary.watch(self.path, model)
        model(torch.zeros(4, 8), scale=torch.ones(4, 1))
        self.assertEqual(self.summary()["batch"], 4)

    def test_a_model_that_cannot_be_described_trains_all_the_same(self):
        class Odd(nn.Module):
            def __init__(self):
                super().__init__()
                self.calls = 0

            def forward(self, x):
                self.calls += 1
                if self.calls > 1 or x.shape[0] != 3:
                    raise RuntimeError("once, with three")
                return x

        model = Odd()
        carma_summary.watch(self.path, model)
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(model(torch.zeros(3, 8)).shape, (3, 8))


class Callbacks(unittest.TestCase):
    """With stand-ins for the frameworks, which are not needed to test what is called when."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "model.json")

    def framework(self, name, **members):
        module = types.ModuleType(name)
        vars(module).update(members)
        before = sys.modules.get(name)
        sys.modules[name] = module

        def restore():
            if before is None:
                del sys.modules[name]
            else:
                sys.modules[name] = before

        self.addCleanup(restore)

    def test_trainer(self):
        self.framework("transformers", TrainerCallback=type("TrainerCallback", (), {}))
        callback = trainer_callback(self.path, precision="fp32")
        model = nn.Linear(8, 8)
        state = types.SimpleNamespace(is_world_process_zero=True)
        callback.on_train_begin(None, state, None, model=model, optimizer=None, lr_scheduler=None)
        model(torch.zeros(4, 8))
        self.assertTrue(os.path.exists(self.path))
        callback.on_train_end(None, state, None)

    def test_lightning(self):
        self.framework("pytorch_lightning", Callback=type("Callback", (), {}))
        callback = lightning_callback(self.path)
        module = nn.ModuleDict({"net": nn.Linear(8, 8), "metric": nn.Linear(1, 1)})
        module["net"].weight.requires_grad_(True)
        optimizer = torch.optim.AdamW(module.parameters())
        callback.on_train_start(types.SimpleNamespace(optimizers=[optimizer]), module)
        module["net"](torch.zeros(4, 8))
        with open(self.path, encoding="utf-8") as file:
            summary = json.load(file)
        self.assertEqual(summary["optimizer"], "adamw")
        callback.on_train_end(None, module)

    def test_neither_is_there(self):
        for make in (trainer_callback, lightning_callback):
            with self.assertRaises(SummaryError):
                make(self.path)


if __name__ == "__main__":
    unittest.main()
