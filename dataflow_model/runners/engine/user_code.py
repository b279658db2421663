"""When user code raises: the user's own line, the label and the element first; never the engine's stack."""

from __future__ import annotations

import contextlib
import linecache
import traceback
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.errors import DataflowError, InvalidType, UserCodeError, explain, shown
from dataflow_model.plan.dofn import DeadLetter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from types import TracebackType

__all__ = ["check_tag", "dead_letter", "life_cycle", "listed", "user_error"]

_PACKAGE: Final = __name__.split(".", maxsplit=1)[0]
_HINT: Final = "add .with_exception_handling() to send such elements to an output of their own"


def user_error(error: Exception, label: str, element: Any, *, hint: str | None = _HINT) -> UserCodeError:
    """Return the error to raise in place of what user code raised for `element`; an error's own hint comes first."""
    said, _, own_hint = _where(error).partition("\nHint: ")
    own_hint, _, line = own_hint.partition("\n")
    said = f"{said}\n{line}" if line else said
    found = UserCodeError(
        explain(f"{said}\n  transform: {label!r}\n  element: {shown(element)}", hint=own_hint or hint)
    )
    found.__cause__ = error
    return found


@contextlib.contextmanager
def life_cycle(label: str, step: str) -> Iterator[None]:
    """Report what a DoFn's `setup`, `start_bundle` or `finish_bundle` raises with the transform's label."""
    try:
        yield
    except DataflowError:
        raise
    except Exception as error:
        raise UserCodeError(f"{_where(error)}\n  transform: {label!r}, in its {step}()") from error


def listed(results: Any, label: str, hint: str) -> list[Any]:
    """Return what a DoFn gives as a list; a generator is run to its end here, where errors are caught."""
    if results is None:
        return []
    if isinstance(results, str | bytes | dict) or not hasattr(results, "__iter__"):
        raise InvalidType(
            explain(
                f"{label!r} must return an iterable of outputs, got {results!r} of type {type(results).__name__}",
                hint=hint,
            )
        )
    return list(results)


def check_tag(tag: str, tags: Collection[str], label: str) -> None:
    """Refuse an output for a collection that the transform does not have."""
    if tag not in tags:
        raise InvalidType(
            explain(
                f"{label!r} has no output tagged {tag!r}, only {sorted(tags)}",
                hint=f"name it: .with_outputs({tag!r})",
            )
        )


def dead_letter(error: Exception, label: str, element: Any) -> DeadLetter:
    """Return the dead letter for an element that user code raised for."""
    frames = traceback.format_list(_user_frames(error.__traceback__))
    lines = [*frames, *traceback.format_exception_only(error)]
    return DeadLetter(element, label, f"{type(error).__name__}: {error}", "".join(lines))


def _where(error: Exception) -> str:
    said = str(error) if isinstance(error, DataflowError) else f"{type(error).__name__}: {error}"
    frames = _user_frames(error.__traceback__)
    if not frames:
        return said
    last = frames[-1]
    line = last.line or linecache.getline(last.filename, last.lineno or 0).strip()
    return f"{said}\n  in: {line}  ({last.filename}:{last.lineno}, {last.name})"


def _user_frames(trace: TracebackType | None) -> traceback.StackSummary:
    """Return the frames that are not this package's."""
    frames = traceback.extract_tb(trace)
    outside = [
        frame
        for (raw, _), frame in zip(traceback.walk_tb(trace), frames, strict=True)
        if raw.f_globals.get("__name__", "").split(".", maxsplit=1)[0] != _PACKAGE
    ]
    return traceback.StackSummary.from_list(outside)
