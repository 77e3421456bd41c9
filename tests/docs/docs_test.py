#!/usr/bin/env python3
"""Runs every command in README.md and the pages under docs exactly as printed: docs_test.py BIN_DIR [PAGE …]

The blocks of a page run in order in one shell, on a separate machine with a simulated server (reader.py), after the commands in
before/PAGE.sh. A command must exit with 0 and print no error. Blocks that cannot run here are marked in the page, with the
reason: <!-- not run: needs a real GPU -->. Exit status 77: namespaces are not allowed or do not exist."""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import page_blocks
import reader
import terminal

# Keys that the reader presses while a program waits for input.
KEYS = {"carma top": "q", "carma shell": "exit\r", "carma list -w": "\x03", "carma gpus -w": "\x03"}
# The command that runs before a page that has no file in before/.
DAEMON = "carmad --background"
# Programs that a machine may lack. Their commands count as not run.
OTHERS = ("curl", "jq")
ERROR = re.compile(r"^(carma[\w-]*|bash|python3|curl|jq|cat|sed): (?!warning|task \d+ (is|waits|has been submitted)\b)|^Traceback \(|: line \d+: |^error: ",
                   re.MULTILINE)


def pages():
    """README.md and the documents."""
    return ["README.md"] + sorted(str(path.relative_to(reader.ROOT)) for path in (reader.ROOT / "docs").rglob("*.md"))


def read(page):
    """Blocks of a page."""
    return page_blocks.blocks(page, (reader.ROOT / page).read_text(encoding="utf-8"))


def keys(command):
    """The keys that the reader presses."""
    return next((pressed for start, pressed in KEYS.items() if command.startswith(start)), None)


def mistakes(block_line, step):
    """What was wrong with a command, as a list."""
    if step.code is None:
        return [f"{block_line}: still running after {terminal.LIMIT_S} s: {step.command}\n{step.output}"]
    if step.code != 0:
        return [f"{block_line}: exit code {step.code}: {step.command}\n{step.output}"]
    if ERROR.search(step.output):
        return [f"{block_line}: prints an error: {step.command}\n{step.output}"]
    return []


def type_page(page, programs):
    """Runs in separate namespaces and returns (commands that were typed, commands that were not, mistakes)."""
    reader.settle(programs)
    commands, places, left_out = [], [], 0
    before = reader.HERE / "before" / (pathlib.Path(page).stem + ".sh")
    commands.append(f". {before}" if before.exists() else DAEMON)
    places.append(f"before {page}")
    for block in read(page):
        for line, command in block.commands() if block.not_run is None else []:
            if any(re.search(rf"\b{other}\b", command) and not shutil.which(other) for other in OTHERS):
                left_out += 1
                continue
            commands.append(command)
            places.append(f"{page}:{line}")
    with tempfile.TemporaryDirectory() as folder:
        steps = terminal.type_in(os.path.join(folder, "typed.sh"), commands, reader.environment(programs), reader.HOME, keys)
    wrong = []
    for place, step in zip(places, steps):
        if os.environ.get("CARMA_DOCS_SHOW"):
            print(f"{place} $ {step.command}\n{step.output}", file=sys.stderr)
        wrong += mistakes(place, step)
        if step.code is None:
            break  # nothing was typed after it
    return {"typed": len(steps), "left_out": left_out, "wrong": wrong}


def on_its_own_machine(page, programs):
    """Runs type_page() in a separate process."""
    started = time.monotonic()
    ran = subprocess.run([*reader.own_machine(), sys.executable, __file__, str(programs), "--here", page], stdout=subprocess.PIPE, text=True,
                         check=False)
    told = json.loads(ran.stdout) if ran.returncode == 0 else {"typed": 0, "left_out": 0, "wrong": [f"{page}: the test itself failed"]}
    return page, told, time.monotonic() - started


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    if sys.argv[2:3] == ["--here"]:
        print(json.dumps(type_page(sys.argv[3], programs)))
        return 0
    wrong, wanted, marked, unread = [], [], {}, 0
    for page in sys.argv[2:] or pages():
        try:
            found = read(page)
            unread += sum(len(block.commands()) for block in found if block.not_run is not None)
            for block in found:
                if block.not_run is not None:
                    marked.setdefault(block.not_run, []).append(block.place)
            if any(block.not_run is None and block.commands() for block in found):
                wanted.append(page)
        except SyntaxError as error:
            wrong.append(str(error))
    try:
        reader.own_machine()
    except OSError as error:
        print(f"skipped: needs permission to create namespaces: {error}")
        return 77
    typed = left_out = 0
    with concurrent.futures.ThreadPoolExecutor(2) as workers:
        for page, told, seconds in workers.map(lambda page: on_its_own_machine(page, programs), wanted):
            print(f"{page}: {told['typed']} commands, {seconds:.1f} s")
            typed, left_out, wrong = typed + told["typed"], left_out + told["left_out"], wrong + told["wrong"]
    for reason, places in sorted(marked.items()):
        print(f"not run: {reason}: {', '.join(places)}")
    print(f"{typed} commands typed, {unread} not run for {len(marked)} reasons, {left_out} for lack of {' or '.join(OTHERS)}")
    for each in wrong:
        print(f"\n{each}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
