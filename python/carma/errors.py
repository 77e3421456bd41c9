"""Errors, grouped by what a caller can do about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Tuple, Type

if TYPE_CHECKING:
    from .task import Task


class CarmaError(Exception):
    """`code` is the API's error code (docs/use/api.md). The text is the daemon's message."""

    def __init__(self, message: str, code: str = "io") -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> Tuple[Any, ...]:  # exceptions of workers are returned as pickles
        return type(self), (str(self), self.code)


class InvalidError(CarmaError):
    """The request is wrong."""


class DeniedError(CarmaError):
    """The caller may not do this, for example because the task belongs to another user."""


class NotFoundError(CarmaError):
    """No such task."""


class ConflictError(CarmaError):
    """Not possible in this state, or the task can never run on this server."""


class UnavailableError(CarmaError):
    """Not possible now, for example because the daemon is down or the disk is full."""


class TaskFailed(CarmaError):
    """A task ended without a result. `task` is the ended task, and the text contains the end of its output."""

    def __init__(self, message: str, task: "Task") -> None:
        super().__init__(message, task.state)
        self.task = task

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (str(self), self.task)


KINDS: Dict[str, Type[CarmaError]] = {"invalid": InvalidError, "denied": DeniedError, "not_found": NotFoundError,
                                      "conflict": ConflictError, "unavailable": UnavailableError}


def error_of(code: str, message: str) -> CarmaError:
    """Returns the exception for an error code of the API."""
    return KINDS.get(code, CarmaError)(message, code)
