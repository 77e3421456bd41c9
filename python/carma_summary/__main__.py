"""`python3 carma_summary …` with the path of this folder, or `python3 -m carma_summary …`."""

import os
import sys

if not __package__:  # by its path: what lies beside the folder is searched, not what lies in it
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from carma_summary import main

sys.exit(main())
