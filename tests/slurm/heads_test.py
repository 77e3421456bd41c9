#!/usr/bin/env python3
"""Runs scripts written for Slurm (heads.txt) under a real Slurm and under CARMA, side by side: heads_test.py BIN_DIR [NAME …].
Each process must see the same values, or carma submit must report the difference. Exit status 77: as for slurm_test.py."""

import collections
import json
import math
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import time

import bed as slurm

HERE = os.path.dirname(os.path.abspath(__file__))
USER = "nobody"
LIMIT_S = 250
SLACK_S = 30  # Slurm checks time limits twice a minute
NOTICE_S = 8  # under CARMA, from the start to the notice of the limit
CALLED = ("python", "torchrun", "accelerate", "conda", "module", "ml", "nvidia-smi", "apptainer")
# Variables that scripts read and that both Slurm and CARMA set. docs/use/environment.md lists the others.
SAME = ("SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP",
        "SLURM_CPUS_ON_NODE", "SLURM_CPUS_PER_GPU", "SLURM_CPUS_PER_TASK", "SLURM_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE",
        "SLURM_GPUS_PER_TASK", "SLURM_JOB_ACCOUNT", "SLURM_JOB_CPUS_PER_NODE", "SLURM_JOB_NAME", "SLURM_JOB_NUM_NODES",
        "SLURM_JOB_UID", "SLURM_JOB_USER", "SLURM_LOCALID", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE",
        "SLURM_NNODES", "SLURM_NODEID", "SLURM_NPROCS", "SLURM_NTASKS", "SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_NODE", "SLURM_PROCID",
        "SLURM_RESTART_COUNT", "SLURM_STEP_NUM_NODES", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE",
        "RANK", "LOCAL_RANK", "WORLD_SIZE")
# Slurm 23.11 and newer do not set the second variable, and the first is the step's. Under CARMA, both are as in older releases.
OLDER = ("SLURM_GPUS", "SLURM_GPUS_PER_TASK")
SET = ("SLURM_CLUSTER_NAME", "SLURM_JOB_PARTITION", "SLURM_SUBMIT_HOST", "SLURM_LAUNCH_NODE_IPADDR")  # values are not compared
HOSTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURMD_NODENAME", "SLURM_STEP_NODELIST", "MASTER_ADDR")
JOBS = ("SLURM_JOB_ID", "SLURM_JOBID")
GPUS = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS")
STATES = {"COMPLETED": "succeeded", "FAILED": "failed", "TIMEOUT": "timed_out", "CANCELLED": "cancelled", "HELD": "held"}
REMARKS = re.compile(r"^(srun|slurmstepd|slurmstepd-\w+|sbatch|scancel|carma|srun \(of CARMA\)): |Terminated$")

Head = collections.namedtuple("Head", "name script args differs says")
Job = collections.namedtuple("Job", "number array index state code restarts folder")


def heads():
    """The scripts of the file."""
    with open(os.path.join(HERE, "heads.txt"), encoding="utf-8") as file:
        for part in file.read().split("\n===== ")[1:]:
            name, rest = part.split("\n", 1)
            notes, script = rest.split("#!", 1)
            lines = [line.split(": ", 1) for line in notes.splitlines()]
            about = {key: [value for name, value in lines if name == key] for key in ("args", "differs", "says")}
            yield Head(name, "#!" + script, " ".join(about["args"]).split(), set(" ".join(about["differs"]).split()), about["says"])


class HeadsBed(slurm.Bed):
    """Nodes with eight GPUs, and one carmad with as many."""

    def _configuration(self, text):
        for old, new in (("Gres=gpu", "Feature=a100 Gres=gpu"), ("PartitionName=main", "PartitionName=gpu"), (" DefMemPerCPU=100", "")):
            text = text.replace(old, new)
        return text + "FirstJobId=70001\n"

    def folder_of(self, side, number):
        """The folder from which a script is submitted."""
        return self.path(f"jobs/{side}/{number:03}")

    def lay_out(self, side, number, head):
        """Writes the script and the programs that it calls."""
        folder = self.folder_of(side, number)
        for name in ("seen", "out", "venv/bin"):
            os.makedirs(os.path.join(folder, name))
        for name, text in (("job.sh", head.script), ("venv/bin/activate", "")):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        os.chmod(os.path.join(folder, "job.sh"), 0o755)
        shutil.copy(os.path.join(HERE, "heads_programs.py"), os.path.join(folder, "train.py"))
        subprocess.run(["chown", "-R", USER, folder], check=True)

    def prepare(self, shown):
        """Programs that the scripts call, folders and scripts of both sides."""
        os.mkdir(self.path("called"))
        for name in CALLED:
            shutil.copy(os.path.join(HERE, "heads_programs.py"), self.path(f"called/{name}"))
            os.chmod(self.path(f"called/{name}"), 0o755)
        with open(self.path("called/activate"), "w", encoding="utf-8"):
            pass
        with open(os.path.join(self.home(USER), ".bash_profile"), "w", encoding="utf-8") as file:
            file.write(f"export PATH=$PATH:{self.path('called')}\n")
        for side in ("slurm", "carma"):
            for number, head in shown:
                self.lay_out(side, number, head)

    def start_carmad(self):
        """Starts a carmad with as many GPUs as all nodes."""
        gpus = self.nodes * slurm.GPUS
        state = self.path("nodes/all")
        subprocess.run([f"{self.programs}/carma-simgpu", "create", "--shape", f"{gpus}xA100-40GB", "--state", state], check=True, capture_output=True)
        os.chmod(state, 0o666)
        self._run("carmad", f"{self.programs}/carmad", "--socket", self.socket("all"), "--state-dir", self.path("nodes/all.state"), environment={
            **self.environment, "CARMA_SIMULATION_STATE": state, "CARMA_MONITOR_NVML_LIBRARY": f"{self.programs}/libcarma-simgpu.so",
            "CARMA_COLLOCATION_METHOD": "streams", "CARMA_POLICY_STALE_AFTER": "1d", "CARMA_MONITOR_SAMPLE_PERIOD": "1s", "CARMA_POLICY_SETTLE": "false",
            "CARMA_HOST_CPUS": str(64 * self.nodes), "CARMA_HOST_MEMORY": "1000G"})
        subprocess.run([f"{self.programs}/carma", "--socket", self.socket("all"), "status", "--wait"], check=True, capture_output=True, timeout=60)

    def as_user(self, side, number, *words):
        """Runs a command in the script's folder and returns the finished process."""
        entry = pwd.getpwnam(USER)
        environment = {"PATH": f"{self.path('called')}:/usr/bin:/bin", "HOME": self.home(USER), "USER": USER, "LOGNAME": USER, "SHELL": "/bin/bash", "LANG": "C.UTF-8",
                       **({"SLURM_CONF": self.path("etc/slurm.conf")} if side == "slurm" else {"CARMA_SOCKET": self.socket("all")})}
        return subprocess.run(words, env=environment, cwd=self.folder_of(side, number), user=entry.pw_uid, group=entry.pw_gid, extra_groups=[],
                              capture_output=True, text=True, timeout=60, check=False)

    def submit(self, number, head):
        """Submits to both: (whether Slurm accepted it, whether CARMA did, CARMA's output)."""
        notice = re.search(r"--signal=\S*@(\d+)", head.script)
        before_s = int(notice.group(1)) if notice else 0
        minutes = [f"--time={math.ceil((before_s + SLACK_S + 25) / 60)}"] if notice else []
        # Without this, a job may get processes or GPUs on several nodes.
        nodes = [] if re.search(r"SBATCH .*(--nodes|-N|hetjob)", head.script) else ["--nodes=1"]
        by_slurm = self.as_user("slurm", number, "sbatch", *minutes, *nodes, "job.sh", *head.args)
        seconds = ["--time", f"{before_s + NOTICE_S}s"] if notice else []
        by_carma = self.as_user("carma", number, f"{self.programs}/carma", "submit", *seconds, "job.sh", *head.args)
        return by_slurm.returncode == 0, by_carma.returncode == 0, by_carma.stderr, by_slurm.stderr

    def slurm_jobs(self):
        """All jobs of slurmctld."""
        jobs = []
        for line in self.ask("scontrol", "-o", "show", "job").splitlines():
            job = dict(word.split("=", 1) for word in line.split() if "=" in word)
            state = "HELD" if job["JobState"] == "PENDING" and job["Priority"] == "0" else job["JobState"]
            state = STATES.get(state, state)
            jobs.append(Job(int(job["JobId"]), int(job.get("ArrayJobId", 0)), int(job.get("ArrayTaskId", 0)), state, int(job["ExitCode"].split(":")[0]),
                            int(job["Restarts"]), job["WorkDir"]))
        return jobs

    def carma_jobs(self):
        """All tasks of the user."""
        tasks = self.carma("all", "list", "--state", "all", "--user", USER, "--limit", "2000")["tasks"]
        shown = [self.carma("all", "show", str(task["id"])) for task in tasks]
        return [Job(task["id"], task.get("array_id") or 0, task.get("array_index") or 0, task["state"], task.get("exit_code") or 0, max(0, task["attempt"] - 1),
                    task["workdir"]) for task in shown]


def hosts_of(text):
    """n0,n[2-3] -> 3"""
    inside = [part for group in re.findall(r"\[([^]]*)\]", text) for part in group.split(",")]
    ranges = sum(int(part.split("-")[-1]) - int(part.split("-")[0]) + 1 for part in inside)
    return ranges + len([name for name in re.sub(r"\w*\[[^]]*\]", "", text).split(",") if name])


class Seen:
    """The actions of a script on one side, with numbers of jobs and names of hosts replaced."""

    def __init__(self, folder, jobs):
        self.folder = folder
        # Under Slurm, the number of an array is that of its last member; under CARMA, that of its first.
        single = sorted(job for job in jobs if not job.array)
        self.names = {**{str(job.number): f"JOB{place}" for place, job in enumerate(single)},
                      **{str(number): "ARRAY" for job in jobs if job.array for number in (job.number, job.array)}}
        self.labels = {str(job.number): f"{self.names[str(job.number)]}.{job.index}" for job in jobs}
        self.jobs = sorted((self.labels[str(job.number)], job.state, job.code if job.state == "failed" else 0, job.restarts) for job in jobs)
        self.files = {self.plain(name): self.text(name) for name in self.outputs()}
        records = []
        for name in os.listdir(os.path.join(folder, "seen")):
            with open(os.path.join(folder, "seen", name), encoding="utf-8") as file:
                records.append(json.load(file))
        self.twice = any(len(set(record["signals"])) < len(record["signals"]) for record in records)
        self.processes = sorted((self.process(record) for record in records), key=lambda fields: fields["place"])
        named = collections.defaultdict(dict)  # for each start of a job: its GPUs, in the order of its processes
        for fields in self.processes:
            numbers = named[tuple(fields["place"][:2])]
            fields["gpu-names"] = [numbers.setdefault(gpu, len(numbers)) for gpu in fields["gpu-names"]]

    def outputs(self):
        """Files that the script has left."""
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), self.folder)
                if not re.match(r"seen/|venv/|job\.sh|train\.py|__pycache__|last.*ckpt$|carma-.*ckpt/", path):
                    yield path

    def plain(self, text):
        """The text without parts that always differ."""
        text = re.sub(r"(?<!\w)(n\d|" + re.escape(socket.gethostname().split(".")[0]) + r")(?!\w)", "HOST", text)
        return re.sub(r"\d+", lambda number: self.names.get(number[0], number[0]), text.replace(self.folder, "FOLDER"))

    def text(self, name):
        """Its lines, sorted, because processes write in any order."""
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return sorted(self.plain(line) for line in file.read().splitlines() if not REMARKS.match(line))

    def process(self, record):
        """{field: value}; place: its position among the others."""
        environment = record["environment"]
        fields = {name: environment.get(name) for name in SAME}
        fields.update({name: name in environment for name in SET})
        fields.update({name: hosts_of(environment[name]) if name in environment else None for name in HOSTS})
        fields.update({name: self.labels.get(environment.get(name, "")) for name in JOBS})
        fields["SLURM_ARRAY_JOB_ID"] = self.names.get(environment.get("SLURM_ARRAY_JOB_ID", ""))
        fields.update({name: len(environment[name].split(",")) if name in environment else None for name in GPUS})
        fields.update({"folder": self.plain(record["folder"]), "signals": list(dict.fromkeys(record["signals"])), "words": [self.plain(word) for word in record["words"]],
                       "gpus": len(record["gpus"]), "gpu-names": record["gpus"],
                       "SLURM_SUBMIT_DIR": os.path.relpath(environment.get("SLURM_SUBMIT_DIR", "/"), self.folder)})
        if fields["SLURM_NTASKS"] is None:
            fields["SLURM_TASKS_PER_NODE"] = None  # Slurm counts cores
        if fields["SLURM_STEP_NUM_TASKS"] is not None:
            fields["SLURM_CPUS_ON_NODE"] = None  # of the step under Slurm, of the task under CARMA
        fields["place"] = [fields["SLURM_JOB_ID"] or "", fields["SLURM_RESTART_COUNT"] or "", fields["words"],
                           *[int(fields[name] or 0) for name in ("SLURM_PROCID", "RANK")]]
        return fields

    def differences(self, other):
        """The differences from the other side: {what: (here, there)}."""
        found = {}
        if self.jobs != other.jobs:
            found["jobs"] = (self.jobs, other.jobs)
        if sorted(self.files) != sorted(other.files):
            found["files"] = (sorted(self.files), sorted(other.files))
        elif self.files != other.files:
            found["text"] = (self.files, other.files)
        if len(self.processes) != len(other.processes):
            found["processes"] = (len(self.processes), len(other.processes))
            return found
        for here, there in zip(self.processes, other.processes):
            for name, value in here.items():
                if value != there[name]:
                    found.setdefault(name, (value, there[name]))
        return found


class Heads:
    """Runs all scripts at the same time."""

    def __init__(self, programs, names):
        self.shown = [(number, head) for number, head in enumerate(heads()) if not names or head.name in names]
        slurm.GPUS = 8
        self.bed = HeadsBed(programs)
        self.wrong = 0
        self.newer = slurm.release() >= (23, 11)
        self.end = time.monotonic() + LIMIT_S

    def run(self):
        """Submits each, waits for all, and compares; True if all is as expected in the file."""
        self.bed.prepare(self.shown)
        self.bed.start_carmad()
        # This keeps task numbers different from other numbers in the output.
        self.bed.carma("all", "submit", "--hold", "--array", "1-900", "-o", "/dev/null", "true")
        self.bed.carma("all", "cancel", "--all")
        answers = {number: self.bed.submit(number, head) for number, head in self.shown}
        run = {side: tuple(self.bed.folder_of(side, number) for number, answer in answers.items() if answer[0] == answer[1]) for side in ("carma", "slurm")}
        jobs = {side: self.ended(ask, run[side]) for side, ask in (("carma", self.bed.carma_jobs), ("slurm", self.bed.slurm_jobs))}
        for number, head in self.shown:
            folders = {side: self.bed.folder_of(side, number) for side in jobs}
            seen = {side: Seen(folder, [job for job in jobs[side] if job.folder == folder or job.folder.startswith(folder + "/")])
                    for side, folder in folders.items()}
            self.judge(head, answers[number], seen)
        return self.wrong == 0

    def ended(self, ask, folders):
        """All jobs, once those of these folders have ended or time is up."""
        while True:
            jobs = ask()
            if all(job.state in STATES.values() for job in jobs if job.folder.startswith(folders)) or time.monotonic() > self.end:
                return jobs
            time.sleep(3)

    def judge(self, head, answer, seen):
        """Compares one script's result with what the file expects, and prints what is wrong."""
        by_slurm, by_carma, printed, why_not = answer
        found = {"refused": (why_not, printed)}
        if by_slurm == by_carma:
            found = seen["slurm"].differences(seen["carma"]) if by_slurm else {}
            found = {what: pair for what, pair in found.items() if not (self.newer and what in OLDER)}
        complaints = [f"{what}: under Slurm {here}, under CARMA {there}" for what, (here, there) in found.items() if what not in head.differs]
        complaints += [f"{what} does not differ" for what in sorted(head.differs - set(found))]
        complaints += [f"carma submit does not say '{text}'" for text in head.says if text not in printed]
        complaints += ["a process got a signal twice"] if seen["carma"].twice else []  # Slurm may do so at a time limit
        complaints += ["the difference is not reported"] if found and not head.says else []
        if complaints:
            self.wrong += 1
            print(f"----- {head.name}\n" + "\n".join(complaints) + f"\ncarma submit printed: {printed}")


def main():
    why_not = slurm.missing()
    if why_not:
        print(f"skipped: {why_not}")
        return 77
    started = time.monotonic()
    run = Heads(os.path.abspath(sys.argv[1]), sys.argv[2:])
    try:
        good = run.run()
    finally:
        run.bed.close()
    scripts = [head.script for _, head in run.shown]
    counts = {word: sum(re.search(pattern, script) is not None for script in scripts)
              for word, pattern in (("srun", r"\bsrun "), ("torchrun", r"\btorchrun "), ("resubmitting", r"\b(sbatch [^\n]*(\$0|job\.sh)|scontrol requeue|--requeue-on)"))}
    said = sum(bool(head.differs) for _, head in run.shown)
    print(f"{len(scripts)} scripts, {counts}: {len(scripts) - said - run.wrong} as under Slurm, {said} with a difference that is said, {run.wrong} wrong, "
          f"{time.monotonic() - started:.0f} s")
    assert sys.argv[2:] or (len(scripts) >= 60 and counts["srun"] >= 20 and counts["torchrun"] >= 10 and counts["resubmitting"] >= 10), counts
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
