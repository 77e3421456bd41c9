#!/usr/bin/env python3
"""Tests tasks in containers of real Podman and Docker, with images made from local files: containers_test.py BIN_DIR. Apptainer, which
Debian does not have, is replaced by a script that parses the real command line and runs the command. Exit status 77: it cannot run here."""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", folder) for folder in ("page", ".")]
from carma_site import LIMIT_S, Site  # noqa: E402 pylint: disable=wrong-import-position
from enterable import enterable  # noqa: E402 pylint: disable=wrong-import-position

NEEDED = {"podman": "podman", "crun": "crun", "catatonit": "catatonit", "newuidmap": "uidmap", "docker": "docker.io", "dockerd": "docker.io",
          "busybox": "busybox-static"}
PROGRAMS = None
PATIENCE_S = 25
USER, NAME = 64711, "carma-ada"
GPU_WORDS = 'gpus=$CUDA_VISIBLE_DEVICES; seen=${SEEN_GPU:-$NVIDIA_VISIBLE_DEVICES}'
# Podman 4.3 cannot remove a container without processes, and killing a task's control group leaves such a container.
SLOTS = """
[task]
cgroups = false
[slots]
length = "3m"
notice = "1m"
"""
STAND_IN = """#!/bin/sh
# The command line that carma-shim makes for apptainer: exec [--nv] --pwd FOLDER [--mount SPEC]... IMAGE COMMAND...
[ "$1" = exec ] || exit 255
shift
echo "$*" > "$HOME/apptainer.line"
while :; do
  case $1 in
    --nv) shift ;;
    --pwd) cd "$2" || exit 255; shift 2 ;;
    --mount) case $2 in type=bind,source=/*,destination=/*) shift 2 ;; *) exit 255 ;; esac ;;
    -*) exit 255 ;;
    *) break ;;
  esac
done
shift
exec "$@"
"""


def until(condition, what):
    """Waits for an action of another process."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE_S} s: {what}")
        select.select([], [], [], 0.05)


def enter_own_view():
    """Gives this process its own mounts: one control group tree of version 2, which crun needs, and a user that newuidmap accepts."""
    if os.environ.get("CARMA_CONTAINERS_TEST") is None:
        os.environ["CARMA_CONTAINERS_TEST"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
    folder = tempfile.mkdtemp(prefix="carma-containers.", dir="/tmp")
    os.chmod(folder, 0o755)
    subprocess.run(["umount", "--recursive", "--lazy", "/sys/fs/cgroup"], check=False, stderr=subprocess.DEVNULL)
    subprocess.run(["mount", "-t", "cgroup2", "none", "/sys/fs/cgroup"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    subprocess.run(["mount", "--make-rshared", "/"], check=True)  # shared mounts, because Podman warns about others
    os.makedirs("/run/cdi")
    os.makedirs("/dev/mqueue", exist_ok=True)
    lines = {"passwd": f"{NAME}:x:{USER}:{USER}::{folder}/home:/bin/sh", "group": f"{NAME}:x:{USER}:", "subuid": f"{NAME}:5000000:65536",
             "subgid": f"{NAME}:5000000:65536"}
    for name, line in lines.items():
        path = f"/etc/{name}"
        with open(path, encoding="utf-8") as old, open(f"{folder}/{name}", "w", encoding="utf-8") as new:
            new.write(old.read().rstrip("\n") + f"\n{line}\n")
        os.chmod(f"{folder}/{name}", 0o644)
        subprocess.run(["mount", "--bind", f"{folder}/{name}", path], check=True)
    os.mkdir(f"{folder}/home")
    os.chown(f"{folder}/home", USER, USER)
    return folder


def write(path, text, mode=0o644):
    """Writes a file that all users may read."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


class World:
    """The tools, an image with a shell, and a server."""

    def __init__(self, folder):
        self.folder = folder
        self.home = f"{folder}/home"
        self.bin = f"{folder}/bin"
        os.mkdir(self.bin)
        shutil.copy(os.path.join(PROGRAMS, "carma"), self.bin)
        write(f"{self.bin}/apptainer", STAND_IN, 0o755)
        # Docker adds GPUs if it finds this NVIDIA program, and itself puts their names into the container's environment.
        write(f"{self.bin}/nvidia-container-runtime-hook", "#!/bin/sh\nexit 0\n", 0o755)
        write(f"{folder}/containers.conf", '[engine]\ncgroup_manager="cgroupfs"\nevents_logger="file"\n[containers]\n'
              'default_ulimits=["nofile=1024:1024","nproc=1024:1024"]\n')
        self.environment = {"PATH": f"{self.bin}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": self.home, "USER": NAME, "LANG": "C.UTF-8",
                            "CONTAINERS_CONF": f"{folder}/containers.conf", "DOCKER_HOST": f"unix://{folder}/docker.sock", "SEED": "42 a"}
        self.dockerd = self.site = None

    def start(self):
        """Starts everything; close() stops whatever was started."""
        folder = self.folder
        with open(f"{folder}/dockerd.log", "wb") as log:
            self.dockerd = subprocess.Popen(  # pylint: disable=consider-using-with
                ["dockerd", "--data-root", f"{folder}/docker", "--exec-root", f"{folder}/docker-run", "-H", f"unix://{folder}/docker.sock",
                 "--pidfile", f"{folder}/docker.pid", "--iptables=false", "--bridge=none", "--storage-driver=vfs"],
                env={**os.environ, "PATH": self.environment["PATH"]}, stdout=log, stderr=log)
        until(lambda: self.as_user("docker", "version", check=False).returncode == 0 or os.path.exists(f"{folder}/docker.sock") and
              os.chmod(f"{folder}/docker.sock", 0o666), "dockerd answers")
        self.make_image()
        self.site = Site(PROGRAMS, "2xA100-40GB", policy="settle = false")
        with open(f"{self.site.folder}/carma.toml", "a", encoding="utf-8") as file:
            file.write(SLOTS)
        self.site.start()
        devices = [{"name": gpu["uuid"], "containerEdits": {"env": [f"SEEN_GPU={gpu['uuid']}"]}} for gpu in self.gpus()]
        write("/run/cdi/nvidia.json", json.dumps({"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices}))

    def gpus(self):
        """The state of the simulated server."""
        return json.loads(self.site.carma("gpus", "--json"))["gpus"]

    def make_image(self):
        """Makes an image with one file: Debian's static busybox, with links to it."""
        root = f"{self.folder}/root"
        for folder in ("bin", "tmp", "proc", "dev", "etc"):
            os.makedirs(f"{root}/{folder}")
        shutil.copy(shutil.which("busybox"), f"{root}/bin/busybox")
        for word in ("sh", "cat", "env", "grep", "id", "sleep", "touch", "true"):
            os.symlink("busybox", f"{root}/bin/{word}")
        os.chmod(f"{root}/tmp", 0o1777)
        subprocess.run(["tar", "-C", root, "-cf", f"{self.folder}/image.tar", "."], check=True)
        os.chmod(f"{self.folder}/image.tar", 0o644)
        self.as_user("docker", "import", f"{self.folder}/image.tar", "localhost/tiny")
        self.as_user("podman", "import", f"{self.folder}/image.tar", "localhost/tiny")
        self.end_pause()

    def as_user(self, *words, check=True):
        """Runs a command and returns its output."""
        return subprocess.run(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *words], check=check, timeout=LIMIT_S,
                              cwd=self.home, env=self.environment, capture_output=True, text=True)

    def carma(self, *words):
        """Runs a command as that user."""
        return self.as_user("carma", "--socket", self.site.socket, *words).stdout

    def submit(self, *words):
        """Submits a task and returns its number."""
        return int(self.carma("submit", "--parsable", *words))

    def ended(self, number):
        """The task once it has ended, and its output."""
        self.as_user("carma", "--socket", self.site.socket, "wait", "--quiet", "--timeout", "50s", str(number), check=False)
        return self.site.task(number), self.output(number)

    def output(self, number):
        """The output of the task so far."""
        try:
            with open(self.site.task(number)["stdout_path"], encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def says(self, number, words):
        """Waits for words in the task's output."""
        until(lambda: words in self.output(number), f"'{words}': {self.site.task(number)['reason_text']} {self.output(number)}")

    def processes(self):
        """Processes of the user, as pid and command, without the helper that the test's own Podman leaves."""
        listed = subprocess.run(["ps", "-o", "pid=,args=", "-u", str(USER)], check=False, capture_output=True, text=True).stdout
        return [line.strip() for line in listed.splitlines() if "<defunct>" not in line]

    def end_pause(self):
        """Ends the process that Podman leaves to keep the user's namespaces, so that tasks start without it."""
        def gone():
            left = self.processes()
            for line in left:
                if line.endswith("catatonit -P"):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(line.split()[0]), signal.SIGKILL)
            return not left
        until(gone, "no process of the user")

    def containers(self):
        """Containers of both tools, running or not."""
        found = self.as_user("docker", "ps", "--all", "--format", "{{.Names}}").stdout + \
            self.as_user("podman", "ps", "--all", "--format", "{{.Names}}").stdout
        self.end_pause()
        return found.split()

    @contextlib.contextmanager
    def limits(self):
        """Switches to a server whose tasks have control groups and whose driver limits their GPU memory."""
        before = self.site
        with Site(PROGRAMS, "1xA100-40GB", policy="settle = false", memory_limits=True) as self.site:
            try:
                status = json.loads(self.site.carma("status", "--json"))
                if status["memory_limits"] != "kernel":
                    raise AssertionError(status["no_memory_limits"])
                yield
            finally:
                self.site = before

    def limited(self, number):
        """Control groups of that task's containers whose GPU memory the simulated driver limits."""
        left = subprocess.run([self.site.program("carma-simgpu"), "audit"], check=False, capture_output=True, text=True,
                              env={**os.environ, "CARMA_SIMGPU_STATE": f"{self.site.folder}/gpus"})
        words = [line.split() for line in (left.stdout + left.stderr).splitlines() if "memory limit" in line]
        return [line[-1] for line in words if line[-1].endswith(f"-{number}.slice")]

    def close(self):
        """Leaves no process and no file behind."""
        try:
            if self.site:
                self.site.close()
        finally:
            self.dockerd.terminate()
            self.dockerd.wait(LIMIT_S)
        subprocess.run(["umount", "-l", "/etc/passwd", "/etc/group", "/etc/subuid", "/etc/subgid"], check=False)
        subprocess.run(["umount", "-l", f"{self.folder}/docker-run/netns/default"], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder)


class ContainersTest(unittest.TestCase):
    """After each test, the user has no process and no container left."""

    world = None
    tools = ("podman", "docker")

    def tearDown(self):
        until(lambda: not self.world.processes(), "no process of the user")
        self.assertEqual(self.world.containers(), [])
        self.assertEqual([name for name in os.listdir("/tmp") if name.startswith("carma-") and name.count("-") == 4], [], "scripts")
        groups = [name for name in os.listdir("/sys/fs/cgroup") if name.endswith(".slice") and name.startswith("carma-")]
        self.assertEqual(groups, [])

    def each(self, *more):
        """Each tool with the name of its image."""
        return [(tool, f"{tool}:{self.world.folder}/image.tar" if tool == "apptainer" else f"{tool}:localhost/tiny")
                for tool in self.tools + more]

    def test_user_folder_environment_gpus_output_and_exit_code(self):
        uuids = {gpu["uuid"] for gpu in self.world.gpus()}
        for tool, image in self.each():
            number = self.world.submit(
                "--container", image, "--gpu-mem", "1G", "--", "sh", "-c",
                f'id -u; id -g; echo $PWD; echo "$SEED"; {GPU_WORDS}; echo $gpus; echo $seen; echo $CARMA_TASK_ID; '
                f'grep NoNewPrivs /proc/self/status; touch made-{tool}; echo oh >&2; exit 7')
            task, output = self.world.ended(number)
            self.assertEqual((task["state"], task["exit_code"]), ("failed", 7), output)
            self.assertIn("oh\n", output)
            lines = [line for line in output.split("\n") if line != "oh" and not line.startswith("WARNING: ")]
            # Standard error, with Docker's warnings about the machine, may come in between.
            self.assertEqual(lines[:4], [str(USER), str(USER), self.world.home, "42 a"])
            self.assertIn(lines[4], uuids)
            self.assertEqual(lines[5], lines[4], "the tool gave the container this GPU")
            self.assertEqual(lines[6:8], [str(number), "NoNewPrivs:\t1"])
            self.assertEqual(os.stat(f"{self.world.home}/made-{tool}").st_uid, USER)
            self.assertEqual(task["container"], image)
            self.assertIn(image, self.world.carma("show", str(number)))

    def test_a_task_without_gpus_and_with_a_mount(self):
        data = f"{self.world.folder}/root/etc"
        for _, image in self.each():
            number = self.world.submit("-G", "0", "--container", image, "--container-mount", f"{data}:/data,x:ro", "--", "sh", "-c",
                                       'touch /data,x/no 2>&1; echo "[$CUDA_VISIBLE_DEVICES][$SEEN_GPU]"; echo $NVIDIA_VISIBLE_DEVICES')
            task, output = self.world.ended(number)
            self.assertEqual(task["state"], "succeeded", output)
            self.assertIn("Read-only file system", output)
            self.assertTrue(output.endswith("[][]\nvoid\n"), output)

    def test_a_script_says_it_in_a_directive(self):
        for tool, image in self.each("apptainer"):
            script = f"{self.world.home}/{tool}.sh"
            write(script, f"#!/bin/sh\n#CARMA --container {image}\n#CARMA -G 0\necho \"script $1 $2\"\nexit 4\n")
            task, output = self.world.ended(self.world.submit(script, "a b", "c"))
            self.assertEqual((task["exit_code"], output.split("\n")[-2]), (4, "script a b c"), output)

    def test_cancel_lets_the_task_save(self):
        for _, image in self.each():
            number = self.world.submit("-G", "0", "--container", image, "--", "sh", "-c",
                                       'trap "echo saved; exit 3" TERM; echo ready; while :; do sleep 0.1; done')
            self.world.says(number, "ready")
            began = time.monotonic()
            self.world.carma("cancel", str(number))
            task, output = self.world.ended(number)
            self.assertEqual(task["state"], "cancelled", output)
            self.assertEqual(output.count("saved"), 1, output)
            self.assertLess(time.monotonic() - began, 15, "less than the grace of 30 s")

    def test_the_end_of_the_tool_or_of_the_shim_ends_the_container(self):
        for _, image in self.each():
            for shim in (False, True):
                number = self.world.submit("-G", "0", "--no-requeue", "--container", image, "--", "sh", "-c", "echo ready; exec sleep 600")
                self.world.says(number, "ready")
                pid = self.world.site.task(number)["pid"]
                with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                    parent = int(stat.read().rpartition(")")[2].split()[1])
                os.kill(parent if shim else pid, signal.SIGKILL)
                task, output = self.world.ended(number)
                self.assertEqual(task["state"], "lost" if shim else "failed", output)
                until(lambda: not self.world.containers(), "no container")

    def test_a_task_outlives_carmad(self):
        numbers = []
        for tool, image in self.each():
            number = self.world.submit("--gpu-mem", "1G", "--container", image, "--", "sh", "-c",
                                       f"echo ready; while ! [ -e go-{tool} ]; do sleep 0.1; done; exit 5")
            self.world.says(number, "ready")
            numbers.append(number)
        self.world.site.stop(signal.SIGKILL)
        self.world.site.start()
        for tool, _ in self.each():
            write(f"{self.world.home}/go-{tool}", "")
        for number in numbers:
            self.assertEqual(self.world.ended(number)[0]["exit_code"], 5)

    def test_a_time_slot_asks_it_to_save_and_it_goes_on_later(self):
        for _, image in self.each():
            words = ("--exclusive", "-G", "2", "--gpu-mem", "1G", "--container", image)
            script = 'trap "echo saved; exit 85" USR1; [ $CARMA_RESTARTS = 0 ] || exit 0; echo ready; while :; do sleep 0.1; done'
            first = self.world.submit(*words, "--checkpoint-signal", "USR1", "--open-mode", "append", "--", "sh", "-c", script)
            self.world.says(first, "ready")
            second = self.world.submit(*words, "--", "true")
            self.assertEqual(self.world.ended(second)[0]["state"], "succeeded")
            task, output = self.world.ended(first)
            self.assertEqual((task["state"], task["attempt"], output.count("saved")), ("succeeded", 2, 1), output)

    def test_fifty_tasks_and_a_carmad_that_was_killed_leave_nothing(self):
        firsts = [int(self.world.carma("submit", "--parsable", "--gpu-mem", "1G", "-a", "0-24", "--container", image, "--", "sh", "-c",
                                       "echo once; exit $CARMA_ARRAY_INDEX").split("-")[0]) for _, image in self.each()]
        for first in firsts:
            self.world.ended(first)
        self.world.site.stop(signal.SIGKILL)
        self.world.site.start()
        for first in firsts:
            ended = [self.world.ended(number) for number in range(first, first + 25)]
            self.assertEqual([task["exit_code"] for task, _ in ended], list(range(25)))
            self.assertEqual({output.count("once") for _, output in ended}, {1})
        self.assertEqual([gpu["tasks"] for gpu in self.world.gpus()], [[], []])

    def test_what_a_task_starts_by_itself_ends_with_it(self):
        script = ('docker run --detach --rm --network=host --cgroup-parent "$CARMA_CONTAINER_GROUP" localhost/tiny sleep 600; '
                  'podman run --detach --rm --network=host --cgroups=disabled localhost/tiny sleep 600; echo started')
        task, output = self.world.ended(self.world.submit("-G", "0", "--wrap", script))
        self.assertIn("started", output)
        self.assertEqual(task["state"], "succeeded", output)
        until(lambda: subprocess.run(["pgrep", "-x", "-f", "sleep 600"], check=False, capture_output=True).returncode != 0, "no container")
        self.world.as_user("podman", "rm", "--all", "--force")
        self.world.end_pause()

    def test_the_gpu_memory_of_dockers_containers_is_limited(self):
        self.enterContext(self.world.limits())
        number = self.world.submit("--gpu-mem", "2G", "--container", "docker:localhost/tiny", "--", "sh", "-c",
                                   "echo ready; while ! [ -e go-limit ]; do sleep 0.1; done")
        self.world.says(number, "ready")
        group, = self.world.limited(number)
        container, = [name for name in os.listdir(group) if os.path.isdir(f"{group}/{name}")]
        with open(f"{group}/{container}/cgroup.procs", encoding="utf-8") as processes:
            self.assertTrue(processes.read(), "its container is in that group")
        self.assertGreater(self.world.site.task(number)["group_limit_mib"], 2048)
        write(f"{self.world.home}/go-limit", "")
        self.assertEqual(self.world.ended(number)[0]["state"], "succeeded")
        self.assertEqual(self.world.limited(number), [])

    def test_a_container_that_a_task_starts_cannot_take_more_than_its_promise(self):
        self.enterContext(self.world.limits())
        # Runs this machine's carma-simtask, with its libraries. It finds its control group because it sees those of the machine.
        train = ("docker run --rm --network=host --pid=host --ipc=host --cgroupns=host --cgroup-parent $CARMA_CONTAINER_GROUP "
                 "--env CARMA_SIMGPU_STATE --env CUDA_VISIBLE_DEVICES --volume /:/host:ro --volume /tmp:/tmp localhost/tiny "
                 f"/host{os.path.realpath('/lib64/ld-linux-x86-64.so.2')} --library-path /host/usr/lib/x86_64-linux-gnu "
                 f"/host{self.world.site.program('carma-simtask')} --solo-s 1 --load-s 0 --crash-s 0 --memory-mib")
        task, output = self.world.ended(self.world.submit("--gpu-mem", "2G", "--retries", "0", "--wrap", f"{train} 6000"))
        self.assertEqual(task["state"], "out_of_memory", output)
        self.assertIn("CUDA out of memory", output)
        task, output = self.world.ended(self.world.submit("--gpu-mem", "2G", "--retries", "0", "--wrap", f"{train} 1000"))
        self.assertEqual(task["state"], "succeeded", output)
        self.assertEqual(self.world.limited(task["id"]), [])

    def test_apptainers_command_line(self):
        image = f"{self.world.folder}/image.tar"  # any file: the stand-in does not look into it
        number = self.world.submit("--gpu-mem", "1G", "--container", image, "--", "sh", "-c", 'echo "$PWD $SEED"; exit 6')
        task, output = self.world.ended(number)
        self.assertEqual(task["exit_code"], 6, output)
        with open(f"{self.world.home}/apptainer.line", encoding="utf-8") as file:
            line = file.read()
        home, mps = self.world.home, f"{self.world.site.folder}/m/{USER}/"
        self.assertTrue(line.startswith(f"--nv --pwd {home} --mount type=bind,source={home},destination={home} --mount type=bind,source={mps}"),
                        line)
        self.assertTrue(line.endswith(f' {image} sh -c echo "$PWD $SEED"; exit 6\n'), line)
        self.assertIn(f"{self.world.home} 42 a", output)
        number = self.world.submit("-G", "0", "--container", image, "--", "sh", "-c",
                                   'trap "echo saved; exit 3" TERM; echo ready; while :; do sleep 0.1; done')
        self.world.says(number, "ready")
        self.world.carma("cancel", str(number))
        self.assertEqual(self.world.ended(number)[1].count("saved"), 1)

    def test_what_cannot_start_is_refused(self):
        for words, expected in ((("--container", "podman:-v/:/x"), "expected an image"),
                                (("--container", "/no/such.sif"), "no image /no/such.sif"),
                                (("--container-mount", "/data"), "container mounts need a container: name its image too"),
                                (("--container", "a", "--conda-env", "b"), "a container has its own programs: omit the conda environment")):
            done = self.world.as_user("carma", "--socket", self.world.site.socket, "submit", *words, "--", "true", check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(expected, done.stderr)


if __name__ == "__main__":
    if os.getuid() != 0:
        print("skipped: needs root, for another user's tasks")
        sys.exit(77)
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = sorted({package for program, package in NEEDED.items() if shutil.which(program) is None})
    if missing:
        print(f"skipped: needs Debian's packages {' '.join(missing)}")
        sys.exit(77)
    own = enter_own_view()
    PROGRAMS = enterable(sys.argv.pop(1), f"{own}/programs")
    ContainersTest.world = World(own)
    try:
        ContainersTest.world.start()
        result = unittest.main(verbosity=2, exit=False).result
    finally:
        ContainersTest.world.close()
    sys.exit(not result.wasSuccessful())
