"""Elements on their way through element-wise transforms, and the outputs of a function for them."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any, Self

import attrs
import numpy as np

from dataflow_model.runners.engine.lanes.bundle import windows_apart
from dataflow_model.runners.engine.lanes.lanes import Integers, array_of, joined, taken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.values import PaneInfo, Window


@attrs.define
class Flow:
    """Elements on their way through a fragment, column by column; each column may be a lane.

    Attributes:
        values: the elements.
        causes: for each element, the index in the incoming bundle of the element that it was made from; ascending.
        times: their event times, in microseconds.
        windows: the windows of each element.
        panes: the pane of each element; `None` if it is that of the cause.
    """

    values: Sequence[Any]
    causes: Sequence[int]
    times: Sequence[int]
    windows: Sequence[tuple[Window, ...]]
    panes: Sequence[PaneInfo] | None = None

    @classmethod
    def of(cls, bundle: Bundle) -> Self:
        """Return all elements of a bundle."""
        return cls(bundle.values, range(len(bundle)), bundle.times, bundle.windows)

    @classmethod
    def by_cause(cls, flows: Sequence[Self]) -> Self:
        """Return the elements of several flows in order of cause, those of one cause in the order of the flows.

        Either all flows have panes of their own, or none has.
        """
        values: list[Any] = list(itertools.chain.from_iterable(flow.values for flow in flows))
        causes = np.concatenate([array_of(flow.causes) for flow in flows])
        times = np.concatenate([array_of(flow.times) for flow in flows])
        nothing: Sequence[tuple[Window, ...]] = []
        windows = functools.reduce(joined, (flow.windows for flow in flows), nothing)
        no_panes: Sequence[PaneInfo] = []
        with_panes = [flow.panes for flow in flows if flow.panes is not None]
        panes = functools.reduce(joined, with_panes, no_panes) if with_panes else None
        joint = cls(values, Integers(causes), Integers(times), windows, panes)
        return joint.taken(np.argsort(causes, kind="stable"))

    def taken(self, rows: Sequence[int] | np.ndarray[Any, np.dtype[np.int64]]) -> Self:
        """Return the elements at these indices, in this order."""
        return self.with_values(taken(self.values, rows), rows)

    def with_values(self, values: Sequence[Any], rows: Sequence[int] | np.ndarray[Any, np.dtype[np.int64]]) -> Self:
        """Return new values with the causes, times, windows and panes of the elements at some rows."""
        indices = Integers(rows if isinstance(rows, np.ndarray) else array_of(rows))
        causes = indices if isinstance(self.causes, range) else taken(self.causes, indices)
        panes = None if self.panes is None else taken(self.panes, indices)
        return type(self)(values, causes, taken(self.times, indices), taken(self.windows, indices), panes)

    def with_all_values(self, values: Sequence[Any]) -> Self:
        """Return a new value for each element, with its cause, time, windows and pane."""
        return type(self)(values, self.causes, self.times, self.windows, self.panes)

    def apart(self) -> tuple[Sequence[int], Self]:
        """Return the elements once for each of their windows, and the row here of each."""
        rows, windows = windows_apart(self.windows)
        if isinstance(rows, range):
            return rows, self
        flow = self.taken(rows)
        flow.windows = windows
        return rows, flow


@attrs.define
class Outputs:
    """The outputs of a function for the elements of a flow, for one output collection.

    Attributes:
        values: the outputs.
        rows: for each output, the row of its input in the flow.
        times: by index, the event times of the outputs that have their own.
    """

    values: list[Any] = attrs.field(factory=list)
    rows: list[int] = attrs.field(factory=list)
    times: dict[int, int] = attrs.field(factory=dict)

    def add(self, value: Any, row: int, time: int | None = None) -> None:
        """Add an output.

        Args:
            value: the output.
            row: the row of its input.
            time: its event time, if it is not that of the input.
        """
        if time is not None:
            self.times[len(self.values)] = time
        self.values.append(value)
        self.rows.append(row)

    def flow(self, source: Flow) -> Flow:
        """Return the outputs as a flow.

        Each output has the cause and windows of its input, and the input's time unless it has its own.

        Args:
            source: the flow.
        """
        if self.rows == list(range(len(source.values))):
            made = attrs.evolve(source, values=self.values)
        else:
            made = source.with_values(self.values, self.rows)
        if self.times:
            times = array_of(made.times).copy()
            times[list(self.times)] = list(self.times.values())
            made.times = Integers(times)
        return made
