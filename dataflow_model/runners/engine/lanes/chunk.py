"""Chunks: the events of consecutive instants, in the form in which stages receive them and pass them on.

A stage runs a whole chunk before the next stage starts on it. The results do not depend on the chunks: a run emits the
same output in the same order wherever it is cut.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeAlias

import attrs
import numpy as np

from dataflow_model.runners.engine.lanes.bundle import Bundle, all_joined
from dataflow_model.runners.engine.lanes.lanes import Integers, Repeated, array_of, joined, taken
from dataflow_model.runners.engine.lanes.order import sorting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa

    from dataflow_model.runners.engine.lanes.order import At
    from dataflow_model.runners.engine.lanes.pane_tables import PaneTable
    from dataflow_model.runners.engine.lanes.watermarks import Watermarks

Partials: TypeAlias = "Sequence[tuple[pa.Table, int]]"
"""Tables of partials for a lifted grouping, each with its number of elements."""


@attrs.frozen
class Instants:
    """Consecutive instants.

    Attributes:
        clocks: the processing clock at each instant.
        closes: whether each instant completes its tick, so that timers at the clock's own time fire.
        signals: by index, the names of the signals that take effect at the start of an instant.
        drains: whether the run is being drained, so that functions end the work that is left.
    """

    clocks: Sequence[int]
    closes: Sequence[bool]
    signals: Mapping[int, Collection[str]] = attrs.field(factory=dict)
    drains: bool = False

    def __len__(self) -> int:
        return len(self.clocks)


@attrs.define
class PlacedBundle:
    """Elements of one collection, each with its instant.

    Attributes:
        bundle: the elements.
        indices: for each element, the index of its instant in the chunk, from 0.

    Example:
        >>> placed = PlacedBundle()
        >>> placed.add(1, Bundle.fresh(["b"], [0], [("rows", 1)], 0))
        >>> placed.add(0, Bundle.fresh(["a"], [0], [("rows", 0)], 0))
        >>> [(index, bundle.values) for index, bundle in placed.in_order().runs()]
        [(0, ['a']), (1, ['b'])]
    """

    bundle: Bundle = attrs.field(factory=Bundle)
    indices: Sequence[int] = attrs.field(factory=list)

    def __len__(self) -> int:
        return len(self.indices)

    @classmethod
    def joined(cls, parts: Sequence[PlacedBundle]) -> PlacedBundle:
        """Return the elements of some bundles, at least one, which may be reused for it."""
        first, *others = [part.indices for part in parts]
        return cls(all_joined([part.bundle for part in parts]), joined(first, *others))

    def add(self, index: int, bundle: Bundle) -> None:
        """Add elements of one instant."""
        self.bundle.extend(bundle)
        self.indices = joined(self.indices, [index] * len(bundle))

    def extend(self, *others: PlacedBundle) -> None:
        """Add all elements of other bundles, at once: each call copies what is already there."""
        self.bundle.extend(*(other.bundle for other in others))
        self.indices = joined(self.indices, *(other.indices for other in others))

    def in_order(self) -> PlacedBundle:
        """Return the elements sorted by instant, and by order within it; the bundle itself if sorted already."""
        rows = sorting(self.bundle.orders, self.indices)
        return self if rows is None else PlacedBundle(self.bundle.take(rows), taken(self.indices, rows))

    def sliced(self, start: int, stop: int) -> PlacedBundle:
        """Return the elements of the instants `[start, stop)`, with indices from 0; they must be sorted by instant."""
        indices = array_of(self.indices)
        first, last = np.searchsorted(indices, [start, stop]).tolist()
        return PlacedBundle(self.bundle.sliced(first, last), Integers(indices[first:last] - start))

    def runs(self) -> Iterator[tuple[int, Bundle]]:
        """Yield the index of each instant with its elements, which must be sorted by instant."""
        indices = array_of(self.indices)
        bounds = [0, *(np.flatnonzero(indices[1:] != indices[:-1]) + 1).tolist(), len(indices)]
        if len(bounds) == 2 and len(indices):  # noqa: PLR2004 - one instant has all
            yield int(indices[0]), self.bundle
            return
        for start, stop in itertools.pairwise(bounds):
            if start < stop:
                yield int(indices[start]), self.bundle.sliced(start, stop)

    def instants(self, at: Sequence[At]) -> Sequence[At]:
        """Return the instant of each element.

        Args:
            at: the instants of the chunk.
        """
        if len(at) == 1:
            return Repeated(at[0], len(self.indices))
        return taken(at, self.indices)


@attrs.frozen
class SideChunk:
    """The part of a chunk that belongs to a changing side input.

    Attributes:
        elements: its elements by the index of their instant, in order.
        watermarks: its watermarks at each instant.
    """

    elements: Mapping[int, Bundle]
    watermarks: Sequence[Watermarks]


@attrs.frozen
class Chunk:
    """The part of a chunk that belongs to one keyed node.

    Attributes:
        instants: the instants.
        elements: the elements of its input, in order.
        watermarks: the watermarks of its input at each instant, which never go backward.
        partials: by index, the partials for a lifted grouping.
        sides: the parts of its changing side inputs.
    """

    instants: Instants
    elements: PlacedBundle
    watermarks: Sequence[Watermarks]
    partials: Mapping[int, Partials] = attrs.field(factory=dict)
    sides: Sequence[SideChunk] = ()


@attrs.frozen
class Bucket:
    """The input that one keyed node receives at once in a bounded job: all elements of some keys.

    Attributes:
        elements: the elements, in any order.
        partials: the partials for a lifted grouping.
    """

    elements: Bundle = attrs.field(factory=Bundle)
    partials: list[tuple[pa.Table, int]] = attrs.field(factory=list)


@attrs.define
class Produced:
    """The output of one keyed node for a chunk; the output for a bucket is at a single instant.

    Attributes:
        outputs: by tag, the elements, sorted by instant.
        panes: panes in columns, each table with the index of its instant.
        watermarks: the greatest values that this shard allows for the output's watermarks after each instant; a bucket
            has none.
    """

    outputs: dict[str, PlacedBundle] = attrs.field(factory=dict)
    panes: list[tuple[int, PaneTable]] = attrs.field(factory=list)
    watermarks: Sequence[Watermarks] = attrs.field(factory=list)

    def add(self, index: int, outputs: Mapping[str, Bundle]) -> None:
        """Add the outputs of one instant, by tag."""
        for tag, bundle in outputs.items():
            if bundle:
                self.outputs.setdefault(tag, PlacedBundle()).add(index, bundle)


def add_arrived(arrivals: dict[str, PlacedBundle], cut: str, placed: PlacedBundle) -> None:
    """Add elements that have arrived at a cut, and belong to the caller; the first bundle keeps its columns."""
    if cut in arrivals:
        arrivals[cut].extend(placed)
    else:
        arrivals[cut] = placed
