"""An executor of concurrent.futures that runs each call as a task."""

from __future__ import annotations

import concurrent.futures
import io
import os
import pickle
import sys
import threading
import time
import types
import uuid
import warnings
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

from .checks import suggestion
from .client import FIELDS, OPTIONS, PATIENCE_S, RETRY_S, Client
from .errors import CarmaError, InvalidError, TaskFailed, UnavailableError
from .task import Task

RESULT = ".result"  # suffix of the path of a call
POLL_S = 1
LAST_WORDS = 2000
RAISED = ("failed", "out_of_memory")  # states of the task when its call raised an exception


if TYPE_CHECKING:
    _Future = concurrent.futures.Future[Any]
else:
    _Future = concurrent.futures.Future


def private(path: str, flags: int) -> int:
    """Opens a file that only its owner may use: pickles can run code."""
    return os.open(path, flags, 0o600)


class TaskFuture(_Future):
    """A future with its task. Tasks outlive the program that waits for them: their results stay in the executor's folder."""

    def __init__(self, client: Client, path: str) -> None:
        super().__init__()
        self.task = Task(0)  # the task in its last known state
        self.path = path  # path of the call; the result is in the same folder
        self._client = client

    @property
    def job_id(self) -> str:
        """The task's number, as in submitit."""
        return str(self.task.id)

    @property
    def state(self) -> str:
        """The task's current state, as reported by the daemon."""
        return self._client.show(self.task).state

    def stdout(self) -> str:
        """The end of the task's output, including its errors unless `error` separates them."""
        return self._client.output(self.task)

    def stderr(self) -> str:
        """The end of the task's standard error."""
        return self._client.output(self.task, stderr=True)

    def cancel(self) -> bool:
        """Cancels a task that is not running yet, like any future. carma.cancel(future.task) also cancels a running task."""
        if self.done():
            return self.cancelled()
        try:
            task = self._client.show(self.task)  # the future's own state may be a second old
        except CarmaError:
            return False
        if task.on_gpus or task.done or not super().cancel():
            return False
        try:
            self._client.cancel(self.task)
        except CarmaError:
            pass  # it has ended
        return True


# Parameters of submitit and the options that replace them. None: the parameter has no meaning on one server.
SAME: Dict[str, Optional[Tuple[str, Callable[[Any], Any]]]] = {
    "timeout_min": ("time", lambda minutes: 60 * minutes), "gpus_per_node": ("gpus", int), "cpus_per_task": ("cpus", int),
    "gpus_per_task": ("gpus", int), "num_gpus": ("gpus", int), "mem_gb": ("mem", lambda gb: f"{gb}G"),
    "mem": ("mem", lambda size: size), "job_name": ("name", str), "array_parallelism": ("array_limit", int),
    "additional_parameters": None, "setup": None, "partition": None, "qos": None, "account": None, "constraint": None, "comment": None,
    "stderr_to_stdout": None, "signal_delay_s": None, "exclude": None, "use_srun": None, "srun_args": None, "max_num_timeout": None,
    "exclusive": None, "nodelist": None, "wckey": None}
ONE = frozenset(("nodes", "tasks_per_node", "ntasks_per_node"))


def _translated(name: str, value: Any) -> Tuple[Optional[str], Any]:
    """The option of submit() for a parameter of submitit. None if the parameter has no meaning here."""
    bare = name[len("slurm_"):] if name.startswith("slurm_") else name
    if name in OPTIONS or (name in FIELDS and bare == name):
        return name, value
    if bare in ONE:
        if value != 1:
            raise InvalidError(f"{name}={value!r}: expected 1, because a call is one process on one server", "invalid")
        return None, None
    if bare == "time":
        return "time", 60 * value if isinstance(value, (int, float)) else value
    if bare in SAME:
        same = SAME[bare]
        if same is not None:
            try:
                return same[0], same[1](value)
            except (TypeError, ValueError):
                hint = "; gpu_type selects a type" if same[0] == "gpus" else ""
                raise InvalidError(f"{name}={value!r}: expected a number{hint}", "invalid") from None
    else:
        near = suggestion(bare, FIELDS | OPTIONS | SAME.keys())
        raise InvalidError(f"unknown parameter {name!r}{near or '; expected an option of submit()'}", "invalid")
    warnings.warn(f"{name}: has no meaning in CARMA", stacklevel=3)
    return None, None


def _main() -> Optional[str]:
    """Where workers find the functions of __main__: the path of the script, or the name of the module that `python3 -m`
    runs. None if there is no such place: in a notebook, with `python3 -c` and on standard input."""
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", "__main__")
    if name != "__main__":  # the module's name if `python3` runs a folder
        return str(name)
    path = getattr(main, "__file__", None)
    return os.path.abspath(path) if path and os.path.isfile(path) else None


class _ByName(pickle.Pickler):
    """Refuses functions and classes of a __main__ that workers cannot read."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, types.FunctionType)) and obj.__module__ == "__main__":
            raise pickle.PicklingError(f"{obj.__qualname__} is defined in a notebook, on a command line or on standard input, where a "
                                       "task cannot read it")
        return NotImplemented


def pickled(value: Any) -> bytes:
    """Pickles by name if the worker can find all names, else with cloudpickle."""
    try:
        if _main() is not None:
            return pickle.dumps(value)
        text = io.BytesIO()
        _ByName(text).dump(value)
        return text.getvalue()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        try:
            import cloudpickle  # type: ignore  # pylint: disable=import-outside-toplevel
        except ImportError:
            raise CarmaError(f"{error}; functions are found by their name in a module or script (with the package cloudpickle "
                             "installed, any function works)", "invalid") from error
        return bytes(cloudpickle.dumps(value))


class Executor(concurrent.futures.Executor):
    """Runs functions as tasks, one task per call.

    folder: holds calls, results and output (NUMBER.out). This program and the tasks must both have access.
    Default: ./carma-jobs.
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
        # Classes of the script are unpickled under the module name that the script's copy has in a worker.
        sys.modules.setdefault("__mp_main__", sys.modules["__main__"])

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> TaskFuture:
        """Runs the call as its own task. The future raises the exception of the call, or TaskFailed if the task ended in another way."""
        return self._submit([(fn, args, kwargs)])[0]

    def map(self, fn: Callable[..., Any], *iterables: Any, timeout: Optional[float] = None,
            chunksize: int = 1) -> Iterator[Any]:
        """Like map() of any executor. Either all calls are submitted at once, or none."""
        del chunksize  # each task runs one call
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

    def map_array(self, fn: Callable[..., Any], *iterables: Any) -> List[TaskFuture]:
        """Like submitit's map_array: an array with one call per set of arguments, shown as one row in lists. Returns the futures."""
        return self._submit([(fn, args, {}) for args in zip(*iterables)], array=True)

    def update_parameters(self, **parameters: Any) -> None:
        """Sets options for later calls: options of Client.submit(), or submitit's (timeout_min, gpus_per_node, cpus_per_task, mem_gb,
        slurm_array_parallelism …). Warns about options of Slurm that have no meaning on one server."""
        for name, value in parameters.items():
            option, meant = _translated(name, value)
            if option is not None:
                self.options[option] = meant

    def _submit(self, calls: List[Any], array: bool = False) -> List[TaskFuture]:
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        futures = [TaskFuture(self.client, os.path.join(self.folder, uuid.uuid4().hex + ".call")) for _ in calls]
        for future, call in zip(futures, calls):
            by_name, main = pickled(call), _main()
            # A package's __main__.py often has no guard: unittest's would run all tests.
            if main is not None and main.endswith(".__main__") and b"__main__" not in by_name:
                main = None
            text = pickle.dumps({"sys_path": [os.path.abspath(each) for each in sys.path], "main": main, "call": by_name})
            with open(future.path, "wb", opener=private) as file:
                file.write(text)
        options = dict(self.options)
        options.setdefault("name", getattr(calls[0][0], "__name__", "call") if calls else None)
        options.setdefault("output", os.path.join(self.folder, "%j.out"))
        given = options.pop("env", None)
        environment = dict(os.environ if given is None else given)
        ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (environment.get("PYTHONPATH"), ours)))
        if not array:
            options.pop("array_limit", None)
        tasks = self.client.submit_all([[self._python, "-m", "carma.worker", future.path] for future in futures], env=environment,
                                       array=array, **options)
        with self._lock:
            for future, task in zip(futures, tasks):
                future.task = task
                self._waiting[task.id] = future
            if self._waiting and self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="carma-executor", daemon=True)
                self._watcher.start()
        return futures

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """With cancel_futures, calls that are not running yet are cancelled. Other calls run to their end, even without this program."""
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

    # ---- the thread that checks the tasks ----

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
            except UnavailableError as error:  # carmad restarts
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > PATIENCE_S:
                    self._give_up(error)
                    return
                time.sleep(RETRY_S)
            except Exception as error:  # pylint: disable=broad-except
                self._give_up(error)
                return

    def _look(self, numbers: List[int]) -> None:
        """Waits a moment for the first task, then finds all tasks that have ended by then."""
        first = Task.of(self.client.get(f"/v1/tasks/{numbers[0]}?wait_s={POLL_S}", timeout=POLL_S + 60))
        if len(numbers) == 1:
            return self._settle(first)
        open_now = {task.id: task for task in self.client.list(user=first.user)}
        for number in numbers:
            self._settle(open_now.get(number) or self.client.show(number))
        return None

    def _settle(self, task: Task) -> None:
        with self._lock:
            future = self._waiting.get(task.id)
        if future is None:
            return
        future.task = task
        if not task.done and not task.on_gpus:
            return
        # The user may cancel the future at any moment. This call detects that, once, and the future then gets no result.
        if future.running() or future.set_running_or_notify_cancel():
            if not task.done:
                return
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
            future.set_exception(CarmaError(f"the result of task {task.id} cannot be read: {error}{self._last_words(task)}"))
            return
        if good and task.succeeded:
            future.set_result(value)
        elif not good and isinstance(value, BaseException) and task.state in RAISED:  # otherwise the result is from an earlier attempt
            value.__cause__ = TaskFailed(f"task {task.id} failed\n{said}", task)
            future.set_exception(value)
        else:
            lost = ", but left no result" if task.succeeded else ""
            future.set_exception(TaskFailed(f"{task.sentence}{lost}{self._last_words(task)}", task))

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
