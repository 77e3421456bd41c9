#!/usr/bin/env python3
"""Measures how long a user's `status` takes while another user asks for as much as possible: crowd.py BIN_DIR [--queued 100000] [--askers 60] [--seconds 10] [KIND…]

Needs root, because the two users must differ. One carmad has eight simulated GPUs, fair order, limits and time slices, and the tasks of 50 names stay in the
queue. For each kind of request, the askers repeat it continuously, each over its own connection, while the other user asks for the status 20 times a second."""

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

GREEDY, OTHER = 61_001, 61_002
CONFIG = """[daemon]
socket = "{folder}/carmad.sock"
state_dir = "{folder}/state"
log_level = "warn"
[monitor]
nvml_library = "{programs}/libcarma-simgpu.so"
[simulation]
state = "{folder}/gpus"
[policy]
order = "fair"
[limits]
rules = ["user=* running=8", "user=* qos=interactive running=1"]
[slots]
length = "1h"
"""


async def ask(socket, method, target, body=""):
    """Returns status and body of the response."""
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write(f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    answer = await reader.read()
    writer.close()
    head, _, text = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), text


def spec(i=0):
    return {"name": f"t{i % 50}", "command": ["true"], "workdir": "/tmp", "gpus": 1, "memory_mib": 2000 + i % 7000}


def question(kind, queued):
    one = random.randint(1, queued)
    return {
        "check": lambda: ("POST", "/v1/tasks?check=1", json.dumps({"tasks": [spec(i) for i in range(6)]})),
        "turn": lambda: ("GET", "/v1/tasks?state=queued&order=turn&limit=1000"),
        "list": lambda: ("GET", "/v1/tasks?state=all&limit=1000"),
        "explain": lambda: ("GET", f"/v1/tasks/{one}/explain"),
        "usage": lambda: ("GET", f"/v1/usage?by={random.choice(['user', 'day', 'month'])}"),
        "report": lambda: ("GET", "/v1/report?run=1"),
        "events": lambda: ("GET", "/v1/events?limit=1000"),
        "history": lambda: ("GET", "/v1/gpus/0/history"),
        "page": lambda: ("GET", "/v1/overview"),
        "metrics": lambda: ("GET", "/metrics"),
        "hold": lambda: ("POST", "/v1/changes", json.dumps({"verb": "hold" if one % 2 else "release", "tasks": list(range(1, queued, 2))[:1000]})),
    }[kind]()


KINDS = ["nothing", "check", "turn", "list", "explain", "usage", "report", "events", "history", "page", "metrics", "hold"]


async def ask_for_ever(socket, kind, queued, counts):
    while True:
        try:
            status, _ = await ask(socket, *question(kind, queued))
        except (OSError, IndexError):  # too many connections of one user
            status = 0
        counts[status] = counts.get(status, 0) + 1
        if status in (0, 503):
            await asyncio.sleep(0.05)


def greedy(socket, kind, queued, askers, seconds, told):
    os.setgid(GREEDY)
    os.setuid(GREEDY)
    counts = {}

    async def all_of_them():
        tasks = [asyncio.create_task(ask_for_ever(socket, kind, queued, counts)) for _ in range(askers)]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()

    asyncio.run(all_of_them())
    told.put(counts)


def status_times(socket, seconds, times):
    os.setgid(OTHER)
    os.setuid(OTHER)

    async def measure():
        values, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            status, _ = await ask(socket, "GET", "/v1/status")
            assert status == 200, status
            values.append((time.monotonic() - began) * 1000)
            await asyncio.sleep(0.05)
        times.put(values)

    asyncio.run(measure())


def fill(socket, queued):
    os.setgid(GREEDY)
    os.setuid(GREEDY)
    for first in range(0, queued, 5000):
        status, text = asyncio.run(ask(socket, "POST", "/v1/tasks", json.dumps({"tasks": [spec(i) for i in range(first, min(first + 5000, queued))]})))
        assert status < 300, text


def run_as(target, *words):
    child = multiprocessing.Process(target=target, args=words)
    child.start()
    return child


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs")
    parser.add_argument("kinds", nargs="*", default=KINDS)
    parser.add_argument("--queued", type=int, default=100_000)
    parser.add_argument("--askers", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=10)
    flags = parser.parse_args()
    programs = os.path.abspath(flags.programs)
    folder = tempfile.mkdtemp(prefix="carma-crowd.", dir="/tmp")
    os.chmod(folder, 0o755)
    socket = f"{folder}/carmad.sock"
    daemon = None
    try:
        subprocess.run([f"{programs}/carma-simgpu", "create", "--shape", "8xA100-40GB", "--state", f"{folder}/gpus"], check=True, capture_output=True)
        with open(f"{folder}/carma.toml", "w", encoding="utf-8") as file:
            file.write(CONFIG.format(folder=folder, programs=programs))
        with open(f"{folder}/log", "wb") as log:
            daemon = subprocess.Popen([f"{programs}/carmad", "--config", f"{folder}/carma.toml"], stdout=log, stderr=log)
        subprocess.run([f"{programs}/carma", "--socket", socket, "status", "--wait"], check=True, capture_output=True)
        subprocess.run([f"{programs}/carma", "--socket", socket, "drain", "all", "--reason", "bench"], check=True, capture_output=True)
        filler = run_as(fill, socket, flags.queued)
        filler.join()
        if filler.exitcode != 0:
            sys.exit("the queue was not filled")
        told = multiprocessing.Queue()
        for kind in flags.kinds:
            others = [] if kind == "nothing" else [run_as(greedy, socket, kind, flags.queued, flags.askers, flags.seconds + 1, told)]
            time.sleep(0.5)
            times = multiprocessing.Queue()
            others.append(run_as(status_times, socket, flags.seconds, times))
            values = sorted(times.get())
            answers = {} if kind == "nothing" else told.get()
            for child in others:
                child.join()
            print(f"{kind:10} status p50 {values[len(values) // 2]:7.1f} ms   p99 {values[int(len(values) * 0.99)]:7.1f}   most {values[-1]:7.1f}   "
                  f"of {len(values)}; answers to the others: {' '.join(f'{code}: {count}' for code, count in sorted(answers.items()))}", flush=True)
    finally:
        if daemon is not None:
            daemon.kill()
            daemon.wait()
        with open(f"{folder}/log", encoding="utf-8") as log:
            sys.stderr.write(log.read()[-2000:])
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
