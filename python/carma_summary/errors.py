"""Errors with a message of one line for the model's author."""

from __future__ import annotations


MOST_TEXT = 200


class SummaryError(Exception):
    """Why the model cannot be described, in one line for its author."""


class TooLarge(SummaryError):
    """A dry run on the CPU would exceed its memory limit."""

    def __init__(self, limit_bytes: float):
        super().__init__(f"a dry run on the CPU needs over {limit_bytes / 2**30:.1f} GiB")


def one_line(error: BaseException) -> str:
    """The type of the error and the first line of its message."""
    first = (str(error).strip().splitlines() or [""])[0]
    if len(first) > MOST_TEXT:  # PyTorch lists every backend that lacks an operation
        first = first[:MOST_TEXT].rsplit(" ", 1)[0] + " …"
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
