#!/usr/bin/python3
"""Runs the tests of python/ with Debian's interpreter; exit status 77 (skipped) without PyTorch."""

import os
import sys
import unittest

try:
    import torch  # noqa: F401
except ImportError:
    print("skipped: needs Debian's package python3-torch")
    sys.exit(77)

folder = os.path.dirname(os.path.abspath(__file__))
tests = unittest.defaultTestLoader.discover(folder)
sys.exit(0 if unittest.TextTestRunner(verbosity=2).run(tests).wasSuccessful() else 1)
