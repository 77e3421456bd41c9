"""The modules of a folder import each other without a circle, even for type annotations."""

import ast
import os
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDERS = ("../carma_summary", "../carma_collect", "../../bench/gpu")


def imports_of(path):
    """Names of the modules that a file imports, inside functions and conditions too."""
    with open(path, encoding="utf-8") as file:
        for node in ast.walk(ast.parse(file.read())):
            if isinstance(node, ast.ImportFrom):
                yield node.module
            elif isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)


def circle_in(folder):
    """Modules that are in a circle or import one that is; empty if there is no circle."""
    modules = {file[:-3] for file in os.listdir(folder) if file.endswith(".py")}
    waiting = {
        name: modules & set(imports_of(os.path.join(folder, f"{name}.py"))) for name in modules
    }
    while True:
        ready = {name for name, needed in waiting.items() if not needed & waiting.keys()}
        if not ready:
            return sorted(waiting)
        waiting = {name: needed for name, needed in waiting.items() if name not in ready}


class Imports(unittest.TestCase):
    def test_no_circle(self):
        for folder in FOLDERS:
            with self.subTest(folder):
                self.assertEqual(circle_in(os.path.join(HERE, folder)), [])


if __name__ == "__main__":
    unittest.main()
