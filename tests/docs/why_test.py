#!/usr/bin/env python3
"""Checks that everything named in docs/start/why.md exists: why_test.py BIN_DIR. The last column of its table names tests (Suite.Test),
scenarios (name.scenario) and commands (carma verb --option). The commands in why.sh are run (shown.py), and each row has one."""

import pathlib
import re
import subprocess
import sys
import unittest

import reader
import shown

ROOT = reader.ROOT
PROGRAMS = None
COMPLAINTS = 28
COMMANDS = reader.HERE / "why.sh"
TEST = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)


def rows():
    """(number, names in its last column) of each row."""
    text = (ROOT / "docs" / "start" / "why.md").read_text(encoding="utf-8")
    for line in re.findall(r"^\| \d+ \|.*\|$", text, re.MULTILINE):
        cells = line.strip("|").split(" | ")
        yield int(cells[0]), re.findall(r"`([^`]+)`", cells[-1])


def tests():
    """Names of all tests in the sources."""
    return {f"{suite}.{name}" for folder in ("src", "tests") for path in (ROOT / folder).rglob("*_test.cc")
            for suite, name in TEST.findall(path.read_text(encoding="utf-8"))}


def says_help(command):
    """Whether the verb exists and has the options."""
    words = command.split()
    verbs = [word for word in words[1:] if not word.startswith("-")][:1]
    asked = subprocess.run([PROGRAMS / words[0], *verbs, "--help"], capture_output=True, text=True, check=False)
    options = [word for word in words if word.startswith("-")]
    return asked.returncode == 0 and all(re.search(rf"(^|[ ,]){option}\b", asked.stdout, re.MULTILINE) for option in options)


class WhyTest(unittest.TestCase):
    def test_there_is_a_row_for_each_complaint(self):
        self.assertEqual([number for number, _ in rows()], list(range(1, COMPLAINTS + 1)))

    def test_what_shows_it_exists(self):
        known = tests()
        for number, names in rows():
            self.assertTrue(names, f"row {number} names nothing")
            for name in names:
                with self.subTest(row=number, name=name):
                    if name.endswith(".scenario"):
                        self.assertTrue((ROOT / "tests" / "scenarios" / name).exists())
                    elif name.startswith("carma"):
                        self.assertTrue(says_help(name))
                    else:
                        self.assertIn(name, known)

    def test_each_row_has_a_command(self):
        self.assertEqual(sorted({int(how[:-1]) for _, how, _ in shown.commands(COMMANDS) if how}), list(range(1, COMPLAINTS + 1)))

    def test_the_commands_print_what_they_should(self):
        try:
            self.maxDiff = None
            self.assertEqual(shown.on_its_own_machine(COMMANDS, PROGRAMS), "")
        except OSError as error:
            self.skipTest(f"needs permission to create namespaces: {error}")


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
