"""A Slurm cluster on this machine: munged, slurmctld and several slurmd, each node with its own simulated GPU server."""

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from enterable import enterable  # noqa: E402 pylint: disable=wrong-import-position

LIMIT_S = 60
GPUS = 4  # per node
# The ports of one cluster are consecutive.
PORTS = range(21000, 29000)

SLURM_CONF = """\
ClusterName=bed
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock,cred_expire=6
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_min_interval=200000,batch_sched_delay=1,default_queue_depth=1000,sched_interval=2
KillWait=5
CompleteWait=0
GresTypes=gpu
NodeName=n[0-{last}] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{port_first}-{port_last}] CPUs=64 RealMemory=200000 Gres=gpu:a100:{gpus}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO DefMemPerCPU=100
"""

# The environment in which a job finds its node's simulated server, read at the beginning of each script.
JOB_ENVIRONMENT = """\
export PATH={programs}:/usr/bin:/bin
export HOME={folder}/home/$(id -un)
unset XDG_RUNTIME_DIR XDG_STATE_HOME
export TMPDIR={folder}/tmp
export CARMA_SIMULATION_STATE={folder}/nodes/$SLURMD_NODENAME CARMA_MONITOR_NVML_LIBRARY={programs}/libcarma-simgpu.so
export CARMA_COLLOCATION_METHOD=streams CARMA_POLICY_STALE_AFTER=1d CARMA_MONITOR_SAMPLE_PERIOD=5s CARMA_MONITOR_WINDOW=20s
"""


def missing():
    """Why a bed is impossible here; empty if it is possible."""
    if os.geteuid() != 0:
        return "needs root, which slurmd wants"
    without = [name for name in ("slurmctld", "slurmd", "munged", "sbatch", "srun") if not shutil.which(name)]
    return "needs Debian's packages slurmctld, slurmd, slurm-client, munge" if without else ""


def release():
    """The version of Slurm: (24, 11)."""
    text = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
    return tuple(int(number) for number in text.split()[-1].split(".")[:2])


def free_ports(count):
    """The first of this many consecutive ports on which no program listens."""
    for first in range(PORTS.start + os.getpid() % 3000, PORTS.stop, count):
        taken = False
        for port in range(first, first + count):
            with socket.socket() as probe:
                taken = taken or probe.connect_ex(("127.0.0.1", port)) == 0
        if not taken:
            return first
    raise OSError("no free ports")


def until(condition, what, limit_s=LIMIT_S):
    """Calls a function until it returns a value, and returns that value."""
    end = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit_s} s: {what}")
        time.sleep(0.05)


class Bed:
    """Ready once constructed; close() leaves no process and no file behind."""

    TIME_SCALE = 400  # simulated seconds per real second

    def __init__(self, programs, nodes=4):
        self.nodes = nodes
        self.folder = tempfile.mkdtemp(prefix="cslurm.", dir="/tmp")
        os.chmod(self.folder, 0o755)
        self.programs = enterable(programs, self.path("programs"))
        self._processes = []
        self.environment = {**{name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "CARMA"))},
                            "SLURM_CONF": self.path("etc/slurm.conf")}
        try:
            self._write()
            self._start()
        except BaseException:
            self.close()
            raise

    def path(self, name):
        """A file or folder of the bed."""
        return os.path.join(self.folder, name)

    def _write(self):
        for name, mode in {"etc": 0o755, "state": 0o755, "spool": 0o755, "log": 0o755, "run": 0o755, "dev": 0o755, "munge": 0o711, "nodes": 0o755,
                           "home": 0o755, "tmp": 0o1777, "jobs": 0o1777}.items():
            os.mkdir(self.path(name))
            os.chmod(self.path(name), mode)
        first = free_ports(self.nodes + 1)
        with open(self.path("etc/slurm.conf"), "w", encoding="utf-8") as file:
            file.write(self._configuration(SLURM_CONF.format(folder=self.folder, port=first, port_first=first + 1, port_last=first + self.nodes,
                                                             last=self.nodes - 1, gpus=GPUS)))
        with open(self.path("etc/gres.conf"), "w", encoding="utf-8") as file:
            for node in self.node_names():
                os.mkdir(self.path(f"spool/{node}"))
                for gpu in range(GPUS):  # Slurm needs devices; any will do
                    os.symlink("/dev/null", self.path(f"dev/{node}.gpu{gpu}"))
                file.write(f"NodeName={node} Name=gpu Type=a100 File={self.folder}/dev/{node}.gpu[0-{GPUS - 1}]\n")
        with open(self.path("munge/key"), "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(os.urandom(1024))
        with open(self.path("job-environment"), "w", encoding="utf-8") as file:
            file.write(JOB_ENVIRONMENT.format(programs=self.programs, folder=self.folder))
        for node in self.node_names():
            subprocess.run([f"{self.programs}/carma-simgpu", "create", "--shape", f"{GPUS}xA100-40GB", "--time-scale", str(self.TIME_SCALE), "--state",
                            self.path(f"nodes/{node}")], check=True, capture_output=True, timeout=LIMIT_S)
            os.chmod(self.path(f"nodes/{node}"), 0o666)

    def _configuration(self, text):  # pylint: disable=no-self-use
        """slurm.conf, to be changed by subclasses."""
        return text

    def _start_before_slurm(self):
        """Starts the programs that a subclass needs before slurmctld."""

    def _start(self):
        munge = self.path("munge")
        self._run("munged", "munged", "--force", "-F", f"--key-file={munge}/key", f"--socket={munge}/sock", f"--pid-file={munge}/pid",
                  f"--log-file={munge}/log", f"--seed-file={munge}/seed")
        until(lambda: os.path.exists(f"{munge}/sock"), "munged listens")
        self._start_before_slurm()
        self._run("ctld", "slurmctld", "-D", "-i")
        for node in self.node_names():
            self._run(node, "slurmd", "-D", "-N", node)
        until(lambda: len(set(self.ask("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split())) == self.nodes, "all nodes are idle")

    def _run(self, log, *words, environment=None):
        with open(self.path(f"log/{log}.out"), "ab") as output:
            self._processes.append(subprocess.Popen(  # pylint: disable=consider-using-with
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment or self.environment,
                cwd=self.folder, start_new_session=True))
        return self._processes[-1]

    def children(self):
        """Processes that were started and not awaited."""
        return self._processes

    def restart_slurmd(self, node):
        """Restarts the node's slurmd after it has exited."""
        self._run(node, "slurmd", "-D", "-N", node)

    def start_daemons(self):
        """Starts root's carmad on each node, for leases; its socket is socket(node)."""
        for node in self.node_names():
            environment = {**self.environment, "CARMA_SIMULATION_STATE": self.path(f"nodes/{node}"), "CARMA_COLLOCATION_METHOD": "streams",
                           "CARMA_MONITOR_NVML_LIBRARY": f"{self.programs}/libcarma-simgpu.so", "CARMA_POLICY_STALE_AFTER": "1d",
                           "CARMA_MONITOR_SAMPLE_PERIOD": "5s", "CARMA_MONITOR_WINDOW": "20s"}
            self._run(f"carmad-{node}", f"{self.programs}/carmad", "--socket", self.socket(node), "--state-dir", self.path(f"nodes/{node}.state"),
                      environment=environment)
        for node in self.node_names():
            subprocess.run([f"{self.programs}/carma", "--socket", self.socket(node), "status", "--wait"], check=True, capture_output=True,
                           timeout=LIMIT_S)

    def socket(self, node):
        """The socket of that node's carmad."""
        return self.path(f"nodes/{node}.sock")

    def carma(self, node, *words):
        """The output of `carma --json …` there, as root; None if it fails."""
        ran = subprocess.run([f"{self.programs}/carma", "--socket", self.socket(node), "--json", *words], env=self.environment,
                             capture_output=True, text=True, timeout=LIMIT_S, check=False)
        return json.loads(ran.stdout) if ran.returncode == 0 else None

    def node_names(self):
        """n0, n1 …"""
        return [f"n{number}" for number in range(self.nodes)]

    def ask(self, *words):
        """The output of a Slurm command; empty while it fails."""
        ran = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        return ran.stdout if ran.returncode == 0 else ""

    def home(self, user):
        """The home of an ordinary user, on all nodes."""
        entry, folder = pwd.getpwnam(user), self.path(f"home/{user}")
        if not os.path.isdir(folder):
            os.mkdir(folder, 0o755)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
        return folder

    def sbatch(self, user, script, *options):
        """Submits the lines, or the text of a whole script, as that user, and returns the job's number."""
        if not script.startswith("#!"):
            script = "#!/bin/bash\n" + script
        first, rest = script.split("\n", 1)
        # Directives come before the first command.
        directives = [line for line in rest.split("\n") if line.startswith("#SBATCH")]
        lines = [line for line in rest.split("\n") if not line.startswith("#SBATCH")]
        text = "\n".join([first, *directives, f". {self.folder}/job-environment", *lines])
        entry = pwd.getpwnam(user)
        ran = subprocess.run(["sbatch", "--parsable", "--output", f"{self.folder}/jobs/%j.out", "--open-mode=append", "--mem=1000", *options],
                             input=text, text=True, env={**self.environment, "HOME": self.home(user)}, cwd=self.home(user), user=entry.pw_uid,
                             group=entry.pw_gid, extra_groups=[], capture_output=True, timeout=LIMIT_S, check=False)
        if ran.returncode != 0:
            raise AssertionError(ran.stderr)
        return int(ran.stdout)

    def job(self, number):
        """The data of slurmctld about the job: {"JobState": "RUNNING", …}. Slurm 23.11 and newer write gres/carma, not gres:carma."""
        words = self.ask("scontrol", "-o", "show", "job", str(number)).replace("gres/carma:", "gres:carma:").split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def output(self, number):
        """The output of the job so far."""
        try:
            with open(self.path(f"jobs/{number}.out"), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def ended(self, number, limit_s=LIMIT_S):
        """Waits for the end of the job and returns (state, exit code)."""
        def end():
            job = self.job(number)
            return job if job.get("JobState") not in (None, "PENDING", "CONFIGURING", "RUNNING", "COMPLETING") else None
        job = until(end, f"the end of job {number}:\n{self.output(number)}", limit_s)
        return job["JobState"], int(job["ExitCode"].split(":")[0])

    def processes(self):
        """Pids of all processes of this bed except Slurm's own daemons."""
        own = {process.pid for process in self._processes}
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) in own or int(entry) == os.getpid():
                continue
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if self.folder.encode() in file.read():
                        found.append(int(entry))
            except OSError:
                continue
        return found

    def close(self):
        """Ends everything."""
        if self._processes:
            self.ask("scancel", "--full", *[f"--user={user}" for user in os.listdir(self.path("home"))])
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for number in self.processes():
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.folder, ignore_errors=True)
