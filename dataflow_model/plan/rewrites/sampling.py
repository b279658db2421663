"""A sample of one collection: the part of a plan that computes it, on the first rows of each source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.endpoints.message_sinks import CollectSink
from dataflow_model.plan.logical.graph import main_inputs, outputs_of
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, ParDo, Read, Ref, Write

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from dataflow_model.plan.columns.source_columns import BadRow, Columns
    from dataflow_model.plan.columns.time_units import TimeUnit
    from dataflow_model.plan.endpoints.origins import Origin
    from dataflow_model.plan.endpoints.sources import Source
    from dataflow_model.plan.functions.dofn import DeadLetter
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.watermarks.estimators import Arrival, WatermarkEstimator
    from dataflow_model.plan.watermarks.origins import WatermarkOrigins

SAMPLE = "sample"
"""The label of the sink that collects a sample."""


def sample_of(plan: Plan, ref: Ref, rows: int | None) -> Plan:
    """Return the plan that collects a collection as `SAMPLE`, from the first rows of each source.

    Unbounded sources end there too. Scripts are kept whole, since they are tests in which the order of events matters.

    Args:
        plan: the plan that computes the collection.
        ref: the collection.
        rows: the maximum number of rows or elements to read from each source; `None` for all that are there now.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> numbers = p | dm.Create(range(1_000_000))
        >>> _ = numbers | dm.Map(str) | dm.io.Collect()
        >>> [node.label for node in sample_of(p.plan(), numbers.ref, 10).nodes]
        ['Create', 'sample']
    """
    needed = {ref}
    nodes = []
    for node in reversed(plan.nodes):
        if needed.isdisjoint(outputs_of(node)) or isinstance(node, Write):
            continue
        needed.update(node.inputs)
        nodes.append(attrs.evolve(node, source=_first_rows(node.source, rows)) if isinstance(node, Read) else node)
    sink = Write(label=SAMPLE, input=ref, sink=CollectSink())
    return attrs.evolve(plan, nodes=(*reversed(nodes), sink))


def combines_a_part(plan: Plan, ref: Ref, rows: int | None) -> bool:
    """Return whether elements of a collection are made of several others, and some of these are not in the sample.

    So it is behind a grouping, a stateful function and a side input, if a source has more rows than are read.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> numbers = p | dm.Create(range(1_000))
        >>> total = numbers | dm.CombineGlobally(sum)
        >>> [combines_a_part(p.plan(), ref, 999) for ref in (numbers.ref, total.ref)]
        [False, True]
        >>> combines_a_part(p.plan(), total.ref, 1_000)
        False
    """
    if rows is None:
        return False
    inputs, seen, combined = [(ref, False)], set(), []
    while inputs:
        ref, behind = inputs.pop()
        if (ref, behind) in seen:
            continue
        seen.add((ref, behind))
        node = plan[ref.label]
        if isinstance(node, Read) and behind:
            combined.append(node)
        behind |= isinstance(node, GroupByKeyAndWindow) or (isinstance(node, ParDo) and node.is_stateful)
        sides = {side.ref for side in node.side_inputs} if isinstance(node, ParDo) else set()
        inputs += [(before, behind) for before in main_inputs(node)]
        inputs += [(side, True) for side in sides]
    return any(_has_more_rows(node.source, rows) for node in combined)


def _has_more_rows(source: Source, rows: int) -> bool:
    """Return whether a source has more rows, or may have more."""
    columns, elements = source.as_columns, source.as_elements
    if columns is None:
        return elements is not None and len(elements.elements) > rows
    # An origin that does not know its number of rows is listed with as many as are asked for.
    return sum(origin.row_count for origin in columns.bound().first_origins(rows + 1)) > rows


def _first_rows(source: Source, rows: int | None) -> Source:
    if rows is None and source.is_bounded:
        return source
    columns, elements = source.as_columns, source.as_elements
    if columns is not None:
        bound = columns.bound()
        return _FirstRows(
            bound,
            tuple(bound.first_origins(rows)),
            bound.event_time,
            bound.processing_time,
            bound.watermark,
            bound.watermark_origins,
            bound.id_columns,
            bound.event_time_unit,
        )
    if elements is not None:
        times = None if elements.event_times is None else elements.event_times[:rows]
        return attrs.evolve(elements, elements=elements.elements[:rows], event_times=times)
    return source


@attrs.frozen(eq=False)
class _FirstRows(ColumnSource):
    """The first rows of a source, as a bounded source."""

    source: ColumnSource
    listed: tuple[Origin, ...]
    event_time: str | Arrival | None
    processing_time: str | None
    watermark: WatermarkEstimator
    watermark_origins: WatermarkOrigins
    id_columns: tuple[str, ...]
    event_time_unit: TimeUnit | None

    @property
    def position_column(self) -> str | None:
        """The column of positions that the source has."""
        return self.source.position_column

    def origins(self) -> list[Origin]:
        """Return the origins that contain the first rows."""
        return list(self.listed)

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Read rows of an origin, up to the last row of the sample."""
        (listed,) = (listed for listed in self.listed if listed.name == origin)
        limits = [limit for limit in (stop, listed.rows and listed.first + listed.rows) if limit is not None]
        return self.source.read(origin, start, min(limits, default=None))

    def schema(self) -> pa.Schema:
        """Return the columns' names and types."""
        return self.source.schema()

    def row_type(self) -> type:
        """Return the type of the rows."""
        return self.source.row_type()

    def columns_of(self, batch: pa.RecordBatch) -> Columns:
        """Split a batch as the source does."""
        return self.source.columns_of(batch)

    def positions_in(self, batch: pa.RecordBatch, row: int) -> NDArray[np.int64]:
        """Return the positions that the rows have in the source."""
        return self.source.positions_in(batch, row)

    def check_version(self, origin: str, version: tuple[int | str, ...]) -> None:
        """Check that an origin is the one that was listed."""
        self.source.check_version(origin, version)

    def dead_letter(self, label: str, origin: str, start: int, bad: BadRow) -> DeadLetter:
        """Return a bad row as the source does."""
        return self.source.dead_letter(label, origin, start, bad)
