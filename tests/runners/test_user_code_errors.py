"""Errors in users' functions: each carries the transform's label and where it was raised, even a StopIteration."""

from __future__ import annotations

import importlib.util
import json
import traceback
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.hosts import on_hosts, runner_on
from tests.support.pipelines import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

Raised = type[Exception]
RAISED = pytest.mark.parametrize("raised", [StopIteration, ValueError], ids=lambda raised: raised.__name__)
SCRIPT = TestStream().add(("k", 1), 0).add(("k", 2), 1).processing_time(20).processing_time(40)


@attrs.frozen
class Failing:
    """Raises in one step."""

    step: str
    raised: Raised

    def reach(self, step: str) -> None:
        if step == self.step:
            raise self.raised("boom")


@attrs.frozen
class Combines(dm.CombineFn[Any, int, int]):
    fails: Failing

    def create_accumulator(self) -> int:
        self.fails.reach("create_accumulator")
        return 0

    def add_input(self, accumulator: int, element: Any) -> int:
        self.fails.reach("add_input")
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        self.fails.reach("merge_accumulators")
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        self.fails.reach("extract_output")
        return accumulator


@attrs.frozen
class Fires(dm.Trigger):
    fails: Failing

    def on_element(self, context: Any) -> None:
        self.fails.reach("on_element")
        context.set_timer("event", context.window.end, dm.TimeDomain.EVENT_TIME)
        context.set_timer("clock", dm.ProcessingTime(10), dm.TimeDomain.PROCESSING_TIME)

    def on_timer(self, context: Any, tag: str) -> None:
        self.fails.reach(f"on_timer {tag}")

    def on_merge(self, context: Any) -> None:
        self.fails.reach("on_merge")


@attrs.frozen
class Windows(dm.WindowFn):
    """Windows of ten seconds that merge as `merges` says; junk where it is told so."""

    is_merging: ClassVar[bool] = True
    assigns: Callable[[dm.EventTime], Any] = lambda time: [window_at(time)]
    merges: Callable[[Sequence[Any]], Any] = lambda windows: ()

    def assign(self, event_time: dm.EventTime, element: Any) -> Any:
        return self.assigns(event_time)

    def merge(self, windows: Sequence[Any]) -> Any:
        return self.merges(windows)


class Lives(dm.DoFn):
    def __init__(self, fails: Failing) -> None:
        self.fails = fails

    def setup(self) -> None:
        self.fails.reach("setup")

    def start_bundle(self) -> None:
        self.fails.reach("start_bundle")

    def process(self, element: Any) -> Any:
        self.fails.reach("process")
        yield element

    def finish_bundle(self) -> None:
        self.fails.reach("finish_bundle")

    def teardown(self) -> None:
        self.fails.reach("teardown")


@attrs.frozen
class Answers(dm.DataTrigger):
    answer: Any

    def should_emit(self, element: Any, state: Any) -> Any:
        return self.answer


def window_at(time: dm.EventTime) -> dm.IntervalWindow:
    return dm.IntervalWindow(time, dm.EventTime(int(time) + 10_000_000))


def message_of(build: Callable[[Any], Any]) -> str:
    p = dm.Pipeline(dm.LocalRunner())
    _ = build(p | "script" >> SCRIPT) | "kept" >> dm.io.Collect()
    with pytest.raises(dm.UserCodeError) as error:
        p.run().wait_until_finish()
    return str(error.value)


@RAISED
@pytest.mark.parametrize("step", ["create_accumulator", "add_input", "merge_accumulators"])
def test_an_exception_of_a_combiner_for_an_element_has_label_and_element(step: str, raised: Raised) -> None:
    combine = Combines(Failing(step, raised))
    message = message_of(lambda c: c | dm.Window.into(dm.Sessions(10)) | "sum" >> dm.CombinePerKey(combine))
    assert f"{raised.__name__}: boom" in message
    assert "transform: 'sum'\n  element: ('k', " in message
    assert "in reach" not in message.partition("\n")[0]


@RAISED
@pytest.mark.parametrize("trigger", [dm.AfterWatermark(), dm.Repeatedly(dm.AfterProcessingTime(5))], ids=str)
def test_an_exception_of_a_combiner_for_a_pane_has_label_key_and_window(trigger: dm.Trigger, raised: Raised) -> None:
    combine = Combines(Failing("extract_output", raised))
    windowed = dm.Window.into(dm.FixedWindows(10)).trigger(trigger)
    message = message_of(lambda c: c | windowed | "sum" >> dm.CombinePerKey(combine))
    assert f"{raised.__name__}: boom" in message
    assert "transform: 'sum'\n  key: 'k', window: [1970-01-01T00:00:00Z, 1970-01-01T00:00:10Z)" in message


@RAISED
@pytest.mark.parametrize("step", ["on_element", "on_merge", "on_timer event", "on_timer clock"])
def test_an_exception_of_a_trigger_has_the_label_of_the_grouping(step: str, raised: Raised) -> None:
    windowed = dm.Window.into(dm.Sessions(10)).trigger(dm.Repeatedly(Fires(Failing(step, raised))))
    message = message_of(lambda c: c | windowed | "lists" >> dm.GroupByKey())
    assert f"{raised.__name__}: boom" in message
    assert "transform: 'lists'" in message
    assert ("key: 'k', window: [" if "timer" in step else "element: ('k', ") in message


@RAISED
@pytest.mark.parametrize("step", ["setup", "start_bundle", "finish_bundle", "teardown"])
def test_an_exception_of_a_life_cycle_method_of_a_dofn_has_label_and_method(step: str, raised: Raised) -> None:
    message = message_of(lambda c: c | "lives" >> dm.ParDo(Lives(Failing(step, raised))))
    assert message.startswith(f"{raised.__name__}: boom\n  in: ")
    assert f"transform: 'lives', in its {step}()" in message


class Finishes(dm.DoFn):
    def __init__(self, outputs: Any) -> None:
        self.outputs = outputs

    def process(self, element: Any) -> None:
        pass

    def finish_bundle(self) -> Any:
        return self.outputs


class FinishesByKey(Finishes):
    count = dm.ValueStateSpec(default=0)


def check_refused(runner: Any, fn: dm.DoFn, kind: str) -> None:
    p = dm.Pipeline(runner)
    _ = p | dm.Create([("k", 1)]) | "totals" >> dm.ParDo(fn) | dm.io.Collect()
    with pytest.raises(
        dm.InvalidType,
        match=rf"'totals' must return an iterable of outputs, got .* of type {kind}\nHint: let finish_bundle return",
    ):
        p.run().wait_until_finish()


@pytest.mark.parametrize("fn", [Finishes, FinishesByKey])
@pytest.mark.parametrize("outputs", ["abc", b"ab", {"total": 3}, 5, ""])
def test_finish_bundle_must_return_an_iterable_of_outputs(outputs: Any, fn: type[Finishes]) -> None:
    check_refused(dm.LocalRunner(), fn(outputs), type(outputs).__name__)


@on_hosts("workers", "process", slow=("batch", "streaming"))
def test_a_text_that_finish_bundle_returns_is_refused_on_every_host(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    check_refused(runner_on(host, request, tmp_path / "checkpoint"), Finishes("abc"), "str")


@pytest.mark.parametrize("outputs", [None, [], (), iter([])])
def test_finish_bundle_may_return_nothing(outputs: Any) -> None:
    p = dm.Pipeline()
    _ = p | dm.Create([("k", 1)]) | dm.ParDo(Finishes(outputs)) | "kept" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    assert result.collected("kept") == []


@RAISED
def test_an_exception_of_a_generator_is_shown_as_the_user_raised_it(raised: Raised) -> None:
    message = message_of(lambda c: c | "lives" >> dm.ParDo(Lives(Failing("process", raised))))
    assert message.startswith(f"{raised.__name__}: boom\n  in: ")


def _parse(text: str) -> Any:
    return json.loads(text)


def _column(batch: pa.RecordBatch) -> Any:
    return batch["nope"]


def _installed(folder: Path) -> Any:
    """Return a module that is installed, as that of a job may be."""
    path = folder / "site-packages" / "acme_jobs.py"
    path.parent.mkdir()
    path.write_text(
        "import json\n\n\ndef parse(text):\n    return read(text)\n\n\ndef read(text):\n    return json.loads(text)\n"
    )
    spec: Any = importlib.util.spec_from_file_location("acme_jobs", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("transform", "line", "library"),
    [
        (
            lambda _: dm.Map(_parse),
            r"return json\.loads\(text\)  \(.*errors\.py:\d+, _parse\)",
            r".*decoder\.py:\d+, raw_dec.*",
        ),
        (
            lambda _: dm.Map(_column, vectorized=True),
            r'return batch\["nope"\]  \(.*errors\.py:\d+, _column\)',
            r"\(pyarrow/table\.pxi:.*",  # compiled, without a line
        ),
        (
            lambda folder: dm.Map(_installed(folder).parse),
            r"return json\.loads\(text\)  \(.*acme_jobs\.py:9, read\)",
            r".*decoder\.py:\d+, raw_decode\)",
        ),
    ],
    ids=["Python", "compiled", "installed"],
)
def test_an_exception_of_a_library_is_shown_at_the_users_line_and_where_it_was_raised(
    tmp_path: Path, transform: Any, line: str, library: str
) -> None:
    p = dm.Pipeline(dm.LocalRunner())
    _ = p | dm.Create(["{"]) | "parse" >> transform(tmp_path) | dm.io.Collect()
    with pytest.raises(
        dm.UserCodeError, match=rf"^\w+: .*\n  in: {line}\n  raised in: {library}\n  transform: 'parse'\n"
    ):
        p.run().wait_until_finish()


def test_an_exception_of_a_library_function_used_directly_is_shown_where_it_was_raised() -> None:
    message = message_of(lambda c: c | dm.Map(lambda _: "{") | "parse" >> dm.Map(json.loads))
    assert "raw_decode)\n  transform: 'parse'" in message
    assert "raised in" not in message


def in_a_list(fn: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    return lambda element: [fn(element)]


def generated(fn: Callable[[Any], Any]) -> Callable[[Any], Iterator[Any]]:
    return lambda element: (fn(each) for each in [element])


ONE_BY_ONE: dict[str, Any] = {
    "Map": dm.Map,
    "Filter": dm.Filter,
    "FlatMap": lambda fn: dm.FlatMap(in_a_list(fn)),
    "FlatMap, a generator": lambda fn: dm.FlatMap(generated(fn)),
    "FlatMapTuple": lambda fn: dm.FlatMapTuple(lambda key, n: [fn((key, n))]),
    "MapTuple": lambda fn: dm.MapTuple(lambda key, n: fn((key, n))),
    "ParDo": lambda fn: dm.ParDo(in_a_list(fn)),
}
CARRIERS: dict[str, Any] = {
    "list": lambda p, file: p | dm.Create([("k", n) for n in range(5)]),
    "columns": lambda p, file: p | dm.io.ReadParquet(file, event_time="n") | dm.WithKeys("key", value="n"),
    "panes": lambda p, file: p | dm.Create([(n, n) for n in range(5)]) | dm.Sum.per_key(),
}


@RAISED
@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("transform", ONE_BY_ONE)
@pytest.mark.parametrize("failing", [0, 2, 4])
def test_an_exception_for_one_element_among_others_names_that_element(
    tmp_path: Path, transform: str, carrier: str, failing: int, raised: Raised
) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"key": ["k"] * 5, "n": range(5)}), file)

    def fail(pair: Any) -> Any:
        if pair[1] == failing:
            raise raised("boom")
        return pair

    p = dm.Pipeline(dm.LocalRunner())
    _ = CARRIERS[carrier](p, file) | "fails" >> ONE_BY_ONE[transform](fail) | dm.io.Collect()
    with pytest.raises(dm.UserCodeError, match=f"^{raised.__name__}: boom") as error:
        p.run().wait_until_finish()
    key = failing if carrier == "panes" else "k"
    assert f"transform: 'fails'\n  element: {(key, failing)!r}" in str(error.value)


@pytest.mark.parametrize("assigned", [None, "ab", [1], window_at(dm.EventTime(0))], ids=repr)
def test_a_window_function_that_assigns_something_else_than_windows_is_refused(assigned: Any) -> None:
    windowed = dm.Window.into(Windows(assigns=lambda time: assigned))
    message = message_of(lambda c: c | windowed | dm.GroupByKey())
    assert f"must assign a sequence of windows, got {assigned!r}" in message
    assert "transform: 'Window.into'\n  element: ('k', 1)" in message


@pytest.mark.parametrize(
    "merges",
    [
        lambda windows: None,
        lambda windows: windows,
        lambda windows: [(windows, "target")],
        lambda windows: [(["source"], windows[0])],
        lambda windows: [([window_at(dm.EventTime(77))], windows[0])],
        lambda windows: [(windows[0], windows[0])],
    ],
    ids=["nothing", "no pairs", "a target that is none", "a source that is none", "an unknown source", "no list"],
)
def test_a_window_function_that_merges_something_else_is_refused(merges: Any) -> None:
    message = message_of(lambda c: c | dm.Window.into(Windows(merges=merges)) | "lists" >> dm.GroupByKey())
    assert "must yield pairs of the windows to merge, which must be among the given windows, and the merged" in message
    assert "transform: 'lists'\n  element: ('k', 1)" in message


def test_a_data_trigger_that_does_not_return_a_pair_is_refused() -> None:
    windowed = dm.Window.into(dm.FixedWindows(10)).trigger(dm.Repeatedly(Answers(True)))
    message = message_of(lambda c: c | windowed | "lists" >> dm.GroupByKey())
    assert "should_emit of Answers(answer=True) must return a pair" in message
    assert "transform: 'lists'" in message


def test_an_exception_whose_text_cannot_be_computed_is_still_reported() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

    def fail(pair: Any) -> Any:
        raise Mute

    message = message_of(lambda c: c | "fails" >> dm.Map(fail))
    assert message.startswith("Mute: (its __str__ raised ZeroDivisionError)\n  in: raise Mute")


def test_a_hint_for_a_transform_without_dead_letters_can_be_followed() -> None:
    message = message_of(lambda c: c | dm.WithKeys(lambda pair: 1 // (pair[1] - pair[1])))
    assert message.endswith(
        "Hint: add .with_exception_handling() to the dm.Map, dm.FlatMap, dm.Filter, dm.ParDo or combiner that fails, "
        "or to one that checks its input, to send such elements to a separate output"
    )


@attrs.frozen
class Columns(dm.WindowFn):
    """Windows that are assigned a column at a time, by a function that is wrong."""

    how: Callable[[Any], Any]

    @property
    def length(self) -> dm.Duration:
        return dm.Duration(micros=60)

    def assign(self, event_time: dm.EventTime, element: Any) -> Sequence[dm.IntervalWindow]:
        del element
        start = int(event_time) // 60 * 60
        return [dm.IntervalWindow(dm.EventTime(start), dm.EventTime(start + 60))]

    def assign_many(self, event_times: Any) -> Any:
        return self.how(event_times)


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        (lambda times: 1 // 0, "ZeroDivisionError: .*"),
        (lambda times: (None, times), r".*must assign a column of 3 event times to columns, got \(None, .*"),
        (lambda times: (None, times[1:], times[1:] + 60), ".*must assign a column of 3 event times to columns.*"),
        (lambda times: (None, times / 60, times), ".*must assign a column of 3 event times to columns.*"),
        (lambda times: (None, [0, 0, 0], times), ".*must assign a column of 3 event times to columns.*"),
    ],
)
def test_an_exception_while_a_column_of_windows_is_assigned_has_the_label_and_the_times(
    tmp_path: Path, how: Callable[[Any], Any], problem: str
) -> None:
    pq.write_table(pa.table({"at": [70, 10, 80], "key": ["a", "a", "b"]}), tmp_path / "rows.parquet")

    def build(p: dm.Pipeline) -> None:
        rows = p | dm.io.ReadParquet(tmp_path / "rows.parquet", event_time="at")
        windows = rows | dm.WithKeys("key") | "by minute" >> dm.Window.into(Columns(how))
        _ = windows | dm.Count.per_key() | dm.io.Collect()

    times = "3, from 1970-01-01T00:00:00.000010Z to 1970-01-01T00:00:00.000080Z"
    with pytest.raises(dm.UserCodeError, match=rf"(?s){problem}\n  transform: 'by minute'\n  event times: {times}"):
        run(dm.LocalRunner(checkpoint=tmp_path / "checkpoint"), build)


@pytest.mark.parametrize("key", [None, lambda value: value], ids=["no key", "key"])
@pytest.mark.parametrize("reverse", [False, True], ids=["greatest", "least"])
def test_top_over_types_that_do_not_compare_says_so_with_label_and_way_out(key: Any, reverse: bool) -> None:
    mixed = dm.Map(lambda pair: (pair[0], "two" if pair[1] == 2 else pair[1]))
    message = message_of(lambda c: c | mixed | "best" >> dm.Top.per_key(2, key=key, reverse=reverse))
    assert "Top compares elements, and cannot compare 1 with 'two'" in message
    assert "transform: 'best'\n  key: 'k'" in message
    assert "\nHint: pass a key to compare by, such as dm.Top(3, key=str)" in message


def test_a_type_error_of_the_users_key_function_is_not_taken_for_elements_that_do_not_compare() -> None:
    message = message_of(lambda c: c | "best" >> dm.Top.per_key(1, key=len))
    assert message.startswith("TypeError: object of type 'int' has no len()")


def test_the_traceback_of_an_error_in_a_users_function_shows_no_frames_of_the_engine() -> None:
    with pytest.raises(dm.UserCodeError) as raised, dm.Pipeline() as p:
        _ = p | dm.Create([0]) | dm.Map(lambda x: 1 // x)
    names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert names[-3:] == ["__exit__", "wait_or_stop", "wait_until_finish"]
    cause = raised.value.__cause__
    assert isinstance(cause, ZeroDivisionError)
    assert [frame.name for frame in traceback.extract_tb(cause.__traceback__)] == ["<lambda>"]


class Stateful(dm.DoFn):
    """Keeps what it is told to, looks at a side input, and fails in a step."""

    kept: Any = dm.ValueStateSpec(default=None)
    over = dm.TimerSpec()

    def __init__(self, step: str = "", keeps: Callable[[], Any] = int) -> None:
        self.step = step
        self.keeps = keeps

    def setup(self) -> None:
        self.reach("setup")

    def start_bundle(self) -> None:
        self.reach("start_bundle")

    def reach(self, step: str) -> None:
        if step == self.step:
            raise OSError("no connection")

    def process(self, pair: Any, kept: dm.ValueState[Any], over: dm.Timer, side: Any = None) -> Iterator[Any]:
        kept.write(self.keeps())
        over.set_after(1)
        yield pair, side

    @dm.on_timer(over)
    def fire(self, key: Any, side: Any = None) -> Iterator[Any]:
        yield key, side


def rescued(transform: dm.ParDo) -> list[str]:
    """Return the reasons of a transform's dead letters."""

    def build(p: dm.Pipeline) -> None:
        pairs = p | "pairs" >> dm.Create([("a", 1), ("a", 2)])
        _, failed = pairs | "stateful" >> transform.with_exception_handling()
        _ = failed | "failed" >> dm.io.Collect()

    return [record.value.reason for record in run(dm.LocalRunner(), build).collected("failed")]


@pytest.mark.parametrize("step", ["setup", "start_bundle"])
def test_an_exception_in_a_life_cycle_method_of_a_stateful_function_makes_no_dead_letters(step: str) -> None:
    with pytest.raises(dm.UserCodeError, match="OSError: no connection") as raised:
        rescued(dm.ParDo(Stateful(step)))
    assert f"transform: 'stateful', in its {step}()" in str(raised.value)
    assert "element" not in str(raised.value).partition("Hint:")[0]


@pytest.mark.parametrize("by_name", [True, False])
def test_a_side_input_of_a_stateful_function_that_has_no_value_names_transform_and_element(*, by_name: bool) -> None:
    def given(p: dm.Pipeline) -> dm.ParDo:
        empty = dm.AsSingleton(p | "side" >> dm.Create([]))
        return dm.ParDo(Stateful(), side=empty) if by_name else dm.ParDo(Sided(), empty)

    class Sided(Stateful):
        def process(self, pair: Any, side: Any, kept: dm.ValueState[Any], over: dm.Timer) -> Iterator[Any]:  # type: ignore[override]
            return super().process(pair, kept, over, side)

    def build(p: dm.Pipeline, *, rescues: bool) -> None:
        transform: Any = given(p)
        pairs = p | "pairs" >> dm.Create([("a", 1)])
        if rescues:
            _, failed = pairs | "stateful" >> transform.with_exception_handling()
            _ = failed | "failed" >> dm.io.Collect()
        else:
            _ = pairs | "stateful" >> transform

    with pytest.raises(dm.UserCodeError) as raised:
        run(dm.LocalRunner(), lambda p: build(p, rescues=False))
    assert str(raised.value) == (
        "the side input 'side' of AsSingleton has no value in the window\n"
        "  transform: 'stateful'\n"
        "  element: ('a', 1)\n"
        "Hint: pass default=… to dm.AsSingleton"
    )
    [letter] = run(dm.LocalRunner(), lambda p: build(p, rescues=True)).collected("failed")
    assert "has no value in the window" in letter.value.reason


def test_state_that_cannot_be_copied_for_dead_letters_says_so_with_transform_element_and_way_out() -> None:
    class Reading(Stateful):
        def process(self, pair: Any, kept: dm.ValueState[Any], over: dm.Timer, side: Any = None) -> Iterator[Any]:
            kept.read()
            return super().process(pair, kept, over, side)

    with pytest.raises(dm.UserCodeError) as raised:
        rescued(dm.ParDo(Reading(keeps=lambda: (number for number in [1]))))
    assert str(raised.value).startswith(
        "the state of key 'a' cannot be copied, which elements that fail need: cannot pickle 'generator' object\n"
        "  transform: 'stateful'\n"
        "  element: ('a', 2)\n"
        "Hint: keep values in it that can be copied, such as a list instead of a generator, or leave out"
    )


def test_an_error_of_a_punctuation_function_names_the_transform_and_the_row() -> None:
    table = pa.table({"at": pa.array([0, 1], pa.int64()), "v": pa.array([1, None], pa.int64())})
    p = dm.Pipeline()
    read = dm.io.ReadTable(table, event_time="at", watermark=dm.Explicit(lambda row: row.v % 9 == 0))
    _ = p | "rows" >> read | dm.io.Collect()
    problem = r"^TypeError: (.|\n)*transform: 'rows'\n  element: Row\(at=1, v=None\)\nHint: .*dm.Explicit"
    with pytest.raises(dm.UserCodeError, match=problem):
        p.run().wait_until_finish()
