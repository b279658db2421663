"""The directories of sinks: two sinks must not share one, none may write where a source follows files or change it."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dataflow_model.errors import PlanError
from dataflow_model.plan.logical.fingerprint import stable_repr
from dataflow_model.plan.logical.nodes import Read, Write

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.plan.logical.graph import Plan

_LOCATION_OPTIONS: Final = ("path", "database", "table")
"""The options of sinks that decide where their output goes; the others decide its form."""


def check_sink_directories(plan: Plan) -> None:
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
        >>> check_sink_directories(p.plan())
        Traceback (most recent call last):
        ...
        dataflow_model.errors.PlanError: 'first' and 'second' both write to /nowhere/out, so each would mistake the
            other's commits for its own
        Hint: give each sink its own directory, or merge the collections with dm.Flatten() and use one sink
    """
    directories: list[tuple[str, str]] = []
    for node in plan.nodes:
        directory = node.sink.directory() if isinstance(node, Write) else None
        if directory is not None:
            directories.append((node.label, os.path.normcase(os.path.realpath(directory))))
    for read, (label, directory) in itertools.product(plan.nodes, directories):
        if isinstance(read, Read) and read.source.follows(directory):
            raise PlanError(
                f"{label!r} writes to {directory}, which {read.label!r} follows, so the pipeline would read its own "
                "output",
                hint=f"let {label!r} write to a directory outside of the folder that is followed",
            )
    for (label, directory), (other, other_directory) in itertools.permutations(directories, 2):
        if directory == other_directory:
            raise PlanError(
                f"{label!r} and {other!r} both write to {directory}, so each would mistake the other's commits for its "
                "own",
                hint="give each sink its own directory, or merge the collections with dm.Flatten() and use one sink",
            )
        inner = Path(other_directory)
        if inner.is_relative_to(directory) and inner.relative_to(directory).parts[0].startswith("_"):
            raise PlanError(
                f"{other!r} writes to {other_directory}, which is reserved for the internal files of {label!r}",
                hint=f"give {other!r} its own directory",
            )


def destinations(plan: Plan) -> dict[str, dict[str, str]]:
    """Return for each sink what decides where its output goes and in which form; see `Sink.destination`.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create([1]) | "out" >> dm.io.WriteJson("/nowhere/out")
        >>> destinations(p.plan())["out"]["path"]
        "'/nowhere/out'"
    """
    return {
        node.label: {name: stable_repr(value) for name, value in node.sink.destination().items()}
        for node in plan.nodes
        if isinstance(node, Write)
    }


def change_of_destination(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """Return how the destination of a sink has changed, in the words of users; `None` if it has not.

    Example:
        >>> change_of_destination({"path": "'out'", "panes": "False"}, {"path": "'new'", "panes": "False"})
        "wrote to path='out'; it would write to path='new' now, and the output in the old location would stay there"
        >>> change_of_destination({"panes": "False"}, {"panes": "True"})
        'wrote with panes=False; it would write with panes=True now, beside the output in the old form'
    """
    changed = [
        name for name in (*before, *(name for name in now if name not in before)) if before.get(name) != now.get(name)
    ]
    if not changed:
        return None
    was, is_now = (", ".join(f"{name}={of[name]}" for name in changed if name in of) for of in (before, now))
    if set(changed).isdisjoint(_LOCATION_OPTIONS):
        return f"wrote with {was}; it would write with {is_now} now, beside the output in the old form"
    return f"wrote to {was}; it would write to {is_now} now, and the output in the old location would stay there"
