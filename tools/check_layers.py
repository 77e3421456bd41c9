#!/usr/bin/env python3
"""Fails when a folder under src/ includes from a folder that it does not declare (cmake/carma.cmake, carma_layer), or when a constant
(in tests also a function) has the name of one in a header of its folder, because the files of a folder are compiled together (carma_unity).

usage: check_layers.py BUILD/layers.txt
"""
import collections
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "src"
INCLUDE = re.compile(r'^#include "([^"]+/[^"]+)"', re.MULTILINE)  # that name a folder
# The core gets the time from outside and does no input or output.
IMPURE = re.compile(
    r"^#include <(chrono|thread|mutex|fstream|iostream|unistd\.h|sys/.*|random|filesystem)>", re.MULTILINE)

HELPER = re.compile(r"^(?!return |using )[\w:][\w:<>,&* ]* [&*]?(\w+)\(", re.MULTILINE)
SHARED = re.compile(r"^(?:inline )?constexpr [^=;({]*?\b(k\w+)(?= =|\{|\[|;)", re.MULTILINE)


def declared(layers):
    """The rooms, and a map from each folder (or "room+tests" for what its tests additionally include) to the folders and rooms that it may include from."""
    rooms, allowed = {"apps"}, collections.defaultdict(set)
    for line in pathlib.Path(layers).read_text().splitlines():
        folder, _, others = line.partition(": ")
        if folder == "@room":
            rooms.add(others)
        else:
            allowed[folder] |= set(others.split())
    return rooms, allowed


def room_of(folder, rooms):
    """The room that a folder is or belongs to; None if no CMakeLists.txt declares it."""
    while folder and folder not in rooms:
        folder = folder.rpartition("/")[0]
    return folder or None


def permitted(path, rooms, allowed):
    """The folders that a file may include from; None if no CMakeLists.txt declares its room."""
    own = path.parent.relative_to(SOURCE).as_posix()
    room = room_of(own, rooms)
    if room is None:
        return None
    # a folder that is built separately is allowed as well as its room
    may = {own} | (allowed[own] if own in allowed else allowed[room] | {room})
    if re.search(r"_test$|^fake_|^test_|^sample_|_fixture$", path.stem):
        may |= allowed[room + "+tests"] | {f.relative_to(SOURCE).as_posix() for f in (SOURCE / room).rglob("*") if f.is_dir()}
    return may


def complaints(rooms, allowed):
    for path in sorted(SOURCE.rglob("*")):
        if path.suffix not in (".cc", ".h"):
            continue
        name = f"src/{path.relative_to(SOURCE)}"
        may = permitted(path, rooms, allowed)
        if may is None:
            yield f"{name}: a room that no CMakeLists.txt declares"
            continue
        room = room_of(path.parent.relative_to(SOURCE).as_posix(), rooms)
        text = path.read_text()
        for found in INCLUDE.finditer(text):
            other = found[1].rpartition("/")[0].removeprefix("tests/")
            another_room = room_of(other, rooms)  # any folder of the other room may use it
            if other in may or (another_room != room and another_room in may):
                continue
            line = text.count("\n", 0, found.start()) + 1
            yield f"{name}:{line}: '{path.parent.relative_to(SOURCE)}' must not include from '{other}'"
        if room == "core" and not path.stem.endswith("_test"):
            for found in IMPURE.finditer(text):
                yield f"{name}: core must not include <{found[1]}>: clocks, threads, files stay outside"


def hidden():
    """Constants, and helpers of tests, that hide a name of a header in the files compiled with it."""
    for header in sorted(SOURCE.rglob("*.h")):
        text = header.read_text()
        names = set(SHARED.findall(text))
        helpers = set(HELPER.findall(text)) if header.stem.endswith("_fixture") else set()
        for source in sorted(header.parent.glob("*.cc")) if names or helpers else []:
            if source.stem.startswith("fake_"):
                continue
            text = source.read_text()
            for name in names & set(SHARED.findall(text)) | helpers & set(HELPER.findall(text)):
                yield f"src/{source.relative_to(SOURCE)}: {name} is also declared in {header.name}: choose another name"


def repeated():
    """Constants and helpers that two tests of a folder define."""
    first = {}
    for source in sorted(SOURCE.rglob("*_test.cc")):
        text = source.read_text()
        for name in {*SHARED.findall(text), *HELPER.findall(text)}:
            other = first.setdefault((source.parent, name), source)
            if other != source:
                yield f"src/{source.relative_to(SOURCE)}: {name} is also defined in {other.name}: choose another name"


def main():
    found = [*complaints(*declared(sys.argv[1])), *hidden(), *repeated()]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
