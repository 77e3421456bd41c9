"""carma_summary.py --run: runs a user's script to the end of its first step, without a GPU."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

from carma_summary import SummaryError
from carma_summary.script import check_version

PACKAGE = os.path.join(os.path.dirname(HERE), "carma_summary")

BEGIN = """
import torch, sys
from torch import nn
import torch.nn.functional as F
"""

# Kept per sample: 8 floats of input, 16 of ReLU's output, 4 of log-softmax, the target's int64; per
# batch: nothing. The second linear layer shares what ReLU keeps.
PLAIN = BEGIN + """
from torch.utils.data import DataLoader, TensorDataset
assert torch.cuda.is_available() and torch.cuda.device_count() == 2
device = torch.device("cuda")
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters())
model.to(device)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
scaler = torch.cuda.amp.GradScaler(enabled=False)
data = TensorDataset(torch.randn(64, 8), torch.randint(0, 4, (64,)))
for x, y in DataLoader(data, 32, num_workers=2, pin_memory=True):
    x, y = x.to(device, non_blocking=True), y.cuda()
    loss = F.cross_entropy(model(x), y)
    if torch.isnan(loss):
        sys.exit("loss is NaN")
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    schedule.step()
    print(f"loss {loss.item():.3f} {loss:.2f}", loss.detach().cpu().numpy())
open("went_on", "w")
"""
PLAIN_PARAMETERS = 8 * 16 + 16 + 16 * 4 + 4

ADVERSARIAL = BEGIN + """
make = nn.Sequential(nn.Linear(4, 8), nn.Tanh()).cuda()
judge = nn.Linear(8, 1).cuda()
first = torch.optim.Adam(judge.parameters())
second = torch.optim.SGD(make.parameters(), lr=0.1, momentum=0.9)
while True:
    noise = torch.randn(16, 4, device="cuda")
    judge(make(noise).detach()).mean().backward()
    first.step()
    judge(make(noise)).mean().backward()
    second.step()
"""

# A frozen reference model, tied weights, two forward passes in a step, a preference loss.
PREFERENCES = BEGIN + """
import copy
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, 16)
        self.head = nn.Linear(16, 100, bias=False)
        self.head.weight = self.table.weight
    def forward(self, input_ids):
        return self.head(self.table(input_ids))
model = Model().to("cuda")
reference = copy.deepcopy(model).eval().requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters())
def likelihood(model, ids):
    return F.log_softmax(model(input_ids=ids), -1).gather(2, ids[..., None]).sum((1, 2))
for _ in range(2):
    chosen = torch.randint(0, 100, (4, 10)).to("cuda")
    with torch.no_grad():
        known = likelihood(reference, chosen)
    F.logsigmoid(likelihood(model, chosen) - known).mean().neg().backward()
optimizer.step()
"""


class Run(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = self._folder.name

    def run_script(self, text, *options):
        with open(os.path.join(self.folder, "train.py"), "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))
        return subprocess.run(
            [sys.executable, PACKAGE, "--run", *options, "train.py"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def summary(self, text, *options):
        ran = self.run_script(text, *options)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        return json.loads(ran.stdout)

    def trouble(self, text, *options):
        ran = self.run_script(text, *options)
        self.assertEqual((ran.returncode, ran.stdout), (2, ""))
        self.assertEqual(ran.stderr.count("\n"), 1, ran.stderr)
        return ran.stderr

    def test_counts_one_step_and_stops(self):
        summary = self.summary(PLAIN, "--gpus", "2")
        saved = summary["saved_bytes"]
        self.assertEqual(saved, {"per_sample": (8 + 16 + 4) * 4 + 8, "constant": 0})
        held = summary["held_bytes"]
        self.assertEqual(held["trained"], 4 * PLAIN_PARAMETERS)
        self.assertEqual(held["states"], 8 * PLAIN_PARAMETERS)
        self.assertEqual((summary["batch"], summary["optimizer"]), (32, "adam"))
        self.assertEqual(summary["loss"], "script")
        self.assertFalse(os.path.exists(os.path.join(self.folder, "went_on")))

    def test_autocast_halves_what_is_kept(self):
        amp = PLAIN.replace(
            "    loss = F", "    with torch.autocast('cuda'):\n      loss = F"
        )
        summary = self.summary(amp, "--gpus", "2")
        self.assertEqual(summary["precision"], "amp-fp16")
        # x as 16 bits, ReLU's output in 16 bits; log-softmax in 32.
        self.assertEqual(summary["saved_bytes"]["per_sample"], 8 * 2 + 16 * 2 + 4 * 4 + 8)

    def test_all_trained_models_and_optimizers_count(self):
        held = self.summary(ADVERSARIAL)["held_bytes"]
        self.assertEqual(held["trained"], 4 * (40 + 9))
        self.assertEqual(held["states"], 4 * 40 + 8 * 9)
        self.assertEqual(held["others"], 0)

    def test_a_frozen_reference_stands_beside_and_tied_weights_stay_one(self):
        summary = self.summary(PREFERENCES)
        self.assertEqual(summary["held_bytes"]["trained"], 4 * 1600)
        self.assertEqual(summary["held_bytes"]["others"], 4 * 1600)
        # Per token: the id, gather's view of it, the states before the head, log-softmax's output.
        # Then what logsigmoid keeps, and its buffer.
        saved = summary["saved_bytes"]["per_sample"]
        self.assertEqual(saved, 10 * (8 + 8 + 16 * 4 + 100 * 4) + 4 + 4)

    def test_a_step_that_needs_values_leaves_what_the_model_says(self):
        summary = self.summary(
            BEGIN
            + """
model = nn.Linear(8, 8).cuda()
y = model(torch.randn(4, 8).cuda())
y[y > 0].sum().backward()
"""
        )
        self.assertEqual(summary["saved_bytes"], {"per_sample": 32, "constant": 0})
        self.assertIn("stopped in its first step", summary["notes"][0])

    def test_what_cannot_be_run_is_one_line(self):
        cases = [
            ("import missing_module", "ModuleNotFoundError: No module named 'missing_module'"),
            ("import sys; print('usage', file=sys.stderr); sys.exit(2)", "exited with 2: usage"),
            ("import sys; sys.exit('no data at /data')", "exited with no data at /data"),
            ("import torch", "no model was trained: it ended before a step"),
            ("import os\nx = []\nwhile True: x.append(os.urandom(1 << 24))", "of host memory"),
        ]
        for text, reason in cases:
            with self.subTest(text):
                self.assertIn(reason, self.trouble(text, "--memory-limit", "1"))

    def test_a_script_that_does_not_come_to_a_step_is_ended(self):
        self.assertIn("no step within 1 s", self.trouble("while True: pass", "--time-limit", "1"))

    def test_versions_that_nobody_has_looked_at_are_refused(self):
        for known in ("1.13.0a0", "1.13.1+cu117", "2.0.0", "2.11.0+cu130"):
            check_version(known)
        for unknown in ("1.12.1", "2.12.0", "3.0", "git"):
            with self.assertRaisesRegex(SummaryError, "is not known: expected 1.13 to 2.11"):
                check_version(unknown)


if __name__ == "__main__":
    unittest.main()
