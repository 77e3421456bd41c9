"""Tests what MPS does with shares and limits, and with the other clients when one of them
faults, is killed or is removed from the server: texts, exit codes and times. Each part has its
own time limit."""

from __future__ import annotations

import threading
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from sweep_gpu import Mps, newcomer
from sweep_plan import SHARES, SMALL
from sweep_process import Log, Worker, end_all

LIMIT_MIB = 3_000
PLAIN = "abcdefg"  # letters of workers without share or limit
LONG = 10_000_000  # steps
OPEN_S = 25
NEWCOMER_S = 8


class Watching:
    """Watches, from now to stop(), when workers end, which state the server is in, and whether
    new processes can compute."""

    def __init__(self, log: Log, mps: Mps, workers: Sequence[Worker], title: str):
        self._log, self._mps, self._workers, self._title = log, mps, workers, title
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._ended_after_s: Dict[str, float] = {}
        self._states: List[Tuple[float, str]] = []
        self._newcomers: List[Dict[str, Any]] = []
        watches = (self._watch_ends, self._watch_server, self._watch_newcomers)
        self._threads = [threading.Thread(target=watch, daemon=True) for watch in watches]
        for thread in self._threads:
            thread.start()

    def _after_s(self) -> float:
        return round(time.monotonic() - self._began, 2)

    def note(self, text: str) -> None:
        self._states.append((self._after_s(), text))

    def _watch_ends(self) -> None:
        while not self._stop.wait(0.02):
            for worker in self._workers:
                if not worker.alive:
                    self._ended_after_s.setdefault(worker.name, self._after_s())

    def _watch_server(self) -> None:
        last = ""
        while not self._stop.wait(0.15):
            state = f"{self._mps.status()}; clients {self._mps.clients()}"
            if state != last:
                self.note(state)
            last = state

    def _watch_newcomers(self) -> None:
        while not self._stop.wait(0.3):
            after_s = self._after_s()
            found = newcomer(self._mps.environment, NEWCOMER_S)
            self._newcomers.append({"after_s": after_s, **found})

    def newcomers_work(self) -> bool:
        return bool(self._newcomers) and self._newcomers[-1]["exit"] == 0

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=NEWCOMER_S + 1)
        ends = [
            {
                "name": worker.name,
                "pid": worker.process.pid,
                "ended_after_s": self._ended_after_s.get(worker.name),
                "exit": worker.process.poll(),
                "says": worker.words(3_000),
            }
            for worker in self._workers
        ]
        self._log.write(
            "fault",
            title=self._title,
            states=self._states,
            newcomers=self._newcomers,
            workers=ends,
        )
        for each in ends:
            said = each["says"].strip().splitlines()[-1:]
            self._log.say(
                f"{self._title}: {each['name']} ended after {each['ended_after_s']} s, "
                f"exit code {each['exit']}, {' '.join(said)[:160]!r}"
            )


class Extra:
    """Waiting workers with loaded libraries, for the tests of shares, limits and faults."""

    def __init__(self, sweep: Any, mps: Mps):
        self._sweep, self._log, self._mps = sweep, sweep.log, mps
        self._shares = [self._start(f"{name}@{share}", share=share) for name, share in SHARES]
        self._limited = self._start(f"{SMALL}@limit", limit_mib=LIMIT_MIB)
        self._plain = {letter: self._start(f"{SMALL}@{letter}") for letter in PLAIN}

    def _start(
        self, name: str, share: Optional[int] = None, limit_mib: Optional[int] = None
    ) -> Worker:
        environment = dict(self._mps.environment)
        if share is not None:
            environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(share)
        if limit_mib is not None:
            environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={limit_mib}M"
        return self._sweep.start(name, "extra", environment)

    def workers(self) -> List[Worker]:
        return [*self._shares, self._limited, *self._plain.values()]

    def run(self) -> None:
        for part in (self._try_shares, self._try_limit, self._try_killing, self._try_fault):
            if not self._sweep.has_time(8):
                self._log.say("no time is left for the rest")
                return
            part()

    def _try_shares(self) -> None:
        opened = self._sweep.open_at_once(self._shares, OPEN_S)
        for worker in opened:
            self._sweep.measure("extra", "share", [worker], 1.3)
        for first, second in ((0, 2), (1, 2)):
            pair = [self._shares[first], self._shares[second]]
            if all(each in opened for each in pair):
                self._sweep.measure("extra", "share", pair, 1.7)
        end_all(self._shares)

    def _try_limit(self) -> None:
        limited, neighbour = self._limited, self._plain["a"]
        if len(self._sweep.open_at_once([limited, neighbour], OPEN_S)) < 2:
            return
        neighbour.tell("steps", steps=LONG)
        time.sleep(0.5)
        watching = Watching(self._log, self._mps, [limited, neighbour], "limit")
        limited.tell("fill", mib=64)
        self._await_end([limited], 8)
        time.sleep(1)
        watching.stop()
        limited.process.kill()
        watching = Watching(self._log, self._mps, [neighbour], "SIGTERM")
        neighbour.process.terminate()
        self._await_end([neighbour], 2)
        watching.stop()
        neighbour.process.kill()

    def _try_killing(self) -> None:
        """Kills one worker with SIGKILL in the middle of its work, then ends one with
        terminate_client."""
        group = [self._plain[letter] for letter in "bcd"]
        if len(self._sweep.open_at_once(group, OPEN_S)) < 3:
            return
        for worker in group:
            worker.tell("steps", steps=LONG)
        time.sleep(0.8)
        watching = Watching(self._log, self._mps, group, "SIGKILL")
        group[0].process.kill()
        time.sleep(4)
        watching.stop()
        left = [worker for worker in group if worker.alive]
        if left:
            watching = Watching(self._log, self._mps, left, "terminate_client")
            for server in self._mps.servers():
                pid = left[0].process.pid
                watching.note(self._mps.ask(f"terminate_client {server} {pid}", 6))
            time.sleep(3)
            watching.stop()
        for worker in left:
            worker.process.kill()

    def _try_fault(self) -> None:
        """Makes one worker access an illegal address while a second computes and a third is
        idle."""
        group = [self._plain[letter] for letter in "efg"]
        if len(self._sweep.open_at_once(group, OPEN_S)) < 3:
            return
        culprit, busy, idle = group
        busy.tell("steps", steps=LONG)
        time.sleep(0.8)
        watching = Watching(self._log, self._mps, group, "illegal address")
        culprit.tell("illegal")
        time.sleep(3.5)
        watching.note("the idle client is told to compute")
        idle.tell("steps", steps=20)
        idle.shut()
        self._await_end([idle], 9)
        until = time.monotonic() + 9
        while not watching.newcomers_work() and time.monotonic() < until:
            time.sleep(0.1)
        watching.stop()
        for worker in group:
            worker.process.kill()

    @staticmethod
    def _await_end(workers: Sequence[Worker], patience_s: float) -> None:
        until = time.monotonic() + patience_s
        while any(worker.alive for worker in workers) and time.monotonic() < until:
            time.sleep(0.05)
