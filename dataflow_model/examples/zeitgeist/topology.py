"""Zeitgeist as a topology: three computations and the streams between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import dataflow_model as dm
from dataflow_model.examples.zeitgeist.counting import WindowCounter
from dataflow_model.examples.zeitgeist.detection import SpikeDipDetector
from dataflow_model.examples.zeitgeist.model import ModelCalculator
from dataflow_model.examples.zeitgeist.scenario import CENTRES

if TYPE_CHECKING:
    from pathlib import Path

    from dataflow_model.examples.zeitgeist.values import Calendar

OUT_OF_ORDER: Final = dm.duration("2 seconds")
"""How far out of order the records of a data centre are, apart from stragglers."""
_REDELIVERED_WITHIN: Final = dm.duration("90 seconds")


class Searches(dm.PTransform):
    """Read the records of a history, each once: a repeated delivery is dropped by its id.

    Args:
        path: the Parquet file.
        by_centre: whether each data centre has its own watermark. The watermark of the input is then their minimum,
            and does not advance while a data centre is cut off.
    """

    input_kind = "pipeline"

    def __init__(self, path: Path, *, by_centre: bool = True) -> None:
        self._path = path
        self._by_centre = by_centre

    def expand(self, pcoll: Any) -> dm.PCollection:
        """Read the records, and drop repeated deliveries."""
        origins: dict[str, Any] = {"watermark_origin": "centre", "partitions": CENTRES} if self._by_centre else {}
        records = pcoll | dm.io.ReadParquet(
            self._path,
            event_time="asked",
            processing_time="seen",
            watermark=dm.BoundedOutOfOrderness(OUT_OF_ORDER),
            **origins,
        )
        once: dm.PCollection = records | dm.Deduplicate(lambda record: record.id, horizon=_REDELIVERED_WITHIN)
        return once


def zeitgeist(searches: dm.PTransform, calendar: Calendar, learning_days: int = 2) -> dm.Topology:
    """Return the topology, which collects `anomalies`, `late`, and the streams in between.

    Example:
        >>> from dataflow_model.examples.zeitgeist import Calendar
        >>> print(zeitgeist(dm.Create([]), Calendar(slot_seconds=15, slots=20)).draw())
        flowchart LR
        ...
    """
    topology = dm.Topology("zeitgeist")
    topology.inject("queries", searches)
    topology.add(
        WindowCounter(forget=calendar.day_seconds),
        subscribe={"queries": lambda record: record.query},
        produces=["counts", "buckets", "late"],
    )
    topology.add(
        ModelCalculator(calendar, learning_days),
        subscribe={"buckets": lambda bucket: bucket.query},
        produces=["expectations"],
    )
    topology.add(
        SpikeDipDetector(calendar),
        subscribe={
            "counts": lambda bucket: bucket.query,
            "buckets": lambda bucket: bucket.query,
            "expectations": lambda expectation: expectation.query,
        },
        produces=["anomalies"],
    )
    for stream in ("anomalies", "late", "buckets", "expectations"):
        topology.sink(stream, dm.io.Collect())
    return topology
