#!/usr/bin/env python3
"""Checks which lines of the documents count as commands, and which omissions are refused."""

import textwrap
import unittest

import page_blocks


def blocks(text):
    return page_blocks.blocks("page.md", textwrap.dedent(text))


def commands(text):
    return [command for block in blocks(text) if block.not_run is None for _, command in block.commands()]


class PageBlocksTest(unittest.TestCase):
    def test_lines_of_sh_and_of_nothing_are_commands(self):
        self.assertEqual(commands("```sh\na\nb # why\n```\n```\nc\n```"), ["a", "b # why", "c"])

    def test_other_languages_are_no_commands(self):
        self.assertEqual(commands("```toml\na = 1\n```\n```text\nb\n```"), [])

    def test_behind_a_prompt_stands_a_command_and_below_it_what_comes(self):
        self.assertEqual(commands("```text\n$ a\nshown\n$ b\n```"), ["a", "b"])

    def test_a_command_may_take_several_lines(self):
        self.assertEqual(commands("```sh\na \\\n  --b\nfor i in 1 2; do\n  c\ndone\n```"), ["a \\\n  --b", "for i in 1 2; do\n  c\ndone"])

    def test_comments_alone_are_none(self):
        self.assertEqual(commands("```sh\n# first\na\n\n```"), ["a"])

    def test_where_a_command_stands_is_told(self):
        self.assertEqual(blocks("text\n\n```sh\n\na\n```")[0].commands(), [(5, "a")])

    def test_a_marked_block_is_not_run_and_keeps_its_reason(self):
        found = blocks("<!-- not run: needs a GPU -->\n\n```sh\na\n```\n\n```sh\nb\n```")
        self.assertEqual([block.not_run for block in found], ["needs a GPU", None])

    def test_mistakes(self):
        for name, text in (("no reason", "<!-- not run -->\n```sh\na\n```"), ("an empty one", "<!-- not run: -->\n```sh\na\n```"),
                           ("commands outside of a block", "Text:\n\n    carma list\n"), ("no end", "```sh\na\n"),
                           ("words behind a command", "```sh\ncarma list      shows all\n```"), ("a command without an end", "```sh\nif a; then\n```")):
            with self.subTest(name), self.assertRaises(SyntaxError):
                commands(text)


if __name__ == "__main__":
    unittest.main()
