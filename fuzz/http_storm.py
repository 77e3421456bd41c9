#!/usr/bin/env python3
"""Sends random HTTP to a separate carmad, preferably one that is built with sanitizers (./dev asan).

usage: fuzz/http_storm.py BIN_DIR [SECONDS] [SEED]

Requests are made from the API's own paths and from descriptions that it accepts, and are then damaged: bytes flipped, cut or doubled,
wrong lengths, several requests in one write, half a request followed by silence. The daemon must answer status requests throughout and
exit cleanly. Exit status 1: it died, hung or reported an error; its log is then shown.
"""

import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time

METHODS = ["GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS", "GETT", ""]
DESCRIPTIONS = [
    {"command": ["/bin/true"], "workdir": "/tmp"},
    {"command": ["/bin/sh", "-c", "exit 3"], "workdir": "/tmp", "memory_mib": 1000, "gpus": 2, "name": "storm"},
    {"script": "#!/bin/sh\n#CARMA --gpus=1\ntrue\n", "workdir": "/tmp", "exclusive": True, "priority": -5},
    {"command": ["/bin/true"], "workdir": "/tmp", "environment": {"A": "b"}, "time_limit_s": 5},
    {"command": ["/bin/true"]},
    {"command": "true", "gpus": "two", "nothing": 1},
]


class Storm:
    def __init__(self, programs, folder, seed):
        self.programs = programs
        self.folder = folder
        self.socket = os.path.join(folder, "carmad.sock")
        self.random = random.Random(seed)
        self.codes = {}
        self.requests = 0

    def start(self):
        gpus = os.path.join(self.folder, "gpus")
        subprocess.run([self.program("carma-simgpu"), "create", "--shape", "4xA100-40GB", "--time-scale", "1000",
                        "--state", gpus], check=True, stdout=subprocess.DEVNULL)
        config = os.path.join(self.folder, "carma.toml")
        with open(config, "w", encoding="ascii") as file:
            file.write(f'[daemon]\nsocket = "{self.socket}"\nstate_dir = "{self.folder}/state"\nlog_level = "error"\n'
                       f'[monitor]\nnvml_library = "{self.programs}/libcarma-simgpu.so"\n'
                       f'[simulation]\nstate = "{gpus}"\n[task]\nmax_queued = 2000\n')
        self.log = open(os.path.join(self.folder, "log"), "w+b")  # pylint: disable=consider-using-with
        self.daemon = subprocess.Popen([self.program("carmad"), "--config", config], stderr=self.log)
        subprocess.run([self.program("carma"), "--socket", self.socket, "status", "--wait"], check=True,
                       stdout=subprocess.DEVNULL)
        self.paths = [path for path in self.get("/v1/openapi.json")["paths"] if "follow" not in path]

    def program(self, name):
        return os.path.join(self.programs, name)

    def connect(self):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        connection.connect(self.socket)
        return connection

    def get(self, path):
        with self.connect() as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{path}: {head[:80]!r}")
        return json.loads(body)

    def path(self):
        pick = self.random
        path = pick.choice(self.paths + ["/", "/metrics", "//", "/v1/../v1/status", "/%00", "/v1/tasks?limit=" + "9" * 30])
        path = re.sub(r"{[^}]*}", lambda _: pick.choice(["1", "2", "7", "0", "-1", "18446744073709551616", "a", "%2e%2e"]),
                      path)
        if pick.random() < 0.3:
            path += pick.choice(["?", "&"]) + pick.choice(
                ["check=1", "limit=-1", "state=all", "user=%ff", "since=x", "before=1e9", "a=b" * 500, "offset=3", "=&=&"])
        return path

    def body(self):
        pick = self.random
        kind = pick.random()
        if kind < 0.2:
            return b""
        if kind < 0.5:
            value = pick.choice(DESCRIPTIONS)
        elif kind < 0.7:
            value = {"tasks": [pick.choice(DESCRIPTIONS) for _ in range(pick.randrange(1, 30))],
                     "common": {"stdout_path": "/dev/null", "environment": {"X": "y" * pick.randrange(2000)}}}
        elif kind < 0.85:
            value = {"spec": pick.choice(DESCRIPTIONS), "array": list(range(pick.randrange(9))),
                     "request": f"{pick.randrange(50):032x}"}
        else:
            value = pick.choice([[], {}, None, 1e308, [[[[]]]] * 50, {"a": {"b": {}}}, "x" * 5000, {"reason": "storm"},
                                 {"priority": 3}, {"ids": [1, 2, 3]}])
        return json.dumps(value).encode()

    def damage(self, text):
        text = bytearray(text)
        for _ in range(self.random.choice([0, 0, 1, 1, 2, 8])):
            if not text:
                break
            at = self.random.randrange(len(text))
            how = self.random.random()
            if how < 0.4:
                text[at] = self.random.randrange(256)
            elif how < 0.6:
                del text[at:at + self.random.randrange(1, 20)]
            elif how < 0.8:
                text[at:at] = text[at:at + self.random.randrange(1, 200)]
            else:
                text[at:at] = self.random.choice([b"\0", b"\r\n", b"{", b"\"", b"\xff\xfe", b"-", b"9" * 25])
        return bytes(text)

    def request(self):
        pick = self.random
        body = self.damage(self.body()) if pick.random() < 0.5 else self.body()
        length = len(body) if pick.random() < 0.9 else pick.choice([0, len(body) + 5, -1, 10**12, "x"])
        line = f"{pick.choice(METHODS[:4] * 4 + METHODS)} {self.path()}"
        if pick.random() < 0.3:
            line = "POST /v1/tasks" + pick.choice(["", "", "?check=1"])
        head = f"{line} HTTP/1.{pick.choice('1110')}\r\n"
        for name, value in (("Host", pick.choice(["localhost", "a", "", "127.0.0.1:80"])), ("Content-Length", length),
                            ("Content-Type", "application/json"), ("X-" + "a" * pick.randrange(50), "b" * pick.randrange(300)),
                            ("Connection", pick.choice(["close", "keep-alive"])),
                            ("Transfer-Encoding", "chunked"), ("Expect", "100-continue")):
            if pick.random() < (0.9 if name in ("Host", "Content-Length") else 0.15):
                head += f"{name}: {value}\r\n"
        text = head.encode("utf-8") + b"\r\n" + body
        return self.damage(text) if pick.random() < 0.3 else text

    def once(self):
        pick = self.random
        many = pick.choice([1, 1, 1, 1, 2, 5])
        text = b"".join(self.request() for _ in range(many))
        self.requests += many
        try:
            with self.connect() as connection:
                connection.settimeout(0.05 if pick.random() < 0.9 else 0.2)
                connection.sendall(text[:pick.randrange(len(text))] if pick.random() < 0.1 else text)
                if pick.random() < 0.3:
                    connection.shutdown(socket.SHUT_WR)
                answer = connection.recv(1 << 16)
                code = answer[9:12].decode("latin-1") if answer.startswith(b"HTTP/1.1 ") else "none"
        except socket.timeout:
            code = "waits"
        except (ConnectionError, BrokenPipeError):
            code = "closed"
        self.codes[code] = self.codes.get(code, 0) + 1

    def trouble(self):
        """Why the daemon has failed; empty if it has not."""
        if self.daemon.poll() is not None:
            return f"carmad exited with {self.daemon.returncode}"
        self.log.flush()
        with open(self.log.name, "rb") as file:
            if re.search(rb"ERROR: \w+Sanitizer|runtime error:|CHECK failed", file.read()):
                return "carmad reported an error"
        return ""

    def run(self, seconds):
        until = time.monotonic() + seconds
        slowest = 0.0
        while time.monotonic() < until:
            for _ in range(200):
                self.once()
            asked = time.monotonic()
            self.get("/v1/status")
            slowest = max(slowest, time.monotonic() - asked)
            if self.trouble():
                break
        why = self.trouble()
        if not why:
            self.daemon.terminate()
            if self.daemon.wait(timeout=60) != 0:
                why = f"carmad exited with {self.daemon.returncode} when it was stopped"
        print(f"{self.requests} requests in {seconds} s; answers: {dict(sorted(self.codes.items()))}; "
              f"slowest status {slowest:.2f} s")
        return why


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    with tempfile.TemporaryDirectory(prefix="carma-storm-") as folder:
        storm = Storm(os.path.realpath(sys.argv[1]), folder, seed)
        storm.start()
        try:
            why = storm.run(seconds)
        except (OSError, RuntimeError, ValueError) as error:
            why = storm.trouble() or f"the status request failed: {error}"
        finally:
            storm.daemon.kill()
        if why:
            with open(storm.log.name, encoding="utf-8", errors="replace") as file:
                print(file.read()[-20000:])
            sys.exit(f"http_storm: {why} (seed {seed})")


if __name__ == "__main__":
    main()
