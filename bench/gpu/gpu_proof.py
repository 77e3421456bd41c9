#!/usr/bin/env python3
"""Trains the same small tasks one per GPU, then collocated by CARMA with streams and under MPS, and
writes the cost of each run, with checks of CARMA's measurements. Called by run.sh.
docs/server/gpu-proof.md explains the figures.

All phases do equal work: in the exclusive phase, each task trains for --task-seconds and reports
the number of steps; in the other phases, it trains for this number of steps. So the run ends in
time on any GPU, and the phases can be compared.

Needs only the standard library; the tasks need PyTorch. --dry: simulated GPUs, simulated tasks.
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
import pairs
import proof_text
import step_cost
from phase import Phase
from programs import ProofError, output_of
from proof import Proof

METHODS = ("exclusive", "streams", "mps")


def describe_models(proof: Proof) -> Optional[str]:
    """Writes the layer lists of all models, for the estimates. Returns why there are none, or
    None."""
    models = sorted({f"{task.network}:{task.batch}" for task in proof.tasks})
    try:
        cuda = [] if proof.dry else ["--need-cuda"]
        command = [sys.executable, proof.train_task, "describe", *cuda, proof.summaries, *models]
        output_of(command, timeout_s=180)
    except ProofError as error:
        return str(error)
    return None


def noticed(proof: Proof) -> List[str]:
    """Reasons why the figures will differ from those of an empty server."""
    if proof.dry:
        return []
    found = machine.noticed(proof.gpus, proof.idle_mib, len(proof.tasks))
    if len(proof.gpus) < proof.all_gpus:
        found.append(
            f"{len(proof.gpus)} of {proof.all_gpus} GPUs are used (CUDA_VISIBLE_DEVICES); CARMA's "
            "means are over all"
        )
    return found


def doctor(proof: Proof) -> Dict[str, List[Dict[str, Any]]]:
    """The findings of `carma doctor`; empty if it did not finish."""
    told: Dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        told = json.loads(proof.read("doctor.json"))
    return {name: told.get(name, []) for name in ("findings", "contexts")}


def begun(proof: Proof) -> Dict[str, Any]:
    """The result before any phase has run."""
    return {
        "simulated": proof.dry,
        "carma": output_of([f"{proof.bin}/carma", "--version"]).strip(),
        "host": {
            "gpus": [gpu.name for gpu in proof.gpus],
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
        },
        "tasks": len(proof.tasks),
        "task_seconds": proof.task_seconds,
        "noticed": noticed(proof),
        "phases": {},
        "left_out": {},
    }


def run_phase(proof: Proof, method: str) -> Dict[str, Any]:
    """Runs one phase. Raises ProofError with the reason if the phase is left out."""
    if time.monotonic() > proof.phases_until:
        raise ProofError("no time was left")
    proof.say(f"{method}: {len(proof.tasks)} tasks")
    phase = Phase(proof, method).run()
    if method == "exclusive":
        proof.steps = {
            about["name"]: about["steps"] for about in phase["tasks"] if "steps" in about
        }
    return phase


def run_overhead(proof: Proof) -> Dict[str, Any]:
    """Measures the cost of monitoring. Raises ProofError with the reason if this is left out."""
    if not proof.with_overhead:
        raise ProofError("not asked for")
    if time.monotonic() > proof.deadline:
        raise ProofError("no time was left")
    proof.say("overhead of monitoring")
    return step_cost.measure_overhead(proof)


def run_pairs(proof: Proof) -> Dict[str, Any]:
    """Measures the pairs. Raises ProofError with the reason if they are left out."""
    if not proof.pairs:
        raise ProofError("not asked for")
    proof.say(f"pairs of {proof.pairs} models")
    return pairs.measure_pairs(proof, proof.pairs)


def run(proof: Proof, methods: Sequence[str]) -> Dict[str, Any]:
    """Runs all phases, measures the cost of monitoring and the pairs, and writes proof.json."""
    result = begun(proof)
    left_out = result["left_out"]
    trouble = describe_models(proof)
    if trouble and not proof.dry:
        raise ProofError(f"the tasks need PyTorch with CUDA: {trouble}")
    if trouble:
        left_out["estimates"] = trouble
    for method in methods:
        try:
            result["phases"][method] = run_phase(proof, method)
        except ProofError as error:
            left_out[method] = str(error)
    for what, measure in (("overhead", run_overhead), ("pairs", run_pairs)):
        try:
            result[what] = measure(proof)
        except ProofError as error:
            left_out[what] = str(error)
    result["doctor"] = doctor(proof)
    result["seconds"] = round(time.monotonic() - proof.began, 1)
    return result


def complete(result: Dict[str, Any], methods: Sequence[str]) -> bool:
    """Whether all tasks of all phases succeeded in time. MPS may be left out, because some
    machines do not allow it."""
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
            raise argparse.ArgumentTypeError(f"{text!r}: expected one or more of {','.join(METHODS)}")
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
        "--phases", type=methods, default=list(METHODS), help=f"one or more of {','.join(METHODS)} (all)"
    )
    parser.add_argument(
        "--no-overhead", action="store_true", help="do not measure what monitoring costs a task"
    )
    parser.add_argument(
        "--pairs",
        type=whole(0, 12),
        default=0,
        metavar="N",
        help="also measure the first N models alone and in pairs, in addition to --minutes (0)",
    )
    parser.add_argument(
        "--minutes",
        type=above_zero,
        default=9.0,
        help="tasks still running after this time are cancelled (9)",
    )
    parser.add_argument(
        "--output", default="carma-proof", metavar="DIR", help="folder for the results (./carma-proof)"
    )
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Returns exit status 0 if all tasks succeeded in time, 1 if not, or 2 with one line on
    stderr if the proof could not be tried."""
    chosen = parser().parse_args(arguments)
    # a short path, because it contains sockets
    work = tempfile.mkdtemp(prefix="carma-proof.", dir="/tmp")
    try:
        proof = Proof(chosen, work)
        result = run(proof, chosen.phases)
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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # runs the clean-up
    sys.exit(main())
