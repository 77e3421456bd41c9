#!/usr/bin/env python3
"""Packs the Python modules and the command `carma` into a wheel: wheel.py CARMA VERSION OUTPUT_DIR. Prints its path.

CARMA is the program of the target `portable`. The same program gives the same bytes, because names are sorted and the time is that of
SOURCE_DATE_EPOCH."""

import base64
import hashlib
import os
import pathlib
import sys
import time
import zipfile

PYTHON = pathlib.Path(__file__).resolve().parent.parent / "python"
MODULES = ("carma", "carma_task", "hydra_plugins")
MACHINES = {62: "x86_64", 183: "aarch64"}  # by e_machine in the ELF header


def files(program, version, tag):
    """The files of the wheel as (name, bytes, mode)."""
    found = [(str(path.relative_to(PYTHON)), path.read_bytes(), 0o644) for module in MODULES for path in (PYTHON / module).rglob("*")
             if path.is_file() and "__pycache__" not in path.parts]
    about = f"carma-{version}.dist-info"
    found.append((f"carma-{version}.data/scripts/carma", program.read_bytes(), 0o755))
    found.append((f"{about}/METADATA", (
        f"Metadata-Version: 2.1\nName: carma\nVersion: {version}\nSummary: Submit tasks to CARMA, the resource manager of one multi-GPU server\n"
        "License: Apache-2.0\nRequires-Python: >=3.9\nDescription-Content-Type: text/markdown\n\n"
        "The module `carma` (tasks, an executor of concurrent.futures), `carma_task` for training loops that save when they are asked to, a\n"
        "launcher for Hydra, and the command `carma`. The daemon comes with CARMA's packages and archive.\n").encode(), 0o644))
    found.append((f"{about}/WHEEL", f"Wheel-Version: 1.0\nGenerator: carma\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o644))
    return sorted(found)


def record(name, content):
    """Formats a line of RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def main():
    program, version, output = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    # A zip file cannot store times before 1980.
    when = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800))[:6]
    machine = MACHINES[int.from_bytes(program.read_bytes()[18:20], "little")]
    tag = f"py3-none-manylinux_2_28_{machine}"
    content = files(program, version, tag)
    listed = f"carma-{version}.dist-info/RECORD"
    content.append((listed, ("".join(record(name, data) for name, data, _ in content) + f"{listed},,\n").encode(), 0o644))
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"carma-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data, mode in content:
            entry = zipfile.ZipInfo(name, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            wheel.writestr(entry, data)
    print(path)


if __name__ == "__main__":
    main()
