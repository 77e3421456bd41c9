"""A CARMA daemon with its own database, for one part of the proof."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from typing import Any, Dict, List

from programs import ProofError, output_of
from proof import Proof

IDLE_AFTER_S = 5  # shorter than a training run, so that a false alarm would be noticed
ANSWER_LIMIT_S = 60
LEFT_ALONE = "not in CUDA_VISIBLE_DEVICES"


def children(pid: int) -> List[int]:
    """Returns the children of all threads of a process; none if the process has exited."""
    found: List[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    return found


class Carma:
    """A running daemon, from construction until stop()."""

    def __init__(self, proof: Proof, name: str, method: str):
        self._bin = proof.bin
        self.home = os.path.join(proof.work, name)
        os.makedirs(self.home)
        self._socket = os.path.join(self.home, "s")
        self.mps_dir = os.path.join(self.home, "m")  # a short path, because it contains sockets
        self.config = os.path.join(self.home, "carma.toml")
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(self._config(proof, method))
        self.log = os.path.join(proof.output, f"carmad-{name}.log")
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [f"{self._bin}/carmad", "--config", self.config], stderr=log, stdout=log
            )
        try:
            self._await()
            self._leave_alone(proof)
        except ProofError:
            self.stop()
            with open(self.log, encoding="utf-8", errors="replace") as log:
                lines = log.read().strip().splitlines()
            raise ProofError(f"carmad: {lines[-1] if lines else 'does not answer'}") from None
        self._began = time.monotonic(), self._cpu_s()

    def _config(self, proof: Proof, method: str) -> str:
        """Windows and waits are shorter than the defaults, because the tasks are short. The
        rules are the defaults."""
        mapper = "exclusive" if method == "exclusive" else "magm"
        return f"""[daemon]
socket = "{self._socket}"
state_dir = "{self.home}/state"
log_level = "warn"
[policy]
mapper = "{mapper}"
settle_timeout = "10s"
[recovery]
backoff = "2s"
[collocation]
method = "{method}"
mps_control = "{proof.mps_control}"
mps_dir = "{self.mps_dir}"
[monitor]
nvml_library = "{proof.nvml}"
window = "3s"
sample_period = "1s"
[idle]
after = "{IDLE_AFTER_S}s"
action = "tell"
[simulation]
state = "{proof.simulated_state}"
"""

    def _await(self) -> None:
        """Waits until the daemon responds. Raises ProofError if it exits or does not respond."""
        waiting = subprocess.Popen(
            [f"{self._bin}/carma", "--socket", self._socket, "status", "--wait"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + ANSWER_LIMIT_S
        while waiting.poll() is None:
            if self._process.poll() is not None or time.monotonic() > until:
                waiting.kill()
                break
            time.sleep(0.02)
        if waiting.wait() != 0:
            raise ProofError("does not answer")

    def _leave_alone(self, proof: Proof) -> None:
        """Drains the GPUs that the caller may not use."""
        for gpu in self.json("gpus")["gpus"]:
            if not proof.may_use(gpu):
                self.call("drain", str(gpu["index"]), "--reason", LEFT_ALONE)

    def call(self, *arguments: str, timeout_s: float = 60) -> str:
        return output_of([f"{self._bin}/carma", "--socket", self._socket, *arguments], timeout_s)

    def json(self, *arguments: str) -> Any:
        return json.loads(self.call(*arguments, "--json"))

    def _cpu_s(self) -> float:
        with open(f"/proc/{self._process.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime, stime

    def cost(self) -> Dict[str, float]:
        """The cost of the daemon alone since its start: its share of one core and its peak
        resident memory."""
        began, cpu_s = self._began
        with open(f"/proc/{self._process.pid}/status", encoding="utf-8") as file:
            status = dict(line.split(":", 1) for line in file if ":" in line)
        return {
            "cpu_share": (self._cpu_s() - cpu_s) / (time.monotonic() - began),
            "peak_rss_mib": int(status["VmHWM"].split()[0]) / 1024,
        }

    def end_tasks(self) -> None:
        """Cancels all unfinished tasks, because tasks outlive their daemon."""
        with contextlib.suppress(ProofError, subprocess.TimeoutExpired):
            waiting = [str(task["id"]) for task in self.json("list")["tasks"]]
            if waiting:
                self.call("cancel", "--all")
                wait = ["wait", "--quiet", "--timeout", "1m", ",".join(waiting)]
                subprocess.run(
                    [f"{self._bin}/carma", "--socket", self._socket, *wait],
                    check=False,
                    timeout=90,
                )

    def _signal(self, number: int) -> None:
        """Sends the signal to the daemon and to a `dcgmi` that it reads."""
        for pid in (self._process.pid, *children(self._process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        if self._process.poll() is None:
            self.thaw()
            self._process.terminate()
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
