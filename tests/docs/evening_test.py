#!/usr/bin/env python3
"""Tests a new user's first evening: evening_test.py BIN_DIR runs evening.sh (shown.py). Exit status 77: namespaces are
not allowed or do not exist."""

import pathlib
import sys

import reader
import shown


def main():
    try:
        wrong = shown.on_its_own_machine(reader.HERE / "evening.sh", pathlib.Path(sys.argv[1]).resolve())
    except OSError as error:
        print(f"skipped: needs permission to create namespaces: {error}")
        return 77
    print(wrong or "all as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
