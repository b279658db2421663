"""What a run of a drawn pipeline has shown, as text that is the same in each process, and digests of it."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow.parquet as pq

from tests.support.golden.drawing import sinks_of
from tests.support.golden.files import OUT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.graph import Plan

__all__ = ["Outcome", "digest", "outcome_of", "row_of", "text_of"]

DROPPED: Final = re.compile("dropped|possible_session_splits")
"""The counters of what is lost."""


@attrs.frozen
class Outcome:
    """What a run has shown, as lines of text.

    Attributes:
        panes: all that a sink can tell of its records, in order, sink by sink; and the rows of files, sorted.
        drops: the counters of what was dropped, by transform.
        metrics: all counters that are not 0.
    """

    panes: list[str]
    drops: list[str]
    metrics: list[str]


def outcome_of(plan: Plan, result: Any, folder: Path, scope: str = "") -> Outcome:
    """Return the outcome of a finished run.

    Args:
        plan: the plan of one pipeline.
        result: the result of its run.
        folder: where the pipeline keeps its files.
        scope: what the labels of the run have before those of the plan, for a pipeline that is one of several in a run.
    """
    panes = [f"{label}: {row_of(record)}" for label in sinks_of(plan) for record in result.collected(f"{scope}{label}")]
    metrics = result.metrics()
    counted = {node.label: metrics.get(f"{scope}{node.label}", {}) for node in plan.nodes}
    counters = [
        (name, f"{label}: {name} {count}")
        for label, counts in counted.items()
        for name, count in sorted(counts.items())
        if count
    ]
    drops = [line for name, line in counters if DROPPED.search(name)]
    return Outcome(panes + _written(folder / OUT), drops, [line for _, line in counters])


def digest(lines: Iterable[str]) -> str:
    """Return a short digest of lines."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]


def row_of(record: Record) -> str:
    """Return all that a sink can tell of a record."""
    pane = record.pane
    parts = [
        text_of(record.value),
        repr(record.window),
        f"at {int(record.event_time)}",
        f"clock {int(record.processing_time)}",
        f"{pane.timing.name} {pane.index} {pane.on_time_index} {pane.is_first} {pane.is_last} {pane.trigger}",
        "retraction" if record.is_retraction else "",
    ]
    return re.sub(r" at 0x[0-9a-f]+", "", " | ".join(parts))


def text_of(value: Any) -> str:
    """Return a value as text: floats to nine digits, lists, sets and dicts sorted, as grouping promises no order.

    Example:
        >>> text_of({"b": [2, 1], "a": 0.1 + 0.2})
        "{'a': 0.3, 'b': [1, 2]}"
    """
    match value:
        case float():
            return f"{value:.9g}"
        case list():
            return f"[{', '.join(sorted(map(text_of, value)))}]"
        case tuple():
            return f"({', '.join(map(text_of, value))})"
        case set() | frozenset():
            return f"set({', '.join(sorted(map(text_of, value)))})"
        case dict():
            return f"{{{', '.join(sorted(f'{text_of(key)}: {text_of(it)}' for key, it in value.items()))}}}"
    if attrs.has(type(value)):
        fields = [text_of(getattr(value, field.name)) for field in attrs.fields(type(value))]
        return f"{type(value).__name__}({', '.join(fields)})"
    return repr(value)


def _written(folder: Path) -> list[str]:
    """Return the rows of the files that a pipeline has written, in no order, in whatever files they are."""
    rows: list[str] = []
    for file in folder.rglob("*.*") if folder.is_dir() else ():
        if any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts):
            continue
        match file.suffix:
            case ".json":
                rows += file.read_text(encoding="utf-8").splitlines()
            case ".csv":
                rows += file.read_text(encoding="utf-8").splitlines()[1:]
            case ".parquet":
                rows += [json.dumps(row, default=str) for row in pq.read_table(file).to_pylist()]
    return [f"file: {row}" for row in sorted(rows)]
