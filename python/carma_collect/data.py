"""Cleans the journal and writes its results as data files."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from typing import Any, Dict, Tuple

from .errors import CollectError
from .journal import Journal

COLUMNS = (
    "model batch measured_mib censored optimizer smact"  # as in the published data
    " family precision reason source allocated_mib reserved_mib utilisation step_ms device torch"
).split()
# Runs censored by the GPU's size give a lower bound and become rows. Other failures give no information.
LOWER_BOUNDS = ("oom", "saturated")


def clean(folder: str, retry_censored: bool) -> Tuple[int, int]:
    """Drops torn lines, runs that never ended, and repetitions. With retry_censored it also drops censored results, so that
    the next `run` repeats them. Returns the numbers of results kept and lines dropped."""
    journal = Journal(folder)
    if journal.plan is None and not journal.results:
        raise CollectError(f"{folder}: no journal, nothing to clean")
    dropped = journal.dropped + sum(journal.starts.values())
    seen = set()
    for index in sorted(journal.results):
        result = journal.results[index]
        network = {k: v for k, v in result.get("network", {}).items() if k != "model"}
        same = json.dumps(network, sort_keys=True)
        if same in seen or not network or (retry_censored and result.get("censored")):
            del journal.results[index]
            dropped += 1
        else:
            seen.add(same)
    journal.rewrite()
    return len(journal.results), dropped


def pack(folder: str, output: str, everything: bool = False) -> int:
    """Writes layers.jsonl.gz and measured.csv for the runs with a valid measurement, or on request for all runs that have
    both layers and a value. Returns the number of rows."""
    journal = Journal(folder)
    results = [journal.results[index] for index in sorted(journal.results)]
    complete = [
        result
        for result in results
        if "layers" in result
        and "measured_mib" in result
        and (everything or result.get("reason") in (None, *LOWER_BOUNDS))
    ]
    os.makedirs(output, exist_ok=True)
    lines = "".join(json.dumps(_packed_layers(result)) + "\n" for result in complete)
    # Without a time or name inside, the same data give the same file.
    with open(os.path.join(output, "layers.jsonl.gz"), "wb") as file:
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
            packed.write(lines.encode())
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for result in complete:
        writer.writerow({**result, **result["network"]})
    with open(os.path.join(output, "measured.csv"), "w", encoding="utf-8") as file:
        file.write(table.getvalue())
    return len(complete)


def _packed_layers(result: Dict[str, Any]) -> Dict[str, Any]:
    network = result["network"]
    known = ("model", "family", "arch", "batch", "optimizer", "precision", "dropout")
    return {
        **result["layers"],
        **{key: network[key] for key in known},
        "config": {key: value for key, value in network.items() if key not in known},
    }
