"""`python3 carma_collect …` with the path of this folder, or `python3 -m carma_collect …`."""

import os
import sys

if not __package__:  # run by path: imports must search the parent folder instead of this folder
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from carma_collect import main

sys.exit(main())
