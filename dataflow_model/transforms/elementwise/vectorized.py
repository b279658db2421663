"""Functions on columns: what they may request, and which columns they receive."""

from __future__ import annotations

import inspect
import types
import typing
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.columns.type_schemas import schema_from_type
from dataflow_model.plan.functions.dofn import VectorizedFilterFn
from dataflow_model.plan.logical.nodes import MAIN, AssignTimestamps, AssignWindows, ParDo, Read
from dataflow_model.transforms.pipelines.typehints import type_name

if TYPE_CHECKING:
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Ref
    from dataflow_model.transforms.pipelines.pcollection import PCollection


def check_vectorized(node: ParDo) -> None:
    """Reject requests that a function on columns cannot make.

    Raises:
        InvalidArgument: for state and timers, metadata, side inputs, tagged outputs and memoised outputs.
        InvalidType: for a parameter that is annotated as another type of batch.
    """
    fn, label = node.fn, node.label
    asked = {
        "keeps state": node.is_stateful,
        f"asks for {', '.join(map(repr, node.metadata))}": bool(node.metadata),
        "has side inputs": bool(node.side_inputs),
        f"has the outputs {', '.join(map(repr, node.tags))}": bool(node.tags),
        "keeps its outputs for retractions": node.retractable == "memoised",
    }
    for what, does in asked.items():
        if does:
            raise InvalidArgument(
                f"{label!r} works on columns and {what}, which only a function that sees single elements can do",
                hint="define `process(self, element, …)` alone, or use a transform without vectorized=True for this",
            )
    user = fn.user_function() if not fn.takes_elements else fn.process_batch
    wanted = _first_annotation(user)
    if isinstance(wanted, type) and not issubclass(pa.RecordBatch, wanted):
        raise InvalidType(
            f"{label!r} is given a pyarrow.RecordBatch for each batch, but takes {type_name(wanted)}",
            hint='take a pa.RecordBatch; a column is batch["value"], and batch["value"].to_numpy() a NumPy array',
        )


def columns_given(collection: PCollection, node: ParDo) -> pa.Schema | None:
    """Return the columns that a function on columns receives; `None` if its input already is in columns.

    Raises:
        InvalidType: if the elements' type does not say what columns they have, and they are not in columns.
    """
    schema = schema_from_type(collection.element_type)
    if schema is not None and len(schema):
        return schema
    if node.fn.takes_elements or _comes_in_columns(collection.pipeline.plan(), collection.ref):
        return None
    raise InvalidType(
        f"{node.label!r} works on columns, but nothing says what columns the elements of {collection!r} have",
        hint="declare their type on the step before: .with_output_types(T), where T is int, tuple[str, float] or a "
        "NamedTuple, for example",
    )


def _comes_in_columns(plan: Plan, ref: Ref) -> bool:
    """Return whether every runner has a collection in columns, since a source or a function on columns produces it."""
    if ref.tag != MAIN:
        return False
    match plan[ref.label]:
        case Read() as node:
            return node.source.as_columns is not None
        case AssignWindows() | AssignTimestamps() as node:
            return _comes_in_columns(plan, node.input)
        case ParDo() as node if isinstance(node.fn, VectorizedFilterFn):
            return _comes_in_columns(plan, node.input)
        case ParDo() as node:
            return not node.fn.takes_elements
        case _:
            return False


def _first_annotation(function: Any) -> Any:
    """Return the annotation of a function's first parameter; `None` if it has none, or it cannot be evaluated."""
    try:
        first = next(iter(inspect.signature(function).parameters))
        plain = inspect.unwrap(getattr(function, "__func__", function))
        alone = types.SimpleNamespace(__annotations__={first: plain.__annotations__[first]})
        return typing.get_type_hints(alone, plain.__globals__)[first]
    except Exception:  # noqa: BLE001 - builtins without a signature, names that exist for type checkers alone
        return None
