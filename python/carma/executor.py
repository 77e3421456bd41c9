"""An executor of concurrent.futures whose calls are tasks."""

from __future__ import annotations

import concurrent.futures
import os
import pickle
import sys
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional

from .client import PATIENCE_S, RETRY_S, Client
from .errors import CarmaError, TaskFailed, UnavailableError
from .task import Task

RESULT = ".result"  # behind the path of a call
POLL_S = 1
LAST_WORDS = 2000


if TYPE_CHECKING:
    _Future = concurrent.futures.Future[Any]
else:
    _Future = concurrent.futures.Future


class TaskFuture(_Future):
    """A future with its task. Tasks outlive the program that waits for them: their results stay in the executor's folder."""

    def __init__(self, client: Client, path: str) -> None:
        super().__init__()
        self.task = Task(0)  # as it was last seen
        self.path = path  # of the call; its result lies beside it
        self._client = client

    def cancel(self) -> bool:
        """As of any future: only what does not run yet. A running one: carma.cancel(future.task)."""
        if not super().cancel():
            return False
        try:
            self._client.cancel(self.task)
        except CarmaError:
            pass  # it has ended
        return True


def _main_path() -> Optional[str]:
    """The script whose functions workers must find; None: an interactive session, a module of its own."""
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    return os.path.abspath(path) if path and getattr(main, "__spec__", None) is None else None


def _pickled(call: Any) -> bytes:
    try:
        return pickle.dumps(call)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        try:
            import cloudpickle  # type: ignore  # pylint: disable=import-outside-toplevel
        except ImportError:
            raise CarmaError(f"{error}; functions are found by their name in a module or script (with the package cloudpickle "
                             "installed, any will do)", "invalid") from error
        return bytes(cloudpickle.dumps(call))


class Executor(concurrent.futures.Executor):
    """Runs functions as tasks, each call one task.

    folder: where calls, results and output (NUMBER.out) are kept, seen by this program and by the tasks; default ./carma-jobs.
    python: the interpreter of the tasks. options: those of Client.submit(): gpus, memory, time, name …"""

    def __init__(self, folder: str = "carma-jobs", *, client: Optional[Client] = None, python: str = sys.executable,
                 **options: Any) -> None:
        self.folder = os.path.abspath(folder)
        self.client = client or Client()
        self.options = options
        self._python = python
        self._lock = threading.Condition()
        self._waiting: Dict[int, TaskFuture] = {}
        self._closed = False
        self._watcher: Optional[threading.Thread] = None
        # Classes of the script come back by the name that its copy has in a worker.
        sys.modules.setdefault("__mp_main__", sys.modules["__main__"])

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> TaskFuture:
        """The call as a task of its own. Its future raises what the call raised, or TaskFailed where the task ended otherwise."""
        return self._submit([(fn, args, kwargs)])[0]

    def map(self, fn: Callable[..., Any], *iterables: Any, timeout: Optional[float] = None,
            chunksize: int = 1) -> Iterator[Any]:
        """As of any executor; all calls are submitted at once, or none."""
        del chunksize  # a task is one call
        end = None if timeout is None else time.monotonic() + timeout
        futures = self._submit([(fn, args, {}) for args in zip(*iterables)])

        def results() -> Iterator[Any]:
            try:
                for future in futures:
                    yield future.result(None if end is None else end - time.monotonic())
            finally:
                for future in futures:
                    future.cancel()

        return results()

    def _submit(self, calls: List[Any]) -> List[TaskFuture]:
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        os.makedirs(self.folder, exist_ok=True)
        futures = [TaskFuture(self.client, os.path.join(self.folder, uuid.uuid4().hex + ".call")) for _ in calls]
        for future, call in zip(futures, calls):
            text = pickle.dumps({"sys_path": [os.path.abspath(each) for each in sys.path], "main": _main_path(),
                                 "call": _pickled(call)})
            with open(future.path, "wb") as file:
                file.write(text)
        options = dict(self.options)
        options.setdefault("name", getattr(calls[0][0], "__name__", "call") if calls else None)
        options.setdefault("output", os.path.join(self.folder, "%j.out"))
        environment = dict(options.pop("env", None) or os.environ)
        ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (environment.get("PYTHONPATH"), ours)))
        tasks = self.client.submit_all([[self._python, "-m", "carma.worker", future.path] for future in futures], env=environment,
                                       **options)
        with self._lock:
            for future, task in zip(futures, tasks):
                future.task = task
                self._waiting[task.id] = future
            if self._waiting and self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="carma-executor", daemon=True)
                self._watcher.start()
        return futures

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """With cancel_futures what does not run yet is cancelled; the rest runs to its end, also without this program."""
        with self._lock:
            self._closed = True
            futures = list(self._waiting.values())
        if cancel_futures:
            for future in futures:
                future.cancel()
        watcher = self._watcher
        if wait and watcher is not None:
            watcher.join()
        self.client.close()

    # ---- the thread that looks how the tasks are ----

    def _watch(self) -> None:
        try:
            self._look_until_all_have_ended()
        finally:
            self.client.close()

    def _look_until_all_have_ended(self) -> None:
        away_since: Optional[float] = None
        while True:
            with self._lock:
                if not self._waiting:
                    self._watcher = None
                    return
                numbers = sorted(self._waiting)
            try:
                self._look(numbers)
                away_since = None
            except UnavailableError as error:  # started anew
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > PATIENCE_S:
                    self._give_up(error)
                    return
                time.sleep(RETRY_S)
            except Exception as error:  # pylint: disable=broad-except
                self._give_up(error)
                return

    def _look(self, numbers: List[int]) -> None:
        """Waits a moment for the first, then looks for all that have ended meanwhile."""
        first = Task.of(self.client.get(f"/v1/tasks/{numbers[0]}?wait_s={POLL_S}", timeout=POLL_S + 60))
        if len(numbers) == 1:
            return self._settle(first)
        open_now = {task.id: task for task in self.client.list(user=first.user, limit=sys.maxsize)}
        for number in numbers:
            self._settle(open_now.get(number) or self.client.show(number))
        return None

    def _settle(self, task: Task) -> None:
        with self._lock:
            future = self._waiting.get(task.id)
        if future is None:
            return
        future.task = task
        if not task.done:
            if task.on_gpus and not future.running() and not future.cancelled():
                future.set_running_or_notify_cancel()
            return
        # Of what its owner has cancelled nobody waits for a result.
        if future.running() or future.set_running_or_notify_cancel():
            self._finish(future, task)
        with self._lock:
            self._waiting.pop(task.id, None)

    def _finish(self, future: TaskFuture, task: Task) -> None:
        try:
            with open(future.path + RESULT, "rb") as file:
                good, value, said = pickle.load(file)
        except (OSError, EOFError):
            good, value, said = False, None, ""
        except Exception as error:  # pylint: disable=broad-except
            future.set_exception(CarmaError(f"the result of task {task.id} cannot be read: {error}"))
            return
        if good and task.succeeded:
            future.set_result(value)
        elif not good and isinstance(value, BaseException):
            value.__cause__ = TaskFailed(f"task {task.id} is {task.state}\n{said}", task)
            future.set_exception(value)
        else:
            future.set_exception(TaskFailed(f"task {task.id} is {task.state}: {task.reason}{self._last_words(task)}", task))

    def _last_words(self, task: Task) -> str:
        try:
            words = self.client.output(task, stderr=True, limit=LAST_WORDS).strip()
        except CarmaError:
            return ""
        return f"\n{words}" if words else ""

    def _give_up(self, error: Exception) -> None:
        with self._lock:
            futures = list(self._waiting.values())
            self._waiting.clear()
            self._watcher = None
        for future in futures:
            if future.running() or future.set_running_or_notify_cancel():
                future.set_exception(error)
