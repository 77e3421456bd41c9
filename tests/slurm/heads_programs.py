#!/usr/bin/env python3
"""The programs that the scripts of heads.txt call, chosen by name: a training that records its environment, and stand-ins for
torchrun, accelerate, conda, module, nvidia-smi and apptainer."""

import json
import os
import re
import signal
import subprocess
import sys
import time

LONG_EPOCHS = 100  # a training of this many epochs is ended by a signal
LONG_S = 150
TORCH = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR")


def value_of(option, words, default=None):
    """The word after the option, or after its "="."""
    for number, word in enumerate(words):
        if word == option:
            return words[number + 1]
        if word.startswith(option + "="):
            return word.split("=", 1)[1]
    return default


def visible():
    """GPUs that a CUDA program would see."""
    return [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]


class Training:
    """Records its environment in the folder `seen` next to this file, and handles signals according to --save-on and --requeue-on."""

    def __init__(self, words):
        self.words, self.saved = words, False
        here = os.path.dirname(os.path.abspath(__file__))
        self.folder = here
        self.path = os.path.join(here, "seen", f"{os.getpid()}-{time.time_ns()}")
        self.checkpoint = os.path.join(here, f"last{os.environ.get('SLURM_PROCID', '')}{os.environ.get('SLURM_ARRAY_TASK_ID', '')}.ckpt")
        environment = {name: value for name, value in os.environ.items() if name.startswith("SLURM") or name in TORCH}
        self.note = {"words": words, "folder": os.path.relpath(os.getcwd(), here), "gpus": visible(), "signals": [], "environment": environment}

    def handle(self, number, _):
        """Saves; the job is requeued by its first process."""
        name = signal.Signals(number).name[3:]
        self.note["signals"].append(name)
        self.write()
        with open(self.checkpoint, "w", encoding="utf-8"):
            self.saved = True
        if name == value_of("--requeue-on", self.words) and os.environ["SLURM_PROCID"] == "0":
            subprocess.run(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]], check=True)

    def write(self):
        """Writes the facts so far in one step."""
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.note, file)
        os.rename(self.path + ".new", self.path)

    def run(self):
        """Runs and returns the exit code."""
        for name in value_of("--save-on", self.words, "").split(","):
            if name:
                signal.signal(getattr(signal, "SIG" + name), self.handle)
        self.write()
        if os.path.exists(self.checkpoint):
            os.remove(self.checkpoint)
            return 0
        end = time.monotonic() + int(value_of("--seconds", self.words, "0"))
        if int(value_of("--epochs", self.words, "0")) >= LONG_EPOCHS:
            end += LONG_S
        while not self.saved and time.monotonic() < end:
            time.sleep(0.05)
        return int(value_of("--exit-after-save" if self.saved else "--exit", self.words, "0"))


def launch(count, first, world, words):
    """The processes of a node, each with its rank; ends with the first failure."""
    processes = []
    for local in range(count):
        more = {"LOCAL_RANK": str(local), "RANK": str(first + local), "WORLD_SIZE": str(world)}
        processes.append(subprocess.Popen([sys.executable, *words], env={**os.environ, **more}))  # pylint: disable=consider-using-with
    return 1 if [code for code in [process.wait() for process in processes] if code != 0] else 0


def program_of(words):
    """The options of a launcher, with dashes in their names, and the Python script with its arguments."""
    at = next(number for number, word in enumerate(words) if word.endswith(".py"))
    return [re.sub(r"^--[^=]*", lambda name: name[0].replace("_", "-"), word) for word in words[:at]], words[at:]


def torchrun(words):
    """torchrun, on one node."""
    options, program = program_of(words)
    asked = value_of("--nproc-per-node", options, "1")
    count = len(visible()) if asked in ("gpu", "auto") else int(asked)
    nodes, rank = int(value_of("--nnodes", options, "1")), int(value_of("--node-rank", options, os.environ.get("SLURM_NODEID", "0")))
    os.environ["MASTER_ADDR"] = value_of("--master-addr", options) or value_of("--rdzv-endpoint", options, "localhost").split(":")[0]
    return launch(count, rank * count, nodes * count, program)


def accelerate(words):
    """accelerate launch."""
    options, program = program_of(words[1:])
    count = int(value_of("--num-processes", options))
    return launch(count, int(value_of("--machine-rank", options)) * count, count, program)


def nvidia_smi(_):
    """nvidia-smi -L"""
    for number, _ in enumerate(visible()):
        print(f"GPU {number}: a simulated one")
    return 0


def apptainer(words):
    """apptainer exec --nv IMAGE PROGRAM …"""
    at = next(number for number, word in enumerate(words) if word.endswith(".sif"))
    os.execvp(words[at + 1], words[at + 1:])


def main():
    name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
    if name == "train.py":
        return Training(words).run()
    if name == "python":
        os.execv(sys.executable, [sys.executable, *words])
    called = {"torchrun": torchrun, "accelerate": accelerate, "nvidia-smi": nvidia_smi, "apptainer": apptainer}
    return called[name](words) if name in called else 0


if __name__ == "__main__":
    sys.exit(main())
