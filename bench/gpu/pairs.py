"""Runs the proof's models alone and in pairs with `carma profile`, with streams and under MPS."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List

from programs import ProofError, output_of
from proof import Proof
from proof_tasks import Task

HOURS = 6  # time limit of `carma profile`; a run that is still going then has hung


def models(proof: Proof, count: int) -> List[Task]:
    """The first task of each model, for at most `count` models."""
    first: Dict[str, Task] = {}
    for task in proof.tasks:
        first.setdefault(task.model, task)
    return list(first.values())[:count]


def workload(proof: Proof, task: Task) -> Dict[str, Any]:
    """A workload for `carma profile`. The number of steps is that of the exclusive phase;
    without this phase, a calibration run determines it from the time."""
    command = proof.command(task)
    line: Dict[str, Any] = {"name": task.model, "command": command}
    if task.name in proof.steps:
        line["iterations"] = proof.steps[task.name]
    elif not proof.dry:
        line.update(command=[*command[:-2], "--steps", "{steps}"], calibrate=command)
    return {**line, "seconds": proof.task_seconds}


def configuration(proof: Proof) -> str:
    return f"""[collocation]
mps_control = "{proof.mps_control}"
[monitor]
nvml_library = "{proof.nvml}"
[simulation]
state = "{proof.simulated_state}"
"""


def measure_pairs(proof: Proof, count: int) -> Dict[str, Any]:
    """Returns the output of `carma profile --json`. Raises ProofError with the reason if the
    pairs are left out."""
    paths = {name: os.path.join(proof.work, name) for name in ("pairs.toml", "pairs.jsonl")}
    with open(paths["pairs.toml"], "w", encoding="utf-8") as file:
        file.write(configuration(proof))
    with open(paths["pairs.jsonl"], "w", encoding="utf-8") as file:
        for task in models(proof, count):
            file.write(json.dumps(workload(proof, task)) + "\n")
    command = [f"{proof.bin}/carma", "profile", paths["pairs.jsonl"], "--json"]
    command += ["--config", paths["pairs.toml"], "--output", os.path.join(proof.output, "profile")]
    command += ["--repeat", "1", "--degrees", "none", "--methods", "streams,mps", "--no-watching"]
    if len(proof.gpus) < proof.all_gpus:
        command += ["--gpus", ",".join(str(number) for number in proof.gpu_numbers)]
    try:
        return json.loads(output_of(command, timeout_s=3600 * HOURS))
    except ValueError:
        raise ProofError("carma profile gave no answer") from None
