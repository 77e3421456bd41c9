#!/usr/bin/env python3
"""Lists the tests that were skipped in a run of ctest and says how to run them: skipped_tests.py BUILD_DIR/Testing/Temporary/LastTest.log.

Prints one line per reason. A reason that reads "needs Debian's package a" or "needs Debian's packages a, b" is a missing package; any other
reason is a property of the machine, the kernel or the user. Prints nothing if nothing was skipped."""

import re
import sys

TEST = re.compile(r"^\d+/\d+ Testing: (\S+)$")
WHOLE = re.compile(r"^skipped: (.*)$")  # the program's last line before it ends with exit code 77
GTEST = re.compile(r"^\S+:\d+: Skipped$")  # the reason is on the next line
UNITTEST = re.compile(r"\.\.\. skipped ['\"](.*)['\"]$")
PACKAGES = re.compile(r"^needs Debian's packages? (.*)$")


def reasons(lines):
    """(test, reason, whole) for each skip. whole: the complete test was skipped, not a single case."""
    test = None
    lines = iter(lines)
    for line in lines:
        if match := TEST.match(line):
            test = match[1]
        elif match := WHOLE.match(line):
            yield test, match[1], True
        elif GTEST.match(line):
            yield test, next(lines, "").strip(), False
        elif match := UNITTEST.search(line):
            yield test, match[1], False


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
        found = list(reasons(log.read().splitlines()))
    whole, cases = {}, {}
    for test, reason, is_whole in found:
        counted = whole if is_whole else cases
        tests = counted.setdefault(reason, {})
        tests[test] = tests.get(test, 0) + 1
    packages, machine = [], []
    for reason in dict.fromkeys(reason for _, reason, _ in found):
        tests = list(whole.get(reason, {}))
        tests += [f"{test} ({count} case{'s' * (count > 1)})" for test, count in cases.get(reason, {}).items()]
        if match := PACKAGES.match(reason):
            packages.append(f"  {', '.join(tests)}: apt-get install {match[1].replace(',', '')}")
        else:
            machine.append(f"  {', '.join(tests)}: {reason}")
    if packages:
        print("Skipped because a package is missing ('./dev test --all' installs them all):", *packages, sep="\n")
    if machine:
        print("Skipped because of this user, machine or kernel:", *machine, sep="\n")


if __name__ == "__main__":
    main()
