"""Errors on their way through Spark: what a task raises, and what the driver finds in Spark's own exception."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import re
import tempfile
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from dataflow_model import errors
from dataflow_model.errors import DataflowError, SessionStopped, encodable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

__all__ = ["find_our_error", "is_stopped", "log_file", "reported", "session_stopped"]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_OURS: Final = re.compile(
    r"dataflow_model\.errors\.(\w+): (.*?)"
    r"(?=\n[ \t]*\n|\n\s+at |\n\s*SQLSTATE: |\n=== Streaming Query ===|\nThe above exception"
    r"|\nDriver stacktrace|\nDuring handling|\n'?\s*$|\Z)",
    re.DOTALL,
)


def find_our_error(error: BaseException) -> BaseException:
    r"""Return the error of this package that made Spark fail, or Spark's own where there is none.

    Spark's own error, whose stack of the JVM and of the workers runs to hundreds of lines, is not shown with it: it is
    the error's `__context__`, it is written to the log file of this process, and a note of the error names that file.

    Example:
        >>> find_our_error(RuntimeError("Job aborted\ndataflow_model.errors.SinkError: no room\n\n\tat org.apache"))
        SinkError('no room')
    """
    names = _OURS.findall(str(error))
    if not names:
        return error
    name, message = names[-1]
    kind = getattr(errors, name, None)
    if not isinstance(kind, type) or not issubclass(kind, DataflowError):
        return error
    ours = kind(message.rstrip())
    ours.__context__, ours.__suppress_context__ = error, True
    kept = _keep(error)
    if kept is not None:
        ours.add_note(f"Spark's own error, with its stack: {kept}")
    return ours


def _keep(error: BaseException) -> pathlib.Path | None:
    """Append an error to the log file; return the file, or `None` where it cannot be written."""
    path = log_file()
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(encodable("".join(traceback.format_exception(error))))
    except OSError:
        return None
    return path


def log_file() -> pathlib.Path:
    """Return where this process keeps what Spark says about failures, in full."""
    return pathlib.Path(tempfile.gettempdir(), f"dataflow_model-spark-{os.getpid()}.log")


def reported(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate what Spark's workers call, a function or a generator, so that whatever it raises can be reported.

    A worker sends the traceback as UTF-8. A lone surrogate in it, as in names of files that are no valid text, makes
    the worker die while it reports, and the JVM waits for ever.
    """

    @functools.wraps(function)
    def call(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        with _encodable_errors():
            result = function(*arguments, **options)
        guarded: Any = _guarded(result) if isinstance(result, Iterator) else result
        return guarded  # type: ignore[no-any-return] # of the same type

    return call


def _guarded(results: Iterator[Any]) -> Iterator[Any]:
    with _encodable_errors():
        yield from results


@contextlib.contextmanager
def _encodable_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        if encodable(text) == text:
            raise
        raise _encodable(error) from _cause(error)


def _encodable(error: BaseException) -> BaseException:
    """Return an error with the same text, escaped, and the same traceback."""
    text = encodable(str(error))
    ours = isinstance(error, DataflowError)
    copy = type(error)(text) if ours else RuntimeError(f"{type(error).__name__}: {text}")
    return copy.with_traceback(error.__traceback__)


def _cause(error: BaseException) -> BaseException | None:
    """Return what made an error happen, all the way down, with escaped texts."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is None:
        return None
    cause = _encodable(before)
    cause.__cause__ = _cause(before)
    return cause


def is_stopped(spark: SparkSession) -> bool:
    """Tell whether a session can run nothing any more."""
    session: Any = spark
    try:
        if hasattr(session, "is_stopped"):  # through Spark Connect
            return bool(session.is_stopped)
        java_context = session.sparkContext._jsc  # noqa: SLF001 - PySpark has no public way to ask
        return java_context is None or bool(java_context.sc().isStopped())
    except Exception:  # noqa: BLE001 - Py4J's, of many kinds, once the JVM is gone
        return True


def session_stopped(hint: str, cause: BaseException | None = None) -> SessionStopped:
    """Return the error of a run whose session was stopped."""
    error = SessionStopped("the Spark session was stopped before the run ended", hint=hint)
    error.__cause__ = cause
    return error
