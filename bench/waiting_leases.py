#!/usr/bin/env python3
"""Measures the cost of waiting leases: waiting_leases.py BIN_DIR [--leases 1000] [--seconds 30].

One carmad has a simulated GPU that is taken. Each lease has its own process and a request that carmad keeps open, as with the plug-in for Slurm."""

import argparse
import asyncio
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


async def ask(socket, method, target, body=None):
    """Returns the JSON of the response."""
    reader, writer = await asyncio.open_unix_connection(socket)
    text = json.dumps(body) if body is not None else ""
    writer.write(f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
                 f"Content-Length: {len(text)}\r\n\r\n{text}".encode())
    answer = await reader.read()
    writer.close()
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])


def resident_mib(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        words = file.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / CLOCK_TICKS


async def timed_ms(question):
    began = time.monotonic()
    answer = await question
    return (time.monotonic() - began) * 1000, answer


def line(name, values):
    values = sorted(values)
    print(f"{name:44} p50 {statistics.median(values):7.2f} ms   p99 {values[int(len(values) * 0.99) - 1]:7.2f}   most {values[-1]:.2f}   of {len(values)}", flush=True)


async def measure(socket, daemon, sleepers, flags):
    spec = {"name": "waits", "command": ["sleep"], "workdir": "/", "gpus": 1, "exclusive": True}
    first = resident_mib(daemon.pid)
    asked = [await timed_ms(ask(socket, "POST", "/v1/leases", {"spec": spec, "pid": each.pid})) for each in sleepers]
    line("asking for a lease", [ms for ms, _ in asked])
    ids = [answer["id"] for _, answer in asked]
    kept = [asyncio.create_task(ask(socket, "GET", f"/v1/leases/{number}?wait_s=300")) for number in ids]
    await asyncio.sleep(2)
    began, used = time.monotonic(), cpu_s(daemon.pid)
    await asyncio.sleep(flags.seconds)
    share = (cpu_s(daemon.pid) - used) / (time.monotonic() - began)
    print(f"carmad while {len(ids)} wait and ask             {100 * share:.2f} % of a core, {resident_mib(daemon.pid):.1f} MiB ({first:.1f} before)", flush=True)
    line("the state of one of them", [(await timed_ms(ask(socket, "GET", f"/v1/leases/{number}")))[0] for number in ids[::10]])
    gone = []
    for index in range(len(ids) - 1, len(ids) - 21, -1):
        began = time.monotonic()
        sleepers[index].send_signal(signal.SIGKILL)
        answer = await kept[index]
        gone.append((time.monotonic() - began) * 1000)
        if answer["state"] != "ended":
            raise AssertionError(answer)
    line("from its process's end to its own", gone)
    for each in kept:
        each.cancel()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs")
    parser.add_argument("--leases", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30)
    flags = parser.parse_args()
    programs = os.path.abspath(flags.programs)
    folder = tempfile.mkdtemp(prefix="carma-waiting.", dir="/tmp")
    socket, started = f"{folder}/carmad.sock", []
    try:
        subprocess.run([f"{programs}/carma-simgpu", "create", "--shape", "A100-40GB", "--state", f"{folder}/gpus"], check=True, capture_output=True)
        environment = {**os.environ, "CARMA_SIMULATION_STATE": f"{folder}/gpus", "CARMA_MONITOR_NVML_LIBRARY": f"{programs}/libcarma-simgpu.so",
                       "CARMA_COLLOCATION_METHOD": "streams", "CARMA_SOCKET": socket}
        with open(f"{folder}/log", "wb") as log:
            daemon = subprocess.Popen([f"{programs}/carmad", "--socket", socket, "--state-dir", f"{folder}/state"], env=environment, stdout=log, stderr=log)
        started.append(daemon)
        subprocess.run([f"{programs}/carma", "status", "--wait"], env=environment, check=True, capture_output=True)
        subprocess.run([f"{programs}/carma", "submit", "--exclusive", "-o", "/dev/null", "--", "sleep", "10000"], env=environment, check=True, capture_output=True)
        sleepers = [subprocess.Popen(["sleep", "10000"]) for _ in range(flags.leases)]
        started[1:] = sleepers
        asyncio.run(measure(socket, daemon, sleepers, flags))
        subprocess.run([f"{programs}/carma", "cancel", "--all"], env=environment, check=False, capture_output=True)
    finally:
        for each in reversed(started):
            each.kill()
            each.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
