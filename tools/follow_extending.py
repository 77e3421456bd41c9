#!/usr/bin/env python3
"""Follows docs/inside/extending.md in a copy of the tree, as a new developer would. The printed code must build and pass.

usage: follow_extending.py BUILD_FOLDER

Every ```diff block of the page is applied, in order. Then each line "<!-- run: PROGRAM ARGUMENTS -->" builds the program (a target of
CMake) and runs it, and each "<!-- compile: FILE … -->" compiles the files. The copy and its build stay in BUILD_FOLDER, so unchanged
files are not built again. The copy is always at the same path, so that ccache finds files that are equal to the checkout's.
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "inside" / "extending.md"
COPIED = ["CMakeLists.txt", "CMakePresets.json", "bench", "cmake", "data", "docs", "fuzz", "packaging", "python", "src", "tests", "tools"]
DIFF = re.compile(r"^```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMPILE = re.compile(r"^<!-- compile: (.*?) -->$", re.MULTILINE)
RUN = re.compile(r"^<!-- run: (.*?) -->$", re.MULTILINE)


def copy_tree(folder):
    """A fresh copy of the sources."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        else:
            shutil.copy2(source, folder / name)


def hunks(diff):
    """Every "@@" of a diff as (file, lines to find, lines to put there instead). Without lines to find, the file is new."""
    for part in re.split(r"^--- .*\n", diff, flags=re.MULTILINE)[1:]:
        name = re.match(r"\+\+\+ b/(.*)\n", part)[1]
        for hunk in re.split(r"^@@.*\n", part, flags=re.MULTILINE)[1:]:
            lines = hunk.splitlines(keepends=True)
            yield (name, "".join(line[1:] or line for line in lines if not line.startswith("+")),
                   "".join(line[1:] or line for line in lines if not line.startswith("-")))


def follow(page, folder):
    """Applies the page's changes. The context that a diff shows must occur in the file exactly once, at any line."""
    for number, diff in enumerate(DIFF.findall(page), 1):
        for name, old, new in hunks(diff):
            path = folder / name
            text = path.read_text() if old else ""
            if old and text.count(old) != 1:
                raise SystemExit(f"docs/inside/extending.md: diff {number}: the context occurs {text.count(old)} times in {name}:\n{old}")
            path.write_text(text.replace(old, new) if old else new)


def bring_over(fresh, kept):
    """Makes `kept` equal to `fresh`. Unchanged files keep their times, so that they are not built again."""
    wanted = {path.relative_to(fresh) for path in fresh.rglob("*") if path.is_file()}
    for name in COPIED:
        for path in list((kept / name).rglob("*")):
            if path.is_file() and path.relative_to(kept) not in wanted:
                path.unlink()
    for name in wanted:
        target = kept / name
        if target.exists() and target.read_bytes() == (fresh / name).read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(fresh / name, target)


def compiled(build, tree, name):
    """The file through which the source `name` reaches the compiler: a file that includes it with its neighbours, or the source itself."""
    line = f'#include "{pathlib.PurePath(name).relative_to("src")}"'
    together = (part for part in build.rglob("sources/**/*.cc") if line in part.read_text().splitlines())
    return next(together, tree / name)


def build_and_run(tree, page):
    subprocess.run(["cmake", "--preset", "release"], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    build = tree / "build" / "release"
    lines = RUN.findall(page)
    programs = sorted({line.split()[0] for line in lines})
    objects = sorted({f"{compiled(build, tree, name)}^" for line in COMPILE.findall(page) for name in line.split()})
    subprocess.run(["ninja", "-C", build, *programs, *objects], check=True)
    for line in lines:
        program, *arguments = line.split()
        subprocess.run([build / "bin" / program, *arguments], check=True)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]).resolve()
    page = PAGE.read_text()
    copy_tree(folder / "fresh")
    follow(page, folder / "fresh")
    bring_over(folder / "fresh", folder / "tree")
    shutil.rmtree(folder / "fresh")
    build_and_run(folder / "tree", page)


if __name__ == "__main__":
    main()
