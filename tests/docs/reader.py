"""The environment of a page's reader: a separate machine (namespaces, so nothing that happens there is visible outside), a simulated server, a
home with a checkout of CARMA in it, and the files that the pages mention."""

import fcntl
import os
import pathlib
import shutil
import socket
import struct
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HOME = pathlib.Path("/home/ann")
CHECKOUT = HOME / "carma"
SERVER = "/var/lib/simulated-server"
# The simulated server's clock is this many times as fast, so a window of a minute takes one second.
TIME_SCALE = 60
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
OVERLAID = ["/etc", "/tmp", "/var", "/home", "/root"]
# Starts each page in its own namespaces. With --pid, the page's daemons and tasks end with it.
OWN_MACHINE = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--net"]


def own_machine():
    """The command that gives a child its own namespaces; raises OSError if this machine does not allow that."""
    if os.geteuid() != 0:
        raise OSError("only root may replace /etc and /run, even in its own namespace")
    tried = subprocess.run([*OWN_MACHINE, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        raise OSError(tried.stderr.strip())
    return OWN_MACHINE


def run(*command):
    """Runs a command that must succeed."""
    subprocess.run([str(word) for word in command], check=True)


def make_private():
    """Makes files written from now on invisible outside; they disappear with the last process. The only network is loopback."""
    run("mount", "--make-rprivate", "/")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        flags = struct.pack("16sH", b"lo", IFF_UP)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, flags.ljust(40, b"\0"))
    run("mount", "-t", "tmpfs", "-o", "mode=755", "reader", "/mnt")
    for folder in OVERLAID:
        upper, work = pathlib.Path("/mnt/upper" + folder), pathlib.Path("/mnt/work" + folder)
        for each in (upper, work):
            each.mkdir(parents=True)
        shutil.copymode(folder, upper)
        run("mount", "-t", "overlay", "-o", f"lowerdir={folder},upperdir={upper},workdir={work}", "overlay", folder)
    run("mount", "-t", "tmpfs", "-o", "mode=755", "reader", "/run")
    for books in pathlib.Path("/var/lib").glob("carma*"):  # databases of this machine's own carmad: hidden, not removed
        shutil.rmtree(books)


def make_home(programs):
    """Makes the home, with a checkout whose build is the programs under test. `./dev build` there has nothing to build."""
    shutil.copytree(HERE / "home", HOME, dirs_exist_ok=True)
    with open("/etc/passwd", "a", encoding="utf-8") as users:
        for number, name in enumerate(("ann", "bob", "ada", "eve"), 60001):
            users.write(f"{name}:x:{number}:{number}::/home/{name}:/bin/bash\n")
    CHECKOUT.mkdir()
    for path in ROOT.iterdir():
        if path.name not in ("build", "dev", ".git"):
            (CHECKOUT / path.name).symlink_to(path)
    (CHECKOUT / "build" / "release").mkdir(parents=True)
    (CHECKOUT / "build" / "release" / "bin").symlink_to(programs)
    sudo = HOME / "bin" / "sudo"
    sudo.write_text('#!/bin/sh\nexec "$@"\n', encoding="utf-8")
    sudo.chmod(0o755)
    dev = CHECKOUT / "dev"
    dev.write_text('#!/bin/sh\n[ "$*" = build ] || { echo "dev: this test only builds" >&2; exit 2; }\n', encoding="utf-8")
    dev.chmod(0o755)


def make_server(programs):
    """Makes a server with four GPUs, 32 cores and 256 GiB, which every carmad on this machine finds through the machine's configuration."""
    run(programs / "carma-simgpu", "create", "--shape", "4xA100-40GB", "--time-scale", TIME_SCALE, "--state", SERVER)
    folder = pathlib.Path("/etc/carma")
    folder.mkdir(exist_ok=True)
    (folder / "carma.toml").write_text(
        f'[monitor]\nnvml_library = "{programs}/libcarma-simgpu.so"\n[simulation]\nstate = "{SERVER}"\n'
        f'[collocation]\nmps_control = "{programs}/carma-simmps"\n[host]\ncpus = 32\nmemory = "256G"\n'
        '[fair]\naccounts = ["vision: ada"]\n', encoding="utf-8")


def environment(programs):
    """The environment of the reader's shell."""
    return {"HOME": str(HOME), "USER": "root", "LOGNAME": "root", "LANG": "C.UTF-8", "TERM": "xterm-256color", "SHELL": "/bin/bash",
            "PATH": f"{programs}:{HOME}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def settle(programs):
    """Turns the namespaces of this process into the reader's machine."""
    make_private()
    make_home(programs)
    make_server(programs)
