#!/usr/bin/env python3
"""Measures how much sooner the jobs of a real Slurm are done when they share GPUs: slurm_live.py BIN_DIR [--loads 3] [--scale 200] …

Slurm and carmad are real; GPUs and training are simulated and run --scale times as fast as real time. Each load is run in three ways, one after the other:
  exclusive   --gres=gpu:N
  shards      --gres=shard:GiB, as many as the job takes; a job on several GPUs has them exclusively, because Slurm has no other way
  leases      --carma-mem: a count of GiB for each node, with CARMA on the nodes
In all three ways, users state the memory of their jobs correctly. A failed job is lost and is resubmitted immediately, so that all ways do the same work. The
same load in the same layout is also run by `carma simulate`. Has the same requirements as tests/slurm. Exit status 1: leases have lost a job; 77: something is
missing."""

import argparse
import csv
import io
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "slurm"))
import bed as slurm  # noqa: E402
import spank_bed  # noqa: E402

USER = "nobody"
TASKS_OF_A_SERVER, GAP_S = 60, 250
POLL_S = 0.5  # real seconds
GIB_OF_A_GPU = 39  # whole GiB that tasks may use of a 40-GB A100
POLICY = {"exclusive": "magm,cluster=slurm,gres=gpu,estimator=oracle", "shards": "magm,cluster=slurm,gres=shard,estimator=oracle",
          "leases": "magm,cluster=slurm,spread=true,wait_requeues=0,estimator=oracle"}
WAYS = list(POLICY)
# Slurm's own passes take real time, so they run as often as possible, and Slurm keeps records of all jobs.
SOON = ("sched_min_interval=200000,batch_sched_delay=1", "sched_min_interval=20000,batch_sched_delay=0")
SCRIPT = """\
export PATH={programs}:/usr/bin:/bin CARMA_SIMGPU_STATE={folder}/nodes/$SLURMD_NODENAME
echo start $EPOCHREALTIME >> {folder}/jobs/{number}.log
{command}
code=$?
echo end $EPOCHREALTIME $code >> {folder}/jobs/{number}.log
exit $code
"""


class Fast:
    """A mixin for beds with fast simulated time, in which Slurm answers immediately."""

    def _configuration(self, text):
        return super()._configuration(text).replace(*SOON) + "MinJobAge=100000\n"


class Plain(Fast, slurm.Bed):
    """A bed without CARMA."""

    def _configuration(self, text):
        whole = slurm.GPUS * GIB_OF_A_GPU
        return super()._configuration(text).replace("GresTypes=gpu", "GresTypes=gpu,shard").replace(
            f"Gres=gpu:a100:{slurm.GPUS}", f"Gres=gpu:a100:{slurm.GPUS},shard:{whole}")

    def _write(self):
        super()._write()
        with open(self.path("etc/gres.conf"), "a", encoding="utf-8") as file:
            file.writelines(f"NodeName={node} Name=shard Count={slurm.GPUS * GIB_OF_A_GPU}\n" for node in self.node_names())


class Leases(Fast, spank_bed.SpankBed):
    """A bed with a carmad on each node, with the default policy and the simulated MPS. Slurm sends jobs to the least loaded node."""

    def _configuration(self, text):
        return super()._configuration(text).replace("PartitionName=main ", "PartitionName=main LLN=YES ")

    def daemon_settings(self, node):
        return {"CARMA_MONITOR_NVML_LIBRARY": f"{self.programs}/libcarma-simgpu.so", "CARMA_SIMULATION_STATE": self.path(f"nodes/{node}"),
                "CARMA_COLLOCATION_MPS_CONTROL": f"{self.programs}/carma-simmps", "CARMA_COLLOCATION_MPS_DIR": self.path(f"nodes/{node}.mps"),
                "CARMA_COLLOCATION_MPS_SERVERS": "user", "CARMA_POLICY_STALE_AFTER": "1h", "CARMA_SLURM_ENABLED": "true"}


def options_of(way, gpus, memory_mib):
    """The options of sbatch."""
    gib = -(-memory_mib // 1024)
    if way == "exclusive" or (way == "shards" and gpus > 1):
        return [f"--gres=gpu:{gpus}"]
    if way == "shards":
        return [f"--gres=shard:{gib}"]
    return [f"--carma-mem={memory_mib}M", f"--carma-gpus={gpus}", f"--gres=carma:{gib * gpus}"]


def traces(carma, text, *words):
    """The output of `carma trace …`."""
    return subprocess.run([carma, "trace", *words], input=text, check=True, capture_output=True, text=True).stdout


def made_up(carma, servers, tasks, seed):
    """A load of docs/server/clusters.md."""
    jobs = traces(carma, "", "generate", "--tasks", str(tasks), "--mean-gap", f"{GAP_S / servers:g}", "--max-gpus", "4", "--seed", str(seed))
    return traces(carma, jobs, "map", "-")


def demo(carma, servers):
    """Each task of demo60, once for each server."""
    lines = traces(carma, "", "export", "demo60", "--as", "tasks").splitlines(keepends=True)
    first = next(index for index, line in enumerate(lines) if line[0].isdigit())
    return "".join([*lines[:first], *[line for line in lines[first:] for _ in range(servers)]])


class Load:
    """A trace, with the command of each of its tasks."""

    def __init__(self, carma, trace):
        self.trace = trace
        script = traces(carma, trace, "export", "-", "--as", "script")
        self.tasks, at_s = [], 0.0  # (time of submission, GPUs, memory, command)
        for line in script.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["sleep"]:
                at_s += float(words[1])
            elif words[:2] == ["carma", "submit"]:
                options, command = words[2:words.index("--")], words[words.index("--") + 1:]
                value = dict(zip(options[::2], options[1::2]))
                self.tasks.append((at_s, int(value["--gpus"]), int(value["--memory"]), shlex.join(command)))

    def simulated_min(self, carma, ways, servers):
        """Makespans of the same layout by the simulator: means of ten runs, because a single run can be 4 % off."""
        policies = [word for way in ways for word in ("--policy", f"{POLICY[way]},label={way}")]
        with tempfile.NamedTemporaryFile("w") as trace:
            trace.write(self.trace)
            trace.flush()
            done = subprocess.run([carma, "simulate", "--trace", trace.name, "--server", f"{servers} * {slurm.GPUS}xA100-40GB", "--runs", "10", "--noise", "0.03",
                                   "--csv", *policies],
                                  check=True, capture_output=True, text=True)
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        return {way: statistics.mean(float(row["trace_total_s"]) / 60 for row in rows if row["label"] == way) for way in ways}


class Run:
    """One load run in one way, on its own cluster."""

    def __init__(self, way, load, flags):
        bed_of = Leases if way == "leases" else Plain
        self.way, self.load, self.scale = way, load, flags.scale
        self.sent, self.jobs = [0] * len(load.tasks), {}
        bed_of.TIME_SCALE = flags.scale
        self.bed = bed_of(os.path.abspath(flags.programs), nodes=flags.servers)
        try:
            began = time.time()
            for number, (at_s, *_) in enumerate(load.tasks):
                while time.time() < began + at_s / self.scale:
                    time.sleep(min(POLL_S, max(0.0, began + at_s / self.scale - time.time())))
                    self._send_lost_again()
                self._send(number)
            slurm.until(self._is_done, "all jobs have ended", flags.limit)
            logs = [self._log(number) for number in range(len(load.tasks))]
            self.lost = sum(sent - 1 for sent in self.sent)
            self.makespan_min = (max(float(log[-1][1]) for log in logs) - began) * self.scale / 60
            self.restarts = sum(sum(line[0] == "start" for line in log) for log in logs) - sum(self.sent)
            self.waiting_min = statistics.mean(self._minutes(began + at_s / self.scale, log[0]) for (at_s, *_), log in zip(load.tasks, logs))
            self.running_min = statistics.mean(self._minutes(float(log[-2][1]), log[-1]) for log in logs)
        finally:
            self.bed.close()

    def _send(self, number):
        _, gpus, memory_mib, command = self.load.tasks[number]
        script = SCRIPT.format(programs=self.bed.programs, folder=self.bed.folder, number=number, command=command)
        self.jobs[number] = self.bed.sbatch(USER, script, "--requeue", *options_of(self.way, gpus, memory_mib))
        self.sent[number] += 1

    def _send_lost_again(self):
        """Submits lost jobs again. Returns False if none is lost."""
        lost = [number for number in self.jobs if self._failed(number) and self.bed.job(self.jobs[number]).get("JobState") == "FAILED"]
        for number in lost:
            self._send(number)
        return bool(lost)

    def _failed(self, number):
        log = self._log(number)
        return bool(log) and log[-1][0] == "end" and log[-1][2] != "0"

    def _is_done(self):
        time.sleep(POLL_S)
        return not self.bed.ask("squeue", "-h", "-a", "-o", "%T").strip() and not self._send_lost_again()

    def _minutes(self, since, line):
        return (float(line[1]) - since) * self.scale / 60

    def _log(self, number):
        try:
            with open(self.bed.path(f"jobs/{number}.log"), encoding="utf-8") as file:
                return [line.split() for line in file]
        except FileNotFoundError:
            return []


def percent(values):
    """Formats the mean and the standard deviation of changes."""
    spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):+.1f}{spread} %".replace("-", "−")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs")
    parser.add_argument("--loads", type=int, default=3)
    parser.add_argument("--servers", type=int, default=4)
    parser.add_argument("--tasks", type=int, help=f"of a load ({TASKS_OF_A_SERVER} for each server)")
    parser.add_argument("--demo", action="store_true", help="the same load each time: each task of demo60 once for each server")
    parser.add_argument("--scale", type=float, default=200, help="simulated seconds in a real one")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--limit", type=float, default=1800, help="real seconds for the rest of the jobs after the last submission")
    flags = parser.parse_args()
    ways = flags.ways.split(",")
    why_not = spank_bed.missing(flags.programs)
    if why_not:
        print(f"skipped: {why_not}")
        sys.exit(77)
    carma = os.path.join(flags.programs, "carma")
    runs, simulated = {way: [] for way in ways}, {way: [] for way in ways}
    for seed in range(1, flags.loads + 1):
        trace = demo(carma, flags.servers) if flags.demo else made_up(carma, flags.servers, flags.tasks or TASKS_OF_A_SERVER * flags.servers, seed)
        load = Load(carma, trace)
        expected = load.simulated_min(carma, ways, flags.servers)
        for way in ways:
            run = Run(way, load, flags)
            runs[way].append(run)
            simulated[way].append(expected[way])
            print(f"load {seed}, {way:10} {run.makespan_min:6.1f} min, simulated {expected[way]:6.1f}; waiting {run.waiting_min:5.1f}, running {run.running_min:4.1f} min; "
                  f"{run.lost} lost, {run.restarts} started again; load of the machine {os.getloadavg()[0]:.1f}", flush=True)
    for way in ways:
        off = [run.makespan_min / minutes - 1 for run, minutes in zip(runs[way], simulated[way])]
        print(f"{way:10} against simulated {percent(off)}", end="")
        for other in ways[:ways.index(way)]:
            changes = [run.makespan_min / than.makespan_min - 1 for run, than in zip(runs[way], runs[other])]
            print(f"; against {other} {percent(changes)}", end="")
        print(f"; {sum(run.lost for run in runs[way])} lost")
    if any(run.lost for run in runs.get("leases", [])):
        sys.exit(1)


if __name__ == "__main__":
    main()
