"""carma_summary: bytes counted by hand, shapes, and models that are hard to describe."""

import contextlib
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "carma_summary")
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import torch
import torch.nn.functional as F
from torch import nn

import carma_summary
import models
from carma_summary import InputSpec, SummaryError, describe
from carma_summary.copies import prepared_copy
from carma_summary.inputs import Inputs
from carma_summary.passes import Options, forward_pass

torch.set_num_threads(1)

IMAGE = InputSpec((3, 8, 8))
TOKENS = InputSpec((8, 16))  # eight tokens of width 16


def saved(model, inputs, **options):
    result = describe(model, inputs, **options)["saved_bytes"]
    return result["per_sample"], result["constant"]


class KeptBytes(unittest.TestCase):
    """Per sample and constant, against sums made by hand."""

    def check(self, name, model, inputs, per_sample, constant=0, **options):
        with self.subTest(name):
            self.assertEqual(saved(model, inputs, **options), (per_sample, constant))

    def test_convolution_norm_activation_pool_linear(self):
        image, maps, pooled = 3 * 64 * 4, 8 * 64 * 4, 8 * 16 * 4
        # Inputs of convolution, norm and linear; the activation's result is what the pool reads;
        # the pool's int64 indices; the norm's mean and deviation.
        per_sample = image + maps + maps + 2 * pooled + pooled
        self.check("conv net", models.conv_net(), IMAGE, per_sample, 2 * 8 * 4)

    def test_elementwise(self):
        x = 8 * 4

        def linear(*rest):
            return nn.Sequential(nn.Linear(8, 8), *rest)

        for name, model, per_sample in (
            ("a linear layer keeps its input", linear(), x),
            ("ReLU keeps its result", linear(nn.ReLU()), 2 * x),
            ("in-place ReLU, too", linear(nn.ReLU(inplace=True)), 2 * x),
            ("GELU keeps its input", linear(nn.GELU()), 2 * x),
            ("ReLU's result is the next layer's input", linear(nn.ReLU(), nn.Linear(8, 8)), 2 * x),
            ("GELU's is not", linear(nn.GELU(), nn.Linear(8, 8)), 3 * x),
            ("dropout keeps a byte per element", linear(nn.Dropout(0.5)), x + 8),
            ("and a new tensor for the next", linear(nn.Dropout(0.5), nn.Linear(8, 8)), 2 * x + 8),
            ("dropout at rate 0 nothing", linear(nn.Dropout(0.0)), x),
            ("layer norm keeps two numbers per row", linear(nn.LayerNorm(8)), 2 * x + 8),
            ("an embedding keeps its indices", nn.Embedding(9, 8), 8),
        ):
            dtype = torch.int64 if isinstance(model, nn.Embedding) else torch.float32
            shape = () if dtype == torch.int64 else (8,)
            self.check(name, model, InputSpec(shape, dtype), per_sample)

    def test_attention_written_out(self):
        tokens, matrix = 8 * 16 * 4, 2 * 8 * 8
        # The input; q, k and v (copied by the batched product; scaling keeps nothing); softmax's
        # result, a byte mask, the matrix after dropout; the last layer's input.
        expected = tokens + 3 * tokens + 4 * matrix + matrix + 4 * matrix + tokens
        self.check("plain", models.Attention(), TOKENS, expected)

    def test_fused_attention(self):
        with _scaled_dot_product_attention():
            tokens = 8 * 16 * 4
            # The input; q, k and v in one storage; the result, which the last layer reads; a float
            # per row and head, with the rows rounded up to 32.
            expected = tokens + 3 * tokens + tokens + 2 * 32 * 4
            self.check("fused", models.FusedAttention(), TOKENS, expected)
            half = 5 * tokens // 2 + 2 * 8 * 4  # in 16 bits, rows are not rounded up
            self.check("16 bits", models.FusedAttention(), TOKENS, half, precision="bf16")
            # The input; the scaled q and k; v; the last layer's input; softmax's result, a byte
            # mask, the matrix after dropout.
            unfused = 5 * tokens + (4 + 1 + 4) * 2 * 8 * 8
            self.check("unfused", models.FusedAttention(), TOKENS, unfused, attention="math")
            self.check("no fused kernel for a learned bias", models.LearnedBias(), TOKENS, unfused)

    def test_frozen_weights_keep_nothing(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        model[0].requires_grad_(False)
        self.check("only the second input", model, InputSpec((8,)), 8 * 4)

    def test_views_share_their_storage(self):
        class Views(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList(nn.Linear(8, 1) for _ in range(3))

            def forward(self, x):
                return sum(layer(x[:, i]) for i, layer in enumerate(self.layers))

        self.check("three slices", Views(), InputSpec((3, 8)), 3 * 8 * 4)

    def test_what_nobody_uses_is_not_kept(self):
        self.check("unused branch", models.Forgotten(), InputSpec((8,)), 8 * 4)

    def test_checkpoints_keep_their_arguments_and_one_segment(self):
        first, argument = 8 * 4, 8 * 4
        again = 64 * 4 + 64 * 4  # GELU's input and output
        for reentrant in (True, False):
            result = describe(models.Checkpointed(reentrant), InputSpec((8,)))
            kept = first + argument + again
            self.assertEqual(result["saved_bytes"]["per_sample"], kept, reentrant)
            self.assertEqual(len(result["layers"]), 5, "a segment's modules have one row each")
            self.assertIn("checkpointing", result["notes"][0])

    def test_autocast(self):
        x, weights = 8 * 4, 64 * 4
        model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
        # Both inputs in 16 bits, and a 16-bit copy of the second weight only: the first layer needs
        # a gradient, the model's input does not.
        self.check("linear", model, InputSpec((8,)), x // 2 + x // 2, weights // 2, precision="amp")
        model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.LayerNorm(8))
        # The norm runs in 32 bits: it keeps a 32-bit copy.
        self.check("norm", model, InputSpec((8,)), x // 2 + x + 8, precision="amp")

    def test_cross_entropy(self):
        logits = 8 * 4 * 4
        # The linear layer's input, log-softmax's result and the targets.
        options = {"loss": "cross-entropy"}
        self.check("classes", nn.Linear(8, 16), InputSpec((8,)), 8 * 4 + 16 * 4 + 8, **options)
        tokens = 8 * 8 * 4 + logits + 8 * 8
        self.check("tokens", nn.Linear(8, 4), InputSpec((8, 8)), tokens, **options)

    def test_a_models_own_loss_is_told(self):
        inputs = [InputSpec((8,)), InputSpec((), torch.int64, "labels")]
        self.check("own", models.OwnLoss(), inputs, 8 * 4 + 16 * 4 + 8)
        self.assertEqual(describe(models.OwnLoss(), inputs)["loss"], "own")
        self.assertEqual(describe(models.conv_net(), IMAGE)["loss"], "sum")

    def test_what_is_asked_of_all_of_a_tensor_needs_no_memory(self):
        result = describe(models.AsksOfAll(), InputSpec((8,)))
        self.assertEqual((result["dry_run"], result["saved_bytes"]["per_sample"]), ("meta", 8 * 4))

    def test_recurrent_layers_are_estimated_and_say_so(self):
        result = describe(models.Recurrent(), InputSpec((5, 8)))
        self.assertIn("estimated", result["notes"][0])
        reserve = 5 * 16 * 2 * 6 * 4
        self.assertGreater(result["saved_bytes"]["per_sample"], reserve)

    def test_the_straight_line_meets_the_real_batch(self):
        result = describe(models.PairwiseLoss(), InputSpec((8,)), batch=32)
        self.assertIn("not proportional", result["notes"][0])
        kept = 32 * 8 * 4 + 32 * 16 * 4 + 32 * 32 * 4
        self.assertEqual(result["saved_bytes"], {"per_sample": kept / 32, "constant": 0})

    def test_the_meta_device_and_the_cpu_agree(self):
        model = models.conv_net()
        inputs = Inputs(IMAGE)
        options = Options("fp32", "sum", "fused", math.inf, None)
        kept = []
        for device in ("meta", "cpu"):
            copied = prepared_copy(model, device, options)
            one = forward_pass(copied, inputs, 4, device, options, [])
            kept.append(one.kept_bytes)
        self.assertEqual(kept[0], kept[1])


@contextlib.contextmanager
def _scaled_dot_product_attention():
    """PyTorch 1.13 lacks this function. Any function will do: carma_summary replaces it."""
    if hasattr(F, "scaled_dot_product_attention"):
        yield
        return
    F.scaled_dot_product_attention = lambda *arguments: None
    try:
        yield
    finally:
        del F.scaled_dot_product_attention


class PublishedArchitectures(unittest.TestCase):
    """The bytes equal those counted for timm 1.0.9's models, which have the same layers."""

    def test_to_the_byte(self):
        image = InputSpec((3, 224, 224))
        with _scaled_dot_product_attention():
            for name, model, parameters, per_sample, constant in (
                ("vgg11", models.vgg11(norm=False), 132_863_336, 48_719_872, 0),
                ("vgg11_bn", models.vgg11(norm=True), 132_868_840, 78_424_064, 22_016),
                ("vit_base_patch16_224", models.vision_transformer(), 86_567_656, 118_176_232, 0),
            ):
                with self.subTest(name):
                    result = describe(model, image, batch=32)
                    self.assertEqual(result["params"], parameters)
                    saved_bytes = {"per_sample": per_sample, "constant": constant}
                    self.assertEqual(result["saved_bytes"], saved_bytes)


class LayerList(unittest.TestCase):
    def test_rows(self):
        result = describe(models.conv_net(), IMAGE, batch=32, optimizer="adamw", name="net")
        self.assertEqual(
            result["layers"],
            [
                ["Conv2d", [-1, 3, 8, 8], [-1, 8, 8, 8], 216, 0, 216, 0, "0", {"kernel": 9}],
                ["BatchNorm2d", [-1, 8, 8, 8], [-1, 8, 8, 8], 16, 0, 16, 0, "1", {}],
                ["ReLU", [-1, 8, 8, 8], [-1, 8, 8, 8], 0, 1, 0, 0, "2", {}],
                ["MaxPool2d", [-1, 8, 8, 8], [-1, 8, 4, 4], 0, 0, 0, 0, "3", {}],
                ["Flatten", [-1, 8, 4, 4], [-1, 128], 0, 0, 0, 0, "4", {}],
                ["Linear", [-1, 128], [-1, 10], 1290, 0, 1290, 0, "5", {}],
            ],
        )
        self.assertEqual(result["params"], 216 + 16 + 1290)
        self.assertEqual(result["buffer_bytes"], 2 * 8 * 4 + 8)
        self.assertEqual((result["input"], result["output"]), ([3, 8, 8], [-1, 10]))
        self.assertEqual((result["batch"], result["optimizer"]), (32, "adamw"))

    def test_dimensions_of_several_times_the_batch(self):
        class Windows(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.LayerNorm(4)

            def forward(self, x):
                return self.norm(x.reshape(-1, 5, 4))

        rows = describe(Windows(), InputSpec((3, 5, 4)))["layers"]
        self.assertEqual(rows[0][:3], ["LayerNorm", [-3, 5, 4], [-3, 5, 4]])

    def test_tied_weights_count_once_and_token_ids_are_valid(self):
        model = models.LanguageModel()
        ids = InputSpec((8,), torch.int64, "input_ids")
        types = InputSpec((8,), torch.int64, "token_type_ids")
        result = describe(model, [ids, types])
        self.assertEqual(result["params"], sum(p.numel() for p in model.parameters()))
        self.assertEqual(result["listed_params"] - result["params"], 50 * 16)
        kinds = {row[7]: row[6] for row in result["layers"]}
        self.assertEqual((kinds["head"], kinds["body"], kinds[""]), (0, 2, 2))

    def test_a_module_called_twice_has_two_rows(self):
        rows = describe(models.Twice(), InputSpec((8,)))["layers"]
        self.assertEqual([row[7] for row in rows], ["shared", "shared", ""])

    def test_parameters_of_its_own_beside_children(self):
        class Scaled(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(4))
                self.more = nn.ParameterList([nn.Parameter(torch.ones(3), requires_grad=False)])
                self.linear = nn.Linear(4, 4)

            def forward(self, x):
                return self.linear(x) * self.scale

        row = describe(Scaled(), InputSpec((4,)))["layers"][-1]
        self.assertEqual(row[3:7], [7, 0, 4, 1])

    def test_dropout_rates(self):
        rows = describe(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.25)), InputSpec((4,)))["layers"]
        self.assertEqual(rows[1][8], {"p": 0.25})

    def test_fixed_batch(self):
        result = describe(models.FixedBatch(6), InputSpec((8,)), batch=6)
        self.assertEqual(result["layers"][0][:3], ["Linear", [-1, 8], [-1, 4]])
        self.assertEqual(result["saved_bytes"], {"per_sample": 32, "constant": 0})
        self.assertIn("only with batch 6", result["notes"][0])

    def test_code_that_looks_at_values_runs_on_the_cpu(self):
        result = describe(models.LooksAtValues(), InputSpec((8,)), batch=512)
        self.assertEqual((result["dry_run"], result["saved_bytes"]["per_sample"]), ("cpu", 32))


class InTrainingScripts(unittest.TestCase):
    def setUp(self):
        self.model = models.LanguageModel()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.batch = {"input_ids": torch.zeros(5, 8, dtype=torch.int64)}

    def test_a_real_batch_says_its_size_and_the_optimizer_its_name(self):
        result = describe(self.model, self.batch, optimizer=self.optimizer)
        self.assertEqual((result["batch"], result["optimizer"]), (5, "sgd-momentum"))
        self.assertEqual((result["input"], result["precision"]), ([8], "fp32"))

    def test_nothing_of_the_training_changes(self):
        self.model.eval()
        before = {name: value.clone() for name, value in self.model.state_dict().items()}
        functions = (F.dropout, torch.Tensor.__matmul__, torch.Tensor.softmax, torch._VF.lstm)
        chance = torch.get_rng_state()
        describe(self.model, self.batch, precision="amp")
        self.assertFalse(self.model.training)
        self.assertTrue(torch.equal(chance, torch.get_rng_state()))
        now = (F.dropout, torch.Tensor.__matmul__, torch.Tensor.softmax, torch._VF.lstm)
        self.assertEqual([f is g or f == g for f, g in zip(functions, now)], [True] * 4)
        for name, value in self.model.state_dict().items():
            self.assertTrue(torch.equal(before[name], value), name)
        self.assertFalse(any(module._forward_hooks for module in self.model.modules()))

    def test_write(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.json")
            self.assertTrue(carma_summary.write(path, self.model, self.batch))
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file), describe(self.model, self.batch))

    def test_a_failure_does_not_disturb_the_training(self):
        stderr = io.StringIO()
        with contextlib.redirect_stderr(stderr):
            self.assertFalse(carma_summary.write("/nonexistent/x.json", self.model, self.batch))
            self.assertFalse(carma_summary.write("x.json", self.model, torch.zeros(2, 3)))
        self.assertEqual(len(stderr.getvalue().splitlines()), 2)


class BadInput(unittest.TestCase):
    def test_specs(self):
        self.assertEqual(carma_summary.parse_input("3,4"), InputSpec((3, 4)))
        self.assertEqual(
            carma_summary.parse_input("ids=8:int64"), InputSpec((8,), torch.int64, "ids")
        )
        for text in ("3,x", "0,3", "-1", "3:float33", "3 4=5", "3:nn"):
            with self.subTest(text), self.assertRaises(SummaryError):
                carma_summary.parse_input(text)

    def test_errors_are_one_line(self):
        linear = nn.Linear(8, 4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lazy = nn.LazyLinear(4)
        for name, call, expected in (
            ("shape", lambda: describe(linear, InputSpec((7,))), "forward pass failed"),
            ("precision", lambda: describe(linear, InputSpec((8,)), precision="int8"), "expected"),
            ("attention", lambda: describe(linear, InputSpec((8,)), attention="x"), "expected"),
            ("lazy", lambda: describe(lazy, InputSpec((8,))), "lazy"),
            ("no tensor", lambda: describe(linear, ()), "at least one tensor"),
            ("batch", lambda: describe(linear, InputSpec((8,)), batch=0), "at least 1"),
            ("no loss", lambda: describe(linear, InputSpec((8,)), loss="nothing"), "--loss"),
            ("time", lambda: describe(linear, InputSpec((8,)), time_limit_s=0), "time limit"),
            (
                "memory",
                lambda: describe(models.LooksAtValues(), InputSpec((8,)), memory_limit_bytes=10),
                "needs over",
            ),
        ):
            with self.subTest(name), self.assertRaises(SummaryError) as caught:
                call()
            self.assertIn(expected, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))


class CommandLine(unittest.TestCase):
    def run_program(self, *arguments):
        return subprocess.run(
            [sys.executable, PROGRAM, *arguments],
            cwd=HERE,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def test_large_models_need_neither_memory_nor_time(self):
        limits = ("--memory-limit", "0.5", "--time-limit", "30")
        inputs = ("--input", "input_ids=512:int64", "--batch", "8")
        done = self.run_program("models:big_language_model", *inputs, *limits)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        result = json.loads(done.stdout)
        self.assertEqual(result["model"], "big_language_model")
        self.assertGreater(result["params"], 1e9)

    def test_failures_exit_2_with_one_line(self):
        for arguments, expected in (
            (("models:broken",), "no such backbone"),
            (("models:no_model",), "returned int"),
            (("models:nothing",), "has no nothing"),
            (("no_such_module:x",), "import failed"),
            (("models",), "expected package.module:name"),
            (("models:endless", "--time-limit", "2"), "no answer within 2 s"),
        ):
            with self.subTest(arguments):
                done = self.run_program(*arguments, "--input", "8")
                self.assertEqual(done.returncode, 2)
                self.assertIn(expected, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()
