"""`python3 carma_summary …` with the path of this folder, or `python3 -m carma_summary …`."""

import os
import sys

if not __package__:  # run by path: imports must search the parent folder instead of this folder
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from carma_summary import main

sys.exit(main())
