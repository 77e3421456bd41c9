"""The command line."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
from typing import Iterator, Optional, Sequence

from . import script
from .errors import SummaryError
from .inputs import parse_input
from .loading import build_model
from .summary import PRECISIONS, describe, to_json


@contextlib.contextmanager
def _answer_within(seconds: float) -> Iterator[None]:
    """Ends the program from another thread, because the model's code may never return."""

    def end() -> None:
        print(f"carma_summary: no answer within {seconds:g} s (--time-limit)", file=sys.stderr)
        sys.stderr.flush()
        os._exit(2)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    # C code that holds the interpreter's lock is ended by the kernel.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + 5)
    try:
        yield
    finally:
        timer.cancel()
        signal.setitimer(signal.ITIMER_REAL, 0)


def _parse_arguments(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="carma_summary.py",
        description="Write a PyTorch model's layers and the bytes kept for backward, for CARMA.",
    )
    parser.add_argument("model", help="package.module:factory or file.py:factory")
    parser.add_argument(
        "--input",
        action="append",
        required=True,
        metavar="SPEC",
        help="[NAME=]DIM,DIM,...[:DTYPE] of one sample, without the batch; once per input",
    )
    parser.add_argument("--dtype", default="float32", help="type of inputs that state none (%(default)s)")
    parser.add_argument("--batch", type=int, help="samples per GPU and step of the training")
    parser.add_argument("--optimizer", help="sgd, sgd-momentum, adam, adamw ...")
    parser.add_argument("--precision", choices=PRECISIONS, help="default: that of the parameters")
    parser.add_argument("--loss", default="sum", help="sum, cross-entropy or module:function")
    parser.add_argument("--attention", choices=("fused", "math"), default="fused")
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="S", help="%(default)g s")
    parser.add_argument("--memory-limit", type=float, metavar="GIB", help="limit of a run on the CPU")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    return parser.parse_args(arguments)


def _describe_chosen(chosen: argparse.Namespace) -> dict:
    inputs = [parse_input(text, chosen.dtype) for text in chosen.input]
    return describe(
        build_model(chosen.model),
        inputs,
        batch=chosen.batch,
        optimizer=chosen.optimizer,
        precision=chosen.precision,
        loss=chosen.loss,
        name=chosen.model.rpartition(":")[2],
        attention=chosen.attention,
        memory_limit_bytes=None if chosen.memory_limit is None else chosen.memory_limit * 2**30,
    )


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Exit status 0, or 2 with one line on stderr."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["--run"]:
        return script.main(words[1:])
    # Hide the GPUs before anything looks for them, because a dry run must not create a CUDA context.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    chosen = _parse_arguments(arguments)
    try:
        with _answer_within(chosen.time_limit):
            summary = _describe_chosen(chosen)
        text = to_json(summary)
        if chosen.output is None:
            sys.stdout.write(text)
        else:
            with open(chosen.output, "w", encoding="utf-8") as file:
                file.write(text)
    except (SummaryError, OSError) as error:
        print(f"carma_summary: {error}", file=sys.stderr)
        return 2
    for note in summary.get("notes", []):
        print(f"carma_summary: note: {note}", file=sys.stderr)
    return 0
