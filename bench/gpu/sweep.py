#!/usr/bin/env python3
"""Measures how training tasks that share a GPU slow each other down: a dozen workloads alone, all
their pairs, larger groups and copies, with plain processes (streams) and as clients of an MPS
server. Then tests shares, limits and faults under MPS. docs/server/sweep.md.

    sweep.py --output DIR                 on GPU 0, in eight minutes
    sweep.py --output DIR --dry           the same steps without a GPU and without PyTorch

The process of each workload lives for a whole mode, but computes only during measurements.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from typing import Any, Dict, List, Optional, Sequence

HERE = os.path.dirname(os.path.abspath(__file__))
# In a tarball, the modules are next to this folder; in a checkout, two levels above it.
sys.path[:0] = [HERE, os.path.join(HERE, "..", "python"), os.path.join(HERE, "..", "..", "python")]

from carma_collect import CollectError  # noqa: E402
from sweep_faults import Extra  # noqa: E402
from sweep_gpu import Mps, SweptGpu, Window  # noqa: E402
from sweep_plan import (
    LARGER,
    ORDER,
    base_name,
    groups,
    members,
    rate_of,
    worker_names,
)  # noqa: E402
from sweep_process import Log, Worker, end_all  # noqa: E402

CUT_S = 0.5  # start of each measurement that is ignored: earlier steps, rising clocks
SHORTEST_S, LONGEST_S = 1.2, 3.2  # length of the part that counts
STEPS = 7  # minimum number of steps of the slowest worker
ALONE_S, AGAIN_S = 2.5, 1.5
ANSWER_S = 15  # for the last steps after a measurement
LOADING_S, OPENING_S = 60, 60
CONTEXT_MIB = 560  # memory that PyTorch's allocator does not count
MOST_MIB = 76_000
EXTRA_S = 65
STREAMS_SHARE = 0.48  # share of the time that the streams mode gets if the MPS mode follows
DRY_ORDER = ["mnist-b64", "resnet50-b32", "resnet18-cifar-b32"]
DRY_LARGER = [["mnist-b64"] * 2, DRY_ORDER]
NO_MPS = {"CUDA_MPS_PIPE_DIRECTORY": "/dev/null"}  # a foreign daemon must not be used
MODES = ("streams", "mps", "extra")


class Sweep:
    def __init__(self, chosen: argparse.Namespace):
        self.chosen = chosen
        self._device = "none" if chosen.dry else "cuda"
        self._order = DRY_ORDER if chosen.dry else ORDER
        self._larger = DRY_LARGER if chosen.dry else LARGER
        self._scratch = os.path.join(chosen.output, "work")
        os.makedirs(self._scratch)  # fails if another sweep uses this folder
        self.log = Log(chosen.output)
        self._end = self.log.began + chosen.seconds
        self._gpu: Optional[SweptGpu] = None
        if not chosen.dry or chosen.nvml:
            self._gpu = SweptGpu.open(0, chosen.nvml or "libnvidia-ml.so.1")
        self._workers: List[Worker] = []  # all workers that were ever started
        self._mps = Mps(os.path.join(self._scratch, "mps"), chosen.mps_control)

    # -- processes ---------------------------------------------------------------------------------

    def start(self, name: str, mode: str, environment: Dict[str, str]) -> Worker:
        worker = Worker(name, mode, self._device, self._scratch, environment)
        self._workers.append(worker)
        return worker

    def has_time(self, seconds: float) -> bool:
        return time.monotonic() + seconds < self._end

    def _lost(self, worker: Worker, when: str) -> None:
        says = worker.words(1_500)
        self.log.write("lost", mode=worker.mode, worker=worker.name, when=when, says=says)
        self.log.say(f"{worker.mode}: lost {worker.name} ({when}): {says.strip()[-200:]!r}")

    def _answered(
        self, workers: Sequence[Worker], patience_s: float, when: str
    ) -> List[Dict[str, Any]]:
        """The answers that arrived in time, each with its worker."""
        until = time.monotonic() + patience_s
        found = []
        for worker in workers:
            answer = worker.answer(until)
            if answer is None:
                self._lost(worker, when)
            else:
                found.append({"worker": worker, "answer": answer})
        return found

    def open_at_once(self, workers: Sequence[Worker], patience_s: float) -> List[Worker]:
        """Creates the workers' contexts and models. Returns the workers that succeeded."""
        for worker in workers:
            worker.tell("open")
        answered = self._answered(workers, patience_s, "open")
        for each in answered:
            worker = each["worker"]
            mib = self._gpu.process_mib(worker.process.pid) if self._gpu else None
            self.log.write(
                "open",
                mode=worker.mode,
                worker=worker.name,
                pid=worker.process.pid,
                nvml_mib=mib,
                **each["answer"],
            )
        return [each["worker"] for each in answered]

    def _open(self, workers: Sequence[Worker]) -> List[Worker]:
        """Opens one worker of each workload first, then the copies that still fit."""
        opened = self.open_at_once([each for each in workers if "#" not in each.name], OPENING_S)
        planned_mib = sum(each.held_mib + CONTEXT_MIB for each in opened)
        held_mib = {each.base: each.held_mib + CONTEXT_MIB for each in opened}
        fitting = []
        for copy in (each for each in workers if "#" in each.name):
            planned_mib += held_mib.get(copy.base, MOST_MIB)
            if planned_mib <= MOST_MIB:
                fitting.append(copy)
        return opened + self.open_at_once(fitting, OPENING_S)

    # -- measuring ---------------------------------------------------------------------------------

    @staticmethod
    def _length_s(group: Sequence[Worker]) -> float:
        slowest = max(each.step_s for each in group) * max(1.0, 0.75 * len(group))
        return CUT_S + min(LONGEST_S, max(SHORTEST_S, STEPS * slowest))

    def measure(
        self, mode: str, kind: str, group: Sequence[Worker], length_s: Optional[float] = None
    ) -> Dict[str, float]:
        """Measures the steps per second of each worker that answered; empty if a worker in the
        group has died before."""
        if not all(each.alive for each in group):
            return {}
        length_s = length_s or self._length_s(group)
        begin = time.monotonic() + 0.03
        for worker in group:
            worker.tell("run", begin=begin, end=begin + length_s)
        seen = self._look(begin + CUT_S, begin + length_s)
        left_s = begin + length_s - time.monotonic()
        answered = self._answered(group, left_s + ANSWER_S, kind)
        tasks = [
            {
                "name": each["worker"].name,
                "core": each["answer"]["core"],
                **rate_of(each["answer"]["ends"], CUT_S, length_s),
            }
            for each in answered
        ]
        names = [each.base for each in group]
        counted_s = round(length_s - CUT_S, 3)
        self.log.write(kind, mode=mode, group=names, seconds=counted_s, **seen, tasks=tasks)
        ends = {each["worker"].name: each["answer"]["ends"] for each in answered}
        self.log.write_ends(what=kind, mode=mode, ends=ends)
        return {task["name"]: task["rate"] for task in tasks if task["rate"]}

    def _look(self, begin: float, end: float) -> Dict[str, Any]:
        time.sleep(max(0.0, begin - time.monotonic()))
        window = Window(self._gpu)
        while end - time.monotonic() > 0.12:
            time.sleep(0.1)
            window.look()
        time.sleep(max(0.0, end - 0.01 - time.monotonic()))
        return window.end()

    def _mode(self, mode: str, workers: Sequence[Worker], end: float) -> None:
        firsts = [each for each in workers if "#" not in each.name]
        alone: Dict[str, float] = {}
        for worker in firsts:
            alone.update(self.measure(mode, "alone", [worker], ALONE_S))
        for worker in workers:
            if worker.base in alone:
                worker.step_s = 1 / alone[worker.base]
        self.log.say(f"{mode}: " + ", ".join(f"{n} {1000 / r:.2f} ms" for n, r in alone.items()))
        kept_s = (AGAIN_S + 0.15) * len(firsts)
        planned = groups(self._order, self._larger)
        done = 0
        for names in planned:
            group = members(names, workers)
            # A later group may take less time and still fit.
            if not group or time.monotonic() + self._length_s(group) + kept_s + 0.3 > end:
                continue
            rates = self.measure(mode, "group", group)
            done += bool(rates)
            told = [
                f"{n} {r / alone[base_name(n)]:.3f}"
                for n, r in rates.items()
                if base_name(n) in alone
            ]
            self.log.say(f"{mode}: " + ", ".join(told))
        for worker in firsts:
            if self.has_time(AGAIN_S):
                self.measure(mode, "again", [worker], AGAIN_S)
        self.log.write("mode", mode=mode, groups=done, planned=len(planned))
        self.log.say(f"{mode}: {done} of {len(planned)} groups")

    def _tell_clients(self, workers: Sequence[Worker]) -> None:
        """Reports which workers are MPS clients. CUDA silently runs without MPS, so only the
        server's answer counts."""
        pids = self._mps.clients()
        clients = [each.name for each in workers if each.process.pid in pids]
        status = self._mps.status()
        self.log.write("clients", status=status, clients=clients, workers=len(workers))
        self.log.say(f"mps: {len(clients)} of {len(workers)} workers are clients; {status}")

    # -- all of it ---------------------------------------------------------------------------------

    def run(self) -> None:
        modes = self.chosen.modes
        sets: Dict[str, List[Worker]] = {}
        # Starts all workers at once, so that their libraries are loaded when they are needed.
        for mode in modes:
            if mode == "extra":
                extra = Extra(self, self._mps)
                sets[mode] = extra.workers()
            else:
                environment = NO_MPS if mode == "streams" else self._mps.environment
                sets[mode] = [self.start(n, mode, environment) for n in worker_names(self._order)]
        for mode in modes:
            sets[mode] = [
                each["worker"] for each in self._answered(sets[mode], LOADING_S, "loading")
            ]
        self.log.write("machine", **self._machine())
        kept_s = EXTRA_S if "extra" in modes else 0
        for mode in modes:
            left_s = self._end - kept_s - time.monotonic()
            share = STREAMS_SHARE if mode == "streams" and "mps" in modes else 1.0
            end = time.monotonic() + left_s * share
            if mode != "streams":
                self.log.write("mps", begun=self._mps.begin())
            if mode == "extra":
                extra.run()
                continue
            opened = self._open(sets[mode])
            self.log.say(f"{mode}: {len(opened)} processes")
            if mode == "mps":
                self._tell_clients(opened)
            self._mode(mode, opened, end)
            end_all(sets[mode])

    def _machine(self) -> Dict[str, Any]:
        found: Dict[str, Any] = {"cores": os.cpu_count(), "python": sys.version.split()[0]}
        if self._gpu is not None:
            found.update(gpu=self._gpu.name, counters=self._gpu.tells_activity)
            found.update(memory_bytes=self._gpu.memory())
        return found

    def finish(self) -> None:
        for worker in self._workers:
            worker.process.kill()
            worker.shut()
        for worker in self._workers:
            worker.process.wait()
        self._mps.end()
        with open(os.path.join(self.chosen.output, "logs.txt"), "w", encoding="utf-8") as file:
            file.write(self._mps.logs() + "\n")
            for worker in self._workers:
                code = worker.process.returncode
                file.write(f"--- {worker.mode} {worker.name}, exit code {code}\n")
                file.write(worker.words(6_000))
        shutil.rmtree(self._scratch, ignore_errors=True)
        self.log.close()


def modes_of(text: str) -> List[str]:
    modes = text.split(",")
    if not set(modes) <= set(MODES):
        raise argparse.ArgumentTypeError(f"{text!r}: expected one or more of {','.join(MODES)}")
    return [mode for mode in MODES if mode in modes]


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="sweep.py", description=__doc__.split("\n\n")[0])
    options.add_argument("--output", required=True, metavar="DIR")
    options.add_argument("--seconds", type=float, default=480, help="in all (default: 480)")
    options.add_argument("--modes", type=modes_of, default=list(MODES), metavar="LIST")
    options.add_argument("--dry", action="store_true", help="simulate training: each step only waits")
    options.add_argument("--nvml", metavar="LIBRARY", help="the driver's (default: the real one)")
    options.add_argument("--mps-control", default="nvidia-cuda-mps-control", metavar="PROGRAM")
    return options


def stop(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    chosen = parser().parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, stop)
    try:
        sweep = Sweep(chosen)
    except (CollectError, OSError) as error:
        print(f"sweep.py: {error}", file=sys.stderr)
        return 2
    signal.alarm(int(chosen.seconds) + 5)  # ends a sweep that hangs
    try:
        sweep.run()
    finally:
        signal.alarm(0)
        sweep.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
