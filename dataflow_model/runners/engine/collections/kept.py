"""Collections that were computed ahead of a run and are read in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import attrs
import numpy as np

from dataflow_model.plan.logical.ahead import KeptSource
from dataflow_model.plan.logical.graph import outputs_of
from dataflow_model.plan.logical.nodes import MAIN
from dataflow_model.runners.engine.collections.sink_records import records_of
from dataflow_model.runners.engine.lanes.bundle import Bundle, all_joined
from dataflow_model.runners.engine.lanes.lanes import joined, taken
from dataflow_model.runners.engine.lanes.order import at_instant, name_of_origin, of_rows
from dataflow_model.runners.engine.lanes.order_lanes import InstantLane
from dataflow_model.runners.engine.lanes.watermarks import MIN_WATERMARKS, WatermarkLane

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.endpoints.sources import Source
    from dataflow_model.plan.logical.nodes import Read
    from dataflow_model.runners.engine.lanes.order import At


@attrs.frozen(eq=False)
class Course:
    """The watermark of a collection at the instants of its sources.

    Attributes:
        at: the instants, in order: ticks (step 0), and the ends of sources after their last tick (step 1).
        watermarks: the watermarks at each instant.
    """

    at: InstantLane
    watermarks: WatermarkLane

    @classmethod
    def joined(cls, parts: Sequence[Course]) -> Self:
        """Return one course after the other."""
        at = InstantLane.joined([part.at for part in parts])
        return cls(at, WatermarkLane.joined([part.watermarks for part in parts]))

    def clocks(self, step: int) -> NDArray[np.int64]:
        """Return the values of the clock at instants with this step."""
        return self.at.clocks[np.flatnonzero(self.at.steps == step)]

    def reached(self, at: InstantLane, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the low watermark at some instants, and `count` percentiles in columns."""
        indices = np.searchsorted(self.at.numbers(), at.numbers(), side="right")
        first = WatermarkLane.standing(MIN_WATERMARKS, 1)
        reached = WatermarkLane.joined([first, self.watermarks]).taken(indices)
        return reached.low, reached.further(count)


@attrs.frozen(eq=False)
class Kept:
    """A collection: its elements in order, each with its instant.

    Attributes:
        bundle: the elements; their orders are those in the input of a sink.
        at: the instant of each element.
        course: the watermark at each instant, if the collection comes from sources with a replay clock.
    """

    bundle: Bundle
    at: Sequence[At]
    course: Course | None = None

    def __len__(self) -> int:
        return len(self.bundle)

    @classmethod
    def of(cls, parts: Sequence[tuple[Bundle, Sequence[At]]], course: Course | None = None) -> Self:
        """Return the elements of several bundles, one after the other."""
        parts = [part for part in parts if len(part[0])]
        at = joined(*(instants for _, instants in parts)) if parts else ()
        return cls(all_joined([bundle for bundle, _ in parts]), at, course)

    def in_order(self) -> Kept:
        """Return the collection with its elements in order."""
        keys = [at_instant(at, order) for at, order in zip(self.at, self.bundle.orders, strict=True)]
        rows = sorted(range(len(keys)), key=keys.__getitem__)
        return attrs.evolve(self, bundle=self.bundle.take(rows), at=taken(self.at, rows))

    def records(self) -> Sequence[Record]:
        """Return the elements as records, one for each window."""
        return records_of(self.bundle, self.at)

    def numbers(self) -> NDArray[np.int64]:
        """Return the number of the instant of each element; see `InstantLane.numbers`."""
        return InstantLane.of(self.at).numbers()

    def numbered(self, origin: str) -> Bundle:
        """Return the elements as those of a source, numbered from 0.

        Args:
            origin: the name by which they are ordered among other elements.
        """
        orders: Any = of_rows(origin, range(len(self.bundle)))
        return attrs.evolve(self.bundle, orders=orders)


def kept_outputs(read: Read) -> Iterator[tuple[str, str, Kept]]:
    """Yield the collections of a kept source: the tag, the name of the origin of its elements, and the collection."""
    assert isinstance(read.source, KeptSource)  # noqa: S101 - the caller has checked
    for ref in outputs_of(read):
        kept: Kept | None = read.source.kept.get(ref.tag)
        if kept is not None:
            yield ref.tag, read.label if ref.tag == MAIN else name_of_origin(read.label, ref.tag), kept


def course_of(source: Source) -> Course | None:
    """Return the recorded course of a source's watermark; `None` if it is estimated, or ends at the first tick."""
    if not isinstance(source, KeptSource) or not source.has_own_clock:
        return None
    return next((kept.course for kept in source.kept.values()), None)
