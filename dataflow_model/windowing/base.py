"""The base class of window functions."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from dataflow_model.time import Duration, EventTime
    from dataflow_model.values import Window

    AssignedColumn: TypeAlias = tuple[NDArray[np.int64] | None, NDArray[np.int64], NDArray[np.int64]]


class WindowFn(abc.ABC):
    """Assign elements to windows in event time: the papers' `AssignWindows` and `MergeWindows` in one object.

    A subclass defines `assign`. If its windows merge, it also sets `is_merging = True` and defines `merge`. Window
    functions are values: two functions with the same effect compare equal, they can be pickled, and they keep no state
    between calls.

    Attributes:
        is_merging: whether windows merge, so that `merge` is called.
        merges_intersecting: whether `merge` joins windows that intersect, directly or through others, into the one
            window that spans them, and does nothing else. The engine then shows it only the windows that intersect
            an arriving one, so that an element does not cost more for a key with thousands of open windows. A class
            that overrides `merge` must declare the attribute again; `testing.check_window_fn` checks it.
        merges_apart: whether `merge` may join windows however far they are apart. A batch job on Spark, whose watermark
            follows the elements of a key, then closes none of its windows before the last element.
        is_global: whether `assign` puts every element into the `GlobalWindow`, which ends with the input.

    If a subclass also defines `assign_many`, a whole column of elements is assigned in one call, if each of them is in
    one window or the grouping combines before the shuffle. A class that overrides `assign` must define `assign_many`,
    `length` and `is_global` again.

    Source: the Dataflow Model paper, section 2.2.

    Example:
        >>> import attrs
        >>> import dataflow_model as dm
        >>> @attrs.frozen
        ... class Shifts(dm.WindowFn):
        ...     size: dm.Duration = dm.duration("8 hours")
        ...     def assign(self, timestamp, element):
        ...         begin = timestamp - timestamp % self.size
        ...         return [dm.IntervalWindow(begin, begin + self.size)]
        >>> with dm.Pipeline() as p:
        ...     events = p | dm.Create([("a", 3), ("a", 9)]) | dm.WithTimestamps(lambda pair: pair[1] * 3600)
        ...     _ = events | dm.Window.into(Shifts()) | dm.Sum.per_key() | dm.io.Collect()
        >>> [str(record.window) for record in p.result.collected("Collect")]
        ['[1970-01-01T00:00:00Z, 1970-01-01T08:00:00Z)', '[1970-01-01T08:00:00Z, 1970-01-01T16:00:00Z)']
    """

    is_merging: ClassVar[bool] = False
    merges_intersecting: ClassVar[bool] = False
    merges_apart: ClassVar[bool] = False
    is_global: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Drop what a base class declares of its `assign` and `merge` where the subclass has its own."""
        super().__init_subclass__(**kwargs)
        if "merge" in vars(cls) and "merges_intersecting" not in vars(cls):
            cls.merges_intersecting = False
        if "assign" in vars(cls):
            inherited = {"assign_many", "length", "is_global"} - vars(cls).keys()
            for name in inherited:
                setattr(cls, name, vars(WindowFn)[name])

    @property
    def needs_pairs(self) -> bool:
        """Whether `assign` looks at `element[0]`, so that elements must be pairs where the function is applied."""
        return False

    @property
    def assigns_columns(self) -> bool:
        """Whether `assign_many` assigns a column of event times; if the elements are needed too, it cannot."""
        return type(self).assign_many is not WindowFn.assign_many and not self.needs_pairs

    @property
    def length(self) -> Duration | None:
        """The length of every window that `assign` returns, unless cut off at ±∞; `None` where lengths differ.

        The engine then handles columns of windows by their starts alone.
        """
        return None

    @abc.abstractmethod
    def assign(self, event_time: EventTime, element: Any) -> Sequence[Window]:
        """Return the windows of an element: in n windows it becomes n elements, and in no window it is removed."""

    def merge(self, windows: Sequence[Window]) -> Iterable[tuple[Sequence[Window], Window]]:
        """Return pairs: the windows to merge, and the window that they become.

        `windows` are distinct, and ordered by start, then end. Windows that do not change need not be returned. A
        single window may get other bounds. The result must not depend on the order in which windows were created.
        """
        del windows
        return ()

    def assign_many(self, event_times: NDArray[np.int64]) -> AssignedColumn | None:
        """Assign a column of event times at once: `(row, start, end)`, or `None` where only `assign` will do.

        `row` maps each window back to its event time and is `None` when there is one window for each. The windows must
        be those that `assign` returns row by row, in the same order: plain `IntervalWindow`s with these bounds, or the
        `GlobalWindow` from −∞ to +∞. `testing.check_window_fn` checks it.
        """
        del event_times
        return None
