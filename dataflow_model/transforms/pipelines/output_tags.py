"""The tags of the outputs that a transform has beside its main one: those of dead letters and of dropped elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.logical import nodes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


def check_dead_letters(tag: object, others: Collection[str] = ()) -> None:
    """Raise unless dead letters can have a tag beside the main output and the others.

    Raises:
        InvalidArgument: for the tag of another output.
        InvalidType: for a tag that is not text.
    """
    _check(tag, others, "dead letters", ".with_exception_handling('failed')")


def check_dropped(tag: object, others: Collection[str] = ()) -> None:
    """Raise unless dropped elements can have a tag beside the main output and the others.

    Raises:
        InvalidArgument: for the tag of another output.
        InvalidType: for a tag that is not text.
    """
    _check(tag, others, "dropped elements", ".with_dropped_output('too late')")


def with_further(result: Any, further: Iterable[Any]) -> Any:
    """Return a result as users get it after calls that add an output: a pair of the result before, and the output."""
    for output in further:
        result = result, output
    return result


def _check(tag: object, others: Collection[str], content: str, example: str) -> None:
    if not isinstance(tag, str):
        raise InvalidType(f"the tag of {content} must be text, got {tag!r}", hint=f"use {example}")
    if tag == nodes.MAIN or tag in others:
        raise InvalidArgument(
            f"the {content} need a tag that no other output has, got {tag!r}", hint=f"use {example}, for example"
        )
