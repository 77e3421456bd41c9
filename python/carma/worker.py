"""The program of the executor's tasks: `python3 -m carma.worker CALL` runs the call in the file CALL and writes CALL.result."""

from __future__ import annotations

import contextlib
import os
import pickle
import runpy
import sys
import traceback
import types
from typing import Any, Optional, Tuple

from . import client
from .executor import RESULT, pickled, private


def use_main(main: Optional[str]) -> None:
    """Loads the caller's script or module under its own name, so that its functions are found. The block
    `if __name__ == "__main__"` does not run."""
    if not main:
        return
    module = types.ModuleType("__mp_main__")  # the name that multiprocessing gives to such a copy
    client.script_being_read = os.path.basename(main)  # otherwise the script would submit itself without end
    try:
        if os.path.isabs(main):
            module.__dict__.update(runpy.run_path(main, run_name="__mp_main__"))
        else:
            module.__dict__.update(runpy.run_module(main, run_name="__mp_main__", alter_sys=True))
    finally:
        client.script_being_read = ""
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module


def call(path: str) -> Tuple[bool, Any, str]:
    """Runs the call. Returns (True, result, "") or (False, exception, its traceback)."""
    with open(path, "rb") as file:
        about = pickle.load(file)  # written by the submitter in a private folder
        sys.path[:] = about["sys_path"] + [each for each in sys.path if each not in about["sys_path"]]
        try:
            use_main(about["main"])
            function, arguments, named = pickle.loads(about["call"])
            return True, function(*arguments, **named), ""
        except Exception as error:  # pylint: disable=broad-except
            return False, error, traceback.format_exc()


def leave(path: str, outcome: Tuple[bool, Any, str]) -> None:
    """Writes the file atomically, so that a reader never gets a part of it."""
    try:
        text = pickled(outcome)
        if not outcome[0]:
            pickle.loads(text)  # fails for many classes with a constructor of their own
    except Exception as error:  # pylint: disable=broad-except
        what = "result" if outcome[0] else "exception"
        said = outcome[2] or "".join(traceback.format_exception_only(type(error), error))
        raised = "" if outcome[0] else "".join(traceback.format_exception_only(type(outcome[1]), outcome[1])).strip() + "; "
        text = pickle.dumps((False, RuntimeError(f"{raised}the {what} cannot be pickled: {error}"), said))
    temporary = f"{path}{RESULT}.{os.getpid()}"
    with open(temporary, "wb", opener=private) as file:
        file.write(text)
    os.replace(temporary, path + RESULT)


def main() -> int:
    """Runs one call. The exit code shows CARMA whether the call succeeded, and the end of the output shows the cause of
    a failure: a call that ran out of memory is retried with more memory."""
    path = os.path.abspath(sys.argv[1])
    with contextlib.suppress(FileNotFoundError):
        os.remove(path + RESULT)  # result of an earlier attempt
    outcome = call(path)
    leave(path, outcome)
    if not outcome[0]:
        sys.stderr.write(outcome[2])
    sys.stdout.flush()
    return 0 if outcome[0] else 1


if __name__ == "__main__":
    sys.exit(main())
