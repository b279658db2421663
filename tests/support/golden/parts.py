"""What several kinds of drawn pipelines have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import dataflow_model as dm
from tests.support.laws.chains import KEYS
from tests.support.spec.drawing import SILENT, STEPS, script

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dataflow_model.testing import TestStream
    from dataflow_model.testing.chains import Chain
    from tests.support.spec.drawing import Pick

    Built = tuple[tuple[Any, ...], Callable[[dm.Pipeline, Path], Any]]
    """What was drawn, and what adds it to a pipeline that may keep files in a folder."""

__all__ = ["LEAVES", "apply", "collect", "long_script"]

LEAVES: Final = (
    "AfterWatermark",
    "DefaultTrigger",
    "AfterCount",
    "AfterProcessingTime",
    "AfterEventTime",
    "AtPeriod",
    "AtPeriod in event time",
    "AfterBytes",
    "AfterPunctuation",
    "Always",
    "Never",
    "a DataTrigger",
    "a user's that peeks",
    "a user's with a timer",
    "a user's with a timer in event time",
    "a user's with modes",
    SILENT,
    "AfterSignal",
    "AfterWatermark of a percentile",
)
"""The leaves of drawn trigger trees. A new trigger may be missing here: adding one draws other pipelines, whose digests
then have to be written anew."""


def long_script(pick: Pick) -> TestStream:
    """Draw a script whose keys are on different shards."""
    return script(pick, STEPS, keys=pick(KEYS), lengths=range(6, 27))


def apply(groupings: Chain, pcoll: Any) -> Any:
    """Apply groupings, keep the panes of each, and return those of the last one."""
    for label, grouping in zip(groupings.labels, groupings.groupings, strict=True):
        pcoll = grouping.apply(pcoll, label)
        collect(pcoll, f"{label} panes")
    return pcoll


def collect(pcoll: Any, label: str) -> None:
    """Keep the elements of a collection."""
    _ = pcoll | label >> dm.io.Collect()
