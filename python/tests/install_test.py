#!/usr/bin/env python3
"""Installs the module with pip, from a wheel and from an sdist, each in a virtual environment of its own."""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGES = {"pip": "python3-pip", "venv": "python3-venv", "setuptools": "python3-setuptools", "wheel": "python3-wheel"}
CHECK = ("import carma, carma_task, hydra_plugins.hydra_carma_launcher, os; print(carma.__version__, carma.__file__); "
         "assert os.path.exists(os.path.join(os.path.dirname(carma.__file__), 'py.typed'))")


def missing():
    """Debian's packages that are not installed."""
    without = [package for module, package in PACKAGES.items()
               if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, check=False).returncode != 0]
    # The module venv is part of Debian's python3; ensurepip, which it needs, is not.
    if subprocess.run([sys.executable, "-c", "import ensurepip"], capture_output=True, check=False).returncode != 0:
        without.append(PACKAGES["venv"])
    return sorted(set(without))


class Install(unittest.TestCase):
    """Works in a copy, because building writes into the source folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="carma-install.", dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.source = os.path.join(self.folder, "python")
        shutil.copytree(PYTHON, self.source, ignore=shutil.ignore_patterns("__pycache__", "tests"))

    def call(self, *words, folder=None):
        """Runs a command and returns its output."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder or self.folder,
                              env={**environment, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}, timeout=240)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def installed(self, distribution):
        """Installs the distribution in a new virtual environment and returns the version that it reports there."""
        room = os.path.join(self.folder, "room-" + os.path.basename(distribution))
        self.call(sys.executable, "-m", "venv", "--system-site-packages", room)
        self.call(os.path.join(room, "bin", "pip"), "install", "--no-index", "--no-build-isolation", "--no-deps", distribution)
        version, path = self.call(os.path.join(room, "bin", "python"), "-c", CHECK, folder="/").split()
        self.assertTrue(path.startswith(room), path)
        return version

    def test_wheel_and_sdist(self):
        self.call(sys.executable, "-c", "from setuptools import build_meta as b; b.build_sdist('dist'); b.build_wheel('dist')",
                  folder=self.source)
        wheel, = glob.glob(os.path.join(self.source, "dist", "*.whl"))
        sdist, = glob.glob(os.path.join(self.source, "dist", "*.tar.gz"))
        self.assertEqual(self.installed(wheel), self.installed(sdist))


if __name__ == "__main__":
    if missing():
        packages = ", ".join(missing())
        print(f"skipped: needs Debian's packages {packages}" if "," in packages else f"skipped: needs Debian's package {packages}")
        sys.exit(77)
    unittest.main(verbosity=2)
