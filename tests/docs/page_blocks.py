"""The blocks of a Markdown page, and its writer's notes on them for the test: see "Documents" in CONTRIBUTING.md."""

import dataclasses
import re
import subprocess

COMMANDS = ("", "sh")  # language words of blocks whose lines are run
PROMPT = "$ "
MARK = re.compile(r"^<!-- not run\b(?P<rest>.*?)-->$")
REASON = re.compile(r"^: (?P<reason>\S.*\S) $")
NO_COMMENT = re.compile(r"^[^#'\"]*[^#'\"\s] {3,}[^#\s]", re.MULTILINE)
PRINTED_WITHOUT_A_BLOCK = re.compile(r"^ {4,}(carma(-\w+|d)? |\./dev )")


@dataclasses.dataclass
class Block:
    """Lines between two fences. `not_run` is the reason why they are not run here, "" if the mark gives none."""

    page: str
    line: int
    language: str
    lines: list
    not_run: str | None = None

    @property
    def place(self):
        return f"{self.page}:{self.line}"

    def commands(self):
        """[(line, command)]: every line or, if a line begins with "$ ", only such lines. One command may take several lines."""
        prompted = any(line.startswith(PROMPT) for line in self.lines)
        if not prompted and self.language not in COMMANDS:
            return []
        found, kept = [], []
        for at, line in enumerate(self.lines, self.line + 1):
            if prompted and not kept and not line.startswith(PROMPT):
                continue
            kept.append(line.removeprefix(PROMPT) if prompted and not kept else line)
            if not is_whole("\n".join(kept)):
                continue
            command = "\n".join(kept)
            if NO_COMMENT.search(command):
                raise SyntaxError(f"{self.page}:{at}: put a remark about a command after a #: {command}")
            if command.strip() and not command.lstrip().startswith("#"):
                found.append((at - len(kept) + 1, command))
            kept = []
        if kept:
            raise SyntaxError(f"{self.place}: a command without an end: {kept[0]}")
        return found


def is_whole(text):
    """Whether a command is complete, so that a shell would not wait for another line."""
    if text.endswith("\\"):
        return False
    return subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False).returncode == 0


def blocks(page, text):
    """The blocks of a page. Raises SyntaxError for a mark without a reason, and for commands that are printed without a fence."""
    found, open_block, mark, fence = [], None, None, ""
    for number, line in enumerate(text.split("\n"), 1):
        if open_block is not None:
            if line.strip() == fence:
                found.append(open_block)
                open_block = None
            else:
                open_block.lines.append(line)
            continue
        opening = re.match(r"^\s*(```+)\s*(\S*)", line)
        if opening:
            fence = opening[1]
            open_block = Block(page, number, opening[2], [], mark)
        elif PRINTED_WITHOUT_A_BLOCK.match(line):
            raise SyntaxError(f"{page}:{number}: put commands in a block (```sh)")
        marked = MARK.match(line)
        if marked and not REASON.match(marked["rest"]):
            raise SyntaxError(f"{page}:{number}: why is it not run? <!-- not run: REASON -->")
        mark = REASON.match(marked["rest"])["reason"] if marked else None if line.strip() else mark
    if open_block is not None:
        raise SyntaxError(f"{open_block.place}: a block without an end")
    return found
