"""Submits tasks to the carmad of this machine, waits for them, and runs functions on its GPUs.

    import carma

    task = carma.submit(["python3", "train.py", "--lr", "0.1"], gpus=1, memory="12G")
    task = carma.wait(task)[0]
    print(task.state, task.exit_code)

    with carma.Executor(memory="8G", time="2h") as gpus:      # concurrent.futures, one task for each call
        losses = list(gpus.map(train, [0.1, 0.01, 0.001]))

Needs only Python 3.9. Errors are CarmaError or one of its subclasses, with the daemon's own message.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Optional, Sequence, Union

from .client import Client, Submittable, TaskOrId
from .errors import (CarmaError, ConflictError, DeniedError, InvalidError, NotFoundError, TaskFailed, UnavailableError)
from .executor import Executor, TaskFuture
from .socket_path import default_socket
from .task import Task

__version__ = "0.1.0"

AutoExecutor = Executor  # submitit's name

__all__ = ["AutoExecutor", "CarmaError", "Client", "ConflictError", "DeniedError", "Executor", "InvalidError", "NotFoundError", "Task", "TaskFailed",
           "TaskFuture", "UnavailableError", "__version__", "cancel", "default_socket", "list", "map", "submit", "wait"]


def submit(command: Submittable, **options: Any) -> Task:
    """Client().submit()."""
    with Client() as client:
        return client.submit(command, **options)


def wait(tasks: Union[TaskOrId, Iterable[TaskOrId]], timeout: Optional[float] = None) -> Sequence[Task]:
    """Client().wait()."""
    with Client() as client:
        return client.wait(tasks, timeout)


def cancel(tasks: Union[TaskOrId, Iterable[TaskOrId]]) -> Sequence[Task]:
    """Client().cancel()."""
    with Client() as client:
        return client.cancel(tasks)


def list(state: str = "", user: str = "", name: str = "", limit: Optional[int] = None,  # pylint: disable=redefined-builtin
         newest_first: bool = False, account: str = "", qos: str = "") -> Sequence[Task]:
    """Client().list()."""
    with Client() as client:
        return client.list(state, user, name, limit, newest_first, account, qos)


def map(function: Callable[..., Any], *arguments: Iterable[Any],  # pylint: disable=redefined-builtin
        timeout: Optional[float] = None, **options: Any) -> Iterator[Any]:
    """Executor(**options).map(): submits one task per call at once, and yields the results in order. If a call raised an exception, it is
    raised in place of the result, and tasks that have not started by then are cancelled."""
    executor = Executor(**options)
    results = executor.map(function, *arguments, timeout=timeout)

    def until_shutdown() -> Iterator[Any]:
        with executor:
            yield from results

    return until_shutdown()
