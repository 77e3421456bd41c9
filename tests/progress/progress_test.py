"""Scores `carma progress` on samples of output: progress_test.py FOLDER-OF-PROGRAMS [SAMPLES.jsonl].

A sample is a line of JSON with `text` and, in `expect`, the expected values; `negative` marks output that is not from training.
"""

import json
import pathlib
import subprocess
import sys

CLOSE = 0.02
LEAST = {"fraction": 0.95, "phase": 0.90, "negatives": 0.98}


def read(carma, text):
    """The output of `carma progress` for the text."""
    ran = subprocess.run([carma, "progress", "-", "--json"], input=text.encode(), capture_output=True, check=True)
    return json.loads(ran.stdout)


def near(wanted, got):
    return wanted is not None and got is not None and abs(wanted - got) <= CLOSE


def main():
    carma = pathlib.Path(sys.argv[1]) / "carma"
    path = sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).parent / "samples.jsonl"
    right = {kind: [] for kind in LEAST}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        sample = json.loads(line)
        wanted, got = sample["expect"], read(carma, sample["text"])
        checks = {"phase": wanted["phase"] == got["phase"]}
        if sample["negative"]:
            checks["negatives"] = got["done"] is None and got["fraction"] is None
        elif wanted["total"] is not None:
            checks["fraction"] = near(wanted["fraction"], got["fraction"])
            if "run_fraction" in sample:
                checks["fraction"] &= near(sample["run_fraction"], got["run_fraction"])
        for kind, fine in checks.items():
            right[kind].append(fine)
            if not fine:
                print(f"{sample['id']}: {kind} is wrong: {got}, expected {wanted}")
    failed = False
    for kind, least in LEAST.items():
        share = sum(right[kind]) / max(1, len(right[kind]))
        failed |= share < least
        print(f"{kind}: {sum(right[kind])} of {len(right[kind])} right, at least {least:.0%} are wanted")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
