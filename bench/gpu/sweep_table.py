#!/usr/bin/env python3
"""Converts the pairs of a sweep for `carma simulate validate --pairs`. A row has the speed of each
workload next to the other, relative to alone, and its SM and DRAM activity alone, in percent.

    sweep_table.py DIR/results.jsonl > pairs.csv
"""

from __future__ import annotations

import json
import sys
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

COLUMNS = "method,task1,task2,speed1,speed2,u1,u2,m1,m2"


class Alone:
    """The results of a workload alone in one mode, before and after the groups."""

    def __init__(self) -> None:
        self._seen: List[Dict[str, float]] = []

    def add(self, line: Dict[str, Any]) -> None:
        rate = line["tasks"][0]["rate"] if line["tasks"] else None
        if rate:
            self._seen.append({"rate": rate, **{k: line[k] for k in ("u", "dram") if k in line}})

    def mean(self, what: str) -> Optional[float]:
        values = [each[what] for each in self._seen if what in each]
        return sum(values) / len(values) if values else None


def pairs_csv(lines: Iterable[Dict[str, Any]]) -> str:
    """Leaves out pairs with a workload that was not measured alone."""
    alone: Dict[Tuple[str, str], Alone] = {}
    pairs = []
    for line in lines:
        if line["what"] in ("alone", "again"):
            alone.setdefault((line["mode"], line["group"][0]), Alone()).add(line)
        elif line["what"] == "group" and len(line["tasks"]) == 2:
            pairs.append(line)
    rows = [COLUMNS]
    for line in pairs:
        both = [alone.get((line["mode"], name), Alone()) for name in line["group"]]
        rates = [task["rate"] for task in line["tasks"]]
        known = [each.mean(what) for each in both for what in ("rate", "u", "dram")]
        if None in rates or None in known:
            continue
        speeds = [rate / each.mean("rate") for rate, each in zip(rates, both)]
        activity = [100 * each.mean(what) for what in ("u", "dram") for each in both]
        numbers = [f"{speed:.4f}" for speed in speeds] + [f"{value:.2f}" for value in activity]
        rows.append(",".join([line["mode"], *line["group"], *numbers]))
    return "\n".join(rows) + "\n"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    paths = sys.argv[1:] if arguments is None else arguments
    if len(paths) != 1:
        print("usage: sweep_table.py DIR/results.jsonl", file=sys.stderr)
        return 2
    with open(paths[0], encoding="utf-8") as file:
        sys.stdout.write(pairs_csv(json.loads(line) for line in file))
    return 0


if __name__ == "__main__":
    sys.exit(main())
