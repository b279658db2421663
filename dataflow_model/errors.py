"""The errors of the package. A message shows the value, the rule that it breaks, and the way out.

Every class has a builtin as a base next to `DataflowError`, so that `except ValueError` keeps working where
Python programmers expect it.
"""

from __future__ import annotations

import inspect
import logging
import reprlib
from types import TracebackType
from typing import Any, Final

__all__ = [
    "LOG",
    "CheckpointInUse",
    "CheckpointMismatch",
    "DataflowError",
    "InvalidArgument",
    "InvalidType",
    "KeyEncodingError",
    "NotYetSupported",
    "PlanError",
    "PlanWarning",
    "SessionStopped",
    "SinkError",
    "SourceError",
    "StateCorruption",
    "SupersededRun",
    "UnsupportedOnRunner",
    "UntrustedCheckpoint",
    "UserCodeError",
    "WorkerLost",
    "chain_of",
    "encodable",
    "explain",
    "is_interrupt",
    "refuse_async",
    "shown",
    "without_own_frames",
]


LOG: Final = logging.getLogger("dataflow_model")
"""The logger of the whole package: `logging.getLogger("dataflow_model")`."""


def explain(problem: str, *, hint: str | None = None) -> str:
    """Return `problem`, with a `Hint:` line under it when there is a way out to name.

    Example:
        >>> print(explain("`period` must be positive, got 0", hint="pass a duration such as '1 minute'"))
        `period` must be positive, got 0
        Hint: pass a duration such as '1 minute'
    """
    return encodable(problem if hint is None else f"{problem}\nHint: {hint}")


def chain_of(error: BaseException) -> list[BaseException]:
    """Return an error and those that it was raised from or while handling, as a traceback shows them: each once.

    Example:
        >>> chain_of(KeyError("delay"))
        [KeyError('delay')]
    """
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and not any(link is earlier for earlier in chain):  # an error may be its own cause
        chain.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return chain


def without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of this package, of which an error in a user's call needs none.

    Example:
        >>> without_own_frames(None) is None
        True
    """
    frames: list[TracebackType] = []
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] != "dataflow_model":
            frames.append(trace)
        trace = trace.tb_next
    following: TracebackType | None = None
    for frame in reversed(frames):
        following = TracebackType(following, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return following


def encodable(text: str) -> str:
    r"""Return a text that every encoding of Unicode takes: lone surrogates, as in names of files, are escaped.

    Example:
        >>> encodable("no such file: caf\udce9")
        'no such file: caf\\udce9'
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def is_interrupt(error: BaseException) -> bool:
    """Return whether an error is Ctrl-C, by itself or in a group, which is no fault of the code that it interrupts.

    Example:
        >>> is_interrupt(KeyboardInterrupt()), is_interrupt(SystemExit(0))
        (True, False)
    """
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)


class _ShortRepr(reprlib.Repr):
    """Cuts long values short, and shows numbers that have more digits than Python writes."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 200

    def repr_int(self, x: int, level: int) -> str:
        """Return the number, or its size."""
        try:
            repr(x)
        except ValueError:
            return f"<int of {x.bit_length()} bits>"
        return super().repr_int(x, level)


_SHORT: Final = _ShortRepr()


def shown(value: Any) -> str:
    """Return a value's `repr` for a message: cut short, and there even where the value's own `repr` fails.

    Example:
        >>> shown(("UA", 10**5000))
        "('UA', <int of 16610 bits>)"
    """
    return _SHORT.repr(value)


class DataflowError(Exception):
    """The root of every error that this package raises on purpose.

    Args:
        problem: the value, and the rule that it breaks.
        hint: what to do instead, if there is an alternative.

    Example:
        >>> raise InvalidArgument("`period` must be positive, got 0", hint="pass a duration such as '1 minute'")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: `period` must be positive, got 0
        Hint: pass a duration such as '1 minute'
    """

    def __init__(self, problem: str = "", *, hint: str | None = None) -> None:
        super().__init__(explain(problem, hint=hint))


class InvalidArgument(DataflowError, ValueError):
    """A value that breaks a rule; raised when the value is passed."""


class InvalidType(DataflowError, TypeError):
    """A value of a type that is not accepted; raised when the value is passed, or when a transform is applied to it."""


class KeyEncodingError(DataflowError, TypeError):
    """A key that has no deterministic encoding, such as a set, a dict or a float NaN."""


class PlanError(DataflowError, ValueError):
    """A pipeline that cannot run in its present form; raised by `run()`, before any data are read."""


class PlanWarning(UserWarning):
    """A pipeline that runs, but whose result is probably not the intended one; `run()` warns and names the label.

    It can be turned into an error, or switched off, by Python's `warnings` filters.
    """


class NotYetSupported(DataflowError, NotImplementedError):
    """A part of the model that this version does not support yet."""


class UnsupportedOnRunner(DataflowError, NotImplementedError):
    """A transform that one runner cannot run; the message names what to use instead."""


class UserCodeError(DataflowError, RuntimeError):
    """A user's function raised an error; the message names the user's own line, the label and the element."""


class SourceError(DataflowError, RuntimeError):
    """Data that could not be read: a corrupt file, an unknown column, a row without event time."""


class SinkError(DataflowError, RuntimeError):
    """Output that could not be written."""


class CheckpointMismatch(DataflowError, RuntimeError):
    """A checkpoint that this run cannot continue.

    It belongs to another pipeline, runner or version, cannot be read, was drained, or is in use (`CheckpointInUse`).
    """


class CheckpointInUse(CheckpointMismatch):
    """A checkpoint whose run is alive, in this process or another; a second start waits for its end or stops it first.

    The newer of two starts on Spark takes over instead, and the older one fails with `SupersededRun`.
    """


class UntrustedCheckpoint(CheckpointMismatch):
    """A checkpoint that everybody may write to: to read it would run whatever code somebody has put there."""


class SessionStopped(DataflowError, RuntimeError):
    """A Spark session that was stopped while a run needed it."""


class SupersededRun(DataflowError, RuntimeError):
    """A run that tries to write after a newer run has started on its checkpoint; the write is rejected."""


class StateCorruption(DataflowError, RuntimeError):
    """Durable state that fails its checksum or its chain of tokens, or of which a part is missing."""


class WorkerLost(DataflowError, RuntimeError):
    """A worker process that ended before its work was done, on `LocalRunner(workers=n)` or on Spark."""


def refuse_async(fn: object, label: str) -> None:
    """Check that a function returns its result, and not a coroutine.

    Raises:
        InvalidType: for an `async` function or method, which nothing would await.
    """
    for function in (fn, getattr(type(fn), "__call__", None)):  # noqa: B004 - instances of its class may be called
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidType(
                f"{label} got the async function {getattr(fn, '__name__', repr(fn))}, whose result nothing would await",
                hint="use dm.MapAsync, which awaits many calls at once; or a function with `def`",
            )
