"""Measures how much memory training needs: builds random networks, trains each in its own process until its memory
is steady, and records the peak with the layer list.

    carma_collect.py run FOLDER --minutes 60      train one network after the other
    carma_collect.py clean FOLDER                 drop torn, unfinished and duplicate lines
    carma_collect.py pack FOLDER -o DATA          DATA/layers.jsonl.gz and DATA/measured.csv

`carma estimate evaluate --layers DATA/layers.jsonl.gz --measured DATA/measured.csv` reads them.

The plan is a function of the seed: run k is the same network on every machine and after every
restart. FOLDER/journal.jsonl
is append-only, with one line per event, and each line is on disk before the next run begins. If the collector is killed,
only the current run is lost. Networks that run out of memory, crash or take too long become rows too,
marked as censored. --device cpu is a dry run without a GPU: it measures the process instead of a GPU, and every row is
censored. docs/use/python.md describes the commands. Needs PyTorch, and carma_summary in the same folder.
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
