#!/usr/bin/env python3
"""Checks that links between the documents lead to existing files and headings."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def lines(path):
    """(number, line) outside of blocks of code."""
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchor(heading):
    """The name of a heading in links, as on GitHub."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


class LinksTest(unittest.TestCase):
    def test_they_lead_somewhere(self):
        pages = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
        anchors = {page: {anchor(found[1]) for _, line in lines(page) if (found := re.match(r"#+ (.*)", line))} for page in pages}
        for page in pages:
            for number, line in lines(page):
                for target in re.findall(r"\]\(([^)\s]+)\)", line):
                    if "://" in target:
                        continue
                    name, _, heading = target.partition("#")
                    other = (page.parent / name).resolve() if name else page
                    with self.subTest(place=f"{page.relative_to(ROOT)}:{number}", target=target):
                        self.assertTrue(other.exists(), "no such file")
                        if heading and other in anchors:
                            self.assertIn(heading, anchors[other])


if __name__ == "__main__":
    unittest.main()
