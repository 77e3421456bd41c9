#!/usr/bin/env python3
"""Writes the manual pages from the programs' own help and the documents. usage: man.py BIN_DIR DOCS_DIR OUTPUT_DIR

carma(1), carmad(8) and the pages of the simulated server are made from `--help` of every verb, carma.toml(5) from configuration.md,
carma-tasks(5) from tasks.md and environment.md. Any difference between a page and the program or the document is a mistake here."""

import os
import re
import subprocess
import sys

SECTIONS = {"carma": 1, "carmad": 8, "carma.toml": 5, "carma-tasks": 5, "carma-simgpu": 1, "carma-simtask": 1}
DOCUMENTS = "/usr/share/doc/carma"
FILES = """\
| path | what it is |
|---|---|
| `/etc/carma/carma.toml`, `/etc/carma/carma.d/*.toml` | the configuration; every key: **carma.toml**(5) |
| `~/.config/carma/config.toml` | configuration of an ordinary user's own daemon, in addition to the above |
| `/run/carma/carmad.sock` | the socket of root's daemon |
| `$XDG_RUNTIME_DIR/carma/carmad.sock` | the socket of an ordinary user's own daemon |
| `/var/lib/carma`, `~/.local/state/carma` | the database: queue, history, learned data |
"""


# ---- roff ----


def escaped(text):
    """Escapes text so that troff shows it unchanged."""
    return text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("^", "\\(ha").replace("~", "\\(ti").replace(
        "`", "\\(ga")


def line(text):
    """A line of text that troff does not take for a request."""
    return ("\\&" if text[:1] in (".", "'") else "") + text + "\n"


def quoted(text):
    """Quotes one argument of a request."""
    return '"' + text.replace('"', '\\(dq') + '"'


def literal(lines):
    """A block whose line ends are kept."""
    return ".PP\n.RS 4\n.nf\n" + "".join(line(escaped(each.rstrip())) for each in lines) + ".fi\n.RE\n"


def title(name, about, version):
    """The head and first section of a page."""
    return (f'.\\" Made by packaging/man.py.\n.TH {quoted(name.upper())} {SECTIONS[name]} "" {quoted("carma " + version)}\n'
            f".nh\n.ad l\n.SH NAME\n{escaped(name)} \\- {escaped(about)}\n")


def see_also(name):
    """A section that lists the other pages."""
    others = [f"\\fB{escaped(each)}\\fR({section})" for each, section in SECTIONS.items() if each != name]
    return f".SH SEE ALSO\n{', '.join(others)}\n.PP\n{escaped(DOCUMENTS)}/docs (package carma\\-doc)\n"


# ---- the documents ----

INLINE = re.compile(r"``(?P<long>.+?)``|`(?P<code>[^`]+)`|\*\*(?P<bold>[^*]+)\*\*|(?<![\w*])\*(?P<italic>[^*\s][^*]*)\*|"
                    r"\[(?P<link>[^\]]+)\]\((?P<target>[^)]+)\)")


def inline(text):
    """Formats code and bold as bold, emphasis as italics, and links as their text. The bare name of a document stays as it is."""
    out, at = "", 0
    for found in INLINE.finditer(text):
        out += escaped(text[at:found.start()])
        at = found.end()
        if found["italic"]:
            out += f"\\fI{escaped(found['italic'])}\\fR"
        elif found["link"]:
            out += inline(found["link"])
        else:
            out += f"\\fB{escaped(found['long'] or found['code'] or found['bold'])}\\fR"
    return out + escaped(text[at:])


def cells(row):
    """The cells of a table's row. A bar in code or after a backslash does not end a cell."""
    parts, cell, in_code = [], "", False
    for i, letter in enumerate(row.strip().strip("|").strip()):
        text = row.strip().strip("|").strip()
        if letter == "`":
            in_code = not in_code
        if letter == "|" and text[i - 1] != "\\":
            parts.append(cell.strip())
            cell = ""
        else:
            cell = cell[:-1] + letter if letter == "|" else cell + letter
    return parts + [cell.strip()]


def table(rows):
    """A table as a list: the first column gives the terms, followed by the last column, then by the columns between with their titles."""
    titles = cells(rows[0])
    out = ""
    for row in rows[2:]:
        term, *between, last = cells(row)
        out += ".TP\n" + line(inline(term)) + line(inline(last) or "\\&")
        notes = [f"{name}: {value}" for name, value in zip(titles[1:-1], between) if value]
        if notes:
            out += ".br\n" + line(inline("; ".join(notes)))
    return out


def blocks(text):
    """Splits a document into (kind, lines): heading, code, table, item, text."""
    kind, kept = None, []
    for each in text.split("\n") + [""]:
        if kind == "code":
            if each.startswith("```"):
                yield kind, kept
                kind, kept = None, []
            else:
                kept.append(each)
            continue
        starts = ("code" if each.startswith("```") else "heading" if re.match(r"#+ ", each) else "table" if each.startswith("|") else
                  "item" if re.match(r"([-*]|\d+\.) ", each) else "text" if each.strip() else None)
        continues = (kind in ("item", "text") and starts == "text") or (kind == "table" and starts == "table")
        if continues or (kind == "item" and each.startswith("  ")):
            kept.append(each)
            continue
        if kind:
            yield kind, kept
        kind, kept = starts, [each] if starts else []
        if kind == "code":
            kept = []


def document(text, skipped_title=True):
    """The body of a page. The document's own title becomes the page's title. Comments (for tests/docs) are left out."""
    out = ""
    for kind, lines in blocks(re.sub(r"^<!--.*?-->\n", "", text, flags=re.MULTILINE)):
        if kind == "heading":
            marks, words = lines[0].split(" ", 1)
            if len(marks) == 1 and skipped_title:
                continue
            out += (".SH " if len(marks) <= 2 else ".SS ") + quoted(inline(words).upper() if len(marks) <= 2 else inline(words)) + "\n"
        elif kind == "code":
            out += literal(lines)
        elif kind == "table":
            out += table(lines)
        elif kind == "item":
            mark, words = " ".join(each.strip() for each in lines).split(" ", 1)
            out += f".IP {quoted('•' if mark in '-*' else mark)} 4\n" + line(inline(words))
        else:
            out += ".PP\n" + line(inline(" ".join(each.strip() for each in lines)))
    return out


# ---- the programs ----


class Help:
    """The parsed output of `PROGRAM VERB --help`."""

    def __init__(self, program, verb):
        done = subprocess.run([program, *verb, "--help"], check=True, capture_output=True, encoding="utf-8", timeout=60)
        lines = done.stdout.replace(program, os.path.basename(program)).rstrip("\n").split("\n")
        usage = next(i for i, each in enumerate(lines) if each.startswith("Usage:"))
        self.about = " ".join(lines[:usage]).strip()
        self.usage = lines[usage].removeprefix("Usage:").strip()
        self.groups = []  # (title, [(term, text)])
        at = usage + 1
        while at < len(lines):
            if not lines[at].strip():
                at += 1
                continue
            # A group begins with a title at the margin, followed by indented terms.
            if not re.fullmatch(r"\S.*:", lines[at]) or at + 1 == len(lines) or not re.match(r"  \S", lines[at + 1]) or \
                    (at > 0 and lines[at - 1].strip()):
                break
            terms = []
            group = lines[at].rstrip(":")
            at += 1
            while at < len(lines) and lines[at].startswith("  "):
                text = lines[at]
                if text.startswith(" " * 10) and terms:
                    terms[-1] = (terms[-1][0], (terms[-1][1] + " " + text.strip()).strip())
                else:
                    term, _, words = text.strip().partition("  ")
                    terms.append((re.sub(r":(UINT|INT|FLOAT|TEXT)\b", "", term), words.strip()))
                at += 1
            self.groups.append((group, terms))
        self.footer = lines[at:]

    def verbs(self):
        """Names of the program's own verbs, without their aliases."""
        return [term.split(",")[0] for group, terms in self.groups if group == "Subcommands" for term, _ in terms]

    def options(self, omitted=("-h,--help",)):
        """The verb's options and arguments."""
        out = ""
        for group, terms in self.groups:
            if group == "Subcommands":
                continue
            kept = [(term, text) for term, text in terms if term not in omitted]
            if kept and group not in ("Options", "Positionals"):
                out += ".PP\n" + line(escaped(group) + ":")
            for term, text in kept:
                out += ".TP\n" + line(f"\\fB{escaped(term)}\\fR") + line(escaped(text) or "\\&")
        return out

    def notes(self):
        """Examples and other text below the options."""
        lines = [each for each in self.footer if not each.startswith("Every verb also takes")]
        while lines and not lines[-1].strip():
            lines.pop()
        return literal(lines) if lines else ""


def verb_pages(program, above=()):
    """Sections for every verb and the verbs below it."""
    out = ""
    for name in Help(program, above).verbs():
        verb = (*above, name)
        said = Help(program, verb)
        out += f".SS {quoted(escaped(said.usage))}\n" + line(escaped(said.about) + ".") + said.options() + said.notes()
        out += verb_pages(program, verb)
    return out


def carma(program, version):
    """Makes carma(1)."""
    said = Help(program, ())
    listed = [(term, text) for group, terms in said.groups if group == "Subcommands" for term, text in terms]
    names = "".join(".TP\n" + line(f"\\fB{escaped(term)}\\fR") + line(escaped(text)) for term, text in listed)
    files = document(FILES)
    return (title("carma", "share a server's GPUs: submit training tasks and watch them", version) +
            ".SH SYNOPSIS\n\\fBcarma\\fR [\\fB\\-\\-socket\\fR \\fIPATH\\fR] [\\fB\\-\\-json\\fR] \\fIVERB\\fR [\\fIOPTION\\fR]...\n"
            f".SH DESCRIPTION\n{line(escaped(said.about))}{said.notes()}"
            f".SH VERBS\n{names}.SH OPTIONS OF ALL VERBS\n{said.options()}.SH THE VERBS IN FULL\n{verb_pages(program)}"
            f".SH FILES\n{files}" + see_also("carma"))


def carmad(program, version):
    """Makes carmad(8)."""
    said = Help(program, ())
    return (title("carmad", "the daemon of CARMA: queue, placement, launch and recovery of GPU tasks", version) +
            ".SH SYNOPSIS\n\\fBcarmad\\fR [\\fIOPTION\\fR]...\n"
            ".SH DESCRIPTION\nServes the socket that \\fBcarma\\fR(1) talks to. As root it serves all users, each task with the rights of "
            "its submitter; as an ordinary user that user alone. Tasks outlive it: it may be stopped, killed and restarted at any time.\n"
            f".SH OPTIONS\n{said.options()}{said.notes()}.SH FILES\n{document(FILES)}"
            ".SH EXIT STATUS\n.TP\n0\nIt ended on request; with \\fB\\-\\-background\\fR: it serves.\n"
            ".TP\n1\nIt could not start.\n.TP\n2\nA mistake in its options or its configuration.\n" + see_also("carmad"))


def simulation(programs, name, about, version):
    """Makes carma-simgpu(1) and carma-simtask(1)."""
    program = f"{programs}/{name}"
    said = Help(program, ())
    verbs = verb_pages(program)
    return (title(name, about, version) + f".SH SYNOPSIS\n\\fB{escaped(said.usage)}\\fR\n.SH DESCRIPTION\n{line(escaped(said.about))}"
            f"{said.notes()}.SH OPTIONS\n{said.options()}" + (f".SH VERBS\n{verbs}" if verbs else "") + see_also(name))


def of_documents(name, about, version, texts):
    """Makes a page from documents only."""
    return title(name, about, version) + ".SH DESCRIPTION\n" + "".join(
        document(text, skipped_title=i == 0) for i, text in enumerate(texts)) + see_also(name)


def main():
    """Writes all pages."""
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    programs, docs, output = sys.argv[1:]

    def read(name):
        with open(os.path.join(docs, name), encoding="utf-8") as file:
            return file.read()

    version = subprocess.run([f"{programs}/carma", "version"], check=True, capture_output=True, encoding="utf-8", timeout=60).stdout.split()[1]
    pages = {
        "carma": carma(f"{programs}/carma", version),
        "carmad": carmad(f"{programs}/carmad", version),
        "carma.toml": of_documents("carma.toml", "configuration of CARMA's daemon", version, [read("server/configuration.md")]),
        "carma-tasks": of_documents("carma-tasks", "describing a task to CARMA: options, scripts, environment", version,
                                    [read("use/tasks.md"), read("use/environment.md")]),
        "carma-simgpu": simulation(programs, "carma-simgpu", "create a simulated GPU server, show it, and inject faults", version),
        "carma-simtask": simulation(programs, "carma-simtask", "a task that behaves like a training run on simulated GPUs", version),
    }
    os.makedirs(output, exist_ok=True)
    for name, text in pages.items():
        with open(os.path.join(output, f"{name}.{SECTIONS[name]}"), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
