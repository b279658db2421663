"""GroupIntoBatches and BatchElements: lists of a bounded size, per key or over all."""

from __future__ import annotations

import pickle
import zlib
from typing import TYPE_CHECKING, Any, Final, Never

from dataflow_model.arguments import calls_explained
from dataflow_model.errors import InvalidArgument, InvalidType, KeyEncodingError
from dataflow_model.plan.functions.dofn import DoFn
from dataflow_model.plan.functions.state import BagStateSpec, TimerSpec, ValueStateSpec, on_timer
from dataflow_model.plan.names.spellings import with_spellings
from dataflow_model.time import Duration, duration
from dataflow_model.transforms.elementwise.maps import Map
from dataflow_model.transforms.elementwise.pairs import Values
from dataflow_model.transforms.elementwise.pardo import ParDo
from dataflow_model.transforms.grouping.element_bytes import hash_of
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.transforms.pipelines.output_tags import check_dropped
from dataflow_model.transforms.pipelines.ptransform import PTransform
from dataflow_model.triggers import TimeDomain
from dataflow_model.triggers.counts import size_in_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.plan.functions.state_handles import BagState, Timer, ValueState
    from dataflow_model.plan.functions.typevars import ElementT, KeyT, ValueT
    from dataflow_model.time import DurationLike
    from dataflow_model.transforms.elementwise.dropped import GroupedAndDropped
    from dataflow_model.transforms.pipelines.pcollection import PCollection
    from dataflow_model.values import Window

_PICKLE_PROTOCOL: Final = 5
_OF_BEAM: Final = {
    "batch_size": "size=…",
    "clock": "LocalRunner(clock=…), since the clock is that of the run",
    "max_buffering_duration_secs": "max_age=…, a number of seconds or text such as '1 minute'",
}
"""The arguments of Beam's `GroupIntoBatches`, and ours."""


@with_spellings
class GroupIntoBatches(PTransform):
    """Group the values of each key and window into lists of bounded size; each output is a pair of the key and a list.

    A list is emitted when it is full, when its first value has waited for `max_age`, or when the watermark passes the
    end of its window. Values that arrive after that, within the allowed lateness, are emitted one by one.

    Args:
        size: the largest number of values in a list; `None` for no limit.
        max_bytes: a list is full once its values take this many bytes, in the encoding of keys or in pickle 5.
        max_age: how long the first value of a list waits in processing time; ignored in bounded jobs, which have no
            clock.

    Raises:
        InvalidArgument: if nothing limits the lists, or a limit is not positive.
        InvalidType: if a limit is not a number, the elements are known not to be pairs, or for an argument that does
            not exist, such as Beam's `max_buffering_duration_secs`.

    Source: Beam's `GroupIntoBatches`, which takes bytes in its Java SDK only.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     letters = p | dm.Create([("a", 1), ("a", 2), ("b", 3), ("a", 4)])
        ...     _ = letters | dm.GroupIntoBatches(2) | "out" >> dm.io.Collect()
        >>> [record.value for record in p.result.collected("out")]
        [('a', [1, 2]), ('a', [4]), ('b', [3])]
    """

    input_kind = "collection"

    def __init__(
        self,
        size: int | None = None,
        *,
        max_bytes: int | None = None,
        max_age: DurationLike | None = None,
        **others: Never,
    ) -> None:
        for name in others:
            known = "size=…, max_bytes=… or max_age=…"
            raise InvalidType(f"GroupIntoBatches has no argument {name!r}", hint=f"use {_OF_BEAM.get(name, known)}")
        if size is None and max_bytes is None and max_age is None:
            raise InvalidArgument(
                "GroupIntoBatches() needs at least one bound, got none", hint="use dm.GroupIntoBatches(100)"
            )
        age = None if max_age is None else duration(max_age)
        for name, bound in (("size", size), ("max_bytes", max_bytes), ("max_age", age)):
            if bound is not None and not isinstance(bound, int):
                raise InvalidType(
                    f"`{name}` must be an int, got {bound!r}", hint="use dm.GroupIntoBatches(100), for example"
                )
            if bound is not None and int(bound) <= 0:
                raise InvalidArgument(
                    f"`{name}` must be positive, got {bound!r}", hint="use dm.GroupIntoBatches(100), for example"
                )
        self._fn = _Batches(size, max_bytes, age)

    _dropped: str | None = None

    @calls_explained(
        otherwise="it takes only the tag of the dropped elements, and returns a pair: the lists, and what was dropped"
    )
    def with_dropped_output(self, tag: str = "dropped") -> GroupedAndDropped:
        """Send elements that are dropped to a separate output, as `Dropped` records.

        Applying the transform then returns a pair: the lists, and the records. See
        `CombinePerKey.with_dropped_output`.

        Args:
            tag: the tag of the output.

        Raises:
            InvalidArgument: for the tag of the main output.
            InvalidType: for a tag that is not text.
        """
        check_dropped(tag)
        changed: Any = self._but(_dropped=tag)
        grouped: GroupedAndDropped = changed
        return grouped

    def expand(self, pcoll: PCollection[tuple[KeyT, ValueT]], /) -> PCollection[tuple[KeyT, list[ValueT]]]:
        """Add the stateful DoFn."""
        key, value = typehints.pair_types(pcoll.element_type)
        pairs = typehints.tuple_of(key, list[value])  # type: ignore[valid-type] # built at run time
        batching: Any = ParDo(self._fn).with_output_types(pairs)
        if self._dropped is not None:
            batching = batching.with_dropped_output(self._dropped)
        batches: PCollection[tuple[KeyT, list[ValueT]]] = pcoll | batching
        return batches


class BatchElements(PTransform):
    """Put the elements of each window into lists of bounded size, for functions that take many elements at once.

    Elements are distributed over a fixed number of shards by their values, and each shard fills lists as
    `GroupIntoBatches` does: a list is emitted when it is full, when its first element has waited for `max_age`, or when
    the watermark passes the end of its window. The lists therefore do not depend on how the work is divided.

    Args:
        max_batch_size: the largest number of elements in a list.
        max_age: how long the first element of a list waits in processing time; ignored in bounded jobs, which have no
            clock.
        shards: the number of lists that are filled in parallel, and the maximum number of workers that fill them.

    Raises:
        InvalidArgument: for a number that is not positive.
        InvalidType: for a bound that is not a number, or for an argument of Beam that does not exist here, such as
            `min_batch_size`.

    Source: Beam's `BatchElements`, which adapts the size to the time that the next transform takes, and ends a list
        with each bundle.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create([1, 2, 3, 4, 5]) | dm.BatchElements(2, shards=1) | dm.io.Collect()
        >>> [record.value for record in p.result.collected("Collect")]
        [[1, 2], [3, 4], [5]]
    """

    input_kind = "collection"

    def __init__(
        self, max_batch_size: int = 1000, *, max_age: DurationLike | None = None, shards: int = 8, **others: Never
    ) -> None:
        for name in others:
            raise InvalidType(
                f"BatchElements has no argument {name!r}",
                hint="use max_batch_size=…; only max_age=… and the end of the input make shorter lists",
            )
        if type(shards) is not int:
            raise InvalidType(f"`shards` must be an int, got {shards!r}", hint="use shards=8, for example")
        if shards < 1:
            raise InvalidArgument(f"`shards` must be positive, got {shards!r}", hint="use shards=8, for example")
        self._shards = shards
        self._batches = GroupIntoBatches(max_batch_size, max_age=max_age)

    def expand(self, pcoll: PCollection[ElementT], /) -> PCollection[list[ElementT]]:
        """Give each element its shard as a key, and drop the key of each list."""
        pairs = typehints.tuple_of(int, pcoll.element_type)
        spread = pcoll | "shards" >> Map(_Shard(self._shards)).with_output_types(pairs)
        lists: PCollection[Any] = spread | "batches" >> self._batches | Values()
        return lists


class _Shard:
    """Pairs an element with its shard, which depends on the element's value only."""

    def __init__(self, shards: int) -> None:
        self.shards = shards

    def __call__(self, element: Any) -> tuple[int, Any]:
        if self.shards == 1:
            return 0, element
        try:
            hashed = hash_of(element)
        except KeyEncodingError:
            hashed = zlib.crc32(pickle.dumps(element, protocol=_PICKLE_PROTOCOL))
        return hashed % self.shards, element


class _Batches(DoFn):
    """Buffers values until the list is full or old enough, or the window ends."""

    values = BagStateSpec[Any]()
    bytes_held = ValueStateSpec[int](default=0)
    over = TimerSpec(TimeDomain.EVENT_TIME)
    old = TimerSpec(TimeDomain.PROCESSING_TIME)

    def __init__(self, size: int | None, max_bytes: int | None, max_age: Duration | None) -> None:
        self.size = size
        self.max_bytes = max_bytes
        self.max_age = max_age

    def process(
        self,
        element: Any,
        values: BagState[Any],
        bytes_held: ValueState[int],
        over: Timer,
        old: Timer,
        window: Window,
    ) -> Iterable[Any]:
        """Buffer a value, and emit the list if it is full."""
        key, value = element
        if not len(values):
            over.set(window.end)
            if self.max_age is not None:
                old.set_after(self.max_age)
        values.add(value)
        if self.max_bytes is not None:
            bytes_held.write(bytes_held.read() + size_in_bytes(value))
        full = self.size is not None and len(values) >= self.size
        if full or (self.max_bytes is not None and bytes_held.read() >= self.max_bytes):
            yield _taken(key, values, bytes_held, over, old)

    @on_timer(over)
    def at_end(self, key: Any, values: BagState[Any], bytes_held: ValueState[int], old: Timer) -> Iterable[Any]:
        """Emit the list at the end of the window."""
        yield _taken(key, values, bytes_held, old)

    @on_timer(old)
    def at_age(self, key: Any, values: BagState[Any], bytes_held: ValueState[int], over: Timer) -> Iterable[Any]:
        """Emit the list when its first value has waited for `max_age`."""
        yield _taken(key, values, bytes_held, over)


def _taken(key: Any, values: BagState[Any], bytes_held: ValueState[int], *timers: Timer) -> tuple[Any, list[Any]]:
    """Return the list of a key, and clear its state and the timers that are set for it."""
    taken = key, values.read()
    values.clear()
    bytes_held.clear()
    for timer in timers:
        timer.clear()
    return taken
