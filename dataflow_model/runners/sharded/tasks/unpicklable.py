"""Errors for values that cannot be pickled, and so cannot be sent to workers or stored, with the transform's label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dataflow_model.errors import InvalidType, PlanError, is_interrupt, shown
from dataflow_model.values.pickles import dump, dump_by_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Ref
    from dataflow_model.runners.engine.collections.kept import Kept

_INSTEAD: Final = (
    "a lock, an open file or a connection belongs to one process: create it in DoFn.setup() or inside the function, "
    "from plain values such as a URL or a path; a function cannot use the SparkSession: read DataFrames with "
    "dm.io.ReadDataFrame, and write with dm.io.WriteParquet or dm.io.WriteTable"
)


def check_functions(plan: Plan) -> None:
    """Reject a plan with a transform that cannot be sent to workers.

    Raises:
        PlanError: with the label of the first one.
    """
    for node in plan.nodes:
        try:
            dump_by_value(node)
        except BaseException as error:
            raise PlanError(
                f"{node.label!r} cannot be sent to workers: {_said(error)}", hint=_way_out(error)
            ) from error


def unpicklable_program(error: BaseException) -> PlanError:
    """Return the error for a program that cannot be pickled although each of its transforms can."""
    return PlanError(f"the values of a side input cannot be sent to workers: {_said(error)}", hint=_way_out(error))


def unpicklable_element(label: str, values: Iterable[Any], error: BaseException) -> InvalidType:
    """Return the error for elements one of which cannot be pickled.

    Args:
        label: the transform to which they are sent.
        values: the elements.
        error: the error that was raised.
    """
    culprit = next((value for value in values if _fails(value)), None)
    return InvalidType(
        f"an element cannot be pickled on its way to a transform: {_said(error)}\n  transform: {label!r}\n"
        f"  element: {shown(culprit)}",
        hint=_way_out(error, "emit plain values; "),
    )


def unpicklable_ahead(outputs: Mapping[Ref, Kept], error: BaseException) -> PlanError:
    """Return the error for collections that were computed ahead of a stream, one of which cannot be pickled.

    Args:
        outputs: the collections.
        error: the error that was raised.
    """
    label, culprit = next(
        ((ref.label, value) for ref, kept in outputs.items() for value in kept.bundle.values if _fails(value)),
        ("", None),
    )
    return PlanError(
        f"{label!r} feeds a static side input, whose values a stream keeps in its checkpoint, and {shown(culprit)} "
        f"cannot be pickled: {_said(error)}",
        hint=_way_out(error),
    )


def unpicklable_state(label: str, error: BaseException) -> InvalidType:
    """Return the error for a transform whose state cannot be pickled."""
    return InvalidType(
        f"the state of a transform cannot be pickled: {_said(error)}\n  transform: {label!r}",
        hint=_way_out(error, "keep plain values in state and accumulators; "),
    )


def _fails(value: Any) -> bool:
    try:
        dump(value)
    except BaseException as error:
        if is_interrupt(error):
            raise
        return True
    return False


def _way_out(error: BaseException, plain: str = "") -> str:
    """Return the hint for what was raised while something was pickled."""
    if isinstance(error, RecursionError):
        return (
            "the value is nested too deep, or refers to itself through a __reduce__ of its own: keep lists in lists to "
            "some hundred levels, for example as a flat list of (parent, value) pairs"
        )
    if isinstance(error, MemoryError):
        return (
            "the process is out of memory, and a pickle needs the size of its value once more: emit smaller values, "
            "such as one element for each part, or give the process more memory"
        )
    return plain + _INSTEAD


def _said(error: BaseException) -> str:
    """Return what the user's `__reduce__` has raised; Ctrl-C is raised again."""
    if is_interrupt(error):
        raise error
    return f"{type(error).__name__}: {error}"
