"""A test bed whose Slurm loads CARMA's plug-in: nodes count GPU memory and run root's carmad, but Slurm knows of no GPUs."""

import http.client
import json
import os
import pwd
import shutil
import socket
import subprocess

import bed

CARMA_GIB = 156  # per node: 4 x 39 usable GiB


def missing(programs):
    """Why such a bed is impossible here; empty if it is possible."""
    why_not = bed.missing()
    if not why_not and not os.path.exists(os.path.join(programs, "spank_carma.so")):
        why_not = "needs Debian's package libslurm-dev"
    if not why_not and not shutil.which("curl"):
        why_not = "needs Debian's package curl"
    return why_not


class SpankBed(bed.Bed):
    """Ready once constructed, with a carmad on each node unless daemons=False; may have further plug-in arguments."""

    def __init__(self, programs, nodes=4, arguments="", settings="", daemons=True, files=(), books=None):
        self._books = books  # a folder for the carmads' databases instead of the bed's own
        self._arguments, self._settings, self._files = arguments, settings, dict(files)
        super().__init__(programs, nodes)
        try:
            if daemons:
                self.start_daemons()
        except BaseException:
            self.close()
            raise

    def _write(self):
        super()._write()
        path = self.path("etc/slurm.conf")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        text = text.replace("GresTypes=gpu", "GresTypes=gpu,carma").replace(f"Gres=gpu:a100:{bed.GPUS}", f"Gres=gpu:a100:{bed.GPUS},carma:{CARMA_GIB}")
        text = text.replace("default_queue_depth=1000", "default_queue_depth=1000,nohold_on_prolog_fail")
        settings = self._settings.replace("FOLDER", self.folder)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{text}PlugStackConfig={self.folder}/etc/plugstack.conf\n{settings}\n")
        with open(self.path("etc/gres.conf"), "a", encoding="utf-8") as file:
            file.write(f"NodeName=n[0-{self.nodes - 1}] Name=carma Count={CARMA_GIB}\n")
        with open(self.path("etc/plugstack.conf"), "w", encoding="utf-8") as file:
            file.write(f"required {self.programs}/spank_carma.so socket={self.folder}/nodes/%n.sock {self._arguments}\n")
        for name, text in self._files.items():
            with open(self.path(f"etc/{name}"), "w", encoding="utf-8") as file:
                file.write(text.replace("FOLDER", self.folder).replace("PROGRAMS", self.programs))
            os.chmod(self.path(f"etc/{name}"), 0o755)

    def daemon_settings(self, node):
        """Settings of that node's carmad, as environment variables."""
        return {"CARMA_SIMULATION_STATE": self.path(f"nodes/{node}"), "CARMA_COLLOCATION_METHOD": "streams",
                "CARMA_MONITOR_NVML_LIBRARY": f"{self.programs}/libcarma-simgpu.so", "CARMA_POLICY_STALE_AFTER": "1d",
                "CARMA_MONITOR_SAMPLE_PERIOD": "5s", "CARMA_MONITOR_WINDOW": "20s", "CARMA_POLICY_SETTLE": "false"}

    def start_daemon(self, node):
        """Starts that node's carmad; serves() waits for it."""
        environment = {**self.environment, **self.daemon_settings(node)}
        self._run(f"carmad-{node}", f"{self.programs}/carmad", "--socket", self.socket(node), "--state-dir", self.state(node), environment=environment)
        return self._processes[-1]

    def state(self, node):
        """The state folder of that carmad."""
        return os.path.join(self._books, f"{node}.state") if self._books else self.path(f"nodes/{node}.state")

    def start_daemons(self):
        self.daemons = {node: self.start_daemon(node) for node in self.node_names()}
        for node in self.node_names():
            self.serves(node)

    def serves(self, node):
        """Waits until that node's carmad serves."""
        subprocess.run([f"{self.programs}/carma", "--socket", self.socket(node), "status", "--wait"], check=True, capture_output=True,
                       timeout=bed.LIMIT_S)

    def run_as(self, user, *words, check=False, **more):
        """Runs a Slurm command as that user and returns the finished process."""
        entry = pwd.getpwnam(user)
        environment = {**self.environment, "HOME": self.home(user), "USER": user}
        return subprocess.run(words, env=environment, cwd=self.home(user), user=entry.pw_uid, group=entry.pw_gid, extra_groups=[],
                              capture_output=True, text=True, timeout=bed.LIMIT_S, check=check, **more)

    def tasks(self, node, states="all"):
        """Tasks of the node's carmad."""
        return self.carma(node, "list", "--state", states)["tasks"]

    def get(self, node, target):
        """Asks the node's carmad as root: (status, JSON)."""
        connection = http.client.HTTPConnection("localhost", timeout=bed.LIMIT_S)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection.sock:
            connection.sock.connect(self.socket(node))
            connection.request("GET", target)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def post(self, node, target, body, user):
        """Posts a body to the node's carmad as that user: (status, JSON)."""
        ran = self.run_as(user, "curl", "-s", "-w", "\n%{http_code}", "--unix-socket", self.socket(node), "-d", json.dumps(body),
                          f"http://localhost{target}", check=True)
        text, status = ran.stdout.rsplit("\n", 1)
        return int(status), json.loads(text)
