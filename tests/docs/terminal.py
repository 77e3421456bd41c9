"""A shell at a terminal that types commands one after the other, and reports how each ended and what it showed."""

import dataclasses
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

LIMIT_S = 60  # for one command, on a machine that is busy with other tests
COLUMNS, ROWS = 100, 40
MARK = re.compile(rb"\x1b\]777;(begin|end) (\d+)(?: (\d+))?\x07")
ESCAPES = re.compile(r"\x1b\][^\x07]*\x07|\x1b\[[0-9;?]*[A-Za-z]|\x1b[()=>][A-Z0-9]?|\r")


@dataclasses.dataclass
class Step:
    """One command. `code` is None if it did not end in time."""

    command: str
    code: int | None = None
    output: str = ""


def script(commands):
    """A shell script that marks where each command begins and ends; the marks are not shown."""
    parts = []
    for number, command in enumerate(commands):
        parts.append(f"printf '\\033]777;begin {number}\\a' >/dev/tty\n{command}\n"
                     f"printf '\\033]777;end {number} %d\\a' $? >/dev/tty\n")
    return "".join(parts)


def type_in(path, commands, environment, folder, keys):
    """[Step] of the commands, which are written to `path` for bash. keys(command): what a reader presses while it runs, or None."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(script(commands))
    steps = [Step(command) for command in commands]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe("bash", ["bash", path], environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    try:
        follow(terminal, steps, keys)
    finally:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    return steps


def follow(terminal, steps, keys):
    """Reads until the last command has ended, or one takes too long."""
    data, at, pressed = b"", None, False
    deadline = time.monotonic() + LIMIT_S
    while True:
        marked = MARK.search(data)
        shown = data[:marked.start()] if marked else data
        if at is not None:
            steps[at].output += ESCAPES.sub("", shown.decode("utf-8", "replace"))
        data = data[marked.end():] if marked else b""
        if marked and marked[1] == b"begin":
            at, pressed, deadline = int(marked[2]), False, time.monotonic() + LIMIT_S
        elif marked:
            steps[at].code = int(marked[3])
            if at == len(steps) - 1:
                return
        if at is not None and steps[at].output and not pressed and keys(steps[at].command):
            os.write(terminal, keys(steps[at].command).encode())
            pressed = True
        if marked:
            continue
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([terminal], [], [], left)[0]:
            return
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # the shell has exited
            return
