"""Each transform of each run works on copies of the objects that users have passed to it."""

from __future__ import annotations

import datetime as dt
import logging
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.hosts import on_hosts, runner_on

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest


class Once:
    """Returns each value the first time only."""

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def is_new(self, value: Any) -> bool:
        is_new = value not in self.seen
        self.seen.add(value)
        return is_new

    def __call__(self, value: Any) -> Any:
        return value if self.is_new(value) else None


class OnceFn(dm.DoFn):
    def __init__(self) -> None:
        self.once = Once()

    def process(self, element: Any) -> Iterable[Any]:
        if self.once.is_new(element):
            yield element


class OnceSum(dm.CombineFn[int, int, int]):
    def __init__(self) -> None:
        self.once = Once()

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + (element if self.once.is_new(element) else 0)

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


class OnceWindows(dm.WindowFn):
    """Windows of a second for the first element, and of a minute for the others."""

    def __init__(self) -> None:
        self.once = Once()

    def assign(self, event_time: dm.EventTime, element: Any) -> Any:
        del element
        return dm.FixedWindows("1 second" if self.once.is_new("first") else "1 minute").assign(event_time, None)


def build(p: dm.Pipeline) -> list[str]:
    """Apply each transform twice, to the same object of the user's; return the labels of the outputs."""
    numbers = p | dm.Create([dm.TimestampedValue(n, n) for n in (1, 2, 3)])
    pairs = numbers | dm.Map(lambda n: (n, n))
    fn, once, combine, cache = OnceFn(), Once(), OnceSum(), {"once": Once()}
    labels = []
    for name in ("one", "other"):
        given = {
            "dofn": numbers | f"dofn {name}" >> dm.ParDo(fn),
            "callable": numbers | f"callable {name}" >> dm.Map(once),
            "argument": numbers | f"argument {name}" >> dm.Map(lambda n, given: given["once"](n), given=cache),
            "combiner": pairs | f"combiner {name}" >> dm.CombinePerKey(combine),
            "fan-out": pairs | f"fan-out {name}" >> dm.CombinePerKey(combine).with_hot_key_fanout(2),
        }
        for kind, collection in given.items():
            labels.append(f"{kind} {name} kept")
            _ = collection | labels[-1] >> dm.io.Collect()
    return labels


def outputs(result: Any, labels: list[str]) -> dict[str, list[Any]]:
    return {label: sorted((record.value for record in result.collected(label)), key=repr) for label in labels}


@on_hosts("local", "workers", "process", "batch", "streaming", slow=("streaming",))
def test_each_run_and_each_transform_start_with_the_objects_as_they_were_passed(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    p = dm.Pipeline()
    labels = build(p)
    for run in range(2):
        p.runner = runner_on(host, request, tmp_path / f"checkpoint {run}")
        result = p.run()
        result.wait_until_finish()
        for label, found in outputs(result, labels).items():
            expected: list[Any] = [(n, n) for n in (1, 2, 3)] if label.startswith(("comb", "fan")) else [1, 2, 3]
            assert found == expected, (run, label)


def collected(p: dm.Pipeline, label: str = "kept") -> list[Any]:
    result = p.run()
    result.wait_until_finish()
    return [record.value for record in result.collected(label)]


def test_window_functions_and_triggers_start_in_their_original_state_in_each_run() -> None:
    class Stops(dm.DataTrigger):
        """Fires for the first two elements that it sees; the last one is emitted when the input ends."""

        def __init__(self) -> None:
            self.fired: list[Any] = []

        def should_emit(self, element: Any, state: Any) -> Any:
            self.fired.append(element)
            return len(self.fired) <= 2, state

    p = dm.Pipeline(dm.LocalRunner())
    pairs = p | TestStream().add(1, 0, key="k").add(2, 1, key="k").add(3, 2, key="k")
    sums = pairs | dm.Window.trigger(Stops()) | dm.Sum.per_key()
    _ = sums | "kept" >> dm.io.Collect()
    windows = (
        p
        | dm.Create([dm.TimestampedValue(("a", 1), 0)])
        | dm.Window.into(OnceWindows())
        | dm.Map(lambda _, window: window)
    )
    _ = windows | "windows" >> dm.io.Collect()
    for _run in range(2):
        result = p.run()
        result.wait_until_finish()
        assert [record.value for record in result.collected("kept")] == [("k", 1), ("k", 2), ("k", 3)]
        assert [str(record.value) for record in result.collected("windows")] == [
            "[1970-01-01T00:00:00Z, 1970-01-01T00:00:01Z)"
        ]


def test_objects_in_the_closure_of_a_function_are_not_copied() -> None:
    seen: list[Any] = []
    once = Once()

    def note(number: int) -> None:
        seen.append(number)

    p = dm.Pipeline(dm.LocalRunner())
    numbers = p | dm.Create([1, 2])
    _ = numbers | "closure" >> dm.Map(note)
    _ = numbers | "builtin" >> dm.Map(seen.append)
    _ = numbers | "method" >> dm.Filter(once.is_new) | "kept" >> dm.io.Collect()
    assert collected(p) == [1, 2]
    assert sorted(seen) == [1, 1, 2, 2]
    assert once.seen == {1, 2}
    assert collected(p) == []


def test_a_run_does_not_change_the_callers_object() -> None:
    class Noting(dm.DoFn):
        def __init__(self, seen: list[Any]) -> None:
            self.seen = seen

        def process(self, element: Any) -> Iterable[Any]:
            self.seen.append(element)
            yield len(self.seen)

    seen: list[Any] = []
    fn = Noting(seen)
    p = dm.Pipeline(dm.LocalRunner())
    _ = p | dm.Create([1, 2]) | dm.ParDo(fn) | "kept" >> dm.io.Collect()
    assert collected(p) == [1, 2]
    assert (seen, fn.seen) == ([], [])


def test_a_transform_that_was_run_for_a_side_input_starts_in_its_original_state_in_the_run() -> None:
    p = dm.Pipeline(dm.LocalRunner())
    numbers = p | dm.Create([1, 2, 3]) | dm.ParDo(OnceFn())
    _ = numbers | dm.Map(lambda n, others: (n, len(others)), dm.AsIter(numbers)) | "kept" >> dm.io.Collect()
    assert collected(p) == [(1, 3), (2, 3), (3, 3)]


def test_one_copy_of_a_function_processes_all_flattened_inputs() -> None:
    p = dm.Pipeline(dm.LocalRunner())
    both = (p | "one" >> dm.Create([1, 2]), p | "other" >> dm.Create([2, 3])) | dm.Flatten()
    _ = both | dm.ParDo(OnceFn()) | "kept" >> dm.io.Collect()
    assert sorted(collected(p)) == [1, 2, 3]


def test_a_stream_that_is_resumed_in_the_same_process_does_not_continue_with_old_attributes(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    fn = OnceFn()
    for start in ("a", "b"):
        (tmp_path / "in" / f"{start}.csv").write_text("n\n1\n")
        p = dm.Pipeline(dm.LocalRunner(checkpoint=tmp_path / "checkpoint"))
        rows = p | dm.io.ReadCsv(tmp_path / "in" / "*.csv", event_time=dm.ARRIVAL, follow=True)
        _ = rows | dm.Map(lambda row: row.n) | dm.ParDo(fn) | "kept" >> dm.io.Collect()
        result = p.run()
        while len(result.collected("kept")) < (1 if start == "a" else 2):
            result.wait_until_finish("10 milliseconds")
        result.stop()


def test_a_sink_s_callable_object_is_copied_and_its_function_is_not() -> None:
    class Batches:
        calls: ClassVar[list[int]] = []

        def __init__(self) -> None:
            self.batches = 0

        def __call__(self, values: list[Any]) -> None:
            self.batches += 1
            self.calls.append(self.batches)

    seen: list[Any] = []
    p = dm.Pipeline(dm.LocalRunner())
    numbers = p | dm.Create([1, 2])
    _ = numbers | "object" >> dm.io.ForeachBundle(Batches())
    _ = numbers | "function" >> dm.io.ForeachBundle(seen.extend)
    for _run in range(2):
        p.run().wait_until_finish()
    assert (Batches.calls, seen) == ([1, 1], [1, 2, 1, 2])


def test_a_watermark_estimator_is_copied_for_each_run() -> None:
    class Counting:
        """Notes how often it is asked."""

        calls = 0

        def watermark(self, reached: dm.EventTime) -> dm.EventTime:
            self.calls += 1
            return reached

    estimator = Counting()
    p = dm.Pipeline(dm.LocalRunner())
    table = pa.table({"n": [1], "at": [dt.datetime(2013, 1, 1, tzinfo=dt.UTC)]})
    rows = p | dm.io.ReadTable(table, event_time="at", watermark=estimator)
    _ = rows | "kept" >> dm.io.Collect()
    assert len(collected(p)) == 1
    assert estimator.calls == 0


def test_an_object_that_cannot_be_copied_is_logged_once_in_a_run_and_shared(caplog: pytest.LogCaptureFixture) -> None:
    class Locked(OnceFn):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()

    fn = Locked()
    p = dm.Pipeline(dm.LocalRunner())
    _ = p | dm.Create([1, 2]) | "guarded" >> dm.ParDo(fn) | dm.Map(str) | "kept" >> dm.io.Collect()
    with caplog.at_level(logging.WARNING, "dataflow_model"):
        assert collected(p) == ["1", "2"]
    assert caplog.messages == [
        "'guarded': the attribute 'lock' of Locked cannot be copied, and is shared by all runs in this process"
    ]
    assert collected(p) == ["1", "2"]
    assert fn.once.seen == set()
