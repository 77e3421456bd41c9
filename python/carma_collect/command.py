"""The command line."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Optional, Sequence, Tuple

from .child import train
from .collector import Collector, Limits
from .data import clean, pack
from .errors import CollectError
from .journal import locked
from .nvml import Gpu
from .plan import FAMILIES, OPTIMIZERS, PRECISIONS, Plan


def _names(text: str, allowed: Sequence[str], option: str) -> Tuple[str, ...]:
    """The names in the value of an option. Raises CollectError."""
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in allowed]
    if unknown:
        raise CollectError(f"{option} {unknown[0]}: expected {', '.join(allowed)}")
    return names


def _run(chosen: argparse.Namespace) -> None:
    plan = Plan(
        seed=chosen.seed,
        families=_names(chosen.families, FAMILIES, "--families"),
        optimizers=_names(chosen.optimizers, OPTIMIZERS, "--optimizers"),
        precisions=_names(chosen.precisions, PRECISIONS, "--precisions"),
        scale=chosen.scale,
    )
    if not 0 < plan.scale <= 1:
        raise CollectError(f"--scale {plan.scale}: expected more than 0 and at most 1")
    gpu = Gpu.open(chosen.gpu, chosen.nvml) if chosen.device == "cuda" else None
    os.makedirs(chosen.folder, exist_ok=True)
    with locked(chosen.folder):
        limits = Limits(chosen.steady_limit, chosen.measure, chosen.run_limit)
        collector = Collector(chosen.folder, plan, chosen.device, gpu, limits)
        begin = time.monotonic()
        done = collector.run(chosen.count, chosen.minutes)
    minutes = (time.monotonic() - begin) / 60
    print(f"{done} runs in {minutes:.1f} min, {len(collector.journal.results)} in the journal")


def _clean(chosen: argparse.Namespace) -> None:
    with locked(chosen.folder):
        kept, dropped = clean(chosen.folder, chosen.retry_censored)
    print(f"{kept} results kept, {dropped} lines dropped")


def _pack(chosen: argparse.Namespace) -> None:
    rows = pack(chosen.folder, chosen.output, chosen.all)
    print(f"{rows} rows in {chosen.output}/measured.csv, their layers in layers.jsonl.gz")


def _show_plan(chosen: argparse.Namespace) -> None:
    plan = Plan(chosen.seed, _names(chosen.families, FAMILIES, "--families"), scale=chosen.scale)
    for index in range(chosen.count):
        print(json.dumps(plan.network(index)))


def _train(chosen: argparse.Namespace) -> int:
    return train(chosen.device, chosen.steady_limit, chosen.measure)


def _add_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--families", default=",".join(FAMILIES), help="%(default)s")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on all sizes (1)")


def _add_run(run: argparse.ArgumentParser) -> None:
    limits = Limits()
    run.add_argument("folder")
    _add_plan(run)
    run.add_argument("--optimizers", default="adam", help=f"one or more of {','.join(OPTIMIZERS)} (adam)")
    run.add_argument("--precisions", default="fp32", help=f"one or more of {','.join(PRECISIONS)} (fp32)")
    run.add_argument("--count", type=int, help="runs 0 to N-1 of the plan (no limit)")
    run.add_argument("--minutes", type=float, help="begin no new run after this many minutes (no limit)")
    run.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a dry run")
    run.add_argument("--gpu", type=int, default=0, help="number in NVML's order (0)")
    run.add_argument("--nvml", default="libnvidia-ml.so.1", help="NVML's library")
    for option, value, text in (
        ("--run-limit", limits.run_s, "seconds for a whole run"),
        ("--steady-limit", limits.steady_s, "seconds until the memory is steady"),
        ("--measure", limits.measure_s, "seconds of steady training, for the activity"),
    ):
        run.add_argument(option, type=float, default=value, metavar="S", help=f"{text} ({value:g})")


def _add_clean(cleaner: argparse.ArgumentParser) -> None:
    cleaner.add_argument("folder")
    cleaner.add_argument("--retry-censored", action="store_true")


def _add_pack(packer: argparse.ArgumentParser) -> None:
    packer.add_argument("folder")
    packer.add_argument("-o", "--output", required=True)
    packer.add_argument("--all", action="store_true", help="also dry, unsteady and failed runs")


def _add_show(planner: argparse.ArgumentParser) -> None:
    _add_plan(planner)
    planner.add_argument("--count", type=int, default=10)


def _add_train(trainer: argparse.ArgumentParser) -> None:
    trainer.add_argument("--device", choices=("cuda", "cpu"), required=True)
    trainer.add_argument("--steady-limit", type=float, required=True)
    trainer.add_argument("--measure", type=float, required=True)


COMMANDS = (
    ("run", "train one network after the other", _add_run, _run),
    ("clean", "drop torn, unfinished and duplicate lines", _add_clean, _clean),
    ("pack", "write layers.jsonl.gz and measured.csv", _add_pack, _pack),
    ("plan", "print the networks of a plan", _add_show, _show_plan),
    ("train", "one training process (for `run`)", _add_train, _train),
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="carma_collect.py",
        description="Measures how much memory training needs: builds random networks, trains each in its own"
        " process until its memory is steady, and records the peak together with the"
        " layer list.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text, add_options, function in COMMANDS:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(function=function)
        add_options(command)
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Exit status 0, 2 with one line on stderr, or 130 when interrupted."""
    chosen = _parser().parse_args(arguments)
    try:
        return chosen.function(chosen) or 0
    except (CollectError, OSError) as error:
        print(f"carma_collect: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
