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
import dataclasses
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import nvml_watch
import proof_text

HERE = os.path.dirname(os.path.abspath(__file__))
TRAIN_TASK = os.path.join(HERE, "train_task.py")
DRY_SHAPE = "1xA100-40GB"  # whose tasks' durations need no scaling
DRY_SCALE = 20  # simulated seconds per second
LOAD_S = 4  # simulated tasks: until the first allocation
CLOSING_S = 20  # kept back from --minutes for the reports
TRAINING_FIGURES = ("steps", "train_s", "step_ms", "load_s", "allocated_mib", "reserved_mib")
METHODS = ("exclusive", "streams", "mps")


class ProofError(Exception):
    """One line for the person at the terminal."""


# --------------------------------------------------------------------------------------------------
# The tasks.
# --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Task:
    """A network of train_task.py with its batch size. What follows its class is for the dry run
    only, where a simulated task takes its place: like the workloads of
    data/workloads/catalogue.csv."""

    network: str
    batch: int
    weight: str  # the catalogue's class
    memory_mib: int
    sm_active: float
    sensitivity: float
    pressure: float
    round: int = 1

    @property
    def model(self) -> str:
        return f"{self.network}-b{self.batch}"

    @property
    def name(self) -> str:
        return self.model if self.round == 1 else f"{self.model}.{self.round}"


# Light, medium and heavy in turn, so that any first part of the list is a mix.
MIX = (
    Task("resnet50", 32, "medium", 4790, 0.62, 2.09, 0.38),
    Task("mnist-cnn", 64, "light", 1260, 0.07, 0.30, 0.04),
    Task("resnet18-cifar", 32, "light", 1960, 0.15, 0.40, 0.09),
    Task("mobilenet", 64, "medium", 6660, 0.34, 0.65, 0.21),
    Task("bert-base", 32, "heavy", 9000, 0.80, 0.42, 1.20),
    Task("mobilenet-cifar", 64, "light", 1790, 0.11, 0.40, 0.07),
    Task("encoder-small", 32, "light", 1900, 0.20, 0.40, 0.12),
    Task("vgg16", 32, "medium", 6810, 0.86, 1.02, 0.96),
    Task("resnet34-cifar", 128, "light", 2190, 0.24, 0.40, 0.14),
    Task("resnet50", 64, "medium", 7470, 0.61, 1.22, 0.47),
    Task("mobilenet", 32, "medium", 4270, 0.34, 1.12, 0.17),
    Task("bert-large", 8, "heavy", 9600, 0.85, 0.42, 1.20),
)


def chosen_tasks(count: int) -> List[Task]:
    return [dataclasses.replace(MIX[i % len(MIX)], round=1 + i // len(MIX)) for i in range(count)]


# --------------------------------------------------------------------------------------------------
# Programs: CARMA's, NVIDIA's.
# --------------------------------------------------------------------------------------------------


def output_of(command: Sequence[str], timeout_s: float = 60, **options: Any) -> str:
    """Raises ProofError with the program's last line."""
    try:
        done = subprocess.run(
            command, timeout=timeout_s, text=True, capture_output=True, check=False, **options
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProofError(f"{command[0]}: {error}") from None
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or "no word").splitlines()
        raise ProofError(f"{' '.join(command[:4])} … exit code {done.returncode}: {lines[-1]}")
    return done.stdout


def compute_apps(text: str) -> Dict[str, int]:
    """MiB in use by GPU, from `nvidia-smi --query-compute-apps=gpu_uuid,used_memory
    --format=csv,noheader,nounits`. GPUs with a process whose memory is not told are left out."""
    sums: Dict[str, int] = {}
    unknown = set()
    for line in text.splitlines():
        uuid, _, used = (part.strip() for part in line.partition(","))
        if used.isdigit():
            sums[uuid] = sums.get(uuid, 0) + int(used)
        elif uuid:
            unknown.add(uuid)
    return {uuid: used for uuid, used in sums.items() if uuid not in unknown}


def dmon_means(text: str, names: Sequence[str]) -> Dict[str, float]:
    """Means over all rows and GPUs, as fractions, of the last columns of `nvidia-smi dmon`, which
    are those of --gpm-metrics in the order asked for. '-': not told in that second."""
    values: Dict[str, List[float]] = {name: [] for name in names}
    for line in text.splitlines():
        cells = line.split()
        if len(cells) <= len(names) or not cells[0].isdigit():
            continue
        for name, cell in zip(names, cells[-len(names) :]):
            with contextlib.suppress(ValueError):
                values[name].append(float(cell) / 100)
    return {name: statistics.mean(seen) for name, seen in values.items() if seen}


class Mps:
    """A control daemon of our own for one phase, on all GPUs: own folders, ended by us."""

    PROGRAM = "nvidia-cuda-mps-control"

    def __init__(self, folder: str):
        self.pipes = os.path.join(folder, "mps-pipes")
        self.most_servers = 0
        self._environment = {
            **os.environ,
            "CUDA_MPS_PIPE_DIRECTORY": self.pipes,
            "CUDA_MPS_LOG_DIRECTORY": os.path.join(folder, "mps-log"),
        }

    def start(self) -> None:
        """Raises ProofError: why there is no MPS here."""
        if not shutil.which(self.PROGRAM):
            raise ProofError(f"{self.PROGRAM} is not installed")
        for name in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"):
            os.makedirs(self._environment[name], mode=0o700, exist_ok=True)
        # Its own output: a daemon keeps a pipe open for ever.
        done = subprocess.run(
            [self.PROGRAM, "-d"],
            env=self._environment,
            timeout=30,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if done.returncode != 0:
            raise ProofError(f"{self.PROGRAM} -d: exit code {done.returncode}")
        answer = self._ask("get_default_active_thread_percentage")
        if not re.search(r"\d", answer):
            self.stop()
            raise ProofError(f"{self.PROGRAM} does not answer: {answer.strip() or 'nothing'}")

    def _ask(self, words: str) -> str:
        try:
            return output_of(
                [self.PROGRAM], timeout_s=10, input=words + "\n", env=self._environment
            )
        except ProofError as error:
            return str(error) if words != "get_server_list" else ""

    def look(self) -> None:
        """A program that does not reach the control daemon runs without MPS and says nothing: so
        servers are counted."""
        self.most_servers = max(self.most_servers, len(self._ask("get_server_list").split()))

    def stop(self) -> None:
        self._ask("quit -t 10")


# --------------------------------------------------------------------------------------------------
# CARMA's daemon.
# --------------------------------------------------------------------------------------------------


class Carma:
    """A daemon with books of its own."""

    def __init__(self, proof: "Proof", name: str, method: str, mps_pipes: str = "/tmp/nvidia-mps"):
        self._bin = proof.bin
        self.home = os.path.join(proof.work, name)
        os.makedirs(self.home)
        self._socket = os.path.join(self.home, "s")
        self.config = os.path.join(self.home, "carma.toml")
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(self._config(proof, method, mps_pipes))
        self.log = os.path.join(proof.output, f"carmad-{name}.log")
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [f"{self._bin}/carmad", "--config", self.config], stderr=log, stdout=log
            )
        try:
            self.call("status", "--wait")
        except ProofError:
            self.stop()
            with open(self.log, encoding="utf-8", errors="replace") as log:
                lines = log.read().strip().splitlines()
            raise ProofError(f"carmad: {lines[-1] if lines else 'does not answer'}") from None
        self._began = time.monotonic(), self._cpu_s()

    def _config(self, proof: "Proof", method: str, mps_pipes: str) -> str:
        """Windows and waits are shorter than the defaults, as the tasks are; the rules are the
        defaults."""
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
mps_pipe_directory = "{mps_pipes}"
[monitor]
nvml_library = "{proof.nvml}"
window = "3s"
sample_period = "1s"
[simulation]
state = "{proof.simulated_state}"
"""

    def call(self, *arguments: str, timeout_s: float = 60) -> str:
        return output_of([f"{self._bin}/carma", "--socket", self._socket, *arguments], timeout_s)

    def json(self, *arguments: str) -> Any:
        return json.loads(self.call(*arguments, "--json"))

    def _cpu_s(self) -> float:
        with open(f"/proc/{self._process.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime, stime

    def cost(self) -> Dict[str, float]:
        """Of the daemon alone, since its start: share of one core, and its peak resident memory."""
        began, cpu_s = self._began
        with open(f"/proc/{self._process.pid}/status", encoding="utf-8") as file:
            status = dict(line.split(":", 1) for line in file if ":" in line)
        return {
            "cpu_share": (self._cpu_s() - cpu_s) / (time.monotonic() - began),
            "peak_rss_mib": int(status["VmHWM"].split()[0]) / 1024,
        }

    def end_tasks(self) -> None:
        """All that have not ended: tasks outlive their daemon."""
        with contextlib.suppress(ProofError):
            waiting = [str(task["id"]) for task in self.json("list")["tasks"]]
            if waiting:
                self.call("cancel", "--all")
                subprocess.run(
                    [
                        f"{self._bin}/carma",
                        "--socket",
                        self._socket,
                        "wait",
                        "--quiet",
                        "--timeout",
                        "1m",
                        ",".join(waiting),
                    ],
                    check=False,
                    timeout=90,
                )

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        if self._process.poll() is None:
            self.thaw()
            self._process.terminate()
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


# --------------------------------------------------------------------------------------------------
# One phase: all tasks under one method.
# --------------------------------------------------------------------------------------------------


class Phase:
    def __init__(self, proof: "Proof", method: str):
        self.proof, self.method = proof, method
        self.outputs = os.path.join(proof.output, f"tasks-{method}")
        self.result: Dict[str, Any] = {"method": method}
        self._memory_pairs: List[Tuple[int, int]] = []  # nvidia-smi's, CARMA's

    def run(self) -> Dict[str, Any]:
        proof = self.proof
        os.makedirs(self.outputs)
        with contextlib.ExitStack() as ending:
            mps = None
            if self.method == "mps" and proof.nvidia_programs:
                mps = Mps(proof.work)
                mps.start()
                ending.callback(mps.stop)
            carma = Carma(
                proof, self.method, self.method, **({"mps_pipes": mps.pipes} if mps else {})
            )
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
            self.result["cut_short"] = not self._wait(carma, mps)
            watch.stop()
            self.result["carmad"] = carma.cost()
            report = carma.json("report", "--name", self.method)
            self.result["report"] = {key: value for key, value in report.items() if key != "run"}
            proof.write(f"{self.method}.json", json.dumps(report))
            self.result["tasks"] = [
                self._about(task, carma.json("show", number), report, watch)
                for task, number in zip(proof.tasks, numbers)
            ]
            self.result["watch"] = watch.means()
            if mps:
                self.result["mps_servers"] = mps.most_servers
        if dmon:
            with open(dmon, encoding="utf-8", errors="replace") as file:
                self.result["dmon"] = dmon_means(file.read(), list(nvml_watch.GPM))
        if self._memory_pairs:
            gaps = [abs(theirs - ours) for theirs, ours in self._memory_pairs]
            self.result["process_memory"] = {
                "looks": len(gaps),
                "largest_gap_mib": max(gaps),
                "largest_sum_mib": max(ours for _, ours in self._memory_pairs),
            }
        return self.result

    @contextlib.contextmanager
    def _dmon(self) -> Iterator[Optional[str]]:
        """`nvidia-smi dmon` beside the phase, into a file; None where there is none."""
        if not self.proof.has_smi():
            yield None
            return
        path = os.path.join(self.proof.output, f"dmon-{self.method}.txt")
        metrics = ",".join(str(number) for number in nvml_watch.GPM.values())
        with open(path, "wb") as file:
            child = subprocess.Popen(
                ["nvidia-smi", "dmon", "-s", "m", "-d", "1", f"--gpm-metrics={metrics}"],
                stdout=file,
                stderr=subprocess.STDOUT,
            )
            try:
                yield path
            finally:
                child.terminate()
                child.wait()

    def _doctor(self, carma: Carma) -> None:
        """What `carma doctor` finds on this machine, once; its exit code tells of findings, not of
        trouble."""
        path = os.path.join(self.proof.output, "doctor.txt")
        if not os.path.exists(path):
            with open(path, "wb") as file, contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    [f"{self.proof.bin}/carma", "doctor", "--config", carma.config],
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    timeout=60,
                    check=False,
                )

    @contextlib.contextmanager
    def _recording(self, carma: Carma) -> Iterator[None]:
        """Keeps what the driver answered, which plays again as a probe in CARMA's tests."""
        path = os.path.join(self.proof.output, f"recording-{self.method}.jsonl")
        child = subprocess.Popen(
            [
                f"{self.proof.bin}/carma",
                "doctor",
                "--config",
                carma.config,
                "--record",
                path,
                "--seconds",
                "3600",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            child.terminate()
            child.wait()

    def _submit(self, carma: Carma, task: Task) -> str:
        summary = os.path.join(self.proof.summaries, f"{task.model}.json")
        known = (
            [
                "--model-summary",
                summary,
                "--batch-size",
                str(task.batch),
                "--optimizer",
                "adam",
                "--precision",
                "fp32",
            ]
            if os.path.exists(summary)
            else []
        )
        log = os.path.join(self.outputs, f"{task.name}.log")
        return carma.call(
            "submit",
            "--parsable",
            "-J",
            task.name,
            "-o",
            log,
            "-D",
            self.outputs,
            *known,
            "--",
            *self.proof.command(task),
        ).strip()

    def _wait(self, carma: Carma, mps: Optional[Mps]) -> bool:
        """True when all tasks have ended; False when the time is over, and they are cancelled."""
        beginning = time.monotonic()
        while carma.json("list")["tasks"]:
            if time.monotonic() > self.proof.deadline:
                carma.end_tasks()
                return False
            if mps:
                mps.look()
            self._compare_memory(carma)
            time.sleep(0.2 if self.proof.dry else 1)
            self.proof.say(f"{self.method}: {time.monotonic() - beginning:.0f} s", end="\r")
        return True

    def _compare_memory(self, carma: Carma) -> None:
        """Process memory, GPU by GPU, as CARMA and as nvidia-smi see it. Only between two equal
        answers of CARMA: while a task allocates, both may be right. Under MPS nvidia-smi lists the
        server, too, so nothing is compared."""
        if self.method == "mps" or not self.proof.has_smi():
            return
        before = self._observed(carma)
        try:
            text = output_of(
                [
                    "nvidia-smi",
                    "--query-compute-apps=gpu_uuid,used_memory",
                    "--format=csv,noheader,nounits",
                ],
                timeout_s=10,
            )
        except ProofError:
            return
        time.sleep(1.1)  # CARMA's next look at the GPUs
        if before and before == self._observed(carma):
            theirs = compute_apps(text)
            self._memory_pairs += [
                (theirs[uuid], ours) for uuid, ours in before.items() if uuid in theirs
            ]

    @staticmethod
    def _observed(carma: Carma) -> Dict[str, int]:
        gpus = carma.json("gpus")["gpus"]
        return {
            gpu["uuid"]: sum(task["observed_mib"] for task in gpu["tasks"])
            for gpu in gpus
            if gpu["tasks"]
        }

    def _about(
        self, task: Task, shown: Dict[str, Any], report: Dict[str, Any], watch: nvml_watch.Watch
    ) -> Dict[str, Any]:
        """What is known of a task after the phase."""
        about = {
            key: shown.get(key)
            for key in (
                "state",
                "ooms",
                "attempt",
                "predicted_mib",
                "bound_mib",
                "estimate_method",
                "peak_mib",
            )
        }
        about.update(name=task.name, model=task.model, weight=task.weight)
        ran = next((ran for ran in report["run"]["tasks"] if ran["id"] == shown["id"]), None)
        if ran and ran["attempts"]:
            about["jct_s"] = (ran["ended_ms"] - ran["submitted_ms"]) / 1000
            about["execution_s"] = sum(a["to_ms"] - a["from_ms"] for a in ran["attempts"]) / 1000
            last = ran["attempts"][-1]
            if self.method == "exclusive" and not self.proof.dry:
                used = watch.most_used_mib(
                    last["gpus"][0], last["from_ms"] / 1000, last["to_ms"] / 1000
                )
                if used is not None:
                    about["device_mib"] = used - self.proof.idle_mib[last["gpus"][0]]
        about.update(training_of(os.path.join(self.outputs, f"{task.name}.log")))
        return about


def training_of(path: str) -> Dict[str, Any]:
    """What train_task.py said at its end, if it came to that. Libraries may have words after it."""
    with contextlib.suppress(OSError):
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
        for line in reversed(lines):
            with contextlib.suppress(ValueError):
                said = json.loads(line)
                if isinstance(said, dict) and "steps" in said:
                    return {key: said[key] for key in TRAINING_FIGURES if key in said}
    return {}


# --------------------------------------------------------------------------------------------------
# What monitoring costs a training task.
# --------------------------------------------------------------------------------------------------


def overhead(
    ends: Sequence[float], blocks: Sequence[Tuple[float, float, bool]]
) -> Optional[Dict[str, float]]:
    """From the ends of steps and from (begin, end, monitored) blocks in turn: how much longer a
    step takes with the monitor, as a share; the mean over neighbouring blocks, with its standard
    error. None: too few steps."""
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
        "pairs": len(ratios),
        "step_ms": 1000 * statistics.mean(mean for _, mean in means),
    }


def measure_overhead(proof: "Proof") -> Dict[str, Any]:
    """One task trains alone while the daemon is frozen and thawed in turn. Its order changes from
    pair to pair, so that a GPU that becomes warm does not count for either side."""
    carma = Carma(proof, "overhead", "streams")
    steps = os.path.join(proof.work, "steps.txt")
    device, network, batch = ("cpu", "mnist-cnn", 4) if proof.dry else ("cuda", "resnet50", 32)
    block_s, pairs = (0.5, 3) if proof.dry else (2.0, 7)
    with open(os.path.join(proof.output, "overhead.log"), "wb") as log:
        task = subprocess.Popen(
            [
                sys.executable,
                TRAIN_TASK,
                "train",
                network,
                "--batch",
                str(batch),
                "--device",
                device,
                "--seconds",
                str(2 * pairs * block_s + 4),
                "--step-log",
                steps,
            ],
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            until = time.monotonic() + 120
            while (
                "loaded" not in proof.read("overhead.log")
                and task.poll() is None
                and time.monotonic() < until
            ):
                time.sleep(0.2)
            blocks = []
            for pair in range(pairs):
                for monitored in (True, False) if pair % 2 else (False, True):
                    (carma.thaw if monitored else carma.freeze)()
                    begin = (
                        time.monotonic() + 0.1 * block_s
                    )  # the step in flight belongs to neither
                    time.sleep(block_s)
                    blocks.append((begin, time.monotonic(), monitored))
            carma.thaw()
            if task.wait(timeout=120) != 0:
                lines = proof.read("overhead.log").strip().splitlines()
                raise ProofError(f"overhead: the task failed: {lines[-1] if lines else 'no word'}")
        except subprocess.TimeoutExpired:
            raise ProofError("overhead: the task does not end") from None
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


# --------------------------------------------------------------------------------------------------
# The whole proof.
# --------------------------------------------------------------------------------------------------


class Proof:
    def __init__(self, chosen: argparse.Namespace, work: str):
        self.began = time.monotonic()
        self.deadline = self.began + 60 * chosen.minutes - CLOSING_S
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
        self.nvml, self.period_s = "libnvidia-ml.so.1", 1.0
        self.nvidia_programs = not self.dry  # whether nvidia-smi and MPS are used
        if self.dry:
            self._simulate()
        try:
            self.gpus = nvml_watch.open_gpus(self.nvml)
        except nvml_watch.NoGpu as error:
            raise ProofError(f"{error}; --dry runs on simulated GPUs") from None
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
        self.simulated_state = os.path.join(self.work, "gpus")
        output_of(
            [
                f"{self.bin}/carma-simgpu",
                "create",
                "--shape",
                DRY_SHAPE,
                "--time-scale",
                str(DRY_SCALE),
                "--state",
                self.simulated_state,
            ]
        )
        os.environ[
            "CARMA_SIMGPU_STATE"
        ] = self.simulated_state  # read by the driver in this process
        self.period_s = 1 / DRY_SCALE

    def has_smi(self) -> bool:
        return self.nvidia_programs and shutil.which("nvidia-smi") is not None

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
            TRAIN_TASK,
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
            output_of(
                [sys.executable, TRAIN_TASK, "describe", self.summaries, *models], timeout_s=180
            )
        except ProofError as error:
            return str(error)
        return None

    def run(self, methods: Sequence[str], with_overhead: bool) -> Dict[str, Any]:
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
            "phases": {},
            "left_out": {},
        }
        left_out = result["left_out"]
        trouble = self.describe_models()
        if trouble and not self.dry:
            raise ProofError(f"the tasks need PyTorch: {trouble}")
        if trouble:
            left_out["estimates"] = trouble
        for method in methods:
            if time.monotonic() > self.deadline:
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
        if not with_overhead:
            left_out["overhead"] = "not asked for"
        elif time.monotonic() > self.deadline:
            left_out["overhead"] = "the time was over"
        else:
            try:
                self.say("overhead of monitoring")
                result["overhead"] = measure_overhead(self)
            except ProofError as error:
                left_out["overhead"] = str(error)
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
        default=10.0,
        metavar="S",
        help="of training, each alone (10)",
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
        result = proof.run(chosen.phases, not chosen.no_overhead)
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
