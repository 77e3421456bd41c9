"""From the journal to data: what can be kept of it, and what is handed on."""

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
# Censored by the size of the card: a lower bound, worth a row. Other failures show nothing.
LOWER_BOUNDS = ("oom", "saturated")


def clean(folder: str, retry_censored: bool) -> Tuple[int, int]:
    """Results kept, and lines dropped: torn ones, runs that never ended, repetitions. With
    retry_censored also censored results: the next `run` repeats them."""
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
    """Writes layers.jsonl.gz and measured.csv of the runs that measured something; of all that have
    both layers and a value, if asked for. How many."""
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
    # No time and no name inside: the same data are the same file.
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
