"""Checks a task before it is submitted, like `carma submit`."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import warnings
from typing import Any, Dict, Iterable, List, Optional

from .errors import InvalidError

PYTHON = re.compile(r"(?:.*/)?python[0-9.]*$")
# Options of the interpreter that take the next word as their value.
WITH_VALUE = frozenset(("-W", "-X"))


def suggestion(word: str, known: Iterable[str]) -> str:
    """Returns "; did you mean …?", or an empty text."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def python_script(command: List[str]) -> Optional[str]:
    """The file that an interpreter will run, such as train.py for `python3 -u train.py`. None if the command names no file."""
    if not command or not PYTHON.match(command[0]):
        return None
    words = iter(command[1:])
    for word in words:
        if word in WITH_VALUE:
            next(words, None)
        elif word == "-" or word.startswith(("-c", "-m")):
            return None
        elif not word.startswith("-"):
            return word
    return None


def _writable(path: str) -> bool:
    """Whether a file, and its folder if missing, can be created at this path."""
    if os.path.exists(path) and not os.path.isdir(path):
        return os.access(path, os.W_OK)
    folder = os.path.dirname(path)
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


def check(spec: Dict[str, Any]) -> None:
    """Raises InvalidError if the task cannot start. Warns if the script sets CUDA_VISIBLE_DEVICES."""
    folder = spec["workdir"]
    if not os.path.isdir(folder):
        raise InvalidError(f"working directory {folder}: no such folder", "invalid")
    for stream in ("stdout_path", "stderr_path"):
        path = spec.get(stream)
        # The part of the path with a % is not known yet, but the folders before it are.
        if path and not path.startswith("/dev/") and not _writable(path if "%" not in path else path[:path.index("%")] + "x"):
            raise InvalidError(f"{path}: cannot be written (set {'output' if stream == 'stdout_path' else 'error'})", "invalid")
    script = spec.get("script", "")
    if re.search(r"(?m)^\s*(export\s+)?CUDA_VISIBLE_DEVICES=", script):
        warnings.warn("the script sets CUDA_VISIBLE_DEVICES, so the task may use GPUs that are not assigned to it", stacklevel=4)
    command = spec.get("command")
    if not command or spec.get("conda_env") or spec.get("container"):  # the program comes from that environment
        return
    path = spec["environment"].get("PATH", "/usr/local/bin:/usr/bin:/bin")
    program = command[0] if "/" not in command[0] else os.path.join(folder, command[0])
    if shutil.which(program, path=path) is None:
        hint = ""
        if command[0].endswith(".py"):
            hint = f"; did you mean ['python3', '{command[0]}']?"
        elif os.path.isdir(program):
            hint = "; that is a folder"
        elif "/" in command[0] and os.path.exists(program):
            hint = "; that file is not executable (chmod +x)"
        raise InvalidError(f"no program '{command[0]}'{hint} (check=False submits anyway)", "invalid")
    file = python_script(command)
    if file is not None and not os.path.exists(os.path.join(folder, file)):
        where = os.path.dirname(os.path.join(folder, file))
        near = suggestion(os.path.basename(file), os.listdir(where) if os.path.isdir(where) else ())
        raise InvalidError(f"no file '{file}' in {folder} for {command[0]}{near} (check=False submits anyway)", "invalid")
