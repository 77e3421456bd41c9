#!/usr/bin/env python3
"""Downloads and checks NVIDIA's own programs for our tests, and unpacks them into a folder without installing them.

usage: nvidia_programs.py FOLDER [-- COMMAND…]

Makes FOLDER/BRANCH/bin (nvidia-cuda-mps-control and -server) and FOLDER/BRANCH/lib (libnvidia-ml.so.1, libcuda.so.1) for several driver
branches, from Debian's and Ubuntu's packages. Existing files are not downloaded again. Then runs COMMAND with CARMA_NVIDIA_PROGRAMS=FOLDER
and returns its exit code. 77: the programs are not available here; a line says why.

The licence of the driver allows the distributions to give these files away, but not CARMA, so FOLDER is never committed or packed.
"""
import hashlib
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request

CANNOT = 77  # CTest takes this exit code for a skipped test
PATIENCE_S = 5  # for one step of a connection
LIMIT_S = 90  # for everything, because a network that drops packets must not delay the tests

DEBIAN = "http://deb.debian.org/debian/pool/non-free/n/nvidia-graphics-drivers/"
UBUNTU = "http://archive.ubuntu.com/ubuntu/pool/restricted/n/nvidia-graphics-drivers-580-server/"
# Keeps files that Debian's servers have deleted, by their SHA-1. They are checked like all others.
SNAPSHOT = "https://snapshot.debian.org/file/"

MPS = {"usr/bin/nvidia-cuda-mps-control": "bin/nvidia-cuda-mps-control",
       "usr/sbin/nvidia-cuda-mps-server": "bin/nvidia-cuda-mps-server"}
MPS_UBUNTU = {"usr/bin/nvidia-cuda-mps-control": "bin/nvidia-cuda-mps-control",
              "usr/bin/nvidia-cuda-mps-server": "bin/nvidia-cuda-mps-server"}
NVML = {"usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.1": "lib/libnvidia-ml.so.1"}
CUDA = {"usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.1": "lib/libcuda.so.1"}

# branch -> (address, SHA-256, SHA-1, files to take from it). The long-term branch of Debian 12 and the branch of Debian 13. Branch
# 580 has only the control program, which does not start without a driver: its library would be a download of 59 MB.
BRANCHES = {
    "535": [
        (DEBIAN + "nvidia-cuda-mps_535.261.03-1_amd64.deb",
         "1341544805aa9c839af45bac5a4bd697cb3eb43105eec439bfba60a8e13ba35a",
         "ed57f030d2e406510ef6778dc44a82669dcc92da", MPS),
        (DEBIAN + "libnvidia-ml1_535.261.03-1_amd64.deb",
         "c729da6ab729309dc3f481fe4d38f04ea03b0793154b0962b60117d2f37d082e",
         "9823ca9ea131cee1fb1ca1ac4dfdfe50e6c24514", NVML),
        (DEBIAN + "libcuda1_535.261.03-1_amd64.deb",
         "de1e9ca34164a5983b3f752e6699cf1ad924790f1a843b7d582bab6f99206e1e",
         "dd878f13334c0fa7566c7703d2a6f3983540bc96", CUDA),
    ],
    "550": [
        (DEBIAN + "nvidia-cuda-mps_550.163.01-2_amd64.deb",
         "7da3f29e5ad3390d9fddab7042fa6e9a76df85a69d69efc40401df2f83874764",
         "cfecfaecfcfa03bb841c4931901bbd72eba91b8f", MPS),
        (DEBIAN + "libnvidia-ml1_550.163.01-2_amd64.deb",
         "01c1b67d511d7f52c6aa60e14ed56a8eb725d5dc85784a08214d6cb0f4fd1f89",
         "f912aa6c24fee847b862689b2458756a474d56b3", NVML),
        (DEBIAN + "libcuda1_550.163.01-2_amd64.deb",
         "8feff97aac61d6f27ded96a3c25b9e68025a680476e6072ff7eaf10623509135",
         "1eb137cadd3da108994be99d4b7a2292e015a371", CUDA),
    ],
    "580": [
        (UBUNTU + "nvidia-compute-utils-580-server_580.126.20-0ubuntu3_amd64.deb",
         "4c43647565b6a250b2d253abcf0e59a650d2861199332172e1a70c45edd5a392",
         "f812f7fde56287c1dab4088d2ff9dca7ab13323d", MPS_UBUNTU),
    ],
}
NEEDED = {"535", "550"}


class Unavailable(Exception):
    """One line for the user: what is not available, and why."""


def download(address, sha256, sha1):
    """Downloads a package and checks its hash. Returns its bytes."""
    troubles = []
    for source in (address, SNAPSHOT + sha1):
        try:
            with urllib.request.urlopen(source, timeout=PATIENCE_S) as answer:
                data = answer.read()
        except OSError as error:
            troubles.append(f"{source}: {error}")
            continue
        if hashlib.sha256(data).hexdigest() == sha256:
            return data
        troubles.append(f"{source}: the SHA-256 of the file does not match")
    raise Unavailable("; ".join(troubles))


def unpack(package, wanted, folder):
    """Extracts the wanted files from a package."""
    with tempfile.TemporaryDirectory() as place:
        archive = pathlib.Path(place) / "package.deb"
        archive.write_bytes(package)
        subprocess.run(["dpkg-deb", "-x", archive, place], check=True)
        for inside, name in wanted.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy((pathlib.Path(place) / inside).resolve(), target)


def fetch(folder, branch):
    """Makes folder/branch completely, or not at all."""
    target = folder / branch
    mark = "\n".join(sha256 for _, sha256, _, _ in BRANCHES[branch])
    if (target / "complete").exists() and (target / "complete").read_text() == mark:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        fresh = pathlib.Path(place) / branch
        for address, sha256, sha1, wanted in BRANCHES[branch]:
            unpack(download(address, sha256, sha1), wanted, fresh)
        (fresh / "complete").write_text(mark)
        fresh.chmod(0o755)  # tests run these programs as other users too
        shutil.rmtree(target, ignore_errors=True)
        try:
            fresh.rename(target)
        except OSError:  # another test run was faster
            if not (target / "complete").exists():
                raise


def too_late(_signal, _frame):
    raise Unavailable(f"not downloaded within {LIMIT_S} s")


def main():
    words = sys.argv[1:]
    usage = __doc__.split("\n\n")[1]
    if words[:1] in (["-h"], ["--help"]):
        print(usage)
        return 0
    if not words or words[0].startswith("-") or (len(words) > 1 and words[1] != "--"):
        print(usage, file=sys.stderr)
        return 2
    folder = pathlib.Path(words[0]).absolute()
    try:
        if platform.machine() != "x86_64" or sys.platform != "linux":
            raise Unavailable("they are packed for Linux on x86-64 only")
        if shutil.which("dpkg-deb") is None:
            raise Unavailable("there is no dpkg-deb to unpack them")
        signal.signal(signal.SIGALRM, too_late)
        signal.alarm(LIMIT_S)
        for branch in BRANCHES:
            try:
                fetch(folder, branch)
            except Unavailable as why:
                if branch in NEEDED:
                    raise
                print(f"without branch {branch}: {why}", file=sys.stderr)
        signal.alarm(0)
    except Unavailable as why:
        print(f"skipped: needs NVIDIA's programs, which are not available here: {why}")
        return CANNOT
    if len(words) < 3:
        return 0
    return subprocess.run(words[2:], env={**os.environ, "CARMA_NVIDIA_PROGRAMS": str(folder)}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
