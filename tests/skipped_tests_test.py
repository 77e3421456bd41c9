#!/usr/bin/env python3
"""Tests that tools/skipped_tests.py reads a ctest log with each kind of skip: skipped_tests_test.py SKIPPED_TESTS_PY."""

import subprocess
import sys
import tempfile

LOG = """\
1/4 Testing: page
Output:
----------------------------------------------------------
skipped: needs Debian's packages chromium, chromium-driver
<end of output>
2/4 Testing: system_top
[ RUN      ] TopSystem.Scrolls
../../tests/top_test.cc:57: Skipped
needs Debian's package tmux

[  SKIPPED ] TopSystem.Scrolls (0 ms)
[ RUN      ] TopSystem.Sorts
../../tests/top_test.cc:57: Skipped
needs Debian's package tmux

3/4 Testing: api_test
../../src/api/http_test.cc:366: Skipped
needs root to play a user
4/4 Testing: python_task
test_saves (__main__.Loops.test_saves) ... skipped 'needs root'
test_passes (__main__.Loops.test_passes) ... ok
"""
WANTED = """\
Skipped because a package is missing ('./dev test --all' installs them all):
  page: apt-get install chromium chromium-driver
  system_top (2 cases): apt-get install tmux
Skipped because of this user, machine or kernel:
  api_test (1 case): needs root to play a user
  python_task (1 case): needs root
"""


def listed(log):
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(log)
        file.flush()
        return subprocess.run([sys.executable, sys.argv[1], file.name], stdout=subprocess.PIPE, text=True, check=True).stdout


assert listed(LOG) == WANTED, listed(LOG)
assert listed("1/1 Testing: core_test\n[  PASSED  ] 3 tests.\n") == ""
