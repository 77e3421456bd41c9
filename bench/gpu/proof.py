"""State that the parts of a proof share: its tasks and GPUs, its output folder, its time limit."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from typing import Any, Dict, List

import machine
import nvml_watch
from programs import ProofError, output_of
from proof_tasks import LOAD_S, Task, chosen_tasks

HERE = os.path.dirname(os.path.abspath(__file__))
DRY_SHAPE = "1xA100-40GB"  # its tasks' durations need no scaling
DRY_SCALE = 20  # simulated seconds per second
CLOSING_S = 20  # seconds of --minutes that are reserved for the reports
# seconds of --minutes that are reserved for run_overhead(): loading, pairs of blocks, the end
OVERHEAD_S = 50


class Proof:
    """The command line's options and what the proof finds on this machine. Times are by
    time.monotonic()."""

    def __init__(self, chosen: argparse.Namespace, work: str):
        """work: a folder that belongs to the proof. Raises ProofError if the proof cannot be
        tried here."""
        self.began = time.monotonic()
        self.deadline = self.began + 60 * chosen.minutes - CLOSING_S
        self.with_overhead = not chosen.no_overhead
        self.pairs = chosen.pairs  # number of models
        kept_back = OVERHEAD_S if self.with_overhead and not chosen.dry else 0
        self.phases_until = self.deadline - kept_back
        self.dry, self.work, self.task_seconds = chosen.dry, work, chosen.task_seconds
        self.bin = os.path.realpath(chosen.bin)
        self.output = os.path.realpath(chosen.output)
        if os.path.exists(os.path.join(self.output, "proof.json")):
            raise ProofError(f"--output {chosen.output}: holds an older proof, choose a new folder")
        os.makedirs(self.output, exist_ok=True)
        self.summaries = os.path.join(work, "summaries")
        os.makedirs(self.summaries)
        self.tasks = chosen_tasks(chosen.tasks)
        self.steps: Dict[str, int] = {}  # number of steps by task, from the exclusive phase
        self.train_task = os.path.join(HERE, "train_task.py")
        self._find_machine()
        self._find_gpus()

    def _find_machine(self) -> None:
        """Finds the driver and NVIDIA's programs, or their replacements in a dry run."""
        self.simulated_state = ""
        self.period_s = 1.0
        self.mps_control = "nvidia-cuda-mps-control"
        self.nvidia_programs = not self.dry  # whether nvidia-smi is used
        machine.leave_foreign_mps()
        if self.dry:
            self._simulate()
        else:
            machine.find_programs()
            self.nvml = machine.find_driver()

    def _find_gpus(self) -> None:
        try:
            self.gpus = nvml_watch.open_gpus(self.nvml)
        except nvml_watch.NoGpu as error:
            raise ProofError(f"{error}; --dry runs on simulated GPUs") from None
        self._chosen = machine.chosen_uuids(os.environ.get("CUDA_VISIBLE_DEVICES"), self.gpus)
        self.all_gpus = len(self.gpus)
        self.gpu_numbers = list(range(self.all_gpus))  # CARMA numbers of the GPUs that are used
        if self._chosen is not None:
            named = tuple(self._chosen)
            numbers = [i for i, gpu in enumerate(self.gpus) if gpu.uuid.startswith(named)]
            self.gpu_numbers = numbers or self.gpu_numbers
            self.gpus = [self.gpus[i] for i in self.gpu_numbers]
        memories = [gpu.memory() for gpu in self.gpus]
        self.idle_mib = [round(memory[0] / nvml_watch.MIB) if memory else 0 for memory in memories]

    def _simulate(self) -> None:
        drivers = [
            os.path.join(self.bin, *path, "libcarma-simgpu.so") for path in ((), ("..", "lib"))
        ]
        self.nvml = next(
            (os.path.realpath(path) for path in drivers if os.path.exists(path)), drivers[0]
        )
        self.mps_control = os.path.join(self.bin, "carma-simmps")
        self.simulated_state = os.path.join(self.work, "gpus")
        # The driver in this process reads this variable too.
        os.environ["CARMA_SIMGPU_STATE"] = self.simulated_state
        command = [f"{self.bin}/carma-simgpu", "create", "--shape", DRY_SHAPE]
        output_of([*command, "--time-scale", str(DRY_SCALE)])
        self.period_s = 1 / DRY_SCALE

    def has_smi(self) -> bool:
        return self.nvidia_programs and shutil.which("nvidia-smi") is not None

    def may_use(self, gpu: Dict[str, Any]) -> bool:
        """gpu: an entry of `carma gpus --json`."""
        return machine.is_chosen(gpu, self._chosen)

    def say(self, text: str, end: str = "\n") -> None:
        if end == "\n" or sys.stdout.isatty():
            print(text, end=end, flush=True)

    def write(self, name: str, text: str) -> None:
        with open(os.path.join(self.output, name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name: str) -> str:
        with open(os.path.join(self.output, name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def command(self, task: Task) -> List[str]:
        """The command that is submitted for a task."""
        if self.dry:
            return self._simulated(task)
        amount = ["--seconds", str(self.task_seconds)]
        if task.name in self.steps:
            amount = ["--steps", str(self.steps[task.name])]
        train = [sys.executable, self.train_task, "train", task.network]
        return [*train, "--batch", str(task.batch), *amount]

    def _simulated(self, task: Task) -> List[str]:
        options = {
            "--memory-mib": task.memory_mib,
            "--sm-active": task.sm_active,
            "--sensitivity": task.sensitivity,
            "--pressure": task.pressure,
            "--solo-s": self.task_seconds,
            "--load-s": LOAD_S,
            "--epochs": 1,
        }
        words = [str(word) for option in options.items() for word in option]
        return [f"{self.bin}/carma-simtask", *words]
