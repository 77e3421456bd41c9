"""One phase of the proof: all tasks under one method."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

import nvml_watch
from carmad import Carma
from gpu_looks import GpuLooks, false_alarms
from mps_clients import MpsClients
from programs import ProofError, beside, compute_apps, dmon_means, output_of, pmon_use
from proof import Proof
from proof_tasks import LOAD_S, Task, training_of

SHOWN = (
    "state",
    "ooms",
    "attempt",
    "exit_detail",
    "predicted_mib",
    "bound_mib",
    "estimate_method",
    "peak_mib",
    "sharing",
    "sharing_note",
    "memory_limit_mib",
    "thread_percent",
)


class Phase:
    def __init__(self, proof: Proof, method: str):
        self.proof, self.method = proof, method
        self.outputs = os.path.join(proof.output, f"tasks-{method}")
        self.result: Dict[str, Any] = {"method": method}
        self._looks = GpuLooks(proof.output, method)
        self._mps: Optional[MpsClients] = None
        self._memory_pairs: List[Tuple[int, int]] = []  # figures of nvidia-smi and of CARMA

    def run(self) -> Dict[str, Any]:
        """Runs the phase. Raises ProofError with the reason if the phase is impossible here."""
        proof = self.proof
        if self.method == "mps" and MpsClients.missing(proof.mps_control):
            raise ProofError(MpsClients.missing(proof.mps_control))
        os.makedirs(self.outputs)
        with contextlib.ExitStack() as ending:
            carma = Carma(proof, self.method, self.method)
            if self.method == "mps":
                self._mps = MpsClients(proof.mps_control, carma.mps_dir)
                ending.callback(self._mps.end)
            ending.callback(carma.stop)
            ending.callback(carma.end_tasks)
            self._doctor(carma)
            watch = nvml_watch.Watch(
                proof.gpus, proof.period_s, os.path.join(proof.output, f"watch-{self.method}.jsonl")
            )
            watch.start()
            ending.callback(watch.stop)
            dmon = ending.enter_context(self._dmon())
            if self.method == "streams":
                ending.enter_context(self._recording(carma))
            numbers = [self._submit(carma, task) for task in proof.tasks]
            self.result["cut_short"] = not self._wait(carma)
            watch.stop()
            self._conclude(carma, numbers, watch)
        if self._mps:
            self.result["mps"] = self._mps.result()
        if dmon:
            with open(dmon, encoding="utf-8", errors="replace") as file:
                self.result["dmon"] = dmon_means(file.read(), list(nvml_watch.GPM))
        return self.result

    def _conclude(self, carma: Carma, numbers: List[str], watch: nvml_watch.Watch) -> None:
        self.result["carmad"] = carma.cost()
        report = carma.json("report", "--name", self.method)
        self.result["report"] = {key: value for key, value in report.items() if key != "run"}
        self.proof.write(f"{self.method}.json", json.dumps(report))
        self.result["tasks"] = [
            self._about(task, carma.json("show", number), report, watch)
            for task, number in zip(self.proof.tasks, numbers)
        ]
        self.result["watch"] = watch.means()
        self.result["looks"] = self._looks.result()
        if self._memory_pairs:
            self.result["process_memory"] = {
                "looks": len(self._memory_pairs),
                "largest_gap_mib": max(abs(a - b) for a, b in self._memory_pairs),
                "largest_sum_mib": max(ours for _, ours in self._memory_pairs),
                "largest_smi_mib": max(theirs for theirs, _ in self._memory_pairs),
            }

    @contextlib.contextmanager
    def _dmon(self) -> Iterator[Optional[str]]:
        """Runs `nvidia-smi dmon` during the phase, with its output in a file; None if the
        program is missing."""
        if not self.proof.has_smi():
            yield None
            return
        path = os.path.join(self.proof.output, f"dmon-{self.method}.txt")
        metrics = ",".join(str(number) for number in nvml_watch.GPM.values())
        command = ["nvidia-smi", "dmon", "-s", "m", "-d", "1", f"--gpm-metrics={metrics}"]
        with beside(command, path):
            yield path

    def _doctor(self, carma: Carma) -> None:
        """Writes the findings of `carma doctor` on this machine. Runs once, while nothing else
        does, because it measures the cost of a CUDA context. Its exit code reports findings, not
        errors."""
        path = os.path.join(self.proof.output, "doctor.json")
        if os.path.exists(path):
            return
        with open(path, "wb") as file, contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [f"{self.proof.bin}/carma", "doctor", "--config", carma.config, "--json"],
                stdout=file,
                stderr=subprocess.DEVNULL,
                timeout=90,
                check=False,
            )

    def _recording(self, carma: Carma) -> contextlib.AbstractContextManager[None]:
        """Records the driver's answers, which CARMA's tests can replay as a probe."""
        path = os.path.join(self.proof.output, f"recording-{self.method}.jsonl")
        command = [f"{self.proof.bin}/carma", "doctor", "--config", carma.config]
        return beside([*command, "--record", path, "--seconds", "3600"])

    def _submit(self, carma: Carma, task: Task) -> str:
        command = ["submit", "--parsable", "-J", task.name, "-D", self.outputs]
        command += ["-o", os.path.join(self.outputs, f"{task.name}.log")]
        summary = os.path.join(self.proof.summaries, f"{task.model}.json")
        if os.path.exists(summary):
            command += ["--model-summary", summary, "--batch-size", str(task.batch)]
            command += ["--optimizer", "adam", "--precision", "fp32"]
        return carma.call(*command, "--", *self.proof.command(task)).strip()

    def _wait(self, carma: Carma) -> bool:
        """Returns True when all tasks have ended, or False when the time is up and they are
        cancelled."""
        beginning = time.monotonic()
        while True:
            tasks = carma.json("list")["tasks"]
            if not tasks:
                return True
            if time.monotonic() > self.proof.phases_until:
                carma.end_tasks()
                return False
            self._look(carma, {task["pid"]: task["id"] for task in tasks if task["pid"]})
            time.sleep(0.2 if self.proof.dry else 1)
            self.proof.say(f"{self.method}: {time.monotonic() - beginning:.0f} s", end="\r")

    def _look(self, carma: Carma, running: Dict[int, int]) -> None:
        gpus = self._looks.take(carma)
        if self._mps:
            self._mps.look(running)
        elif self.proof.has_smi():
            self._compare_with_smi(carma, gpus, running)

    def _compare_with_smi(
        self, carma: Carma, gpus: List[Dict[str, Any]], running: Dict[int, int]
    ) -> None:
        """Compares process memory and shares of activity as CARMA and nvidia-smi report them.
        Memory is compared only between two equal answers of CARMA, because both programs may be
        right while a task allocates. Not used under MPS, where nvidia-smi also lists the server."""
        pids = {number: pid for pid, number in running.items()}
        with contextlib.suppress(ProofError):
            self._looks.compare_shares(
                gpus,
                pids,
                lambda: pmon_use(output_of(["nvidia-smi", "pmon", "-c", "1", "-s", "u"], 10)),
            )
            query = ["--query-compute-apps=gpu_uuid,used_memory", "--format=csv,noheader,nounits"]
            before = self._observed(carma.json("gpus")["gpus"])
            theirs = compute_apps(output_of(["nvidia-smi", *query], timeout_s=10))
            time.sleep(1.1 * self.proof.period_s)  # until CARMA's next sample of the GPUs
            if before == self._observed(carma.json("gpus")["gpus"]):
                self._memory_pairs += [
                    (theirs[uuid], ours) for uuid, ours in before.items() if uuid in theirs
                ]

    @staticmethod
    def _observed(gpus: List[Dict[str, Any]]) -> Dict[str, int]:
        return {
            gpu["uuid"]: sum(task["observed_mib"] for task in gpu["tasks"])
            for gpu in gpus
            if gpu["tasks"]
        }

    def _about(
        self, task: Task, shown: Dict[str, Any], report: Dict[str, Any], watch: nvml_watch.Watch
    ) -> Dict[str, Any]:
        """Facts about a task after the phase."""
        about = {key: shown.get(key) for key in SHOWN}
        about.update(name=task.name, model=task.model, weight=task.weight)
        about.update(training_of(os.path.join(self.outputs, f"{task.name}.log")))
        ran = next((ran for ran in report["run"]["tasks"] if ran["id"] == shown["id"]), None)
        if ran and ran["attempts"]:
            about["jct_s"] = (ran["ended_ms"] - ran["submitted_ms"]) / 1000
            about["execution_s"] = sum(a["to_ms"] - a["from_ms"] for a in ran["attempts"]) / 1000
            last = ran["attempts"][-1]
            if self.proof.dry:  # a simulated task prints no times, and its clock is CARMA's
                about["trained_from"] = last["from_ms"] / 1000 + LOAD_S
                about["trained_to"] = last["to_ms"] / 1000
            elif self.method == "exclusive" and shown["gpu_uuids"]:
                about["device_mib"] = self._device_mib(shown["gpu_uuids"][0], last, watch)
        self._note_idle(about, self._looks.idle.get(shown["id"], set()))
        return about

    def _device_mib(
        self, uuid: str, attempt: Dict[str, Any], watch: nvml_watch.Watch
    ) -> Optional[int]:
        """The most memory used on the task's GPU, above the use before the task. None for a MIG
        instance, which the watch does not sample."""
        index = next((i for i, gpu in enumerate(self.proof.gpus) if gpu.uuid == uuid), None)
        if index is None:
            return None
        used = watch.most_used_mib(index, attempt["from_ms"] / 1000, attempt["to_ms"] / 1000)
        return None if used is None else used - self.proof.idle_mib[index]

    @staticmethod
    def _note_idle(about: Dict[str, Any], since_ms: Set[int]) -> None:
        begin, end = (about.get(name) for name in ("trained_from", "trained_to"))
        about["idle_told"] = len(since_ms)
        about["idle_false"] = false_alarms(since_ms, begin and 1000 * begin, end and 1000 * end)
