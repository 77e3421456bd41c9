"""Runs files of commands that a reader types, with the expected output of some of them. "command   # -> text": its output has the text.
"command   # later: text", or with the number of a row, "# 3: text": it is repeated until its output has the text. Other commands must succeed.

usage: shown.py BIN_DIR FILE runs one on a separate machine (reader.py)."""

import pathlib
import re
import subprocess
import sys
import tempfile
import time

import reader

LIMIT_S = 60  # for one command
SHOWN = re.compile(r"^(.*?)\s+# (->|\w+:) (.+)$")


def commands(path):
    """(command, "->", "later:", "3:" or "", text) of each line."""
    for line in pathlib.Path(path).read_text(encoding="utf-8").split("\n"):
        if line and not line.startswith("#"):
            shown = SHOWN.match(line)
            yield shown.groups() if shown else (line, "", "")


def typed(command, environment):
    """(exit code, output) of a command in the home of the reader; processes that it leaves in the background continue."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        ran = subprocess.run(["bash", "-c", command], cwd=reader.HOME, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                             stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False)
        output.seek(0)
        return ran.returncode, output.read()


def mistake(command, how, text, environment):
    """Why a command failed its expectation; empty if it did not."""
    end = time.monotonic() + LIMIT_S
    while True:
        code, output = typed(command, environment)
        if text in output if how else code == 0:
            return ""
        if how in ("", "->") or time.monotonic() > end:
            return f"exit code {code}, expected {'that it prints ' + repr(text) if how else 0}: {command}\n{output}"
        time.sleep(0.1)


def type_file(path, programs):
    """Runs in separate namespaces and returns the first failed expectation; empty if there is none."""
    reader.settle(programs)
    environment = reader.environment(programs) | {"CARMA_SIMGPU_STATE": reader.SERVER, "COLUMNS": "200"}
    return next((wrong for each in commands(path) if (wrong := mistake(*each, environment))), "")


def on_its_own_machine(path, programs):
    """Runs type_file() in separate namespaces; raises OSError if this machine does not allow them."""
    ran = subprocess.run([*reader.own_machine(), sys.executable, "-B", __file__, str(programs), str(path)], stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE, text=True, check=False)
    return "" if ran.returncode == 0 else ran.stderr


if __name__ == "__main__":
    sys.exit(type_file(sys.argv[2], pathlib.Path(sys.argv[1]).resolve()) or 0)
