#!/usr/bin/env python3
"""Trains the same small tasks one per GPU, then collocated by CARMA, with streams and under MPS,
and writes what each took, with checks of what CARMA measured. Called by run.sh; docs/gpu-proof.md
says what the figures mean.

How the work is made equal: in the exclusive phase each task trains for --task-seconds and says how
many steps that was; in the others it trains that many. So the run ends in time on any GPU, and the
phases compare.

Needs nothing but the standard library itself; the tasks need PyTorch. --dry: simulated GPUs,
simulated tasks.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from typing import Any, Dict, List, Optional, Sequence

import machine
import nvml_watch
import proof_text
import step_cost
from phase import Phase
from programs import ProofError, output_of
from proof_tasks import LOAD_S, Task, chosen_tasks

HERE = os.path.dirname(os.path.abspath(__file__))
DRY_SHAPE = "1xA100-40GB"  # whose tasks' durations need no scaling
DRY_SCALE = 20  # simulated seconds per second
CLOSING_S = 20  # kept back from --minutes for the reports
METHODS = ("exclusive", "streams", "mps")


class Proof:
    def __init__(self, chosen: argparse.Namespace, work: str):
        self.began = time.monotonic()
        self.deadline = self.began + 60 * chosen.minutes - CLOSING_S
        self.with_overhead = not chosen.no_overhead
        kept_back = step_cost.NEEDED_S if self.with_overhead and not chosen.dry else 0
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
        self.simulated_state = ""
        self.train_task = os.path.join(HERE, "train_task.py")
        self.period_s = 1.0
        self.mps_control = "nvidia-cuda-mps-control"
        self.nvidia_programs = not self.dry  # whether nvidia-smi is used
        machine.leave_foreign_mps()
        if self.dry:
            self._simulate()
        else:
            machine.find_programs()
            self.nvml = machine.find_driver()
        try:
            self.gpus = nvml_watch.open_gpus(self.nvml)
        except nvml_watch.NoGpu as error:
            raise ProofError(f"{error}; --dry runs on simulated GPUs") from None
        self._chosen = machine.chosen_uuids(os.environ.get("CUDA_VISIBLE_DEVICES"), self.gpus)
        self.all_gpus = len(self.gpus)
        if self._chosen is not None:
            named = tuple(self._chosen)
            self.gpus = [gpu for gpu in self.gpus if gpu.uuid.startswith(named)] or self.gpus
        memories = [gpu.memory() for gpu in self.gpus]
        self.idle_mib = [round(memory[0] / nvml_watch.MIB) if memory else 0 for memory in memories]
        self.steps: Dict[str, int] = {}  # by task, from the exclusive phase

    def _simulate(self) -> None:
        drivers = [
            os.path.join(self.bin, *path, "libcarma-simgpu.so") for path in ((), ("..", "lib"))
        ]
        self.nvml = next(
            (os.path.realpath(path) for path in drivers if os.path.exists(path)), drivers[0]
        )
        self.mps_control = os.path.join(self.bin, "carma-simmps")
        self.simulated_state = os.path.join(self.work, "gpus")
        # Read by the driver in this process, too.
        os.environ["CARMA_SIMGPU_STATE"] = self.simulated_state
        command = [f"{self.bin}/carma-simgpu", "create", "--shape", DRY_SHAPE]
        output_of([*command, "--time-scale", str(DRY_SCALE)])
        self.period_s = 1 / DRY_SCALE

    def has_smi(self) -> bool:
        return self.nvidia_programs and shutil.which("nvidia-smi") is not None

    def may_use(self, gpu: Dict[str, Any]) -> bool:
        """A GPU as `carma gpus --json` tells it."""
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
        """What is submitted for a task."""
        if self.dry:
            return [
                f"{self.bin}/carma-simtask",
                "--memory-mib",
                str(task.memory_mib),
                "--sm-active",
                str(task.sm_active),
                "--sensitivity",
                str(task.sensitivity),
                "--pressure",
                str(task.pressure),
                "--solo-s",
                str(self.task_seconds),
                "--load-s",
                str(LOAD_S),
                "--epochs",
                "1",
            ]
        amount = (
            ["--steps", str(self.steps[task.name])]
            if task.name in self.steps
            else ["--seconds", str(self.task_seconds)]
        )
        return [
            sys.executable,
            self.train_task,
            "train",
            task.network,
            "--batch",
            str(task.batch),
            *amount,
        ]

    def describe_models(self) -> Optional[str]:
        """Layer lists of all models, for the estimates; why there are none, or None."""
        models = sorted({f"{task.network}:{task.batch}" for task in self.tasks})
        try:
            cuda = [] if self.dry else ["--need-cuda"]
            command = [sys.executable, self.train_task, "describe", *cuda, self.summaries, *models]
            output_of(command, timeout_s=180)
        except ProofError as error:
            return str(error)
        return None

    def _noticed(self) -> List[str]:
        found = machine.noticed(self.gpus, self.idle_mib, len(self.tasks))
        if len(self.gpus) < self.all_gpus:
            found.append(
                f"{len(self.gpus)} of {self.all_gpus} GPUs are used (CUDA_VISIBLE_DEVICES); CARMA's "
                "means are over all"
            )
        return found

    def _doctor(self) -> Dict[str, List[Dict[str, Any]]]:
        """What `carma doctor` found; nothing where it did not come to an end."""
        told: Dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            told = json.loads(self.read("doctor.json"))
        return {name: told.get(name, []) for name in ("findings", "contexts")}

    def run(self, methods: Sequence[str]) -> Dict[str, Any]:
        result: Dict[str, Any] = {
            "simulated": self.dry,
            "carma": output_of([f"{self.bin}/carma", "--version"]).strip(),
            "host": {
                "gpus": [gpu.name for gpu in self.gpus],
                "cores": os.cpu_count(),
                "kernel": platform.release(),
                "python": platform.python_version(),
            },
            "tasks": len(self.tasks),
            "task_seconds": self.task_seconds,
            "noticed": [] if self.dry else self._noticed(),
            "phases": {},
            "left_out": {},
        }
        left_out = result["left_out"]
        trouble = self.describe_models()
        if trouble and not self.dry:
            raise ProofError(f"the tasks need PyTorch with CUDA: {trouble}")
        if trouble:
            left_out["estimates"] = trouble
        for method in methods:
            if time.monotonic() > self.phases_until:
                left_out[method] = "the time was over"
                continue
            self.say(f"{method}: {len(self.tasks)} tasks")
            try:
                phase = Phase(self, method).run()
            except ProofError as error:
                left_out[method] = str(error)
                continue
            result["phases"][method] = phase
            if method == "exclusive":
                self.steps = {
                    about["name"]: about["steps"] for about in phase["tasks"] if "steps" in about
                }
        if not self.with_overhead:
            left_out["overhead"] = "not asked for"
        elif time.monotonic() > self.deadline:
            left_out["overhead"] = "the time was over"
        else:
            try:
                self.say("overhead of monitoring")
                result["overhead"] = step_cost.measure_overhead(self)
            except ProofError as error:
                left_out["overhead"] = str(error)
        result["doctor"] = self._doctor()
        result["seconds"] = round(time.monotonic() - self.began, 1)
        return result


def complete(result: Dict[str, Any], methods: Sequence[str]) -> bool:
    """All tasks of all phases succeeded in time. MPS may be left out: not all machines allow it."""
    return set(methods) - {"mps"} <= set(result["phases"]) and all(
        not phase["cut_short"] and all(about["state"] == "succeeded" for about in phase["tasks"])
        for phase in result["phases"].values()
    )


# --------------------------------------------------------------------------------------------------
# Command line.
# --------------------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    def whole(low: int, high: int):
        def read(text: str) -> int:
            if not text.isdigit() or not low <= int(text) <= high:
                raise argparse.ArgumentTypeError(
                    f"{text!r}: expected a whole number from {low} to {high}"
                )
            return int(text)

        return read

    def above_zero(text: str) -> float:
        with contextlib.suppress(ValueError):
            if 0 < float(text) <= 86400:
                return float(text)
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number above 0")

    def methods(text: str) -> List[str]:
        names = text.split(",")
        if not set(names) <= set(METHODS) or len(set(names)) != len(names):
            raise argparse.ArgumentTypeError(f"{text!r}: expected some of {','.join(METHODS)}")
        return sorted(names, key=METHODS.index)

    parser = argparse.ArgumentParser(prog="run.sh", description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--dry", action="store_true", help="simulated GPUs, simulated tasks")
    parser.add_argument("--tasks", type=whole(1, 36), default=12, help="how many (12)")
    parser.add_argument(
        "--task-seconds",
        type=above_zero,
        default=8.0,
        metavar="S",
        help="of training, each alone (8)",
    )
    parser.add_argument(
        "--phases", type=methods, default=list(METHODS), help=f"some of {','.join(METHODS)} (all)"
    )
    parser.add_argument(
        "--no-overhead", action="store_true", help="do not measure what monitoring costs a task"
    )
    parser.add_argument(
        "--minutes",
        type=above_zero,
        default=9.0,
        help="what has not ended by then is cancelled (9)",
    )
    parser.add_argument(
        "--output", default="carma-proof", metavar="DIR", help="where results go (./carma-proof)"
    )
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Exit status 0 if all tasks succeeded in time, 1 if not, 2 with one line on stderr if it could
    not be tried."""
    chosen = parser().parse_args(arguments)
    work = tempfile.mkdtemp(prefix="carma-proof.", dir="/tmp")  # short: it holds sockets
    try:
        proof = Proof(chosen, work)
        result = proof.run(chosen.phases)
        text = proof_text.text_of(result)
        proof.write("proof.json", json.dumps(result, indent=1) + "\n")
        proof.write("proof.txt", text)
        reports = [f"{proof.output}/{method}.json" for method in result["phases"]]
        if reports:
            output_of(
                [f"{proof.bin}/carma", "report", *reports, "--html", f"{proof.output}/proof.html"]
            )
        print(
            "\n" + text + f"\nwritten to {proof.output}: proof.txt, proof.json, proof.html",
            flush=True,
        )
        return 0 if complete(result, chosen.phases) else 1
    except (ProofError, OSError) as error:
        print(f"gpu_proof: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended
    sys.exit(main())
