"""A carmad with simulated GPUs in its own folder, for tests and measurements of the web page."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

LIMIT_S = 60


def free_port():
    """A TCP port of this machine that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Site:
    """`bin` holds the programs of one build. `policy`: the lines of carma.toml's [policy]."""

    def __init__(self, programs, shape="4xA100-40GB", time_scale=60, policy='mapper = "magm"', memory_limits=False):
        self.bin = os.path.realpath(programs)
        self.folder = tempfile.mkdtemp(prefix="carma-page.", dir="/tmp")
        os.chmod(self.folder, 0o777)  # other users submit tasks too
        self.socket = os.path.join(self.folder, "s")
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}/"
        self._daemon = None
        self._strangers = []
        subprocess.run([self.program("carma-simgpu"), "create", "--shape", shape, "--time-scale", str(time_scale), "--state",
                        os.path.join(self.folder, "gpus"), *["--memory-limits"] * memory_limits], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(self.folder, "carma.toml"), "w", encoding="utf-8") as file:
            file.write(f"""
[daemon]
socket = "{self.socket}"
state_dir = "{self.folder}/state"
http_port = {self.port}
[monitor]
nvml_library = "{self.bin}/libcarma-simgpu.so"
[simulation]
state = "{self.folder}/gpus"
[policy]
{policy}
[collocation]
method = "mps"
mps_control = "{self.bin}/carma-simmps"
mps_dir = "{self.folder}/m"
mps_servers = "gpu"
""")

    def program(self, name):
        """Path of one of CARMA's programs."""
        return os.path.join(self.bin, name)

    def start(self):
        """Starts the daemon; returns once tasks can be submitted."""
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self._daemon = subprocess.Popen(  # pylint: disable=consider-using-with
                [self.program("carmad"), "--config", os.path.join(self.folder, "carma.toml")], stderr=log)
        self.carma("status", "--wait")

    def stop(self, how=signal.SIGTERM):
        """Stops only the daemon; tasks continue."""
        if self._daemon:
            self._daemon.send_signal(how)
            self._daemon.wait(LIMIT_S)
            self._daemon = None

    def freeze(self):
        """Suspends the daemon until thaw()."""
        self._daemon.send_signal(signal.SIGSTOP)

    def thaw(self):
        """Lets the daemon continue."""
        self._daemon.send_signal(signal.SIGCONT)

    @property
    def pid(self):
        """The process of the daemon."""
        return self._daemon.pid

    def close(self):
        """Leaves no task, no daemon and no folder behind."""
        if self._daemon:
            tasks = ",".join(str(task["id"]) for task in json.loads(self.carma("list", "--json"))["tasks"])
            for verb in (["cancel"], ["wait", "--quiet", "--timeout", "1m"]) if tasks else ():
                subprocess.run([self.program("carma"), "--socket", self.socket, *verb, tasks], check=False,
                               stdout=subprocess.DEVNULL)
        for process in self._strangers:
            process.kill()
            process.wait()
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.close()

    def carma(self, *words, user=None):
        """The output of `carma WORDS…`."""
        before = []
        if user is not None:
            before = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        return subprocess.run(before + [self.program("carma"), "--socket", self.socket, *words], check=True, timeout=LIMIT_S,
                              cwd=self.folder, capture_output=True, text=True).stdout

    def train(self, name, *options, memory_mib=8000, solo_s=100000, sm_active=0.4, user=None):
        """Submits simulated training tasks and returns the number of the first."""
        return int(self.carma("submit", "--parsable", "-o", "/dev/null", "-J", name, *options, "--", self.program("carma-simtask"),
                              "--memory-mib", str(memory_mib), "--solo-s", str(solo_s), "--sm-active", str(sm_active), "--load-s",
                              "5", user=user).split("-")[0])

    def stranger(self, gpu, memory_mib):
        """A process on a GPU that CARMA did not start."""
        self._strangers.append(subprocess.Popen(  # pylint: disable=consider-using-with
            [self.program("carma-simtask"), "--memory-mib", str(memory_mib), "--solo-s", "1000000", "--sm-active", "0.2"],
            env={**os.environ, "CARMA_SIMGPU_STATE": f"{self.folder}/gpus", "CUDA_VISIBLE_DEVICES": str(gpu)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def task(self, number):
        """The task as in `carma show --json`."""
        return json.loads(self.carma("show", "--json", str(number)))


class Forward:
    """Like `ssh -L PORT:SOCKET`: a port of this machine whose connections are forwarded to a Unix socket as this user."""

    def __init__(self, path):
        self.path = path
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://localhost:{self._server.getsockname()[1]}/"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near):
        with near, socket.socket(socket.AF_UNIX) as far:
            far.connect(self.path)
            back = threading.Thread(target=self._copy, args=(far, near), daemon=True)
            back.start()
            self._copy(near, far)
            back.join()

    @staticmethod
    def _copy(source, sink):
        try:
            while piece := source.recv(1 << 16):
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one side has closed

    def close(self):
        """Accepts no more connections."""
        self._server.close()
