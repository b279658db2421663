"""A program whose state holds values and windows of its own classes; each start of it runs a part of one stream.

Usage: python -m tests.support.runners.main_classes_job FOLDER STEP; FOLDER/rows holds the input. Step 0 begins in
process, 1 and 2 go on with Spark, and 3 ends in process, where it compares the panes with those of a run that was never
stopped, and prints the difference.
"""

from __future__ import annotations

import dataclasses
import enum
import pathlib
import sys
from typing import TYPE_CHECKING, Any

import attrs

import dataflow_model as dm
from dataflow_model.runners.spark import local_session
from tests.support.pipelines import difference, run, seen, start
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dataflow_model.values import Window

ROWS = 1_200
SINKS = ("windows", "opaque windows", "lists", "counts", "states", "distinct")


class Carrier(enum.Enum):
    """A key and a value."""

    UA = 1
    AA = 2
    B6 = 3


@dataclasses.dataclass(frozen=True)
class Flight:
    """An element."""

    number: int
    carrier: Carrier

    @dataclasses.dataclass(frozen=True)
    class Leg:
        """A class in a class."""

        number: int


@attrs.frozen
class Plan(dm.IntervalWindow):
    """A window with a field."""

    name: str = ""


@attrs.frozen
class ByPlan(dm.WindowFn):
    """Windows of a class of the program."""

    def assign(self, event_time: dm.EventTime, element: Any) -> tuple[Window, ...]:
        """Return the window of 20 microseconds."""
        first = int(event_time) // 20 * 20
        return (Plan(dm.EventTime(first), dm.EventTime(first + 20), element[0].name),)


class Opaque(dm.IntervalWindow):
    """A window that can only be compared."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self.end == other.end

    def __hash__(self) -> int:
        return hash(self.end)


@attrs.frozen
class Opaquely(dm.WindowFn):
    """Windows that have no encoding but their pickle."""

    def assign(self, event_time: dm.EventTime, element: Any) -> tuple[Window, ...]:
        """Return the window of 40 microseconds."""
        del element
        first = int(event_time) // 40 * 40
        return (Opaque(dm.EventTime(first), dm.EventTime(first + 40)),)


@attrs.frozen
class Counted:
    """An accumulator."""

    flights: frozenset[Flight] = frozenset()


class CountFlights(dm.CombineFn[Flight, Counted, tuple[int, bool]]):
    """Count, and look at the classes of what state has returned."""

    def create_accumulator(self) -> Counted:
        """Return an accumulator without elements."""
        return Counted()

    def add_input(self, accumulator: Counted, element: Flight) -> Counted:
        """Add a flight."""
        return Counted(accumulator.flights | {element})

    def merge_accumulators(self, accumulators: Iterable[Counted]) -> Counted:
        """Add up."""
        return Counted(frozenset().union(*(accumulator.flights for accumulator in accumulators)))

    def extract_output(self, accumulator: Counted) -> tuple[int, bool]:
        """Return the number, and whether all flights are of this program's class."""
        return len(accumulator.flights), all(isinstance(flight, Flight) for flight in accumulator.flights)


class Remember(dm.DoFn[Any, Any]):
    """Keep values of the program's classes, one of them beside what only pickles by value."""

    last = dm.ValueStateSpec[Any]()
    legs = dm.BagStateSpec[Any]()

    def process(self, element: Any, last: Any, legs: Any) -> Iterator[Any]:
        """Emit what the state says about the elements before."""
        carrier, flight = element
        kept = last.read()
        known = kept is not None and kept[0] is carrier and kept[1].carrier is carrier and kept[2]() == "kept"
        yield carrier, flight.number, known, sum(leg == Flight.Leg(carrier.value) for leg in legs.read())
        last.write((carrier, flight, lambda: "kept"))
        legs.add(Flight.Leg(carrier.value))


def build(rows: pathlib.Path) -> Any:
    """Return the pipeline."""

    def pipeline(p: dm.Pipeline) -> None:
        read = p | "rows" >> dm.io.ReadParquet(
            rows, event_time="at", processing_time="seen", watermark=dm.BoundedOutOfOrderness("30 microseconds")
        )
        flights = read | "pairs" >> dm.Map(_flight)
        early = dm.AfterWatermark(early=dm.AfterCount(7))
        by_plan = "by plan" >> dm.Window.into(ByPlan()).trigger(early).accumulating_and_retracting()
        _ = flights | by_plan | "flights" >> dm.GroupByKey() | "windows" >> dm.io.Collect()
        opaque = flights | "opaquely" >> dm.Window.into(Opaquely()) | "opaque" >> dm.GroupByKey()
        _ = opaque | "opaque windows" >> dm.io.Collect()
        fixed = flights | "fixed" >> dm.Window.into(dm.FixedWindows("50 microseconds"))
        _ = fixed | "grouped" >> dm.GroupByKey() | "lists" >> dm.io.Collect()
        _ = fixed | "counted" >> dm.CombinePerKey(CountFlights()) | "counts" >> dm.io.Collect()
        _ = flights | "remember" >> dm.ParDo(Remember()) | "states" >> dm.io.Collect()
        _ = flights | "once" >> dm.Deduplicate(_carrier, horizon="1 second") | "distinct" >> dm.io.Collect()

    return pipeline


def _flight(row: Any) -> tuple[Carrier, Flight]:
    carrier = list(Carrier)[row.key]
    return carrier, Flight(row.n, carrier)


def _carrier(element: tuple[Carrier, Flight]) -> Carrier:
    return element[0]


def main(folder: pathlib.Path, step: int) -> None:
    """Run one step."""
    pipeline, checkpoints = build(folder / "rows"), [str(folder / name) for name in ("first", "second", "third")]
    if step == 0:
        part(dm.LocalRunner(checkpoint=checkpoints[0], max_rows_per_batch=10), pipeline, 30)
        dm.upgrade(checkpoints[0], checkpoints[1])
        return
    if step == 3:
        uninterrupted = run(dm.LocalRunner(), pipeline)
        result = run(dm.LocalRunner(checkpoint=checkpoints[2]), pipeline)
        for sink in SINKS:
            problem = difference(seen(uninterrupted.collected(sink)), seen(result.collected(sink)))
            assert uninterrupted.collected(sink), sink
            print(f"{sink}: {problem}" if problem else "", end="")  # noqa: T201 - the test reads it
        return
    spark = local_session("classes", log=str(folder / "log"))
    part(dm.SparkRunner(spark, mode="streaming", checkpoint=checkpoints[1], max_rows_per_batch=10), pipeline, 30)
    if step == 2:
        dm.upgrade(checkpoints[1], checkpoints[2], spark=spark)
    spark.stop()


def part(runner: Any, pipeline: Any, more: int) -> None:
    """Run a part of the stream: at least so many rows more than before, but not all."""
    result = start(runner, pipeline)
    before = rows_read(result)
    wait_for(result, lambda: rows_read(result) >= before + more)
    result.stop()
    assert rows_read(result) < ROWS


def rows_read(result: Any) -> int:
    """Return how many rows the run has read, with those before a restart."""
    return int(result.metrics().get("rows", {}).get("elements_out", 0))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
