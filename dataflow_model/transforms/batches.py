"""GroupIntoBatches: lists of a bounded size per key."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.errors import InvalidArgument, InvalidType, KeyEncodingError
from dataflow_model.plan.dofn import DoFn
from dataflow_model.plan.state import BagStateSpec, TimerSpec, ValueStateSpec, on_timer
from dataflow_model.time import Duration, duration
from dataflow_model.transforms import typehints
from dataflow_model.transforms.pardo import ParDo
from dataflow_model.transforms.ptransform import PTransform
from dataflow_model.triggers import TimeDomain
from dataflow_model.values import encode_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.plan.state_handles import BagState, Timer, ValueState
    from dataflow_model.plan.typevars import KeyT, ValueT
    from dataflow_model.time import DurationLike
    from dataflow_model.transforms.pcollection import PCollection
    from dataflow_model.values import Window

__all__ = ["GroupIntoBatches"]

_PICKLE_PROTOCOL: Final = 5


class GroupIntoBatches(PTransform):
    """Group the values of each key and window into lists of bounded size; each output is a pair of the key and a list.

    A list goes out once it is full, or old enough, or the watermark passes the end of its window; what comes after
    that, within the allowed lateness, goes out by itself.

    Args:
        size: how many values a list holds at most; `None` for any number.
        max_bytes: a list is full once its values take this many bytes, in the encoding of keys or in pickle 5.
        max_age: how long the first value of a list waits in processing time; bounded jobs have no clock to wait by.

    Raises:
        InvalidArgument: when nothing bounds the lists, or for a bound that is not positive.
        InvalidType: for a bound that is no number, or a collection whose elements are known not to be pairs.

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
        self, size: int | None = None, *, max_bytes: int | None = None, max_age: DurationLike | None = None
    ) -> None:
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
                raise InvalidArgument(f"`{name}` must be positive, got {bound!r}")
        self._fn = _Batches(size, max_bytes, age)

    def expand(self, pcoll: PCollection[tuple[KeyT, ValueT]], /) -> PCollection[tuple[KeyT, list[ValueT]]]:
        """Add the stateful DoFn."""
        key, value = typehints.pair_types(pcoll.element_type)
        pairs: Any = tuple[key, list[value]]  # type: ignore[valid-type] # built at run time
        batches: PCollection = pcoll | ParDo(self._fn).with_output_types(pairs)
        return batches


class _Batches(DoFn):
    """Keeps a list until it is full, old, or its window over."""

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
        """Take a value in, and give the list if that fills it."""
        key, value = element
        if not len(values):
            over.set(window.end)
            if self.max_age is not None:
                old.set_after(self.max_age)
        values.add(value)
        if self.max_bytes is not None:
            bytes_held.write(bytes_held.read() + _bytes_of(value))
        full = self.size is not None and len(values) >= self.size
        if full or (self.max_bytes is not None and bytes_held.read() >= self.max_bytes):
            yield key, values.read()
            values.clear()
            bytes_held.clear()
            over.clear()
            old.clear()

    @on_timer(over)
    def at_end(self, key: Any, values: BagState[Any], bytes_held: ValueState[int], old: Timer) -> Iterable[Any]:
        """Give what is there as the window ends."""
        yield key, values.read()
        values.clear()
        bytes_held.clear()
        old.clear()

    @on_timer(old)
    def at_age(self, key: Any, values: BagState[Any], bytes_held: ValueState[int], over: Timer) -> Iterable[Any]:
        """Give what is there as it has waited long enough."""
        yield key, values.read()
        values.clear()
        bytes_held.clear()
        over.clear()


def _bytes_of(value: Any) -> int:
    try:
        return len(encode_key(value))
    except KeyEncodingError:
        return len(pickle.dumps(value, protocol=_PICKLE_PROTOCOL))
