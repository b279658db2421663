"""Errors on their way through Spark: raised by tasks, and extracted by the driver from Spark's exceptions."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import re
import signal
import sys
import traceback
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from dataflow_model import errors
from dataflow_model.errors import DataflowError, SessionStopped, WorkerLost, chain_of, encodable
from dataflow_model.runners.engine.functions.user_code import exits_reported
from dataflow_model.runners.runs.run_folder import RunFolder

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable

    from pyspark.sql import SparkSession

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_OURS: Final = re.compile(
    r"dataflow_model\.errors\.(\w+): (.*?)"
    r"(?=\n[ \t]*\n|\n\s+at |\n\s*SQLSTATE: |\n=== Streaming Query ===|\nThe above exception"
    r"|\nDriver stacktrace|\nDuring handling|\n'?\s*$|\Z)",
    re.DOTALL,
)
"""An error of this package in a text, with its message as far as that has no line that looks like Spark's."""
_BEGIN: Final = re.compile(r"dataflow_model\.errors\.(\w+): \Z")
_END: Final = re.compile(r"\n\(the error message above has (\d+) characters\)")
"""The note with which a worker reports an error: only its length tells where a message with any text ends."""
_JVM_ENDS: Final = re.compile(r"SparkShutdownHook|Answer from Java side is empty|OutOfMemoryError|Connection refused")
"""What an error contains if the JVM of the driver ends by itself, or has ended."""
_OUT_OF_MEMORY: Final = "OutOfMemoryError"
_STATUS_OUT_OF_MEMORY: Final = 52
"""The status with which Spark ends a JVM that is out of memory."""
_SECONDS_TO_END: Final = 5.0
_MORE_MEMORY: Final = (
    "SparkSession.builder.config('spark.driver.memory', '4g') for a local session, 'spark.executor.memory' on a "
    "cluster; or give each task less, with more partitions ('spark.sql.shuffle.partitions') and smaller groups"
)
_KEPT: Final = "Spark's own error, with its stack"
_EXECUTOR: Final = re.compile(r"ExecutorLostFailure \((executor \S+) exited [^)]*\)(?:[^\n]*?Reason: ([^\n]*))?")
"""What Spark reports when an executor has ended, with the reason."""
_PRIVATE: Final = 0o600
_CRASH: Final = re.compile(r"Lost (task [^\n]*?): [^\n]*?Python worker exited unexpectedly")
"""What Spark reports when a worker has ended, with the task that it ran."""
_OTHER_PYTHON: Final = re.compile(r"No module named '|PYTHON_VERSION_MISMATCH")
"""What Spark reports when workers run a Python that lacks the packages of this one, or is of another version."""


def find_our_error(error: BaseException) -> BaseException:
    r"""Return the error of this package that made Spark fail, or Spark's own error if there is none.

    Spark's own error, whose stack has hundreds of lines, is not shown with it. It is available as the error's
    `__context__` and in the log file of this process, which a note of the error names.

    Example:
        >>> find_our_error(RuntimeError("Job aborted\ndataflow_model.errors.SinkError: no room\n\n\tat org.apache"))
        SinkError('no room')
    """
    text = _text(error)
    reports = _reports(text)
    if not reports:
        if _OTHER_PYTHON.search(text):
            error.add_note(_python_of_workers())
        return error
    name, message = reports[-1]
    kind = getattr(errors, name, None)
    if not isinstance(kind, type) or not issubclass(kind, DataflowError):
        return error
    return _without_stack(kind(message), error)


def lost_worker(error: BaseException) -> BaseException:
    r"""Return the error to raise in place of Spark's, if an executor or a Python worker has ended; or else Spark's.

    Spark knows the task, but neither the exit status nor the signal.

    Example:
        >>> said = "Lost task 1.0 in stage 4.0 (TID 9) (host): Python worker exited unexpectedly (crashed)"
        >>> print(lost_worker(RuntimeError(said)))
        a Python worker of Spark ended unexpectedly, in task 1.0 in stage 4.0 (TID 9) (host)
        Hint: the system ends processes if it is short of memory, and functions must not call os._exit; set
        spark.python.worker.faulthandler.enabled=true to see where compiled code has crashed
    """
    executor = _EXECUTOR.search(_text(error))
    if executor is not None:
        reason = "" if not executor[2] else f": {executor[2].strip().rstrip('.')}"
        return _without_stack(
            WorkerLost(
                f"{executor[1]} of Spark ended unexpectedly{reason}",
                hint="it probably ran out of memory: set more 'spark.executor.memory', and "
                "'spark.executor.memoryOverhead' for its Python workers, or give each task less, with more partitions "
                "('spark.sql.shuffle.partitions') and smaller groups",
            ),
            error,
        )
    crash = _CRASH.search(_text(error))
    if crash is None:
        return error
    return _without_stack(
        WorkerLost(
            f"a Python worker of Spark ended unexpectedly, in {crash[1]}",
            hint="the system ends processes if it is short of memory, and functions must not call os._exit; set "
            "spark.python.worker.faulthandler.enabled=true to see where compiled code has crashed",
        ),
        error,
    )


def _text(error: BaseException) -> str:
    """Return the text of an error; that of one of Java's is in the JVM, which may have ended."""
    try:
        return str(error)
    except Exception as unreadable:  # noqa: BLE001 - Py4J raises many kinds of errors then
        return f"{type(error).__name__}: {type(unreadable).__name__}: Connection refused"


def _without_stack(own_error: BaseException, error: BaseException) -> BaseException:
    """Return an error of this package that replaces one of Spark's, whose stack a file keeps."""
    own_error.__context__, own_error.__suppress_context__ = error, True
    path = _keep(error)
    if path is not None:
        own_error.add_note(f"{_KEPT}: {path}")
    return own_error


def _python_of_workers() -> str:
    return (
        "Spark's workers run the Python that PYSPARK_PYTHON names, or else the first python3 on their PATH, and need "
        f"the packages of this program, which runs {sys.executable}. In a local session, set "
        'os.environ["PYSPARK_PYTHON"] = sys.executable before you build the session, or use local_session().'
    )


def _reports(text: str) -> list[tuple[str, str]]:
    """Return the class names and messages of this package's errors in a text of Spark's."""
    whole = []
    for end in _END.finditer(text):
        start = end.start() - int(end[1])
        begin = _BEGIN.search(text, 0, max(start, 0))
        if begin is not None:
            whole.append((begin[1], text[start : end.start()]))
    return whole or [(name, message.rstrip()) for name, message in _OURS.findall(text)]


def _keep(error: BaseException) -> pathlib.Path | None:
    """Append an error to the log file; return the file, or `None` if it cannot be written."""
    try:
        path = log_file()
        with open(path, "a", encoding="utf-8", opener=_open_private) as file:
            file.write(encodable("".join(traceback.format_exception(error))))
    except OSError:
        return None
    return path


def _open_private(path: str, flags: int) -> int:
    """Open a file that only its owner can read, and no other file to which a link of this name leads."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW, _PRIVATE)
    os.fchmod(descriptor, _PRIVATE)
    return descriptor


def log_file() -> pathlib.Path:
    """Return the file to which this process writes Spark's full error messages, which contain elements.

    It is in a folder of its own that only the user can read.
    """
    return _log_folder().path / "spark.log"


@functools.cache
def _log_folder() -> RunFolder:
    return RunFolder("log")


def reported(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate a function or generator that Spark's workers call: it runs in a context of its own, and reports errors.

    What it sets in its context, such as the decimal context of a program, is not seen by other functions of the worker.
    What would end the process, such as `SystemExit`, is reported as an error of a user's function.

    A worker sends the traceback as UTF-8. A lone surrogate in it, as in file names that are not valid text, would kill
    the worker while it reports the error, and the JVM would wait forever.
    """

    @functools.wraps(function)
    def call(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        context = contextvars.copy_context()
        with _encodable_errors():
            result = context.run(function, *arguments, **options)
        guarded: Any = _guarded(result, context) if isinstance(result, Iterator) else result
        return guarded  # type: ignore[no-any-return] # of the same type

    return call


def _guarded(results: Iterator[Any], context: contextvars.Context) -> Iterator[Any]:
    with contextlib.ExitStack() as closed:
        if isinstance(results, Generator):
            closed.callback(context.run, results.close)
        while True:
            with _encodable_errors():
                try:
                    result = context.run(next, results)
                except StopIteration:
                    return
            yield result


@contextlib.contextmanager
def _encodable_errors() -> Iterator[None]:
    try:
        with exits_reported():
            yield
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        if encodable(text) == text:
            _note_length(error)
            raise
        escaped = _encodable(error)
        _note_length(escaped)
        raise escaped from _cause(error)


def _note_length(error: BaseException) -> None:
    """Add the length of its message to an error of this package as the first note, which follows the message."""
    if isinstance(error, DataflowError):
        note = f"(the error message above has {len(str(error))} characters)"
        notes = getattr(error, "__notes__", [])
        error.__notes__ = [note, *(known for known in notes if known != note)]


def _encodable(error: BaseException) -> BaseException:
    """Return an error with the same text, escaped, and with the same traceback."""
    text = encodable(str(error))
    is_own = isinstance(error, DataflowError)
    copy = type(error)(text) if is_own else RuntimeError(f"{type(error).__name__}: {text}")
    return copy.with_traceback(error.__traceback__)


def _cause(error: BaseException) -> BaseException | None:
    """Return the chain of causes of an error, with escaped texts."""
    cause: BaseException | None = None
    for before in reversed(chain_of(error)[1:]):
        copy = _encodable(before)
        copy.__cause__ = cause
        cause = copy
    return cause


def is_stopped(spark: SparkSession) -> bool:
    """Return whether a session has been stopped."""
    session: Any = spark
    try:
        if hasattr(session, "is_stopped"):  # through Spark Connect
            return bool(session.is_stopped)
        java_context = session.sparkContext._jsc  # noqa: SLF001 - PySpark has no public API for this
        return java_context is None or bool(java_context.sc().isStopped())
    except Exception:  # noqa: BLE001 - Py4J raises many kinds of errors once the JVM is gone
        return True


def session_stopped(spark: SparkSession, way_on: str, cause: BaseException | None = None) -> SessionStopped:
    """Return the error for a run whose session was stopped, or whose JVM has ended: then with the reason, if known.

    Args:
        spark: the session.
        way_on: what the user can do next.
        cause: Spark's error, if there is one.
    """
    path = None if cause is None else _keep(cause)  # first: its text comes from the JVM
    end = _end_of_jvm(spark, cause)
    if end is None:
        error = SessionStopped("the Spark session was stopped before the run ended", hint=way_on)
        error.__cause__ = cause
        return error
    error = SessionStopped(
        f"the JVM of the Spark session {end}",
        hint=f"set more memory before the session is created, or the next run ends in the same way: {_MORE_MEMORY}. "
        f"{way_on.capitalize()}",
    )
    if cause is None:
        return error
    error.__context__, error.__suppress_context__ = cause, True
    if path is not None:
        error.add_note(f"{_KEPT}: {path}")
    return error


def _end_of_jvm(spark: SparkSession, error: BaseException | None) -> str | None:
    """Return how the JVM of a session has ended, `None` if it was not seen to end."""
    seen = "".join(map(_text, chain_of(error))) if error is not None else ""
    if error is not None and not _JVM_ENDS.search(seen) and not _is_cut_off(error):
        return None
    status = _status_of_jvm(spark, 0 if error is None else _SECONDS_TO_END)
    if _OUT_OF_MEMORY in seen or status == _STATUS_OUT_OF_MEMORY:
        return "ended, because it ran out of memory"
    if status is None:
        return (
            None if error is None else "ended or could not be reached any more, probably because it ran out of memory"
        )
    if status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else str(-status)
        return f"ended by signal {name}, as the system ends processes if it is short of memory"
    return f"ended with status {status}, perhaps because it ran out of memory"


def _is_cut_off(error: BaseException) -> bool:
    """Return whether an error says that the connection to the JVM was lost."""
    return any(isinstance(part, OSError) or type(part).__name__ == "Py4JNetworkError" for part in chain_of(error))


def _status_of_jvm(spark: SparkSession, seconds: float) -> int | None:
    """Return the exit status of the JVM that this process has started; `None` if there is none, or it does not end."""
    try:
        process: Any = spark.sparkContext._gateway.proc  # type: ignore[union-attr]  # noqa: SLF001 - no public API
        return int(process.wait(timeout=seconds))
    except Exception:  # noqa: BLE001 - a session of Spark Connect has no gateway, and that of a program no process
        return None
