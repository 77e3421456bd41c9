#!/usr/bin/env python3
"""Tests which signs of unclear English tools/check_prose.py finds, and which texts it accepts."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools"))
import check_prose  # noqa: E402


def in_document(text):
    return [sign for _, sign in check_prose.signs_of_document(text)]


def in_source(text, name="src/cli/x.cc"):
    return [line for line, _ in check_prose.signs_of_source(name, text)]


class CheckProseTest(unittest.TestCase):
    def test_finds_long_sentences_of_paragraphs_but_not_of_code(self):
        long = " ".join(["word"] * 41) + "."
        self.assertIn("a sentence of 41 words", in_document(f"Short.\n\n{long}\n")[0])
        self.assertEqual(in_document(f"```sh\n{long}\n```\n"), [])

    def test_items_of_a_list_are_sentences_of_their_own(self):
        self.assertEqual(in_document("\n".join("- " + " ".join(["word"] * 20) for _ in range(3))), [])

    def test_finds_long_cells(self):
        self.assertIn("a cell of 161 characters", in_document(f"| a | {'b' * 161} |\n")[0])
        self.assertEqual(in_document(f"| a | {'b' * 160} |\n"), [])

    def test_finds_long_averages(self):
        self.assertEqual(len(in_document((" ".join(["word"] * 26) + ".\n\n") * 3)), 1)

    def test_finds_words(self):
        self.assertEqual(in_document("The server is started anew."), ["'anew'"])

    def test_only_people_are_who(self):
        self.assertEqual(in_source('auto a = "a task who waits too long";\n'), [1])
        self.assertEqual(in_source('auto a = "of whose GPUs one failed";\n'), [1])
        self.assertEqual(in_source('auto a = "users who may submit tasks";\n'), [])
        self.assertEqual(in_source('auto a = "a GPU whose driver call hangs";\n'), [])

    def test_joins_strings_and_leaves_comments_alone(self):
        self.assertEqual(in_source('// who waits so long\nauto a = "waits for so "\n         "long until it starts";\n'), [2])

    def test_finds_long_lines_of_help(self):
        text = f'auto a = "{"four words and more " * 6}";\n'
        self.assertEqual(in_source(text), [1])
        self.assertEqual(in_source(text, "src/daemon/x.cc"), [])


if __name__ == "__main__":
    unittest.main()
