"""Sinks of one pipeline must not share a directory, nor write to one that a source of the pipeline follows."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from dataflow_model.errors import PlanError
from dataflow_model.plan.nodes import Read, Write

if TYPE_CHECKING:
    from dataflow_model.plan.graph import Plan

__all__ = ["check_sink_places"]


def check_sink_places(plan: Plan) -> None:
    """Raise `PlanError` if the sinks of a pipeline would disturb each other, or feed its sources.

    Two sinks must not write to the same directory, since each would take the other's commits for its own, and none
    where another keeps internal files. A directory inside another sink's is allowed, unless it is in a part that is
    hidden from readers, whose name begins with `_`. A sink must not write where a source of the pipeline follows
    files. Paths are compared after resolving symbolic links.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> for label in ("first", "second"):
        ...     _ = p | f"{label} rows" >> dm.Create([1]) | label >> dm.io.WriteJson("/nowhere/out")
        >>> check_sink_places(p.plan())
        Traceback (most recent call last):
        ...
        dataflow_model.errors.PlanError: 'first' and 'second' both write to /nowhere/out, so each would mistake the
            other's commits for its own
        Hint: give each sink its own directory, or merge the collections with dm.Flatten() and use one sink
    """
    places: list[tuple[str, str]] = []
    for node in plan.nodes:
        place = node.sink.place() if isinstance(node, Write) else None
        if place is not None:
            places.append((node.label, os.path.normcase(os.path.realpath(place))))
    for read, (label, place) in itertools.product(plan.nodes, places):
        if isinstance(read, Read) and read.source.follows(place):
            raise PlanError(
                f"{label!r} writes to {place}, which {read.label!r} follows, so the pipeline would read its own output",
                hint=f"let {label!r} write to a directory outside of the folder that is followed",
            )
    for (label, place), (other, other_place) in itertools.permutations(places, 2):
        if place == other_place:
            raise PlanError(
                f"{label!r} and {other!r} both write to {place}, so each would mistake the other's commits for its own",
                hint="give each sink its own directory, or merge the collections with dm.Flatten() and use one sink",
            )
        if Path(other_place).is_relative_to(place) and Path(other_place).relative_to(place).parts[0].startswith("_"):
            raise PlanError(
                f"{other!r} writes to {other_place}, which is reserved for the internal files of {label!r}",
                hint=f"give {other!r} its own directory",
            )
