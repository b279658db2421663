"""Small programs of Beam's, whose answers two runners give as lines of text."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms import window
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.userstate import TimeDomain as BeamsTimeDomain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SEEN = beam.metrics.Metrics.counter("words", "seen")


def answers(program: Callable[[Any], Any], runner: Any, folder: Path) -> list[str]:
    """Return the elements that a program puts out, as sorted text."""
    target = folder / type(runner).__name__
    pipeline = beam.Pipeline(runner=runner)
    _ = program(pipeline) | "lines" >> beam.Map(repr) | "out" >> beam.io.WriteToText(str(target))
    pipeline.run().wait_until_finish()
    return sorted(line for path in folder.glob(f"{target.name}-*") for line in path.read_text().splitlines())


def counted_words(p: Any) -> Any:
    def note(word: str) -> str:
        SEEN.inc()
        return word

    words = p | beam.Create(["to be or not", "to be"]) | beam.FlatMap(str.split) | beam.Map(note)
    return words | beam.combiners.Count.PerElement()


def tagged_outputs(p: Any) -> Any:
    def by_parity(number: int) -> Iterator[Any]:
        yield number if number % 2 == 0 else beam.pvalue.TaggedOutput("odd", -number)
        yield beam.pvalue.TaggedOutput("all", number * 10)

    parts = p | beam.Create([1, 2, 3]) | beam.FlatMap(by_parity).with_outputs("odd", "all", main="even")
    return (parts.even, parts.odd, parts.all, parts.odd) | beam.Flatten()


def nothing_flattened(p: Any) -> Any:
    return () | beam.Flatten(pipeline=p)


def windows_of_both(p: Any) -> Any:
    timed = p | beam.Create([("a", 1), ("b", 12), ("a", 13), ("a", 4)]) | beam.Map(_timed)
    fixed = timed | "fixed" >> beam.WindowInto(window.FixedWindows(10)) | "grouped" >> beam.GroupByKey()
    sliding = timed | "sliding" >> beam.WindowInto(window.SlidingWindows(10, 5)) | "sum" >> beam.CombinePerKey(sum)
    shown = fixed | beam.MapTuple(lambda key, values: (key, sum(values)))
    return (shown, sliding) | beam.Flatten() | beam.ParDo(WithWindow())


def windows_as_functions_see_them(p: Any) -> Any:
    timed = p | beam.Create([("a", 1), ("b", 12)]) | beam.Map(_timed) | beam.WindowInto(window.SlidingWindows(10, 5))
    return timed | beam.Map(lambda _, seen=beam.DoFn.WindowedValueParam: (seen.value, seen.windows))


def sessions(p: Any) -> Any:
    timed = p | beam.Create([("a", 1), ("a", 4), ("a", 20), ("b", 3)]) | beam.Map(_timed)
    return timed | beam.WindowInto(window.Sessions(5)) | beam.CombinePerKey(sum) | beam.ParDo(WithWindow())


def side_inputs(p: Any) -> Any:
    pairs = p | "pairs" >> beam.Create([("a", 1), ("b", 2), ("a", 3)])
    numbers = p | "numbers" >> beam.Create([10, 20])

    def look_up(key: str, by_key: Any, listed: Any, total: Any, last: Any) -> Any:
        return key, sorted(by_key[key]), sorted(listed), total, sorted(last)

    return (
        p
        | "keys" >> beam.Create(["a", "b", "c"])
        | beam.Map(
            look_up,
            beam.pvalue.AsMultiMap(pairs),
            beam.pvalue.AsList(numbers),
            beam.pvalue.AsSingleton(numbers | beam.CombineGlobally(sum)),
            beam.pvalue.AsDict(pairs | beam.CombinePerKey(max)),
        )
    )


def side_inputs_by_window(p: Any) -> Any:
    timed = p | beam.Create([("a", 1), ("b", 12), ("c", 4)]) | beam.Map(_timed)
    in_windows = timed | beam.WindowInto(window.FixedWindows(10))
    side = in_windows | "values" >> beam.MapTuple(lambda _, value: value)
    return in_windows | "with side" >> beam.Map(lambda pair, values: (pair, sorted(values)), beam.pvalue.AsIter(side))


def one_random_value_for_all_readers(p: Any) -> Any:
    import random

    drawn = p | "one" >> beam.Create([0]) | beam.Map(lambda _: random.random())
    keys = p | "keys" >> beam.Create([1, 2, 3])
    first = keys | "first" >> beam.Map(lambda _, value: value, beam.pvalue.AsSingleton(drawn))
    second = keys | "second" >> beam.Map(lambda _, value: value, beam.pvalue.AsSingleton(drawn))
    return (first, second, drawn) | beam.Flatten() | beam.Distinct() | beam.combiners.Count.Globally()


def state_and_timers(p: Any) -> Any:
    timed = p | beam.Create([("a", 1), ("b", 12), ("a", 4), ("a", 13)]) | beam.Map(_timed)
    return timed | beam.WindowInto(window.FixedWindows(10)) | beam.ParDo(Remembering()) | beam.ParDo(WithWindow())


def state_with_a_side_input(p: Any) -> Any:
    # Beam 2.77 looks for the coder of the keys in any of the inputs, and so rejects another type at random.
    untyped = p | "added" >> beam.Create([10]) | beam.Map(int).with_output_types(Any)
    added = beam.pvalue.AsSingleton(untyped)
    pairs = p | beam.Create([("a", 1), ("b", 2), ("a", 3)]) | beam.Map(tuple).with_output_types(tuple[str, int])
    return pairs | beam.ParDo(AddingUp(), added).with_input_types(tuple[str, int], int)


def state_with_a_changing_side_input(p: Any) -> Any:
    """Return totals of each key, with the values of two side inputs of which one is another in each window of 10 s."""
    times = {"start_timestamp": 0, "stop_timestamp": 30}
    windows = beam.WindowInto(window.FixedWindows(10))
    tables = p | "tables" >> PeriodicImpulse(fire_interval=10, **times) | "in 10 s" >> windows
    # Beam takes any input of a function with state for its pairs, so a side input needs a type that these may have.
    table = beam.pvalue.AsSingleton(tables | beam.Map(float).with_output_types(Any))
    ticks = p | "ticks" >> PeriodicImpulse(fire_interval=5, **times) | "of 10 s" >> windows
    pairs = ticks | "pairs" >> beam.Map(lambda tick: ("a", int(tick))).with_output_types(tuple[str, int])
    names = beam.pvalue.AsDict(p | "names" >> beam.Create([("a", "Anna")]))
    return pairs | beam.ParDo(InTables(), names, table)


READ_WITH_STATE: Final = sorted(f"('Anna', {at}, {at // 10 * 10.0}, {1 + at % 10 // 5})" for at in range(0, 30, 5))


class InTables(beam.DoFn):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Emits each value with the table of its window and its number among the values of its key and window."""

    COUNT = CombiningValueStateSpec("count", sum)

    def process(self, pair: Any, names: Any, table: Any, count: Any = beam.DoFn.StateParam(COUNT)) -> Any:
        count.add(1)
        yield names[pair[0]], pair[1], table, count.read()


def batches(p: Any) -> Any:
    pairs = p | beam.Create([("a", 1), ("b", 2), ("a", 3), ("a", 4)])
    sized = pairs | beam.GroupIntoBatches(2, max_buffering_duration_secs=60)
    return sized | beam.MapTuple(lambda key, values: (key, len(list(values))))


def splittable(p: Any) -> Any:
    return p | beam.Create([3, 2]) | beam.ParDo(Counting()) | beam.combiners.Count.PerElement()


def splittable_with_side_inputs(p: Any) -> Any:
    added = [p | f"side {number}" >> beam.Create([number]) for number in (10, 20, 30)]
    sides = [beam.pvalue.AsSingleton(side) for side in added]
    return p | beam.Create([3, 2]) | beam.ParDo(Adding(), *sides) | beam.combiners.Count.PerElement()


def ends_of_bundles(p: Any) -> Any:
    return p | beam.Create([1, 2, 3]) | beam.ParDo(Batching()) | beam.ParDo(WithWindow())


def ends_of_bundles_with_state(p: Any) -> Any:
    return p | beam.Create([("a", 1), ("a", 2)]) | beam.ParDo(EndingWithState()) | beam.ParDo(WithWindow())


def dead_letters(p: Any) -> Any:
    numbers = p | beam.Create([0, 1, 2]) | beam.WindowInto(window.FixedWindows(10))
    good, bad = numbers | beam.Map(lambda number: 2 // number).with_exception_handling()
    failed = bad | "failed" >> beam.MapTuple(lambda number, error: (number, error[1]))
    return (good, failed) | beam.Flatten()


def expanded_by_a_service(p: Any) -> Any:
    importlib.import_module("apache_beam.runners.portability.expansion_service_test")  # registers transforms
    service = importlib.import_module("apache_beam.runners.portability.expansion_service")
    words = p | beam.Create(["a", "b", "a"])
    return words | beam.ExternalTransform("beam:transforms:xlang:count", None, service.ExpansionServiceServicer())


def reshuffled(p: Any) -> Any:
    timed = p | beam.Create([("a", 1), ("b", 12)]) | beam.Map(_timed) | beam.WindowInto(window.FixedWindows(10))
    return timed | beam.Reshuffle() | beam.ParDo(WithWindow())


def keys_by_their_coder(p: Any) -> Any:
    beam.coders.registry.register_coder(Carrier, CarrierCoder)
    pairs = (
        p
        | beam.Create(["ua", "UA", "dl"])
        | beam.Map(lambda code: (Carrier(code), 1)).with_output_types(tuple[Carrier, int])
    )
    return pairs | beam.CombinePerKey(sum) | beam.MapTuple(lambda carrier, count: (carrier.code, count))


class Expiring(beam.DoFn):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Emits what it keeps for a key, a minute after the last element, even if the window is over by then."""

    KEPT = BagStateSpec("kept", beam.coders.VarIntCoder())
    LATER = TimerSpec("later", BeamsTimeDomain.WATERMARK)

    def process(
        self,
        pair: Any,
        at: Any = beam.DoFn.TimestampParam,
        kept: Any = beam.DoFn.StateParam(KEPT),
        later: Any = beam.DoFn.TimerParam(LATER),
    ) -> None:
        kept.add(pair[1])
        later.set(at + 60)

    @on_timer(LATER)  # type: ignore[untyped-decorator]
    def at_later(self, key: Any = beam.DoFn.KeyParam, kept: Any = beam.DoFn.StateParam(KEPT)) -> Any:
        yield key, sorted(kept.read())
        kept.clear()


def timers_behind_windows(p: Any) -> Any:
    timed = p | beam.Create([("a", 10), ("b", 170), ("a", 30)]) | beam.Map(_timed)
    return timed | beam.WindowInto(window.FixedWindows(180)) | beam.ParDo(Expiring())


PROGRAMS = (
    counted_words,
    tagged_outputs,
    nothing_flattened,
    windows_of_both,
    windows_as_functions_see_them,
    sessions,
    side_inputs,
    side_inputs_by_window,
    one_random_value_for_all_readers,
    state_and_timers,
    timers_behind_windows,
    batches,
    splittable,
    splittable_with_side_inputs,
    ends_of_bundles,
    ends_of_bundles_with_state,
    dead_letters,
    expanded_by_a_service,
    reshuffled,
    keys_by_their_coder,
)


def _timed(pair: tuple[str, int]) -> Any:
    return window.TimestampedValue(pair, pair[1])


class WithWindow(beam.DoFn):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Emits an element with its event time and window."""

    def process(self, element: Any, at: Any = beam.DoFn.TimestampParam, of: Any = beam.DoFn.WindowParam) -> Any:
        yield element, at.micros // 1000, of.max_timestamp().micros // 1000  # which is what Beam encodes


class Remembering(beam.DoFn):  # type: ignore[misc]
    """Keeps state of each kind, and emits it when a timer fires at the end of the window."""

    BAG = BagStateSpec("bag", beam.coders.VarIntCoder())
    TOTAL = CombiningValueStateSpec("total", sum)
    SEEN = SetStateSpec("seen", beam.coders.VarIntCoder())
    LAST = ReadModifyWriteStateSpec("last", beam.coders.VarIntCoder())
    END = TimerSpec("end", BeamsTimeDomain.WATERMARK)

    def process(
        self,
        pair: Any,
        bag: Any = beam.DoFn.StateParam(BAG),
        total: Any = beam.DoFn.StateParam(TOTAL),
        seen: Any = beam.DoFn.StateParam(SEEN),
        last: Any = beam.DoFn.StateParam(LAST),
        end: Any = beam.DoFn.TimerParam(END),
        in_window: Any = beam.DoFn.WindowParam,
    ) -> None:
        bag.add(pair[1])
        total.add(pair[1])
        seen.add(pair[1] % 2)
        last.write((last.read() or 0) + 1)
        end.set(in_window.end)

    @on_timer(END)  # type: ignore[untyped-decorator]
    def at_end(
        self,
        key: Any = beam.DoFn.KeyParam,
        bag: Any = beam.DoFn.StateParam(BAG),
        total: Any = beam.DoFn.StateParam(TOTAL),
        seen: Any = beam.DoFn.StateParam(SEEN),
        last: Any = beam.DoFn.StateParam(LAST),
    ) -> Any:
        yield key, sorted(bag.read()), total.read(), sorted(seen.read()), last.read()


class AddingUp(beam.DoFn):  # type: ignore[misc]
    """Emits the sum of the values of a key so far, with a side input."""

    TOTAL = CombiningValueStateSpec("total", sum)

    def process(self, pair: Any, added: int, total: Any = beam.DoFn.StateParam(TOTAL)) -> Any:
        total.add(pair[1])
        yield pair[0], total.read() + added


class _Ranges(RestrictionProvider):  # type: ignore[misc]
    def initial_restriction(self, element: int) -> Any:
        return OffsetRange(0, element)

    def create_tracker(self, restriction: Any) -> Any:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: int, restriction: Any) -> int:
        return int(restriction.size())


_RANGES = _Ranges()


class Counting(beam.DoFn):  # type: ignore[misc]
    """A splittable function that counts up to each element, and defers the rest after each number."""

    def process(self, element: int, tracker: Any = beam.DoFn.RestrictionParam(_RANGES)) -> Any:
        position = tracker.current_restriction().start
        if tracker.try_claim(position):
            yield position
            tracker.defer_remainder()


class Adding(beam.DoFn):  # type: ignore[misc]
    """A splittable function that counts up to each element, and adds its side inputs."""

    def process(
        self, element: int, first: int, second: int, third: int, tracker: Any = beam.DoFn.RestrictionParam(_RANGES)
    ) -> Any:
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield position + first + second + third
            position += 1


class Batching(beam.DoFn):  # type: ignore[misc]
    """Emits the number of elements of all its bundles at their ends."""

    def start_bundle(self) -> None:
        self.total = 0

    def process(self, element: int) -> Any:
        self.total += element
        yield from ()

    def finish_bundle(self) -> Any:
        in_window = window.IntervalWindow(0, 10)
        yield window.WindowedValue("ended", window.Timestamp(5), [in_window])


class EndingWithState(beam.DoFn):  # type: ignore[misc]
    """Keeps state, and emits something at the end of each bundle that has elements."""

    TOTAL = CombiningValueStateSpec("total", sum)

    def start_bundle(self) -> None:
        self.has_elements = False

    def process(self, pair: Any, total: Any = beam.DoFn.StateParam(TOTAL)) -> Any:
        total.add(pair[1])
        self.has_elements = True
        if total.read() > pair[1]:
            yield total.read()

    def finish_bundle(self) -> Any:
        if self.has_elements:
            yield window.WindowedValue("ended", window.Timestamp(5), [window.IntervalWindow(0, 10)])


class Carrier:
    """A key whose coder ignores case."""

    def __init__(self, code: str) -> None:
        self.code = code


class CarrierCoder(beam.coders.Coder):  # type: ignore[misc]
    """Encodes a carrier by its code in capitals."""

    def encode(self, value: Carrier) -> bytes:
        return value.code.upper().encode()

    def decode(self, encoded: bytes) -> Carrier:
        return Carrier(encoded.decode())

    def is_deterministic(self) -> bool:
        return True
