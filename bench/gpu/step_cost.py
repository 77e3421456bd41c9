"""Measures what monitoring costs a training task: its step time while the daemon alternately
runs and is stopped."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from carmad import Carma
from programs import ProofError
from proof import Proof

LOADING_LIMIT_S = 120

Block = Tuple[float, float, bool]  # begin, end, monitored


def overhead(ends: Sequence[float], blocks: Sequence[Block]) -> Optional[Dict[str, float]]:
    """Computes from the ends of steps and from alternating blocks (begin, end, monitored) how
    much longer a step takes with the monitor, as a share: the mean over neighbouring blocks,
    with its standard error. None if there are too few steps."""
    means = []
    for begin, end, monitored in blocks:
        inside = [at for at in ends if begin <= at <= end]
        if len(inside) < 3:
            return None
        means.append((monitored, (inside[-1] - inside[0]) / (len(inside) - 1)))
    ratios = []
    for (first_on, first), (second_on, second) in zip(means[::2], means[1::2]):
        if first_on != second_on:
            ratios.append(first / second - 1 if first_on else second / first - 1)
    if len(ratios) < 2:
        return None
    return {
        "share": statistics.mean(ratios),
        "standard_error": statistics.stdev(ratios) / len(ratios) ** 0.5,
        "lowest": min(ratios),
        "highest": max(ratios),
        "pairs": len(ratios),
        "step_ms": 1000 * statistics.mean(mean for _, mean in means),
    }


def alternate(carma: Carma, pairs: int, block_s: float) -> List[Block]:
    """Freezes and thaws the daemon. The order changes from pair to pair, so that a warming GPU
    affects both sides equally."""
    blocks = []
    for pair in range(pairs):
        for monitored in (True, False) if pair % 2 else (False, True):
            (carma.thaw if monitored else carma.freeze)()
            # leaves out the step that is running at the change
            begin = time.monotonic() + 0.1 * block_s
            time.sleep(block_s)
            blocks.append((begin, time.monotonic(), monitored))
    carma.thaw()
    return blocks


def measure_overhead(proof: Proof) -> Dict[str, Any]:
    """Trains one task alone, next to a daemon that only samples the GPUs."""
    device, network, batch = ("cpu", "mnist-cnn", 4) if proof.dry else ("cuda", "resnet50", 32)
    block_s, pairs = (0.5, 3) if proof.dry else (2.0, 7)
    steps = os.path.join(proof.work, "steps.txt")
    command = [sys.executable, proof.train_task, "train", network, "--batch", str(batch)]
    command += ["--device", device, "--seconds", str(2 * pairs * block_s + 4), "--step-log", steps]
    carma = Carma(proof, "overhead", "streams")
    with open(os.path.join(proof.output, "overhead.log"), "wb") as log:
        task = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
        try:
            until = time.monotonic() + LOADING_LIMIT_S
            while "loaded" not in proof.read("overhead.log") and task.poll() is None:
                if time.monotonic() > until:
                    raise ProofError("overhead: the task did not load in time")
                time.sleep(0.2)
            blocks = alternate(carma, pairs, block_s)
            if task.wait(timeout=120) != 0:
                lines = proof.read("overhead.log").strip().splitlines()
                raise ProofError(f"overhead: the task failed: {lines[-1] if lines else 'no output'}")
        except subprocess.TimeoutExpired:
            raise ProofError("overhead: the task did not end in time") from None
        finally:
            task.kill()
            task.wait()
            carma.stop()
    with open(steps, encoding="utf-8") as file:
        ends = [float(line) for line in file]
    found = overhead(ends, blocks)
    if found is None:
        raise ProofError("overhead: too few steps to compare")
    return {**found, "device": device, "network": f"{network}-b{batch}"}
