"""Transforms of Beam's in whose place this package's own run, with the same results."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners import pipeline_context
from apache_beam.transforms import core

from dataflow_model.errors import InvalidArgument
from dataflow_model.runners.beam.assigning import WINDOW_INTO, assigner_of

if TYPE_CHECKING:
    from collections.abc import Iterable


class Override(enum.StrEnum):
    """An override, named as the transform that it replaces."""

    WINDOW_INTO = "WindowInto"


def all_but(names: Iterable[str]) -> frozenset[Override]:
    """Return the overrides that are not switched off.

    Args:
        names: the names of those that are.

    Raises:
        InvalidArgument: for a name that is not one of an override.

    Example:
        >>> all_but(["WindowInto"])
        frozenset()
    """
    known = {override.value: override for override in Override}
    for name in names:
        if name not in known:
            raise InvalidArgument(
                f"`dm_without_override` must be the name of an override, got {name!r}",
                hint=f"pass one of {', '.join(map(repr, known))}",
            )
    return frozenset(Override) - {known[name] for name in names}


def apply_to(pipeline: Any, overrides: frozenset[Override]) -> None:
    """Change the kinds of those transforms in Beam's description of a pipeline that others run in place of Beam's."""
    if Override.WINDOW_INTO not in overrides:
        return
    context = pipeline_context.PipelineContext(pipeline.components)
    for transform in pipeline.components.transforms.values():
        if transform.spec.urn == common_urns.primitives.ASSIGN_WINDOWS.urn:
            strategy = beam_runner_api_pb2.WindowingStrategy.FromString(transform.spec.payload)
            if assigner_of(core.Windowing.from_runner_api(strategy, context).windowfn) is not None:
                transform.spec.urn = WINDOW_INTO
