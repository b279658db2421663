"""Functions on columns: what they are given, what they may give, and what they cannot do."""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, InvalidType, UserCodeError
from dataflow_model.plan.rewrites.explain import explain
from dataflow_model.runners.engine.lanes import value_lanes
from tests.support.vectorized import Either

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pc: Any = importlib.import_module("pyarrow.compute")  # it makes its functions then, unseen by type checkers
NUMBERS = [3, 0, 5]


class Flight(NamedTuple):
    carrier: str
    delay: int | None


@dataclasses.dataclass(frozen=True)
class FlightData:
    carrier: str
    delay: int | None


@attrs.frozen
class FlightAttrs:
    carrier: str
    delay: int | None


def collected(elements: Any, transform: Any) -> list[Any]:
    """Return what a transform gives for some elements, all in one bundle."""
    return run(elements, transform)[0]


def run(elements: Any, transform: Any) -> tuple[list[Any], Any]:
    """Return what a transform gives for some elements, and the result."""
    p = dm.Pipeline()
    output = p | "in" >> dm.Create(elements) | "it" >> transform
    main, dead = output if isinstance(output, tuple) else (output, None)
    _ = main | "out" >> dm.io.Collect()
    if dead is not None:
        _ = dead | "dead" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    return [record.value for record in result.collected("out")], result


def given_to(elements: Any) -> pa.Table:
    """Return the batches that a function is given, as one table."""
    batches: list[pa.RecordBatch] = []

    def look(batch: pa.RecordBatch) -> Any:
        batches.append(batch)
        return np.zeros(batch.num_rows)

    collected(elements, dm.Map(look, vectorized=True))
    return pa.Table.from_batches(batches)


@pytest.mark.parametrize(
    ("elements", "columns"),
    [
        pytest.param(NUMBERS, {"value": NUMBERS}, id="plain values"),
        pytest.param([("UA", 4), ("AA", 2)], {"key": ["UA", "AA"], "value": [4, 2]}, id="pairs"),
        *(
            pytest.param([kind("UA", 4), kind("AA", None)], {"carrier": ["UA", "AA"], "delay": [4, None]}, id=name)
            for name, kind in (("named tuples", Flight), ("dataclasses", FlightData), ("attrs classes", FlightAttrs))
        ),
        pytest.param(
            [("a", Flight("UA", 4))], {"key": ["a"], "carrier": ["UA"], "delay": [4]}, id="pairs with a record"
        ),
    ],
)
def test_a_batch_has_the_columns_that_a_file_of_the_elements_would_have(
    elements: list[Any], columns: dict[str, list[Any]]
) -> None:
    given = given_to(elements)
    assert given.to_pydict() == columns
    assert set(map(str, given.schema.types)) <= {"int64", "string"}


def test_a_batch_has_only_the_columns_that_the_declared_type_names() -> None:
    table = pa.table({"carrier": ["UA"], "delay": pa.array([4], pa.int32()), "at": [0]})
    for rows in (table, [{"carrier": "UA", "delay": 4, "at": 0}]):
        p = dm.Pipeline()
        flights = p | dm.Create(rows) | dm.Map(lambda row: row).with_output_types(Flight)
        as_rows = flights | "it" >> dm.Map(lambda batch: batch, vectorized=True)
        assert [row._asdict() for row in as_rows.head()] == [{"carrier": "UA", "delay": 4}]


def test_a_column_of_nulls_has_the_type_of_its_field() -> None:
    assert given_to([Flight("UA", None)]).schema.field("delay").type == pa.int64()


def test_instants_are_in_utc_and_dictionaries_are_decoded() -> None:
    instant = dt.datetime(2013, 1, 1, 5, tzinfo=dt.timezone(dt.timedelta(hours=-5)))
    table = pa.table(
        {"at": pa.array([instant], pa.timestamp("ns", "-05:00")), "kind": pa.array(["x"]).dictionary_encode()}
    )
    given = given_to(table)
    assert given.schema == pa.schema({"at": pa.timestamp("us", "UTC"), "kind": pa.string()})
    assert given.to_pylist() == [{"at": dt.datetime(2013, 1, 1, 10, tzinfo=dt.UTC), "kind": "x"}]


@pytest.mark.parametrize(
    ("function", "outputs"),
    [
        pytest.param(lambda batch: batch["value"], NUMBERS, id="an Arrow array"),
        pytest.param(lambda batch: pa.chunked_array([batch["value"]]), NUMBERS, id="a chunked array"),
        pytest.param(lambda batch: batch["value"].to_numpy() / 2, [1.5, 0.0, 2.5], id="a NumPy array"),
        pytest.param(lambda batch: batch, [(3,), (0,), (5,)], id="a batch"),
        pytest.param(lambda batch: pa.table({"n": batch["value"]}), [(3,), (0,), (5,)], id="a table"),
        pytest.param(
            lambda batch: pa.record_batch({"key": batch["value"], "odd": pc.bit_wise_and(batch["value"], 1)}),
            [(3, 1), (0, 0), (5, 1)],
            id="two columns",
        ),
    ],
)
def test_batches_become_rows_and_arrays_become_plain_values(function: Any, outputs: list[Any]) -> None:
    assert collected(NUMBERS, dm.Map(function, vectorized=True)) == outputs


def test_rows_have_their_columns_as_fields() -> None:
    [row, *_] = collected(NUMBERS, dm.Map(lambda batch: pa.table({"n": batch["value"]}), vectorized=True))
    assert (row.n, row["n"]) == (3, 3)


def test_rows_of_two_columns_are_pairs() -> None:
    p = dm.Pipeline()
    pair = dm.Map(
        lambda batch: pa.table([pc.bit_wise_and(batch["value"], 1), batch["value"]], ["odd", "n"]), vectorized=True
    )
    assert sorted((p | dm.Create(NUMBERS) | pair | dm.Sum.per_key()).head()) == [(0, 0), (1, 8)]


def test_a_filter_keeps_the_elements_themselves_and_takes_null_for_false() -> None:
    flights = [FlightData("UA", 4), FlightData("AA", None), FlightData("DL", 9)]
    assert collected(flights, dm.Filter(lambda batch: pc.greater(batch["delay"], 5), vectorized=True)) == [flights[2]]
    kept = dm.Filter(lambda batch: batch["value"].to_numpy() > 0, vectorized=True)
    assert collected(NUMBERS, kept) == [3, 5]


def test_further_arguments_reach_the_function() -> None:
    scaled = dm.Map(lambda batch, by, plus: pc.add(pc.multiply(batch["value"], by), plus), 10, plus=1, vectorized=True)
    assert collected(NUMBERS, scaled) == [31, 1, 51]


def test_vectorized_functions_keep_event_times_windows_and_order() -> None:
    p = dm.Pipeline()
    timed = p | dm.Create([dm.TimestampedValue(number, number) for number in NUMBERS])
    windowed = timed | dm.Window.into(dm.FixedWindows(4))
    mapped = windowed | dm.Map(lambda batch: pc.multiply(batch["value"], 2), vectorized=True)
    _ = mapped | "out" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    records = result.collected("out")
    assert [(record.value, int(record.event_time), int(record.window.start)) for record in records] == [
        (2 * number, number * 1_000_000, number // 4 * 4_000_000) for number in NUMBERS
    ]


# DoFns ----------------------------------------------------------------------------------------------------------------


class Both(dm.DoFn):
    def process(self, element: Any) -> Iterator[Any]:
        yield "element"

    def process_batch(self, batch: pa.RecordBatch) -> Iterator[Any]:
        yield pa.array(["batch"] * batch.num_rows)


def test_a_function_with_both_forms_is_called_on_columns_if_there_are_columns() -> None:
    assert collected(NUMBERS, dm.ParDo(Both())) == ["element"] * 3
    p = dm.Pipeline()
    columns = p | dm.Create(NUMBERS) | dm.Map(lambda batch: batch["value"], vectorized=True)
    assert (columns | dm.ParDo(Both())).head() == ["batch"] * 3


def test_a_vectorized_function_has_the_life_cycle_of_a_dofn() -> None:
    calls: list[str] = []

    class Living(dm.DoFn):
        def setup(self) -> None:
            calls.append("setup")

        def start_bundle(self) -> None:
            calls.append("start")

        def process_batch(self, batch: pa.RecordBatch) -> Iterator[Any]:
            calls.append("batch")
            yield batch["value"]

        def finish_bundle(self) -> list[Any]:
            calls.append("finish")
            return [dm.TimestampedValue(7, dm.EventTime(0))]

        def teardown(self) -> None:
            calls.append("teardown")

    p = dm.Pipeline()
    timed = p | dm.Create([dm.TimestampedValue(1, 0), dm.TimestampedValue(2, 0)])
    assert (timed | dm.ParDo(Living())).head() == [1, 2, 7]
    assert calls == ["setup", "start", "batch", "finish", "teardown"]


# Errors at construction -----------------------------------------------------------------------------------------------


class Counting(dm.DoFn):
    count = dm.ValueStateSpec[int](default=0)

    def process_batch(self, batch: pa.RecordBatch) -> Iterator[Any]:
        yield batch["value"]


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        pytest.param(dm.Map(lambda b, timestamp: b["value"], vectorized=True), "asks for 'timestamp'", id="metadata"),
        pytest.param(
            dm.Map(lambda b, w=dm.DoFn.WindowParam: b["value"], vectorized=True), "asks for 'window'", id="a default"
        ),
        pytest.param(dm.ParDo(Both()).with_outputs("more"), "has the outputs 'more'", id="tags"),
        pytest.param(
            dm.Map(lambda batch: batch["value"], vectorized=True).retractable("memoised"),
            "keeps its outputs for retractions",
            id="memoised",
        ),
        pytest.param(dm.ParDo(Counting()), "keeps state", id="state"),
    ],
)
def test_vectorized_functions_that_need_single_elements_are_rejected(transform: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=f"'it' works on columns and {said}, which only a function that sees"):
        _ = dm.Pipeline() | dm.Create([("a", 1)]) | "it" >> transform


def test_side_inputs_of_vectorized_functions_are_rejected() -> None:
    p = dm.Pipeline()
    factor = p | "factor" >> dm.Create([10])
    scaled = dm.Map(lambda batch, by: pc.multiply(batch["value"], by), dm.AsSingleton(factor), vectorized=True)
    with pytest.raises(InvalidArgument, match="'it' works on columns and has side inputs"):
        _ = p | dm.Create(NUMBERS) | "it" >> scaled


def test_a_parameter_annotated_as_another_batch_is_rejected() -> None:
    class OnNumpy(dm.DoFn):
        def process_batch(self, batch: np.ndarray) -> Iterator[Any]:
            yield batch

    with pytest.raises(InvalidType, match="for each batch, but takes ndarray"):
        _ = dm.Pipeline() | dm.Create(NUMBERS) | dm.ParDo(OnNumpy())


def test_elements_of_unknown_type_are_rejected_unless_they_are_in_columns() -> None:
    p = dm.Pipeline()
    unknown = p | dm.Create(NUMBERS) | "any" >> dm.Map(lambda number: number)
    same = dm.Map(lambda batch: batch["value"], vectorized=True)
    with pytest.raises(InvalidType, match="nothing says what columns the elements of PCollection"):
        _ = unknown | "it" >> same
    declared = p | "typed" >> dm.Create(NUMBERS) | "int" >> dm.Map(lambda number: number).with_output_types(int)
    first = declared | "first" >> same
    windowed = first | dm.Filter(lambda batch: batch["value"].to_numpy() > 0, vectorized=True)
    assert (windowed | dm.Window.into(dm.FixedWindows(10)) | "second" >> same).head() == [3, 5]
    with pytest.raises(InvalidType, match="nothing says what columns"):
        _ = (first, first) | dm.Flatten() | "third" >> same


@pytest.mark.parametrize("transform", [dm.Map, dm.Filter])
def test_a_value_of_vectorized_that_is_not_a_bool_is_refused(transform: Any) -> None:
    with pytest.raises(InvalidType, match="`vectorized` must be True or False, got 3"):
        transform(lambda batch: batch, vectorized=3)


def test_map_tuple_cannot_be_vectorized() -> None:
    with pytest.raises(InvalidArgument, match="MapTuple calls its function with the parts of one tuple"):
        dm.MapTuple(lambda key, value: key, vectorized=True)


# Errors of results ----------------------------------------------------------------------------------------------------


class Several(dm.DoFn):
    def process_batch(self, batch: pa.RecordBatch) -> Iterator[Any]:
        yield batch
        yield batch


class Returning(dm.DoFn):
    def process_batch(self, batch: pa.RecordBatch) -> Any:
        return batch


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        (dm.Map(lambda batch: batch.slice(1), vectorized=True), "function returned 2 outputs for a batch of 3 rows"),
        (dm.Map(lambda batch: [1, 2, 3], vectorized=True), "function returned list for a batch of 3 rows"),
        (dm.Map(lambda batch: None, vectorized=True), "function returned NoneType for a batch of 3 rows"),
        (dm.Map(lambda batch: np.zeros((3, 2)), vectorized=True), "function returned ndarray for a batch of 3 rows"),
        (
            dm.Map(lambda batch: batch.to_struct_array(), vectorized=True),
            "function returned an array of struct<value: int64>",
        ),
        (
            dm.Map(lambda batch: pa.table([batch["value"]] * 2, ["n", "n"]), vectorized=True),
            "there are 2 columns named 'n'",
        ),
        (dm.Filter(lambda batch: batch["value"], vectorized=True), "function returned int64 to filter by"),
        (dm.Filter(lambda batch: batch, vectorized=True), "function returned rows to filter by"),
        (dm.ParDo(Several()), "the function yielded 2 batches for a batch of 3 rows"),
        (dm.ParDo(Returning()), "process_batch of 'it' must yield its batch, but returned it"),
    ],
)
def test_a_result_without_one_output_for_each_row_stops_the_run(transform: Any, said: str) -> None:
    with pytest.raises(UserCodeError, match=said) as raised:
        run(NUMBERS, transform)
    assert "transform: 'it'\n  elements: 3, the first of them 3" in str(raised.value)


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        (
            dm.Map(lambda batch: pa.array([pc.sum(batch["value"]).as_py()]), vectorized=True),
            "function returned 1 outputs for a batch of 3 rows",
        ),
        (dm.ParDo(Several()), "the function yielded 2 batches for a batch of 3 rows"),
        (dm.ParDo(Returning()), "must yield its batch, but returned it"),
    ],
)
def test_dead_letters_do_not_hide_a_result_without_one_output_for_each_row(transform: Any, said: str) -> None:
    with pytest.raises(UserCodeError, match=said):
        run(NUMBERS, transform.with_exception_handling())


def inverse(batch: pa.RecordBatch) -> pa.Array:
    dm.metrics.counter("rows").inc(batch.num_rows)
    return pc.divide(60, batch["value"])


def test_an_exception_names_the_transform_and_the_elements() -> None:
    with pytest.raises(UserCodeError, match="divide by zero") as raised:
        run(NUMBERS, dm.Map(inverse, vectorized=True))
    assert "transform: 'it'\n  elements: 3, the first of them 3" in str(raised.value)
    assert "Hint: add .with_exception_handling()" in str(raised.value)
    with pytest.raises(UserCodeError, match="element: 0"):
        run([0], dm.Map(inverse, vectorized=True))


@pytest.mark.parametrize("elements", [[1, 0, 2, 3, 0, 0, 4], [0, 0], [5, 6]])
def test_only_rows_for_which_a_vectorized_function_fails_become_dead_letters(elements: list[int]) -> None:
    outputs, result = run(elements, dm.Map(inverse, vectorized=True).with_exception_handling())
    assert outputs == [60 // number for number in elements if number]
    letters = [record.value for record in result.collected("dead")]
    assert [letter.element for letter in letters] == [0] * elements.count(0)
    assert {letter.label for letter in letters} <= {"it"}
    assert all("divide by zero" in letter.reason for letter in letters)


def test_a_batch_that_is_retried_in_parts_counts_once() -> None:
    _, result = run([1, 0, 2, 3], dm.Map(inverse, vectorized=True).with_exception_handling())
    assert result.report().transforms["it"].user.counters["rows"] == 3


def test_elements_without_the_columns_become_dead_letters_or_stop_the_run() -> None:
    p = dm.Pipeline()
    wrong = p | dm.Create([1, "x", 2]) | "say" >> dm.Map(lambda value: value).with_output_types(int)
    double = dm.Map(lambda batch: pc.multiply(batch["value"], 2), vectorized=True)
    with pytest.raises(UserCodeError, match="column 'value' is int64 and cannot hold 'x' of type str"):
        (wrong | "stops" >> double).head()
    doubled, dead = wrong | "goes on" >> double.with_exception_handling()
    assert doubled.head() == [2, 4]
    assert [letter.element for letter in dead.head()] == ["x"]


def test_outputs_of_several_types_are_kept_as_objects() -> None:
    def by_content(batch: pa.RecordBatch) -> pa.Array:
        if batch.num_rows > 1:
            raise ValueError("one at a time")
        return pa.array([str(batch["value"][0])]) if batch["value"][0].as_py() else batch["value"]

    outputs, _ = run(NUMBERS, dm.Map(by_content, vectorized=True).with_exception_handling())
    assert outputs == ["3", 0, "5"]


# Files ----------------------------------------------------------------------------------------------------------------


def write_numbers(folder: Path) -> Path:
    folder.mkdir()
    for file in range(3):
        numbers = list(range(10 * file, 10 * file + 10))
        pq.write_table(pa.table({"at": numbers, "n": pa.array(numbers, pa.int32())}), folder / f"{file}.parquet")
    return folder


def runners(tmp_path: Path) -> list[dm.LocalRunner]:
    return [dm.LocalRunner(), dm.LocalRunner(checkpoint=tmp_path / "checkpoint")]


@pytest.mark.parametrize("streams", [False, True])
def test_from_file_to_file_no_row_is_converted_to_an_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, streams: bool
) -> None:
    def refuse(batch: pa.RecordBatch) -> Any:
        raise AssertionError("a row was made")

    monkeypatch.setattr(value_lanes, "rows_of", refuse)
    monkeypatch.setattr(value_lanes, "values_of", refuse)
    p = dm.Pipeline(runner=runners(tmp_path)[streams])
    rows = p | dm.io.ReadParquet(write_numbers(tmp_path / "rows"), event_time="at")
    odd = rows | dm.Filter(lambda batch: batch["n"].to_numpy() % 2 == 1, vectorized=True)
    squares = odd | dm.Map(lambda b: pa.record_batch({"n": b["n"], "m": pc.multiply(b["n"], b["n"])}), vectorized=True)
    schema = pa.schema({"n": pa.int64(), "m": pa.int64()})
    _ = squares | dm.io.WriteParquet(tmp_path / "out", schema=schema)
    p.run(until="drained").wait_until_finish()
    written = sorted(tuple(row.values()) for row in read(tmp_path / "out").to_pylist())
    assert written == [(number, number**2) for number in range(1, 30, 2)]


def read(folder: Path) -> pa.Table:
    return ds.dataset([str(path) for path in folder.glob("*.parquet")]).to_table()


@pytest.mark.parametrize("streams", [False, True])
def test_rows_in_columns_that_do_not_fit_the_schema_are_dead_letters(tmp_path: Path, *, streams: bool) -> None:
    rows = write_numbers(tmp_path / "rows")
    schema = pa.schema({"n": pa.int8()})
    dead: list[list[str]] = []
    for name, mapped in (
        ("columns", dm.Map(lambda batch: pa.record_batch({"n": pc.multiply(batch["n"], 10)}), vectorized=True)),
        ("elements", dm.Map(lambda row: {"n": row.n * 10})),
    ):
        checkpoint = tmp_path / f"checkpoint of {name}"
        p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=checkpoint) if streams else dm.LocalRunner())
        out = tmp_path / name
        _ = p | dm.io.ReadParquet(rows, event_time="at") | mapped | dm.io.WriteParquet(out, schema=schema)
        p.run(until="drained").wait_until_finish()
        assert sorted(read(out)["n"].to_pylist()) == list(range(0, 128, 10))
        lines = [line for path in (out / "_dead_letters").glob("*") for line in path.read_text().splitlines()]
        dead.append(sorted(line.partition('"reason"')[2] for line in lines))
    assert len(dead[0]) == 17
    assert dead[0] == dead[1]


def test_columns_are_inferred_from_vectorized_outputs_like_from_objects(tmp_path: Path) -> None:
    rows = write_numbers(tmp_path / "rows")
    schemas = []
    for name, mapped in (
        (
            "columns",
            dm.Map(lambda b: pa.record_batch({"n": b["n"], "half": b["n"].cast(pa.float32())}), vectorized=True),
        ),
        ("elements", dm.Map(lambda row: {"n": row.n, "half": float(row.n)})),
    ):
        p = dm.Pipeline()
        _ = p | dm.io.ReadParquet(rows, event_time="at") | mapped | dm.io.WriteParquet(tmp_path / name)
        p.run().wait_until_finish()
        schemas.append(read(tmp_path / name).schema)
    assert schemas[0] == schemas[1]


def test_the_plan_in_words_says_which_functions_are_vectorized() -> None:
    p = dm.Pipeline()
    doubled = p | dm.Create(NUMBERS) | "twice" >> dm.Map(lambda batch: batch["value"], vectorized=True)
    _ = doubled | "both" >> dm.ParDo(Both())
    text = explain(p.plan())
    assert "twice: Map(lambda); on columns" in text
    assert "both: Both; on columns where there are columns" in text


# The check ------------------------------------------------------------------------------------------------------------


class Wrong(Both):
    def process(self, element: Any) -> Iterator[Any]:
        yield element

    def process_batch(self, batch: pa.RecordBatch) -> Iterator[Any]:
        yield pc.negate(batch["value"])


def test_check_vectorized_accepts_functions_that_treat_rows_singly() -> None:
    check = dm.testing.check_vectorized
    check(dm.Map(lambda batch, by: pc.multiply(batch["value"], by), 3, vectorized=True), NUMBERS)
    check(dm.Filter(lambda batch: batch["value"].to_numpy() > 2, vectorized=True), NUMBERS)
    check(dm.ParDo(Either()), [("a", 1), ("b", 2)])


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        (
            dm.Map(lambda batch: batch["value"].to_numpy()[::-1], vectorized=True),
            r"'Map' gives \[1, 0\] for a whole batch, but \[0, 1\] for its rows one by one\n  elements: \[0, 1\]",
        ),
        (
            dm.Filter(lambda batch: np.arange(batch.num_rows) > 0, vectorized=True),
            r"'Filter' gives \[0\] for a whole batch, but \[\] for its rows one by one\n  elements: \[0, 0\]",
        ),
        (dm.ParDo(Wrong()), r"'ParDo' gives \[-1\] for a whole batch, but \[1\] from `process`\n  elements: \[1\]"),
        (
            dm.Map(lambda batch: batch.slice(1), vectorized=True),
            "'Map' fails: the function returned 0 outputs for a batch of 1 rows",
        ),
    ],
)
def test_check_vectorized_shows_the_smallest_elements_that_break_a_rule(transform: Any, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        dm.testing.check_vectorized(transform, [0, 1])


def test_check_vectorized_needs_elements_and_a_vectorized_function() -> None:
    with pytest.raises(InvalidArgument, match="draws from `elements`, got none"):
        dm.testing.check_vectorized(dm.Map(lambda batch: batch, vectorized=True), [])
    with pytest.raises(InvalidArgument, match="has no function on columns"):
        dm.testing.check_vectorized(dm.Map(lambda value: value), [1])
    function: Any = lambda batch: batch  # noqa: E731
    with pytest.raises(InvalidType, match=r"check_vectorized checks an instance of ParDo, got .*\nHint: write "):
        dm.testing.check_vectorized(function, [1])


def test_a_vectorized_function_receives_declared_dicts_and_tuples_as_whole_columns() -> None:
    dicts = dm.Create([("k", ("x", 1)), ("k", ("y", 2))]), dm.ToDict.per_key()
    p = dm.Pipeline()
    _ = p | dicts[0] | dicts[1] | dm.Map(lambda batch: batch["value"], vectorized=True) | "out" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    assert [record.value for record in result.collected("out")] == [[("x", 1), ("y", 2)]]
    p = dm.Pipeline()
    counts = p | dm.Create([1, 2, 3]) | "range" >> dm.Map(lambda n: tuple(range(n))).with_output_types(tuple[int, ...])
    _ = counts | dm.Map(lambda batch: pc.list_value_length(batch["value"]), vectorized=True) | "out" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    assert [record.value for record in result.collected("out")] == [1, 2, 3]


@pytest.mark.parametrize("element", [(5, 6), {"y": 2}])
def test_an_element_with_other_columns_than_declared_is_refused(element: Any) -> None:
    p = dm.Pipeline()
    typed = p | dm.Create([1]) | "give" >> dm.Map(lambda _: element).with_output_types(int)
    _ = typed | "it" >> dm.Map(lambda batch: batch["value"], vectorized=True) | dm.io.Collect()
    with pytest.raises(UserCodeError, match="the element does not have the columns of 'it': the schema has no column"):
        p.run().wait_until_finish()
