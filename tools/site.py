#!/usr/bin/env python3
"""Builds the documents as a searchable site: site.py OUTPUT_DIR. Fails if a link leads to a missing page or anchor.

Uses Debian's packages mkdocs and mkdocs-material on README.md and docs; exit status 77 if they are missing. The site loads nothing from
elsewhere."""

import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
GROUPS = {"start": "Start", "use": "Use it", "server": "Run a server", "inside": "Inside", "evidence": "Evidence"}
# The files beside docs that are on the site too. Links to other files become plain text.
BESIDE = "README.md|CONTRIBUTING.md|CHANGELOG.md|LICENSE|NOTICE"


def title(page):
    """The heading of a page."""
    return re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)[1]


def pages(source):
    """The site's table of contents: [{title: path or list}]."""
    contents = [{"CARMA": "index.md"}]
    for folder, name in GROUPS.items():
        found = sorted((source / folder).glob("*.md"), key=lambda page: title(page).lower())
        contents.append({name: [{title(page): f"{folder}/{page.name}"} for page in found]})
    return [*contents, {"More": [{"All pages": "contents.md"}, {"Glossary": "glossary.md"}, {"Contributing": "CONTRIBUTING.md"},
                                 {"Changes": "CHANGELOG.md"}]}]


def prepare(source):
    """Prepares the pages for the generator: README.md becomes the first page, and its link docs/use/tasks.md becomes use/tasks.md."""
    shutil.copytree(ROOT / "docs", source)
    (source / "README.md").rename(source / "contents.md")
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        (source / ("index.md" if name == "README.md" else name)).write_text(
            re.sub(r"\]\(docs/", "](", text.replace("](docs/README.md", "](contents.md")), encoding="utf-8")
    for name in ("LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source / name)
    for page in source.glob("*/*.md"):
        text = re.sub(rf"\[([^\]]+)\]\(\.\./\.\./(?!{BESIDE})[^)]*\)", r"\1", page.read_text(encoding="utf-8"))
        page.write_text(text.replace("](../../README.md", "](../index.md").replace("](../README.md", "](../contents.md").replace("](../../", "](../"), encoding="utf-8")
    for page in source.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r"\[([^\]]+)\]\((src|data|packaging|tests|tools)/[^)]*\)", r"\1", text).replace("](README.md", "](index.md"),
                        encoding="utf-8")


class Page(html.parser.HTMLParser):
    """The targets of a page's links, and its anchors."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        """Collects links and anchors."""
        found = dict(attrs)
        self.places |= {found[name] for name in ("id", "name") if found.get(name)}
        self.links += [found[name] for name in ("href", "src") if found.get(name)]


def broken(site):
    """Links of the site that lead nowhere, and links that load something from elsewhere."""
    read = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    wrong = []
    for path, page in read.items():
        if path.name == "404.html":  # its links are relative to the site's root
            continue
        for link in page.links:
            url = urllib.parse.urlparse(link)
            if url.scheme or url.netloc:
                continue
            to = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
            to = to / "index.html" if to.is_dir() else to
            if not to.exists():
                wrong.append(f"{path.relative_to(site)}: {link}: no such page")
            elif url.fragment and to in read and urllib.parse.unquote(url.fragment) not in read[to].places and url.fragment != "__codelineno":
                wrong.append(f"{path.relative_to(site)}: {link}: no such place on the page")
    return wrong


def main():
    output = pathlib.Path(sys.argv[1]).resolve()
    if not shutil.which("mkdocs") or not pathlib.Path("/usr/share/mkdocs/themes/material").exists():
        print("skipped: needs Debian's packages mkdocs, mkdocs-material")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        prepare(work / "source")
        (work / "mkdocs.yml").write_text(json.dumps({
            "site_name": "CARMA", "docs_dir": "source", "site_dir": str(output), "use_directory_urls": False, "strict": True,
            "theme": {"name": "material", "font": False, "features": ["navigation.tabs", "navigation.top", "search.highlight"]},
            "plugins": ["search"], "nav": pages(work / "source"),
            "markdown_extensions": ["tables", "fenced_code", {"toc": {"permalink": True}}]}), encoding="utf-8")
        # It has no network access, so everything that it cannot find here is a mistake.
        ran = subprocess.run([shutil.which("mkdocs"), "build", "--clean", "-f", work / "mkdocs.yml"], capture_output=True, text=True,
                             check=False, env={**os.environ, "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "0")})
        if ran.returncode != 0:
            print(ran.stdout + ran.stderr)
            return 1
    wrong = broken(output)
    print("\n".join(wrong) if wrong else f"{output}/index.html")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
