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
INCLUDE = re.compile(r'^#include "([^"]+/[^"]+)"', re.MULTILINE)  # includes that name a folder
# The core gets the time from outside and does no input or output.
IMPURE = re.compile(
    r"^#include <(chrono|thread|mutex|fstream|iostream|unistd\.h|sys/.*|random|filesystem)>", re.MULTILINE)

HELPER = re.compile(r"^(?!return |using )[\w:][\w:<>,&* ]* [&*]?(\w+)\(", re.MULTILINE)
SHARED = re.compile(r"^(?:inline )?constexpr [^=;({]*?\b(k\w+)(?= =|\{|\[|;)", re.MULTILINE)


def declared(layers):
    """The modules, and a map from each folder (or "module+tests" for what its tests additionally include) to the folders and modules that it may include from."""
    modules, allowed = {"apps"}, collections.defaultdict(set)
    for line in pathlib.Path(layers).read_text().splitlines():
        folder, _, others = line.partition(": ")
        if folder == "@module":
            modules.add(others)
        else:
            allowed[folder] |= set(others.split())
    return modules, allowed


def module_of(folder, modules):
    """The module that a folder is or belongs to; None if no CMakeLists.txt declares it."""
    while folder and folder not in modules:
        folder = folder.rpartition("/")[0]
    return folder or None


def permitted(path, modules, allowed):
    """The folders that a file may include from; None if no CMakeLists.txt declares its module."""
    own = path.parent.relative_to(SOURCE).as_posix()
    module = module_of(own, modules)
    if module is None:
        return None
    # a folder that is built separately is allowed as well as its module
    may = {own} | (allowed[own] if own in allowed else allowed[module] | {module})
    if re.search(r"_test$|^fake_|^test_|^sample_|_fixture$", path.stem):
        may |= allowed[module + "+tests"] | {f.relative_to(SOURCE).as_posix() for f in (SOURCE / module).rglob("*") if f.is_dir()}
    return may


def complaints(modules, allowed):
    for path in sorted(SOURCE.rglob("*")):
        if path.suffix not in (".cc", ".h"):
            continue
        name = f"src/{path.relative_to(SOURCE)}"
        may = permitted(path, modules, allowed)
        if may is None:
            yield f"{name}: a module that no CMakeLists.txt declares"
            continue
        module = module_of(path.parent.relative_to(SOURCE).as_posix(), modules)
        text = path.read_text()
        for found in INCLUDE.finditer(text):
            other = found[1].rpartition("/")[0].removeprefix("tests/")
            another_module = module_of(other, modules)  # any folder of the other module may use it
            if other in may or (another_module != module and another_module in may):
                continue
            line = text.count("\n", 0, found.start()) + 1
            yield f"{name}:{line}: '{path.parent.relative_to(SOURCE)}' must not include from '{other}'"
        if module == "core" and not path.stem.endswith("_test"):
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
