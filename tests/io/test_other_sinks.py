"""Functions, lists and tables as sinks, and schemas from hints."""

from __future__ import annotations

import datetime as dt  # noqa: TC003 - the hints are looked at
import functools
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.errors import InvalidType, SinkError, UserCodeError
from dataflow_model.io import ForeachBundle, schema_from_type
from dataflow_model.io.sinks.bundles import ArrowTableSink, ForeachBundleSink
from dataflow_model.plan.columns.records import Record
from dataflow_model.plan.endpoints.message_sinks import CollectSink, MessageSink
from dataflow_model.runners.sharded.checkpoint.parts import write_part
from dataflow_model.runners.sharded.commits.publishing import read_collected
from dataflow_model.time import EventTime
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING

if TYPE_CHECKING:
    from pathlib import Path


def messages(sink: MessageSink, *tasks: dict[int, Any]) -> list[bytes]:
    made = []
    for number, values in enumerate(tasks):
        writer = sink.open("0", str(number))
        writer.write([Record(v, EventTime(0), GLOBAL_WINDOW, NO_FIRING, order=(n,)) for n, v in values.items()])
        made.append(writer.close())
    return made


def test_collect_gives_the_records_of_all_tasks_in_emission_order() -> None:
    sink = CollectSink()
    assert [record.value for record in sink.records(messages(sink, {3: "c", 1: "a"}, {}, {2: "b"}))] == ["a", "b", "c"]


class Unreadable:
    """Cannot be unpickled."""

    def __reduce__(self) -> Any:
        return int, ("not a number",)


def test_a_commit_of_collected_records_counts_and_stores_them_without_loading_them(tmp_path: Path) -> None:
    sink = CollectSink()
    delivered = messages(sink, {1: "a", 2: Unreadable()}, {}, {3: "c"})
    assert sink.count_records(delivered) == 3
    write_part(tmp_path, "collected/all/run-0.pickle", (0, sink.packed_records(delivered[1:])))
    assert [record.value for record in read_collected(str(tmp_path), "all")] == ["c"]
    with pytest.raises(InvalidType, match=r"its class does not restore it: ValueError: .*not a number"):
        sink.records(delivered)


def test_foreach_bundle_calls_its_function_once_for_each_commit_with_values_and_commit_id() -> None:
    calls: list[Any] = []
    sink = ForeachBundleSink(fn=lambda values, commit_id: calls.append((values, commit_id)))
    sink.commit("7", messages(sink, {2: "b"}, {1: "a"}))
    sink.commit("8", messages(sink, {}))
    assert calls == [(["a", "b"], "7")]


def test_foreach_bundle_does_not_pass_the_commit_id_as_an_argument_that_the_function_has_bound() -> None:
    calls: list[Any] = []

    def save(values: list[Any], commit_id: str | None = None) -> None:
        calls.append((values, commit_id))

    functions: list[Any] = [
        lambda values, saved=calls: saved.append(values),
        lambda values, saved=calls, *more: saved.append((values, more)),
        lambda *given: calls.append(given),
        save,
    ]
    for fn in functions:
        ForeachBundleSink(fn=fn).commit("7", messages(ForeachBundleSink(fn=fn), {1: "a"}))
    assert calls == [["a"], (["a"], ()), (["a"], "7"), (["a"], "7")]


def test_foreach_bundle_may_pass_values_only_or_whole_records() -> None:
    calls: list[Any] = []
    sink = ForeachBundleSink(fn=calls.append, whole_records=True)
    sink.commit("7", messages(sink, {1: "a"}))
    assert [record.value for record in calls[0]] == ["a"]
    assert calls[0][0].window == GLOBAL_WINDOW


def test_an_exception_in_foreach_is_reported_with_line_label_and_value() -> None:
    def save(values: list[Any]) -> None:
        raise RuntimeError(f"no room for {len(values)}")

    sink = ForeachBundleSink(fn=save, label="save/ForeachBundle")
    with pytest.raises(
        UserCodeError, match=r"test_other_sinks\.py:\d+: RuntimeError: no room for 1\n.*'save/ForeachBundle'.*'a'"
    ):
        sink.commit("7", messages(sink, {1: "a"}))
    for wrong in (lambda: None, lambda values, commit_id, more: None):
        with pytest.raises(
            InvalidType, match=r"with the parameters \(.*\): .*\nHint: use ForeachBundle\(lambda values: …\)"
        ):
            ForeachBundle(wrong)
    with pytest.raises(InvalidType, match="ForeachBundle takes a function, got 3"):
        ForeachBundle(3)  # type: ignore[arg-type]


def test_foreach_bundle_calls_a_wrapped_function_by_the_signature_of_its_wrapper() -> None:
    seen: list[Any] = []

    def with_log(fn: Any) -> Any:
        @functools.wraps(fn)
        def of_values(values: Any) -> None:
            fn(values, seen)

        return of_values

    @with_log
    def save(values: Any, log: Any) -> None:
        log.extend(values)

    sink = ForeachBundleSink(fn=save)
    sink.commit("7", messages(sink, {1: "a"}))
    assert seen == ["a"]


def test_records_are_converted_to_a_table_or_the_one_that_does_not_fit_is_named() -> None:
    sink = ArrowTableSink(panes=True)
    table = sink.table(sink.records(messages(sink, {1: ("UA", 1)})))
    assert table.column_names == ["key", "value", "window_start", "window_end", "pane_index", "pane_timing"]
    strict = ArrowTableSink(schema=pa.schema({"value": pa.int64()}))
    with pytest.raises(SinkError, match="cannot write 'a': column 'value' is int64"):
        strict.table(strict.records(messages(strict, {1: "a"})))


def test_the_error_for_a_row_that_does_not_fit_a_collected_table_names_existing_arguments() -> None:
    with dm.Pipeline() as p:
        _ = p | dm.Create([1, "a"]) | "mixed" >> dm.io.Collect()
    with pytest.raises(SinkError) as caught:
        p.result.table("mixed")
    assert str(caught.value).endswith(
        "Hint: map the elements to one shape first, or read the records with result.collected('mixed')"
    )
    with dm.Pipeline() as p:
        _ = p | dm.Create([{"pane_index": 7}]) | "clashing" >> dm.io.Collect(panes=True)
    with pytest.raises(SinkError, match="a field 'pane_index', which is the name of the column that `panes=True` adds"):
        p.result.table("clashing")


class Leg(TypedDict):
    at: dt.datetime
    stops: list[str]


class Flight(NamedTuple):
    carrier: str
    delay: float | None
    place: tuple[int, str]


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (int, pa.schema({"value": pa.int64()})),
        (tuple[str, float], pa.schema({"key": pa.string(), "value": pa.float64()})),
        (
            tuple[str, Leg],
            pa.schema({"key": pa.string(), "at": pa.timestamp("us", "UTC"), "stops": pa.list_(pa.string())}),
        ),
        (
            Flight,
            pa.schema(
                {
                    "carrier": pa.string(),
                    "delay": pa.float64(),
                    "place": pa.struct({"_1": pa.int64(), "_2": pa.string()}),
                }
            ),
        ),
        (tuple[int, ...], pa.schema({"value": pa.list_(pa.int64())})),
        (dict[str, int], pa.schema({"value": pa.map_(pa.string(), pa.int64())})),
        (int | str, None),
        (tuple[str, Any], None),
        (Any, None),
        (list, None),
    ],
)
def test_a_schema_is_derived_from_type_hints_if_they_determine_it(hint: Any, schema: pa.Schema | None) -> None:
    assert schema_from_type(hint) == schema
