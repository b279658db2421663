"""Errors raised by user code: reported with the user's own line, the label and the element, not the engine's stack.

Whatever user code raises is such an error, including `SystemExit` and others that are no `Exception`. Only Ctrl-C
passes: the functions here raise it in place of the error that they would return.
"""

from __future__ import annotations

import abc
import linecache
import pathlib
import sysconfig
import traceback
import types
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import attrs

from dataflow_model.errors import DataflowError, InvalidType, UserCodeError, encodable, is_interrupt, shown
from dataflow_model.plan.functions.dofn import DeadLetter
from dataflow_model.runners.engine.functions.forks import end_fork
from dataflow_model.time import format_instant

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from types import FrameType, TracebackType

    import numpy as np
    from numpy.typing import NDArray

    from dataflow_model.values import Window

FINISH_HINT: Final = "let finish_bundle return a list of outputs, yield them, or return nothing"

_T = TypeVar("_T")
_PACKAGE: Final = __name__.split(".", maxsplit=1)[0]
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_STANDARD_LIBRARY: Final = pathlib.PurePath(sysconfig.get_path("stdlib"))
_ITERABLES: Final = frozenset({list, tuple, types.GeneratorType})
"""The types that most functions return, checked first because that is fast."""
_HINT: Final = (
    "add .with_exception_handling() to the dm.Map, dm.FlatMap, dm.Filter, dm.ParDo or combiner that fails, or to one "
    "that checks its input, to send such elements to a separate output"
)
_SOURCE_HINT: Final = (
    "fix the source; if this passes when it is called again, name the error in `transient_errors` of the source"
)
_EXIT_HINT: Final = (
    "a function cannot end the program: catch this in it, or raise an Exception such as ValueError instead, which "
    ".with_exception_handling() can send to a separate output"
)


def user_error(error: BaseException, label: str, element: Any, *, hint: str | None = _HINT) -> UserCodeError:
    """Return the error to raise in place of an exception of user code for an element; its own hint takes precedence."""
    return _report(error, f"  transform: {label!r}\n  element: {shown(element)}", hint)


def part_error(error: BaseException, label: str, *, hint: str) -> UserCodeError:
    """Return the error to raise in place of an exception of a part of a function, whose elements are not known.

    Args:
        error: the exception.
        label: what the part is called.
        hint: the hint if the exception has none.
    """
    return _report(error, f"  transform: {label!r}", hint)


def column_error(error: BaseException, label: str, times: NDArray[np.int64]) -> UserCodeError:
    """Return the error to raise in place of an exception of user code for a column of event times."""
    span = f", from {format_instant(int(times.min()))} to {format_instant(int(times.max()))}" if len(times) else ""
    return _report(error, f"  transform: {label!r}\n  event times: {len(times)}{span}", None)


def batch_error(error: BaseException, label: str, count: int, first: Any, *, hint: str | None = _HINT) -> UserCodeError:
    """Return the error to raise in place of an exception of user code for a batch; its own hint takes precedence.

    Args:
        error: the exception.
        label: the label of the transform.
        count: the number of rows in the batch.
        first: the element in the first row.
        hint: the hint if the exception has none.
    """
    if count == 1:
        return user_error(error, label, first, hint=hint)
    return _report(error, f"  transform: {label!r}\n  elements: {count}, the first of them {shown(first)}", hint)


class _Reporting(abc.ABC):
    """A context that raises a `UserCodeError` in place of some exceptions.

    These are classes because `contextlib.contextmanager` mistakes a `RuntimeError` from a `StopIteration` for its own.
    """

    __slots__ = ()

    def __enter__(self) -> Self:
        """Enter the context."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the context."""
        if error is not None:
            self._replace(error)

    @abc.abstractmethod
    def _replace(self, error: BaseException) -> None:
        """Raise an error in place of an exception, or nothing to let it pass."""


@attrs.frozen
class at_window(_Reporting):  # noqa: N801 - a context manager
    """Report exceptions of a combiner or a trigger for a window, without an element."""

    label: str
    key: Any
    window: Window

    def _replace(self, error: BaseException) -> None:
        if not isinstance(error, UserCodeError):
            where = f"  transform: {self.label!r}\n  key: {shown(self.key)}, window: {self.window!r}"
            raise _report(error, where, None) from error


def _report(error: BaseException, where: str, hint: str | None) -> UserCodeError:
    end_fork(error)
    if is_interrupt(error):
        raise error
    text, _, own_hint = _where(error).partition("\nHint: ")
    own_hint, _, line = own_hint.partition("\n")
    text = f"{text}\n{line}" if line else text
    if not isinstance(error, Exception):
        hint = _EXIT_HINT
    reported = UserCodeError(f"{text}\n{where}", hint=own_hint or hint)
    trace = _from_user_code(error.__traceback__)
    reported.__cause__ = error.with_traceback(None if isinstance(error, DataflowError) and _all_ours(trace) else trace)
    return reported


@attrs.frozen
class life_cycle(_Reporting):  # noqa: N801 - a context manager
    """Report exceptions of a step in the life of a function, such as `setup`, with the transform's label."""

    label: str
    step: str

    def _replace(self, error: BaseException) -> None:
        end_fork(error)
        if not isinstance(error, DataflowError) and not is_interrupt(error):
            text = encodable(_where(error))
            raise UserCodeError(
                f"{text}\n  transform: {self.label!r}, in its {self.step}()",
                hint="fix the function; such a step has no element that could be sent to the dead letters",
            ) from error


@attrs.frozen
class source_calls(_Reporting):  # noqa: N801 - a context manager
    """Report exceptions of a method of a source, if code of the user's reads it, with the label and the method.

    Attributes:
        label: the label of the source.
        method: the name of the method.
        is_users: whether code of the user's reads it.
    """

    label: str
    method: str
    is_users: bool

    def _replace(self, error: BaseException) -> None:
        if self.is_users and isinstance(error, Exception) and not isinstance(error, DataflowError):
            raise UserCodeError(
                encodable(f"{_where(error)}\n  source: {self.label!r}, in its {self.method}()"), hint=_SOURCE_HINT
            ) from error


@attrs.frozen
class exits_reported(_Reporting):  # noqa: N801 - a context manager
    """Report what would end the program, such as `SystemExit`; all other exceptions pass.

    It stands around user code that has no element, such as sources and sinks, and around everything that a run does. A
    generator must not yield in it, since it would report that it is closed.

    Attributes:
        label: the label of the transform, if it is known.
    """

    label: str | None = None

    def _replace(self, error: BaseException) -> None:
        end_fork(error)
        if not isinstance(error, Exception) and not is_interrupt(error):
            where = "" if self.label is None else f"\n  transform: {self.label!r}"
            raise UserCodeError(encodable(_where(error)) + where, hint=_EXIT_HINT) from error


def each_reported(items: Iterable[_T], label: str) -> Iterator[_T]:
    """Yield what user code yields, such as the batches of a source, and report in it what would end the program."""
    iterator = iter(items)
    while True:
        with exits_reported(label):
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item


_PARTS: Final[Mapping[type[Any], str]] = {
    str: "; list(text) for its characters, text.split() for its words",
    bytes: "; list(data) for its bytes",
    dict: "; list(mapping.items()) for its pairs",
}
"""How to return the parts of what could be meant as one output or as several."""


def listed(results: Any, label: str, hint: str) -> list[Any]:
    """Return the outputs of a DoFn as a list; a generator is exhausted here, where its errors are caught."""
    if type(results) in _ITERABLES:
        return list(results)
    if results is None:
        return []
    if isinstance(results, str | bytes | dict) or not hasattr(results, "__iter__"):
        raise InvalidType(
            f"{label!r} must return an iterable of outputs, got {results!r} of type {type(results).__name__}",
            hint=hint + _PARTS.get(type(results), ""),
        )
    return list(results)


def check_tag(tag: str, tags: Collection[str], label: str) -> None:
    """Reject an output for a collection that the transform does not have."""
    if tag not in tags:
        raise InvalidType(
            f"{label!r} has no output tagged {tag!r}, only {sorted(tags)}",
            hint=f"declare it with .with_outputs({tag!r})",
        )


def dead_letter(error: BaseException, label: str, element: Any) -> DeadLetter:
    """Return the dead letter for an element for which user code raised an exception.

    Raises:
        UserCodeError: in place of what is no `Exception`, which is not about the element.
    """
    end_fork(error)
    if not isinstance(error, Exception):
        raise user_error(error, label, element) from error
    frames = traceback.format_list(_user_frames(error.__traceback__))
    lines = [*frames, *traceback.format_exception_only(error)]
    reason = f"{type(error).__name__}: {_message(error)}"
    return DeadLetter(element, label, encodable(reason), encodable("".join(lines)))


def _where(error: BaseException) -> str:
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
        error = error.__cause__  # raised in a generator, where Python replaces it (PEP 479)
    text = _message(error) if isinstance(error, DataflowError) else f"{type(error).__name__}: {_message(error)}"
    outside = [frame for frame in traceback.walk_tb(error.__traceback__) if not _is_ours(frame[0])]
    if not outside:
        return text
    whose = [_library(frame) for frame, _ in outside]
    users = None if None in whose else whose[0]  # if all code is installed, the user's was called first
    own = max(index for index, library in enumerate(whose) if library == users)
    text = f"{text}\n  in: {_location(outside[own])}"
    return text if own == len(outside) - 1 else f"{text}\n  raised in: {_location(outside[-1])}"


def _location(at: tuple[FrameType, int]) -> str:
    """Return the line at which a frame is, with its file and function; code that was compiled has no lines."""
    frame, number = at
    code = frame.f_code
    line = linecache.getline(code.co_filename, number, frame.f_globals).strip()
    return f"{line}  ({code.co_filename}:{number}, {code.co_name})".lstrip()


def _library(frame: FrameType) -> str | None:
    """Return the outermost package of a frame if that is installed or of Python itself, else `None`."""
    path = pathlib.PurePath(frame.f_globals.get("__file__") or frame.f_code.co_filename)
    if _INSTALLED.isdisjoint(path.parts) and _STANDARD_LIBRARY not in path.parents:
        return None
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as another:  # noqa: BLE001 - the user's class may raise anything
        return f"(its __str__ raised {type(another).__name__})"
    if isinstance(error, BaseExceptionGroup):
        return f"{text}: {'; '.join(f'{type(part).__name__}: {_message(part)}' for part in error.exceptions)}"
    return text


def _from_user_code(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the frames of this package that called the user's code, if any was called."""
    called = trace
    while called is not None and _is_ours(called.tb_frame):
        called = called.tb_next
    return called or trace


def _all_ours(trace: TracebackType | None) -> bool:
    return all(_is_ours(frame) for frame, _ in traceback.walk_tb(trace))


def _is_ours(frame: FrameType) -> bool:
    return bool(frame.f_globals.get("__name__", "").split(".", maxsplit=1)[0] == _PACKAGE)


def _user_frames(trace: TracebackType | None) -> traceback.StackSummary:
    """Return the frames that are not in this package."""
    frames = traceback.extract_tb(trace)
    outside = [frame for (raw, _), frame in zip(traceback.walk_tb(trace), frames, strict=True) if not _is_ours(raw)]
    return traceback.StackSummary.from_list(outside)
