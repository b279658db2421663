"""Pipelines in which each kind of transform that drops elements drops some, and what they should have dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

import dataflow_model as dm
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["SCRIPT", "TRANSFORMS", "apply_all", "collected"]

SCRIPT = (
    TestStream()
    .add(4, 30, key="UA")
    .watermark(60)
    .add(8, 40, key="UA")
    .add(9, 100, key="AA")
    .add(10, 101, key="AA")
    .watermark(500)
    .add(1, 130, key="UA")
)
"""The 8 and the 1 are late for windows of a minute."""
LATE = [("UA", 8), ("UA", 1)]


class Remember(dm.DoFn):
    """Keeps the last value of each key and window."""

    last = dm.ValueStateSpec[int](default=0)

    def process(self, pair: Any, last: Any) -> Iterator[Any]:
        last.write(pair[1])
        yield pair


class Sorted(dm.DoFn):
    """Passes on elements in the order of their event times."""

    requires_time_sorted_input = True

    def process(self, pair: Any) -> Iterator[Any]:
        yield pair


def lengthened(pair: Any, count: int) -> Any:
    return pair, count


@attrs.frozen
class FirstMinute(dm.WindowFn):
    """The first minute of an element's hour, which expires before the hour does."""

    def assign(self, event_time: dm.EventTime, element: Any) -> tuple[dm.IntervalWindow]:
        [hour] = dm.FixedWindows("1 hour").assign(event_time, element)
        return (dm.IntervalWindow(hour.start, hour.start + dm.duration("1 minute")),)


EACH = dm.Repeatedly(dm.AfterCount(1))


def memoised(pairs: Any) -> Any:
    hourly = dm.Window.into(dm.FixedWindows("1 hour")).trigger(EACH).timestamp_combiner("earliest")
    sums = pairs | "hours" >> hourly.accumulating_and_retracting() | "sums" >> dm.Sum.per_key()
    small = dm.Window.into(FirstMinute()).trigger(EACH).accumulating_and_retracting()
    return sums | "small" >> small | "draw" >> dm.Map(as_it_is).retractable("memoised").with_dropped_output()


def as_it_is(pair: Any) -> Any:
    return pair


def by_key(pair: Any) -> Any:
    return pair[0]


def both(pairs: Any) -> tuple[Any, Any]:
    return pairs, pairs | "right side" >> dm.Map(as_it_is)


def with_count(pairs: Any) -> Any:
    count = pairs | "count" >> dm.Count.globally()
    return pairs | "looked up" >> dm.Map(lengthened, dm.AsSingleton(count)).with_dropped_output()


TRANSFORMS: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "groups": (lambda pairs: pairs | dm.GroupByKey().with_dropped_output(), LATE),
    "sums": (lambda pairs: pairs | dm.Sum.per_key().with_dropped_output(), LATE),
    "in parts": (lambda pairs: pairs | dm.Sum.per_key().with_hot_key_fanout(2).with_dropped_output(), LATE),
    "counts": (lambda pairs: pairs | dm.Count.globally().with_dropped_output(), LATE),
    "counts of elements": (lambda pairs: pairs | dm.Count.per_element().with_dropped_output(), LATE),
    "several": (lambda pairs: {"only": pairs} | dm.CoGroupByKey().with_dropped_output(), LATE),
    "joined": (lambda pairs: both(pairs) | dm.Join().with_dropped_output(), [*LATE, *LATE]),
    "partners": (lambda pairs: both(pairs) | dm.Join(within="1 minute").with_dropped_output(), [*LATE, *LATE]),
    "unique": (lambda pairs: pairs | dm.Deduplicate(str, horizon="10 seconds").with_dropped_output(), LATE),
    "batches": (lambda pairs: pairs | dm.GroupIntoBatches(2).with_dropped_output(), LATE),
    "rows": (lambda pairs: pairs | dm.GroupBy(by_key).with_dropped_output(), LATE),
    "totals": (
        lambda pairs: pairs | dm.GroupBy(by_key).aggregate_field(by_value, sum, "total").with_dropped_output(),
        LATE,
    ),
    "state": (lambda pairs: pairs | dm.ParDo(Remember()).with_dropped_output(), LATE),
    "sorted": (lambda pairs: pairs | dm.ParDo(Sorted()).with_dropped_output(), LATE),
    "looked up": (with_count, LATE),
    "memoised": (memoised, [("UA", 4), ("UA", 12), ("UA", 12), ("UA", 13), ("AA", 9), ("AA", 19)]),
}
"""By name, a transform and what it drops."""


def by_value(pair: Any) -> Any:
    return pair[1]


class _Scoped(dm.PTransform):
    """A function of a collection as a transform, so that its labels are its own."""

    def __init__(self, apply: Callable[[Any], Any]) -> None:
        self.apply = apply

    def expand(self, pcoll: Any) -> Any:
        return self.apply(pcoll)


def apply_all(pipeline: dm.Pipeline) -> None:
    """Apply all transforms, and collect what each drops."""
    minutes = pipeline | SCRIPT | dm.Window.into(dm.FixedWindows("1 minute"))
    for name, (apply, _) in TRANSFORMS.items():
        _, dropped = minutes | name >> _Scoped(apply)
        _ = dropped | f"{name}/records" >> dm.io.Collect()


def collected(result: Any, name: str) -> list[dm.Dropped]:
    """Return what a transform has dropped."""
    return [record.value for record in result.collected(f"{name}/records")]
