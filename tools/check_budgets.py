#!/usr/bin/env python3
"""Fails when a module under src/, a file or a function is larger than tools/budgets.txt allows.

usage: check_budgets.py [--list]      --list: prints the size and the budget of each module

A module's lines are those of its product C++ that are neither blank nor // comments, without tests, fakes, fixtures and samples.
A function's lines are those of its body in a .cc file. Raise a budget only in the commit that needs it, and give the reason there.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEST_CODE = re.compile(r"_test\.|^fake_|_fixture\.|^sample_|^test_")
# A definition begins in the first column and its "{" ends a line; its "}" stands alone in the first column.
BEGIN = re.compile(r"^(?!namespace|struct|class|enum|union|extern|constexpr|const |static const|using|template <[^>]*>$|#|//|\}|\s)(.*)")
NAME = re.compile(r"([~\w:]+(?:<[^()]*>)?)\(")


def budgets():
    """{"module NAME" or "file" or "function" or "file PATH" or "function PATH NAME": lines}."""
    found = {}
    for number, line in enumerate((ROOT / "tools" / "budgets.txt").read_text(encoding="utf-8").splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) < 2 or not words[-1].isdigit() or words[0] not in ("module", "file", "function"):
            sys.exit(f"tools/budgets.txt:{number}: expected 'module NAME LINES', 'file [PATH] LINES' or 'function [PATH NAME] LINES'")
        found[" ".join(words[:-1])] = int(words[-1])
    return found


def functions(lines):
    """(name, line number, lines of the body) of each function of a .cc file."""
    name = begin = None
    head = ""
    for number, line in enumerate(lines, 1):
        if begin is None:
            if BEGIN.match(line):
                head = line
            elif head and line.startswith(" "):
                head += " " + line.strip()
            else:
                head = ""
            if head.rstrip().endswith("{") and "(" in head and "= {" not in head:
                match = NAME.search(head)
                name, begin, head = (match[1] if match else "?"), number, ""
            elif head.rstrip().endswith((";", "}")):
                head = ""
        elif line == "}" or line.startswith("}  //"):
            yield name, begin, number - begin - 1
            begin = None


def measured():
    """({module: lines}, {path: lines}, [(path, line, name, lines)])."""
    modules, files, longest = collections.Counter(), {}, []
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix not in (".cc", ".h") or TEST_CODE.search(path.name):
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        name = path.relative_to(ROOT / "src").as_posix()
        modules[name.partition("/")[0]] += sum(1 for line in lines if line.strip() and not line.strip().startswith("//"))
        files[name] = len(lines)
        if path.suffix == ".cc":
            longest += [(name, number, function, length) for function, number, length in functions(lines)]
    return modules, files, longest


def complaints(allowed, modules, files, longest):
    for module, lines in sorted(modules.items()):
        budget = allowed.get(f"module {module}")
        if budget is None:
            yield f"src/{module}: no budget: add 'module {module} {lines}' to tools/budgets.txt"
        elif lines > budget:
            yield f"src/{module}: {lines} lines, {lines - budget} more than its budget of {budget} (tools/budgets.txt)"
    for name, lines in files.items():
        budget = allowed.get(f"file {name}", allowed["file"])
        if lines > budget:
            yield f"src/{name}: {lines} lines, expected at most {budget}: split it by what it does (tools/budgets.txt)"
    for name, number, function, lines in longest:
        budget = allowed.get(f"function {name} {function}", allowed["function"])
        if lines > budget:
            yield f"src/{name}:{number}: {function} has {lines} lines, expected at most {budget} (tools/budgets.txt)"
    for key in allowed:
        words = key.split()
        if len(words) > 1 and words[0] != "module" and words[1] not in files:
            yield f"tools/budgets.txt: {key}: there is no such file"
        elif words[0] == "module" and words[1] not in modules:
            yield f"tools/budgets.txt: {key}: there is no such module"


def main():
    allowed = budgets()
    modules, files, longest = measured()
    if sys.argv[1:] == ["--list"]:
        for module, lines in modules.most_common():
            print(f"{module:10s} {lines:6d} of {allowed.get(f'module {module}', 0)}")
        server = sum(lines for module, lines in modules.items() if module != "lab")
        print(f"server {server}, laboratory {modules['lab']}, {len(files)} files; longest file {max(files.values())}, "
              f"longest function {max(lines for *_, lines in longest)}")
        return 0
    found = list(complaints(allowed, modules, files, longest))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
