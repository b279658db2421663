"""What type checkers infer for each transform; nothing here runs, `make check` reads it.

What mypy and Pyright infer alike is here; `docs/types.md` says where they differ. mypy rejects a `type: ignore` without
an error, so those below say what must be one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, assert_type

import dataflow_model as dm
from dataflow_model.plan.logical.runner import PipelineResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    Words = dm.PCollection[str]
    Pairs = dm.PCollection[tuple[str, int]]
    Others = dm.PCollection[tuple[str, bytes]]


class Flight(NamedTuple):
    carrier: str
    delay: float


class Split(dm.DoFn[str, str]):
    def process(self, line: str, timestamp: dm.EventTime) -> Iterable[str]:
        yield from line.split()


class Untyped(dm.DoFn):
    def process(self, line: str) -> Iterable[str]:
        yield from line.split()


class CountWords(dm.PTransform):
    def expand(self, lines: Words) -> Pairs:
        return lines | dm.FlatMap(str.split) | dm.Count.per_element()


class Total(dm.CombineFn[int, int, str]):
    """Adds up, and gives text."""


def paired(word: str) -> tuple[str, int]:
    return word, 1


def times(word: str, by: int) -> str:
    return word * by


def named(word: str, *, by: int) -> str:
    return word * by


def column(batch: Any) -> Any:
    return batch["value"]


def timed(word: str) -> dm.TimestampedValue[str]:
    return dm.TimestampedValue(word, 3)


def doubled(number: int) -> int:
    return 2 * number


def at_most(words: Iterable[str], limit: int) -> int:
    return min(len(list(words)), limit)


def longest(words: Iterable[str]) -> str:
    return max(words, key=len)


def sources(p: dm.Pipeline) -> None:
    assert_type(p | dm.Create(["to", "be"]), dm.PCollection[str])
    assert_type(p | "labelled" >> dm.Create(["to", "be"]), dm.PCollection[str])
    assert_type(p | dm.Create({"a": 1}), dm.PCollection[tuple[str, int]])
    assert_type(p | dm.Create([dm.TimestampedValue("a", 1)]), dm.PCollection[str])
    assert_type(p | dm.Create([Flight("UA", 4.0)]), dm.PCollection[Flight])
    assert_type(p | dm.io.ReadParquet("x", event_time="at"), dm.PCollection[Any])
    again = dm.io.ReadAgain(dm.io.ReadParquet("x", event_time="at").with_output_types(Flight), every=60)
    assert_type(p | again, dm.PCollection[Flight])
    assert_type(p | dm.io.ReadParquet("x", event_time="at").with_output_types(Flight), dm.PCollection[Flight])
    assert_type(p | dm.io.ReadText("x"), dm.PCollection[str])
    assert_type(p | "labelled" >> dm.io.ReadText("x"), dm.PCollection[str])
    lines, failed = p | dm.io.ReadText("x").with_exception_handling()
    assert_type(lines, dm.PCollection[str])
    rows, failed = p | dm.io.ReadParquet("x", event_time="at").with_exception_handling()
    assert_type(rows, dm.PCollection[Any])
    assert_type(failed, dm.PCollection[dm.DeadLetter])
    declared = dm.io.ReadCsv("x", event_time="at").with_output_types(Flight)
    flights, failed = p | declared.with_exception_handling()
    assert_type(flights, dm.PCollection[Flight])
    assert_type(failed, dm.PCollection[dm.DeadLetter])
    _ = p | dm.Map(str)  # type: ignore[operator]


def times_and_durations(event: dm.EventTime, clock: dm.ProcessingTime, length: dm.Duration) -> None:
    assert_type(event - event, dm.Duration)
    assert_type(event - length, dm.EventTime)
    assert_type(length + event, dm.EventTime)
    assert_type(2 * length, dm.Duration)
    assert_type(sum([length, length], dm.duration(0)), dm.Duration)
    assert_type(max(event, event), dm.EventTime)
    assert_type(int(event), int)
    assert_type(event // length, int)
    assert_type(event == 5, bool)
    assert_type(dm.IntervalWindow("2024-01-01T00:00Z", 1704067260).start, dm.EventTime)
    _ = event - clock  # type: ignore[operator]
    _ = length - event  # type: ignore[operator]
    _ = event + event  # type: ignore[operator]
    _ = event + 5  # type: ignore[operator]
    _ = 5 - event  # type: ignore[operator]
    _ = length + 5  # type: ignore[operator]
    _ = length > 5  # type: ignore[operator]
    _ = event < clock  # type: ignore[operator]
    _ = event < 5  # type: ignore[operator]


class Remembering(dm.DoFn[tuple[str, int], str]):
    count = dm.ValueStateSpec(default=0)
    last = dm.ValueStateSpec()
    seen = dm.SetStateSpec[int]()
    values = dm.BagStateSpec()

    def process(self, pair: tuple[str, int], count: dm.ValueState[int], last: dm.ValueState) -> Iterable[str]:
        assert_type(count.read(), int)
        assert_type(last.read(), Any)
        yield pair[0]

    def finish_bundle(self) -> Iterable[str | dm.TimestampedValue[str]]:
        return ["end", dm.TimestampedValue("end", 5)]


def elements(words: Words) -> None:
    assert_type(words | dm.Map(paired), dm.PCollection[tuple[str, int]])
    assert_type(words | "labelled" >> dm.Map(paired), dm.PCollection[tuple[str, int]])
    assert_type(words | dm.Map(times, 3), dm.PCollection[str])
    assert_type(words | dm.Map(named, by=3), dm.PCollection[str])
    assert_type(words | dm.Map(timed), dm.PCollection[str])
    assert_type(words | dm.Map(len), dm.PCollection[int])
    assert_type(words | dm.Map(int), dm.PCollection[int])
    assert_type(words | dm.FlatMap(str.split), dm.PCollection[str])
    assert_type(words | dm.Filter(str.isupper), dm.PCollection[str])
    assert_type(words | "labelled" >> dm.Filter(lambda word: word > "a"), dm.PCollection[str])
    assert_type(words | dm.ParDo(Split()), dm.PCollection[str])
    assert_type(words | dm.ParDo(Untyped()), dm.PCollection[Any])
    assert_type(words | dm.ParDo(str.split), dm.PCollection[str])
    outputs = words | dm.ParDo(Split()).with_outputs("bad", main="good")
    assert_type(outputs, dm.OutputTuple[str])
    assert_type(outputs.bad, dm.PCollection[Any])
    numbers, failed = words | dm.Map(int).with_exception_handling()
    assert_type(numbers, dm.PCollection[int])
    assert_type(failed, dm.PCollection[dm.DeadLetter])
    looked_up, dropped = words | dm.Map(int).with_dropped_output()
    assert_type(looked_up, dm.PCollection[int])
    assert_type(dropped, dm.PCollection[dm.Dropped])
    on_columns = dm.Map(column, vectorized=True)
    assert_type(words | "as they come" >> on_columns, dm.PCollection[Any])
    assert_type(words | on_columns.with_output_types(int), dm.PCollection[int])
    assert_type(words | "on columns" >> dm.Filter(column, vectorized=True), dm.PCollection[str])
    typed = dm.Map(lambda word: (word, 1)).with_output_types(tuple[str, int])
    assert_type(words | typed, dm.PCollection[tuple[str, int]])
    assert_type(words | CountWords(), dm.PCollection[tuple[str, int]])
    _ = words | dm.Map(doubled)  # type: ignore[arg-type]
    _ = words | "labelled" >> dm.Map(doubled)  # type: ignore[operator]
    _ = words | "labelled" >> dm.Filter(doubled)  # type: ignore[operator]
    _ = words | dm.Create(["more"])  # type: ignore[operator]


def windows(words: Words) -> None:
    assert_type(words | dm.Window.into(dm.FixedWindows(60)).accumulating(), dm.PCollection[str])
    assert_type(words | dm.WithTimestamps(lambda _: 3), dm.PCollection[str])
    assert_type(words | dm.Deduplicate(lambda word: word, horizon=3), dm.PCollection[str])
    unique, dropped = words | dm.Deduplicate(len, horizon=3).with_dropped_output()
    assert_type(unique, dm.PCollection[str])
    assert_type(dropped, dm.PCollection[dm.Dropped])
    assert_type(words | dm.Distinct(), dm.PCollection[str])
    assert_type(words | dm.Reshuffle(), dm.PCollection[str])
    assert_type(words | dm.LogElements(), dm.PCollection[str])
    assert_type(words | dm.Tee(dm.io.WriteText("x")), dm.PCollection[str])
    assert_type(words | dm.BatchElements(10), dm.PCollection[list[str]])
    assert_type(words | dm.Partition(lambda word, n: len(word) % n, 2), tuple[dm.PCollection[str], ...])


def pairs(words: Words, pairs: Pairs) -> None:
    assert_type(words | dm.WithKeys(len), dm.PCollection[tuple[int, str]])
    assert_type(words | dm.WithKeys("field"), dm.PCollection[tuple[Any, str]])
    assert_type(words | dm.WithKeys("field", value="other"), dm.PCollection[tuple[Any, Any]])
    assert_type(pairs | dm.Keys(), dm.PCollection[str])
    assert_type(pairs | dm.Values(), dm.PCollection[int])
    assert_type(pairs | dm.KvSwap(), dm.PCollection[tuple[int, str]])
    assert_type(dm.AsSingleton(words), dm.AsSingleton[str])
    assert_type(dm.AsDict(pairs), dm.AsDict[str, int])


def groupings(words: Words, pairs: Pairs) -> None:
    assert_type(pairs | dm.GroupByKey(), dm.PCollection[tuple[str, list[int]]])
    assert_type(pairs | dm.GroupIntoBatches(2), dm.PCollection[tuple[str, list[int]]])
    assert_type(words | dm.GroupBy(len), dm.PCollection[Any])
    assert_type(pairs | dm.GroupByKey() | dm.CombineValues(sum), dm.PCollection[tuple[str, Any]])
    groups, dropped = pairs | dm.GroupByKey().with_dropped_output()
    assert_type(groups, dm.PCollection[tuple[str, list[int]]])
    assert_type(dropped, dm.PCollection[dm.Dropped])
    _, dropped = pairs | dm.Sum.per_key().with_dropped_output()
    assert_type(dropped, dm.PCollection[dm.Dropped])
    handled, dropped = words | dm.ParDo(Split()).with_exception_handling().with_dropped_output()
    assert_type(handled.good, dm.PCollection[str])
    assert_type(handled.bad, dm.PCollection[dm.DeadLetter])
    (_, dropped), failed = pairs | dm.Sum.per_key().with_dropped_output().with_exception_handling()
    assert_type(dropped, dm.PCollection[dm.Dropped])
    assert_type(failed, dm.PCollection[dm.DeadLetter])
    assert_type(pairs | dm.Sum.per_key(), dm.PCollection[tuple[str, int]])
    assert_type(pairs | "labelled" >> dm.Mean.per_key(), dm.PCollection[tuple[str, float]])
    assert_type(pairs | dm.Count.per_key(), dm.PCollection[tuple[str, int]])
    assert_type(pairs | dm.Top(3).per_key(), dm.PCollection[tuple[str, list[int]]])
    assert_type(pairs | dm.Sample.per_key(3), dm.PCollection[tuple[str, list[int]]])
    assert_type(pairs | dm.ToSet.per_key(), dm.PCollection[tuple[str, set[int]]])
    assert_type(words | dm.Count.globally(), dm.PCollection[int])
    assert_type(words | dm.Max.globally(), dm.PCollection[str])
    assert_type(words | dm.ToList.globally(), dm.PCollection[list[str]])
    assert_type(words | dm.Sample.globally(3), dm.PCollection[list[str]])
    assert_type(words | dm.Count.per_element(), dm.PCollection[tuple[str, int]])
    assert_type(pairs | dm.CombinePerKey(Total()), dm.PCollection[tuple[str, str]])
    assert_type(pairs | dm.CombinePerKey(Total), dm.PCollection[tuple[str, str]])
    assert_type(pairs | dm.CombinePerKey(sum), dm.PCollection[tuple[str, Any]])
    assert_type(words | dm.CombineGlobally(longest), dm.PCollection[str])
    assert_type(pairs | dm.CombinePerKey(lambda values: len(list(values))), dm.PCollection[tuple[str, int]])
    assert_type(words | dm.CombineGlobally(lambda values: len(list(values))), dm.PCollection[int])
    assert_type(pairs | dm.CombinePerKey(lambda values, by: max(values) * by, 3), dm.PCollection[tuple[str, Any]])
    assert_type(words | dm.CombineGlobally(at_most, 3), dm.PCollection[int])
    _ = words | dm.CombineGlobally(doubled)  # type: ignore[arg-type]
    _ = words | dm.GroupByKey()  # type: ignore[operator]
    _ = words | dm.CombineValues(sum)  # type: ignore[operator]


def several(words: Words, pairs: Pairs, others: Others) -> None:
    assert_type((words, words) | dm.Flatten(), dm.PCollection[str])
    assert_type([words, words] | "labelled" >> dm.Flatten(), dm.PCollection[str])
    assert_type({"a": words} | dm.Flatten(), dm.PCollection[str])
    assert_type((pairs, others) | dm.CoGroupByKey(), dm.PCollection[tuple[str, tuple[list[int], list[bytes]]]])
    assert_type({"a": pairs} | dm.CoGroupByKey(), dm.PCollection[tuple[str, dict[Any, list[int]]]])
    assert_type((pairs, others) | dm.Join.inner(), dm.PCollection[tuple[str, tuple[int, bytes]]])
    assert_type((pairs, others) | "labelled" >> dm.Join.left(), dm.PCollection[tuple[str, tuple[int, bytes | None]]])
    assert_type((pairs, others) | dm.Join.full(), dm.PCollection[tuple[str, tuple[int | None, bytes | None]]])


def results(p: dm.Pipeline) -> None:
    assert_type(p.run(), PipelineResult)
    assert_type(p.result, PipelineResult)
