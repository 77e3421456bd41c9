#!/usr/bin/env python3
"""Checks that common mistakes get a one-line answer: mistakes_test.py BIN_DIR runs mistakes.sh on its own machine. Each command exits with 1 or 2,
or warns, and prints one line that has the text after "# ->". Exit status 77: namespaces are not allowed or do not exist."""

import pathlib
import subprocess
import sys

import reader
import shown

FILE = reader.HERE / "mistakes.sh"
LEAST = 60


def complaint(command, text, environment):
    """Why the answer to one mistake is wrong; empty if it is right."""
    code, output = shown.typed(command, environment)
    right = (code in (1, 2) or "warning: " in output) and output.count("\n") == 1 and text in output
    return "" if right and output.startswith(("carma: ", "carmad: ")) else f"exit code {code}: {command}\n  expected {text}\n  printed  {output}"


def type_all(programs):
    """Runs in separate namespaces and returns the exit status."""
    reader.settle(programs)
    environment = reader.environment(programs) | {"COLUMNS": "200"}
    mistakes = [(command, text) for command, _, text in shown.commands(FILE)]
    shown.typed("carmad --background", environment)
    wrong = [each for command, text in mistakes if (each := complaint(command, text, environment))]
    print("\n".join(wrong) or f"{len(mistakes)} mistakes, each answered in a line")
    return 1 if wrong or len(mistakes) < LEAST else 0


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    if sys.argv[2:] == ["--here"]:
        return type_all(programs)
    try:
        return subprocess.run([*reader.own_machine(), sys.executable, "-B", __file__, str(programs), "--here"], check=False).returncode
    except OSError as error:
        print(f"skipped: needs permission to create namespaces: {error}")
        return 77


if __name__ == "__main__":
    sys.exit(main())
