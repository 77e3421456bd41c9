"""Measures how much memory training needs: builds random networks, trains each in its own process
until its memory is steady, and records the peak together with the layer list.

    carma_collect.py run FOLDER --minutes 60      train one network after the other
    carma_collect.py clean FOLDER                 drop torn, unfinished and duplicate lines
    carma_collect.py pack FOLDER -o DATA          DATA/layers.jsonl.gz and DATA/measured.csv

`carma estimate evaluate --layers DATA/layers.jsonl.gz --measured DATA/measured.csv` reads them.

The plan is a function of the seed: run k is the same network on every machine and after every
restart. FOLDER/journal.jsonl is only appended to, one line per event, each on disk before the next
run begins; a collector that is killed loses the run it was in. Networks that run out of memory,
crash or take too long are rows too, marked as censored.

Without a GPU (--device cpu) the same path runs dry: what it measures is the process, not a GPU, and
every row is censored. docs/use/python.md has the ranges and the columns. Needs PyTorch and
carma_summary beside it.
"""

from .child import die_with_parent
from .collector import Collector, Limits
from .command import main
from .data import clean, pack
from .errors import CollectError
from .journal import Journal, locked
from .nvml import Gpu
from .plan import Plan

__all__ = [
    "CollectError",
    "Collector",
    "Gpu",
    "Journal",
    "Limits",
    "Plan",
    "clean",
    "die_with_parent",
    "locked",
    "main",
    "pack",
]
