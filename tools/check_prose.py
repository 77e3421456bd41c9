#!/usr/bin/env python3
"""Finds mechanical signs of unclear English in the documents and in the strings of the product (CONTRIBUTING.md, "Documents").

usage: check_prose.py [--list [FOLDER]] [--lower]

A folder may have at most as many signs as tools/prose_counts.txt states; a folder that it does not list may have none. --list prints
each sign with its location. --lower writes the present counts where they have fallen.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COUNTS = ROOT / "tools" / "prose_counts.txt"
LONGEST_SENTENCE = 40  # words
LONGEST_CELL = 160  # letters
LONGEST_HELP = 100  # letters of a line
AVERAGE_SENTENCE = 25  # words, of a page
ALL_DOCUMENTS = 45_000  # words
WORDS = re.compile(r"\b(is told|are told|was told|anew|so many|so long|so often|likewise)\b", re.IGNORECASE)
# In messages, only people are "who", and "whose" follows the word that it belongs to. Tasks and GPUs are things.
PEOPLE = r"(?:users?|people|person|members?|administrators?|owners?|callers?|everybody|everyone)"
WHO = re.compile(r"(?<!\w)(?:who(?:m|ever)?|somebody|(?:^|[,.;:(] ?|\b(?:of|by|and|or|to|for) )whose)\b", re.IGNORECASE)
AFTER_PEOPLE = re.compile(rf"{PEOPLE},? $", re.IGNORECASE)
LITERALS = re.compile(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+')
HELP = re.compile(r"src/(cli/(?!doctor)|lab/(?!simgpu)|config/keys)")  # files whose longer strings are mostly help


def sentences(text):
    """The sentences of a text, without code and links."""
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "code", text))
    return [part for part in re.split(r"(?<=[.!?:;])[)*\"]*\s+", text) if part.strip()]


def word_count(text):
    """The number of words, not counting punctuation."""
    return sum(1 for word in text.split() if re.search(r"[^\W_]", word))


def paragraphs(text):
    """The parts of a document as (line, kind, text). kind: "cell" of a table, or "prose" for a paragraph or an item of a list."""
    fenced, kept, start = False, [], 0
    for number, line in enumerate(text.split("\n") + [""], 1):
        fence = line.lstrip().startswith("```")
        is_prose = not fenced and not fence and line.strip() and not re.match(r"(#|\||<!--|!\[| {4})", line)
        if kept and (not is_prose or re.match(r"\s*([-*]|\d+\.) ", line)):
            yield start, "prose", " ".join(kept)
            kept = []
        if fence:
            fenced = not fenced
        elif is_prose:
            start = start if kept else number
            kept.append(line.strip())
        elif not fenced and line.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")):
                yield number, "cell", cell.strip()


def signs_of_document(text):
    """The signs in a document as (line, problem)."""
    lengths = []
    for line, kind, part in paragraphs(text):
        if kind == "cell" and len(part) > LONGEST_CELL:
            yield line, f"a cell of {len(part)} characters: {part[:60]} …"
        for sentence in sentences(part):
            words = word_count(sentence)
            if words > LONGEST_SENTENCE:
                yield line, f"a sentence of {words} words: {sentence[:60]} …"
            if kind == "prose":
                lengths.append(words)
        for found in WORDS.finditer(part):
            yield line, f"'{found[0]}'"
    if lengths and sum(lengths) / len(lengths) > AVERAGE_SENTENCE:
        yield 1, f"sentences have {sum(lengths) / len(lengths):.0f} words on average"


def signs_of_source(name, text):
    """The signs in the strings of a source file as (line, problem)."""
    text = re.sub(r"^[ \t]*(//|#include).*", "", text, flags=re.MULTILINE)
    for found in LITERALS.finditer(text):
        said = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', found[0]))
        if len(re.findall(r"[A-Za-z]{2,}", said)) < 4:
            continue
        line = text.count("\n", 0, found.start()) + 1
        people = [sign for sign in WHO.finditer(said) if not AFTER_PEOPLE.search(said[:sign.start()])]
        for sign in [*WORDS.finditer(said), *people]:
            yield line, f"'{sign[0].strip()}' in: {said[:60]} …"
        for part in said.replace('\\"', '"').split("\\n"):
            for sentence in sentences(part):
                if word_count(sentence) > LONGEST_SENTENCE:
                    yield line, f"a sentence of {word_count(sentence)} words: {sentence[:60]} …"
            if HELP.match(name) and len(part) > LONGEST_HELP:
                yield line, f"{len(part)} characters in a line of help: {part[:60]} …"


def is_product(path):
    """Whether a source file is part of the product."""
    return path.suffix in (".cc", ".h") and not re.search(r"_test$|^fake_|^test_|^sample_|_fixture$", path.stem)


def all_signs():
    """The signs of the whole tree as {folder: ["place: sign"]}."""
    found = collections.defaultdict(list)
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
    words = 0
    for path in documents:
        name, text = path.relative_to(ROOT), path.read_text(encoding="utf-8")
        words += len(text.split()) if name.parts[0] == "docs" else 0
        found[name.parent.as_posix()] += [f"{name}:{line}: {sign}" for line, sign in signs_of_document(text)]
    if words > ALL_DOCUMENTS:
        found["docs"].append(f"docs: {words} words in all, at most {ALL_DOCUMENTS}")
    for path in sorted((ROOT / "src").rglob("*")):
        if is_product(path):
            name = path.relative_to(ROOT)
            found[name.parent.as_posix()] += [f"{name}:{line}: {sign}" for line, sign in signs_of_source(name.as_posix(), path.read_text(encoding="utf-8"))]
    return {folder: signs for folder, signs in found.items() if signs}


def main():
    counted = all_signs()
    allowed = {}
    if COUNTS.exists():
        allowed = {folder: int(count) for folder, count in (line.split() for line in COUNTS.read_text().splitlines() if not line.startswith("#"))}
    if sys.argv[1:2] == ["--list"]:
        print("\n".join(sign for folder, signs in counted.items() if folder.startswith("".join(sys.argv[2:])) for sign in signs))
        return 0
    if sys.argv[1:] == ["--lower"]:
        kept = {folder: min(len(signs), allowed.get(folder, 0)) for folder, signs in counted.items()}
        lines = ["# Signs of hard English that a folder may still have (tools/check_prose.py). They only fall."]
        COUNTS.write_text("\n".join(lines + [f"{folder} {count}" for folder, count in sorted(kept.items()) if count]) + "\n")
        return 0
    failed = False
    for folder, signs in sorted(counted.items()):
        if len(signs) > allowed.get(folder, 0):
            failed = True
            print(f"{folder}: {len(signs)} signs of hard English, at most {allowed.get(folder, 0)} (tools/check_prose.py --list {folder}):")
            print("\n".join(f"  {sign}" for sign in signs[:20]))
    for folder, count in sorted(allowed.items()):
        if len(counted.get(folder, ())) < count:
            print(f"{folder}: {len(counted.get(folder, ()))} signs of {count}: tools/check_prose.py --lower keeps it so")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
