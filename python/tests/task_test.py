#!/usr/bin/env python3
"""The module carma_task: loops that are asked to checkpoint, end, and later continue as if they had never stopped."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import carma_task  # noqa: E402 pylint: disable=wrong-import-position
from carma_task import turn  # noqa: E402 pylint: disable=wrong-import-position

try:
    import torch  # noqa: F401
except ImportError:
    torch = None

# Each prints its loss after every step, and waits for a line of input before the next.
PLAIN = """
import json, os, sys
import carma_task
carma_task.listen()
state = os.path.join(carma_task.folder(), "state")
first, x = 0, 8.0
if os.path.exists(state):
    first, x = json.load(open(state))
for step in range(first, 8):
    x -= 0.1 * 2 * x
    print(json.dumps([step, x]), flush=True)
    sys.stdin.readline()
    if carma_task.should_save():
        assert carma_task.seconds_left() > 0
        with carma_task.replacing(state) as path:
            json.dump([step + 1, x], open(path, "w"))
        carma_task.leave()
"""
TORCH = """
import json, os, sys
import torch
import carma_task
carma_task.listen()
torch.manual_seed(0)
data = torch.randn(64, 8)
wanted = data @ torch.randn(8, 1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
state, first = os.path.join(carma_task.folder(), "state.pt"), 0
if os.path.exists(state):
    kept = torch.load(state)
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    torch.set_rng_state(kept["chance"])
    first = kept["step"]
for step in range(first, 8):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(data), wanted)
    loss.backward()
    optimizer.step()
    print(json.dumps([step, loss.item()]), flush=True)
    sys.stdin.readline()
    if carma_task.should_save():
        with carma_task.replacing(state) as path:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "chance": torch.get_rng_state(),
                        "step": step + 1}, path)
        carma_task.leave()
"""


class Progress(unittest.TestCase):
    """Lines that CARMA reads."""

    def lines(self, body, **more):
        """What the program prints to its errors."""
        environment = {**os.environ, "CARMA_TASK_ID": "7", "PYTHONPATH": os.path.dirname(HERE), **more}
        ran = subprocess.run([sys.executable, "-c", "import carma_task\n" + body], env=environment, capture_output=True, text=True, check=True)
        self.assertEqual(ran.stdout, "")
        return ran.stderr.splitlines()

    def test_first_and_last_report_are_printed(self):
        """A line for each step would fill the log."""
        printed = self.lines("for step in range(1, 1001): carma_task.progress(step, 1000, loss=1 / step)")
        self.assertEqual(printed, ["carma: progress 1/1000 loss 1", "carma: progress 1000/1000 loss 0.001"])

    def test_only_rank_zero_of_a_task_reports(self):
        """Other ranks and programs outside of tasks stay silent."""
        self.assertEqual(self.lines("carma_task.progress(1, 2)", RANK="1"), [])
        self.assertEqual(self.lines("import os; del os.environ['CARMA_TASK_ID']; carma_task.progress(1, 2)"), [])


class LoopTest(unittest.TestCase):
    """Training loops, run as a task would run them."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="carma-task.")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_loop(self, program, name, restarts, ask_after=None):
        """Returns the loss curve of one start and its exit code. The loop is asked to checkpoint after the step ask_after."""
        environment = {**os.environ, "PYTHONPATH": os.path.dirname(HERE), "CARMA_CHECKPOINT_SIGNAL": "USR1",
                       "CARMA_CHECKPOINT_NOTICE": "600", "CARMA_RESTARTS": str(restarts),
                       "CARMA_CHECKPOINT_DIR": os.path.join(self.folder, name)}
        environment.pop("TORCHELASTIC_RUN_ID", None)
        curve = []
        with subprocess.Popen([sys.executable, "-c", program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as loop:
            for line in loop.stdout:
                curve.append(json.loads(line))
                if ask_after is not None and curve[-1][0] == ask_after:
                    loop.send_signal(signal.SIGUSR1)
                loop.stdin.write("\n")
                loop.stdin.flush()
        return curve, loop.returncode

    def check(self, program):
        """Stopped twice and continued from what it saved, the loop learns what it would have learned in one go."""
        whole, code = self.run_loop(program, "whole", 0)
        self.assertEqual((len(whole), code), (8, 0))
        first, code = self.run_loop(program, "parts", 0, ask_after=2)
        self.assertEqual(code, carma_task.SAVED)
        second, code = self.run_loop(program, "parts", 1, ask_after=5)
        self.assertEqual(code, carma_task.SAVED)
        third, code = self.run_loop(program, "parts", 2)
        self.assertEqual(code, 0)
        self.assertEqual(first + second + third, whole)
        self.assertEqual([len(part) for part in (first, second, third)], [3, 3, 2])

    def test_a_plain_loop_goes_on(self):
        self.check(PLAIN)

    @unittest.skipIf(torch is None, "needs Debian's package python3-torch")
    def test_a_training_with_pytorch_has_the_same_curve(self):
        self.check(TORCH)

    def test_who_is_ended_while_he_writes_leaves_the_old_file(self):
        path = os.path.join(self.folder, "state")
        with open(path, "w", encoding="utf-8") as file:
            file.write("old")
        with self.assertRaises(KeyError):
            with carma_task.replacing(path) as temporary:
                with open(temporary, "w", encoding="utf-8") as file:
                    file.write("half")
                raise KeyError
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "old")
        self.assertEqual(os.listdir(self.folder), ["state"])

    def test_a_folder_is_not_replaced_and_not_left(self):
        path = os.path.join(self.folder, "state")
        with self.assertRaises(IsADirectoryError):
            with carma_task.replacing(path) as temporary:
                os.makedirs(os.path.join(temporary, "shard"))
        self.assertEqual(os.listdir(self.folder), [])

    def test_the_time_left_ends_at_the_real_deadline(self):
        """The attempt's folder states it. Without that file, as in a container, the notice counts."""
        program = textwrap.dedent("""
            import os, signal, sys, time
            import carma_task
            carma_task.listen()
            signal.raise_signal(signal.SIGUSR1)
            assert 500 < carma_task.seconds_left() <= 600
            with open(os.path.join(sys.argv[1], "leaves_by_ms"), "w") as file:
                file.write(f"{int((time.time() + 60) * 1000)}\\n")
            assert 0 < carma_task.seconds_left() <= 60
            with open(os.path.join(sys.argv[1], "leaves_by_ms"), "w") as file:
                file.write("inf")
            assert carma_task.seconds_left() == float("inf"), "it may stay after all"
        """)
        environment = {**os.environ, "PYTHONPATH": os.path.dirname(HERE), "CARMA_CHECKPOINT_SIGNAL": "USR1",
                       "CARMA_CHECKPOINT_NOTICE": "600", "CARMA_ATTEMPT_DIR": self.folder}
        subprocess.run([sys.executable, "-c", program, self.folder], env=environment, check=True)

    def test_outside_of_a_task_nobody_asks(self):
        program = textwrap.dedent("""
            import carma_task
            assert not carma_task.listen() and not carma_task.should_save() and carma_task.seconds_left() is None
            assert carma_task.restarts() == 0 and carma_task.folder("here") == "here"
        """)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CARMA_")}
        subprocess.run([sys.executable, "-c", program], cwd=self.folder, check=True,
                       env={**environment, "PYTHONPATH": os.path.dirname(HERE)})


class FrameworkTest(unittest.TestCase):
    """Against stand-ins of the interfaces that the callbacks use."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="carma-task.")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.addCleanup(os.environ.pop, "CARMA_CHECKPOINT_DIR", None)
        os.environ["CARMA_CHECKPOINT_DIR"] = self.folder
        self.addCleanup(setattr, turn._turn, "asked_at", None)  # pylint: disable=protected-access

    def stand_in(self, name, **members):
        """A module of that name, for the time of the test."""
        module = types.ModuleType(name)
        vars(module).update(members)
        for index in range(1, name.count(".") + 2):
            part = ".".join(name.split(".")[:index])
            self.addCleanup(sys.modules.pop, part, None)
            sys.modules.setdefault(part, types.ModuleType(part))
        sys.modules[name] = module

    @staticmethod
    def ask():
        """Does what the signal does."""
        turn._turn.take(signal.SIGUSR1, None)  # pylint: disable=protected-access

    def test_lightning_saves_after_the_batch(self):
        self.stand_in("lightning.pytorch", Callback=object)
        saved = []

        class Trainer:
            """Of Lightning."""

            is_global_zero = True

            def save_checkpoint(self, path):
                """Writes it."""
                saved.append(path)
                with open(path, "w", encoding="utf-8") as file:
                    file.write("weights")

        callback = carma_task.lightning_callback()
        callback.on_train_batch_end(Trainer(), None, None, None, 0)
        self.assertEqual(saved, [])
        self.assertIsNone(carma_task.lightning_checkpoint())
        self.ask()
        with self.assertRaises(SystemExit) as left:
            callback.on_train_batch_end(Trainer(), None, None, None, 1)
        self.assertEqual(left.exception.code, carma_task.SAVED)
        self.assertEqual(carma_task.lightning_checkpoint(), os.path.join(self.folder, "lightning.ckpt"))

    def test_the_trainer_of_hugging_face_is_told_to_save(self):
        self.stand_in("transformers", TrainerCallback=object)
        control = types.SimpleNamespace(should_save=False, should_training_stop=False)
        callback = carma_task.trainer_callback()
        callback.on_step_end(None, None, control)
        callback.on_save(None, None, control)
        self.assertFalse(control.should_save)
        self.ask()
        callback.on_step_end(None, None, control)
        self.assertTrue(control.should_save and control.should_training_stop)
        with self.assertRaises(SystemExit):
            callback.on_save(None, None, control)

    def test_the_last_whole_checkpoint_of_the_trainer_is_found(self):
        self.assertIsNone(carma_task.last_checkpoint(self.folder + "/none"))
        for name, whole in (("checkpoint-5", True), ("checkpoint-10", True), ("checkpoint-20", False), ("other", True)):
            os.mkdir(os.path.join(self.folder, name))
            if whole:
                open(os.path.join(self.folder, name, "trainer_state.json"), "w", encoding="utf-8").close()
        self.assertEqual(carma_task.last_checkpoint(self.folder), os.path.join(self.folder, "checkpoint-10"))

    def test_without_a_framework_its_callback_says_so(self):
        for name, make in (("lightning", carma_task.lightning_callback), ("transformers", carma_task.trainer_callback)):
            if name in sys.modules:
                continue
            try:
                __import__(name)
            except ImportError:
                self.assertRaisesRegex(ImportError, "not installed", make)


if __name__ == "__main__":
    unittest.main(verbosity=2)
