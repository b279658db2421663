"""Pipelines in which the user code of a transform raises what would end a program, each at another place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

import dataflow_model as dm
from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.endpoints.origins import Origin
from dataflow_model.plan.endpoints.sinks import Sink, SinkWriter
from dataflow_model.plan.watermarks.estimators import Arrival, BoundedOutOfOrderness, WatermarkEstimator
from dataflow_model.plan.watermarks.origins import EVERYTHING, WatermarkOrigins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dataflow_model.triggers import TriggerContext

__all__ = ["USER_CODE", "pickled"]


def leave(*_: object) -> Any:
    raise SystemExit(0)


class Calls(dm.DoFn):
    """Leaves in one of its methods."""

    def __init__(self, method: str) -> None:
        setattr(self, method, leave)

    def process(self, element: Any) -> Any:
        yield element


class Yielding(dm.DoFn):
    def process(self, element: Any) -> Any:
        yield element
        leave()


class WithTimer(dm.DoFn):
    total = dm.CombiningStateSpec(dm.Sum())
    due = dm.TimerSpec(dm.TimeDomain.EVENT_TIME)

    def process(self, element: Any, due: Any) -> None:
        due.set(dm.event_time(5))

    @dm.on_timer(due)
    def at_the_end(self) -> Any:
        leave()


class WithState(dm.DoFn):
    total = dm.CombiningStateSpec(dm.Sum())

    def process(self, element: Any, total: Any) -> None:
        total.add(1)
        leave()


class Expiring(dm.DoFn):
    total = dm.CombiningStateSpec(dm.Sum())

    def process(self, element: Any, total: Any) -> None:
        total.add(1)

    def on_window_expiry(self) -> Any:
        leave()


class LeavingSum(dm.CombineFn[int, int, int]):
    """A sum that leaves in one of its methods."""

    def __init__(self, method: str) -> None:
        setattr(self, method, leave)

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + element

    def merge_accumulators(self, accumulators: Any) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


class LeavingWindows(dm.WindowFn):
    def assign(self, event_time: Any, element: Any) -> Any:
        leave()


class LeavingTrigger(dm.Trigger):
    def on_element(self, context: TriggerContext) -> None:
        leave()


@attrs.frozen
class Unpicklable:
    number: int

    def __reduce__(self) -> Any:
        leave()


@attrs.frozen
class LeavingSink(Sink):
    """Leaves at one of these steps: open, write, close or commit."""

    step: str

    def at(self, step: str) -> None:
        if step == self.step:
            leave()

    def check(self) -> None: ...

    def open(self, commit_id: str, task_id: str) -> SinkWriter:
        del commit_id, task_id
        self.at("open")
        return _Writer(self)

    def commit(self, commit_id: str, messages: Sequence[bytes]) -> None:
        self.at("commit")

    def abort(self, commit_id: str, messages: Sequence[bytes]) -> None:
        leave()


@attrs.frozen
class _Writer(SinkWriter):
    sink: LeavingSink

    def write(self, records: Sequence[Any]) -> None:
        self.sink.at("write")

    def close(self) -> bytes:
        self.sink.at("close")
        return b""

    def abort(self) -> None:
        leave()


@attrs.frozen(kw_only=True, eq=False)
class LeavingSource(ColumnSource):
    """Leaves while its rows are listed, or read."""

    step: str
    is_bounded: bool = True
    event_time: str | Arrival | None = "at"
    processing_time: str | None = None
    watermark: WatermarkEstimator = BoundedOutOfOrderness(dm.Duration(0))
    watermark_origins: WatermarkOrigins = EVERYTHING

    def origins(self) -> list[Origin]:
        if self.step == "list":
            leave()
        return [Origin("only", 2)]

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([{"at": 1}], self.schema())
        leave()

    def schema(self) -> pa.Schema:
        return pa.schema({"at": pa.int64()})


def on_numbers(transform: Callable[[], Any]) -> Callable[[dm.Pipeline], None]:
    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create([1, 2]) | "leaves" >> transform() | "out" >> dm.io.Collect()

    return build


def on_pairs(transform: Callable[[], Any], windows: Any = None) -> Callable[[dm.Pipeline], None]:
    def build(p: dm.Pipeline) -> None:
        pairs = p | dm.Create([dm.TimestampedValue(("a", 1), 1), dm.TimestampedValue(("b", 2), 2)])
        windowed = pairs | "windows" >> dm.Window.into(windows or dm.FixedWindows(10))
        _ = windowed | "leaves" >> transform() | "out" >> dm.io.Collect()

    return build


def on_triggered(p: dm.Pipeline) -> None:
    pairs = p | dm.Create([("a", 1)]) | dm.Window.trigger(dm.Repeatedly(LeavingTrigger()))
    _ = pairs | "leaves" >> dm.GroupByKey() | "out" >> dm.io.Collect()


def on_session(p: dm.Pipeline) -> None:
    pairs = p | dm.Create([dm.TimestampedValue(("a", at), at) for at in (1, 9, 5)]) | dm.Window.into(dm.Sessions(5))
    _ = pairs | "leaves" >> dm.CombinePerKey(LeavingSum("merge_accumulators")) | "out" >> dm.io.Collect()


def to_sink(step: str) -> Callable[[dm.Pipeline], None]:
    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create([1, 2]) | "leaves" >> dm.Write(LeavingSink(step))

    return build


def from_source(step: str) -> Callable[[dm.Pipeline], None]:
    def build(p: dm.Pipeline) -> None:
        _ = p | "leaves" >> dm.Read(LeavingSource(step=step)) | "out" >> dm.io.Collect()

    return build


def on_columns(p: dm.Pipeline) -> None:
    rows = p | dm.io.ReadTable(pa.table({"number": [1, 2]}), event_time=None)
    _ = rows | "leaves" >> dm.Map(leave, vectorized=True) | "out" >> dm.io.Collect()


def to_function(p: dm.Pipeline) -> None:
    _ = p | dm.Create([1]) | "leaves" >> dm.io.ForeachBundle(leave)


def pickled(p: dm.Pipeline) -> None:
    pairs = p | dm.Create([1, 2]) | dm.Map(lambda x: (x, Unpicklable(x)))
    _ = pairs | "leaves" >> dm.GroupByKey() | dm.Map(lambda pair: pair[0]) | "out" >> dm.io.Collect()


def with_side_input(p: dm.Pipeline) -> None:
    side = p | "side" >> dm.Create([1]) | "leaves" >> dm.Map(leave)
    _ = p | dm.Create([1]) | dm.Map(lambda x, values: x, values=dm.AsIter(side)) | "out" >> dm.io.Collect()


USER_CODE: dict[str, Callable[[dm.Pipeline], None]] = {
    "map": on_numbers(lambda: dm.Map(leave)),
    "map with an argument": on_numbers(lambda: dm.Map(lambda x, more: leave(), more=1)),
    "filter": on_numbers(lambda: dm.Filter(leave)),
    "flat map": on_numbers(lambda: dm.FlatMap(leave)),
    "process": on_numbers(lambda: dm.ParDo(Calls("process"))),
    "generator": on_numbers(lambda: dm.ParDo(Yielding())),
    "vectorized": on_columns,
    "timestamps": on_numbers(lambda: dm.WithTimestamps(leave)),
    "setup": on_numbers(lambda: dm.ParDo(Calls("setup"))),
    "start_bundle": on_numbers(lambda: dm.ParDo(Calls("start_bundle"))),
    "finish_bundle": on_numbers(lambda: dm.ParDo(Calls("finish_bundle"))),
    "teardown": on_numbers(lambda: dm.ParDo(Calls("teardown"))),
    "state": on_pairs(lambda: dm.ParDo(WithState())),
    "timer": on_pairs(lambda: dm.ParDo(WithTimer())),
    "expiry": on_pairs(lambda: dm.ParDo(Expiring())),
    "create_accumulator": on_pairs(lambda: dm.CombinePerKey(LeavingSum("create_accumulator"))),
    "add_input": on_pairs(lambda: dm.CombinePerKey(LeavingSum("add_input"))),
    "extract_output": on_pairs(lambda: dm.CombinePerKey(LeavingSum("extract_output"))),
    "merge_accumulators": on_session,
    "window function": on_pairs(lambda: dm.Window.into(LeavingWindows())),
    "trigger": on_triggered,
    "static side input": with_side_input,
    "function of ForeachBundle": to_function,
    **{f"sink: {step}": to_sink(step) for step in ("open", "write", "close", "commit")},
    **{f"source: {step}": from_source(step) for step in ("list", "read")},
}
"""By what calls the user code; each leaves in the transform `leaves`."""
