"""Errors, by what a caller can do about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Tuple, Type

if TYPE_CHECKING:
    from .task import Task


class CarmaError(Exception):
    """`code`: the word of the API (docs/use/api.md); the text is the daemon's own."""

    def __init__(self, message: str, code: str = "io") -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> Tuple[Any, ...]:  # exceptions of workers come back by pickle
        return type(self), (str(self), self.code)


class InvalidError(CarmaError):
    """The request is wrong."""


class DeniedError(CarmaError):
    """The task is not yours."""


class NotFoundError(CarmaError):
    """No such task."""


class ConflictError(CarmaError):
    """Not possible in this state, or never on this server."""


class UnavailableError(CarmaError):
    """Not possible now: no daemon, a full disk."""


class TaskFailed(CarmaError):
    """A task ended without a result; `task` is the ended task, the text has the end of its output."""

    def __init__(self, message: str, task: "Task") -> None:
        super().__init__(message, task.state)
        self.task = task

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (str(self), self.task)


KINDS: Dict[str, Type[CarmaError]] = {"invalid": InvalidError, "denied": DeniedError, "not_found": NotFoundError,
                                      "conflict": ConflictError, "unavailable": UnavailableError}


def error_of(code: str, message: str) -> CarmaError:
    """The exception of a code of the API."""
    return KINDS.get(code, CarmaError)(message, code)
