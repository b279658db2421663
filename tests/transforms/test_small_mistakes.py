"""Values that are nearly right: NumPy's numbers, names that Python reads otherwise, arguments in the wrong place."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import inspect
import itertools
import operator
import statistics
import subprocess
import sys
import zoneinfo
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model import triggers, windowing
from dataflow_model.arguments import factory
from dataflow_model.plan.columns.rows import row_type
from dataflow_model.plan.columns.type_schemas import schema_from_type
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from pathlib import Path


def outputs(build: Any) -> list[Any]:
    p = dm.Pipeline()
    _ = build(p) | "out" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    return [record.value for record in result.collected("out")]


# Combiners


@pytest.mark.parametrize(
    ("numbers", "total"),
    [
        (np.array([200, 100, 250], np.uint8), 550),
        (np.array([100, 100, -7], np.int8), 193),
        (np.array([2**62] * 3), 3 * 2**62),
        (np.array([2**63] * 3, np.uint64), 3 * 2**63),
    ],
)
def test_sums_and_means_of_numpy_ints_do_not_wrap_around(numbers: Any, total: int) -> None:
    assert outputs(lambda p: p | dm.Create(numbers) | dm.Sum.globally()) == [total]
    assert outputs(lambda p: p | dm.Create(numbers) | dm.Mean.globally()) == [total / 3]
    both = dm.Together(s=dm.Sum(), m=dm.Mean())
    assert outputs(lambda p: p | dm.Create(numbers) | dm.CombineGlobally(both)) == [(total, total / 3)]
    taken_back = dm.Sum().subtract_input(dm.Sum().add_input(0, numbers[0]), numbers[1])
    assert taken_back == int(numbers[0]) - int(numbers[1])


def test_stop_iteration_in_a_function_loses_no_element() -> None:
    ranks = [("a", 1), ("c", 3)]

    def rank(letter: str) -> int:
        return next(rank for known, rank in ranks if known == letter)

    with pytest.raises(dm.UserCodeError, match="StopIteration"):
        outputs(lambda p: p | dm.Create(["a", "b", "c"]) | dm.Top.globally(2, key=rank))
    for transform in (dm.Map(rank), dm.Filter(rank)):
        letters = outputs(lambda p, by=transform: (p | dm.Create(["a", "b"]) | by.with_exception_handling())[1])
        assert [letter.reason.partition(":")[0] for letter in letters] == ["StopIteration"]


def test_a_key_of_quantiles_that_is_not_a_function_of_an_element_is_refused() -> None:
    with pytest.raises(dm.InvalidType, match=r"`key` must be a function of an element, got 'delay'\nHint: use key=lam"):
        dm.ApproximateQuantiles(5, key="delay")  # type: ignore[arg-type] # the point


def test_numpy_durations_keep_their_type() -> None:
    assert dm.Sum().add_input(np.timedelta64(1, "s"), np.timedelta64(2, "s")) == np.timedelta64(3, "s")


@pytest.mark.parametrize("values", list(itertools.permutations([decimal.Decimal(3), decimal.Decimal("NaN"), 1])))
def test_extremes_of_decimals_ignore_nan(values: Any) -> None:
    def combined(combine: Any) -> Any:
        accumulator = combine.create_accumulator()
        for value in values:
            accumulator = combine.add_input(accumulator, value)
        return combine.extract_output(accumulator)

    assert (combined(dm.Min()), combined(dm.Max())) == (1, 3)


@dataclass(frozen=True)
class Order:
    number: int
    note: str = field(compare=False)


@pytest.mark.parametrize(
    "values",
    [
        [Order(1, "a"), Order(1, "b")],
        [
            dt.datetime(2013, 1, 1, 9, tzinfo=zoneinfo.ZoneInfo("Asia/Tokyo")),
            dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
        ],
    ],
)
def test_the_latest_of_equal_values_is_the_same_in_every_order(values: list[Any]) -> None:
    shown = {
        repr(outputs(lambda p, order=order: p | dm.Create(order) | dm.Latest.globally()))
        for order in itertools.permutations(values)
    }
    assert len(shown) == 1


# Names


def test_columns_whose_names_python_reads_otherwise_are_attributes_and_items() -> None:
    rows = row_type(pa.schema({"delay_\u00b5s": pa.int64(), "n": pa.int64()}))
    row = rows(5, 1)
    assert rows(delay_µs=5, n=1) == row
    assert operator.attrgetter("delay_\u00b5s")(row) == 5  # as `GroupBy` by that name does
    assert (row.delay_µs, row["delay_\u00b5s"], row.n) == (5, 5, 1)
    both = row_type(pa.schema({"\ufb01": pa.int64(), "fi": pa.int64()}))(1, 2)
    assert (both.fi, both["fi"], both["\ufb01"]) == (2, 2, 1)
    assert row_type(pa.schema({"__slots__": pa.int64()}))(3)["__slots__"] == 3


@pytest.mark.parametrize("names", [("Flatten", "GroupByKey"), (1, "1"), ("", "Map"), ("a", " ")])
def test_inputs_of_cogroupbykey_may_have_any_names(names: tuple[Any, Any]) -> None:
    def build(p: dm.Pipeline) -> Any:
        first, second = p | "a" >> dm.Create([("k", 1)]), p | "b" >> dm.Create([("k", 2)])
        return {names[0]: first, names[1]: second} | dm.CoGroupByKey()

    assert outputs(build) == [("k", {names[0]: [1], names[1]: [2]})]


# Types


class Level(enum.IntEnum):
    LOW = 1


@pytest.mark.parametrize("element", [True, Level.LOW, np.True_, 1, np.float32(1)])
def test_every_type_of_number_is_accepted_for_a_float_annotation(element: Any) -> None:
    def half(number: float) -> float:
        return number / 2

    assert outputs(lambda p: p | dm.Create([element]) | dm.Map(half)) == [0.5]


@dataclass
class Tree:
    name: str
    left: Tree | None = None


def test_a_type_that_contains_itself_has_no_columns(tmp_path: Path) -> None:
    assert schema_from_type(Tree) is None
    assert schema_from_type(tuple[str, Tree]) is None
    p = dm.Pipeline()
    _ = p | dm.Create([Tree("a", Tree("b"))]) | dm.io.WriteJson(tmp_path / "trees")
    p.run().wait_until_finish()
    [path] = (tmp_path / "trees").glob("*.json*")
    assert '"b"' in path.read_text()


# Mistakes


def _parity(number: int, _n: int) -> Any:
    return np.int64(number % 2)


def test_a_partition_must_be_a_whole_number() -> None:
    with pytest.raises(dm.DataflowError, match=r"must be a whole number in \[0, 2\), got 0\.5"):
        outputs(lambda p: (p | dm.Create([1, 2, 3]) | dm.Partition(lambda x, _n: x * 0.5, 2))[0])
    assert outputs(lambda p: (p | dm.Create([1, 2]) | dm.Partition(_parity, 2))[1]) == [1]


def _mistakes() -> list[tuple[Any, str]]:
    p: Any = dm.Pipeline()
    numbers = p | dm.Create([1])
    anything: Any = dm
    return [
        (lambda: anything.ApproximateUnique(error="0.1"), "`error` must be from 0.01 to 0.5, got '0.1'"),
        (lambda: p.run(["x"]), r"`until` must be None or 'drained', got \['x'\]"),
        (lambda: anything.Map(abs).with_output_types([int]), r"an element type must be a type, got \[<class 'int'>\]"),
        (lambda: anything.Map(abs).with_output_types("int"), "an element type must be a type, got 'int'"),
        (lambda: anything.Map(abs).with_exception_handling(["x"]), r"tag of dead letters must be text, got \['x'\]"),
        (lambda: anything.WithTimestamps(abs).with_exception_handling(5), "tag of dead letters must be text, got 5"),
        (lambda: anything.io.ReadText("x").with_exception_handling(5), "tag of dead letters must be text, got 5"),
        (lambda: anything.Map(abs) | anything.Map(abs), "applies a transform to a collection, got <Map 'Map'>"),
        (lambda: numbers | anything.Map(abs) >> "name", "on the right\nHint: write 'name' >> dm.Map"),
        (lambda: "name" >> anything.AsIter(numbers).pcoll, "a label belongs to a transform, got 'name'"),
        (lambda: numbers | anything.Map(max, [dm.AsIter(numbers)]), "has a side input inside the argument"),
        (lambda: numbers | anything.Map(max, {"a": numbers}), "has a side input inside the argument"),
        (lambda: numbers | anything.Map(max, dm.AsSingleton), "has the class AsSingleton as an argument"),
    ]


@pytest.mark.parametrize(("mistake", "problem"), _mistakes())
def test_arguments_in_the_wrong_position_are_rejected_with_the_way_out(mistake: Any, problem: str) -> None:
    with pytest.raises((dm.InvalidType, dm.InvalidArgument), match=problem):
        mistake()


def test_a_method_of_tuples_is_not_a_field() -> None:
    rows = row_type(pa.schema({"a": pa.int64()}))
    with pytest.raises(dm.InvalidArgument, match="names the field 'count'"):
        _ = dm.Pipeline() | dm.Create([rows(1)]).with_output_types(rows) | dm.GroupBy("count")


# Classes of the script in workers


def test_workers_can_pickle_values_of_a_class_of_the_main_program(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        """
import dataflow_model as dm

class Order:
    def __init__(self, number):
        self.number = number

    def __repr__(self):
        return f"Order({self.number})"

def build(p):
    orders = p | dm.Create([1, 2, 3]) | "make" >> dm.Map(lambda n: Order(n))
    pairs = orders | "pair" >> dm.Map(lambda order: ("k", order))
    retracting = dm.Window.into(dm.GlobalWindows()).accumulating_and_retracting()
    _ = orders | dm.BatchElements(2, shards=2) | "batches" >> dm.io.Collect()
    _ = pairs | dm.GroupIntoBatches(10, max_bytes=1) | "by bytes" >> dm.io.Collect()
    triggered = dm.Window.into(dm.GlobalWindows()).trigger(dm.Repeatedly(dm.AfterBytes(1))).discarding()
    _ = pairs | triggered | "grouped" >> dm.GroupByKey() | "triggered" >> dm.io.Collect()
    lists = pairs | "retracting" >> retracting | "again" >> dm.GroupByKey() | dm.Map(lambda pair: ("all", pair[1][0]))
    _ = lists | "lists" >> dm.CombinePerKey(dm.ToList()).with_hot_key_fanout(3) | "parts" >> dm.io.Collect()

answers = []
for workers in (1, 2):
    p = dm.Pipeline(runner=dm.LocalRunner(workers=workers))
    build(p)
    result = p.run()
    result.wait_until_finish()
    labels = ("batches", "by bytes", "triggered", "parts")
    answers.append([[repr(record.value) for record in result.collected(label)] for label in labels])
assert answers[0] == answers[1] and all(answers[0]), answers
"""
    )
    subprocess.run([sys.executable, str(script)], check=True)


@pytest.mark.parametrize(
    ("function", "instead"),
    [
        (len, r"dm.Count\(\)"),
        (statistics.mean, r"dm.Mean\(\)"),
        (np.mean, r"dm.Mean\(\)"),
        (list, r"dm.ToList\(\)"),
        (tuple, r"dm.ToList\(\)"),
        (deque, r"dm.ToList\(\)"),
        (sorted, r"dm.ToList\(\), and sort its lists in a dm.Map, or dm.Top\(n\)"),
        (set, r"dm.ToSet\(\)"),
        (frozenset, r"dm.ToSet\(\)"),
        (dict, r"dm.ToDict\(\)"),
        (Counter, r"dm.Count.per_element\(\)"),
        (statistics.median, r"dm.ApproximateQuantiles\(3\), whose second value is the median"),
    ],
)
@pytest.mark.parametrize(
    "use",
    [
        dm.CombinePerKey,
        dm.CombineGlobally,
        dm.CombineValues,
        lambda fn: dm.Together(n=fn),
        lambda fn: dm.GroupBy("key").aggregate_field("value", fn, "n"),
    ],
)
def test_well_known_functions_that_are_not_associative_are_refused(use: Any, function: Any, instead: str) -> None:
    with pytest.raises(dm.InvalidType, match=rf"again with results of it, so \w+ would .*\nHint: use {instead}"):
        use(function)


@pytest.mark.parametrize("by", [dm.WithKeys("b", value="a"), dm.WithKeys("a", value="b"), dm.GroupBy("b")])
def test_a_field_that_a_dict_does_not_have_is_reported_with_the_existing_ones(by: Any) -> None:
    with pytest.raises(
        dm.UserCodeError, match=r"^the element has no field 'b'; it has \['a'\]\n(.|\n)*Hint: name one of"
    ):
        outputs(lambda p: p | dm.Create([{"a": 1}]) | by)


class Late:
    @property
    def delay(self) -> int:
        return self.minutes  # type: ignore[attr-defined, no-any-return] # what the test is about


@pytest.mark.parametrize("by", [dm.WithKeys("all"), dm.GroupBy("all")])
def test_text_that_is_meant_as_a_key_is_reported_with_the_way_to_give_all_elements_one_key(by: Any) -> None:
    expected = (
        r"^the element has no field 'all'; it is of type int\n(.|\n)*Hint: .* dm\.Map\(lambda element: \('all', el"
    )
    with pytest.raises(dm.UserCodeError, match=expected):
        outputs(lambda p: p | dm.Create([1]) | by)
    with pytest.raises(dm.InvalidType, match=r"got None\nHint: .* dm\.Map\(lambda element: \(None, element\)\)"):
        dm.WithKeys(None)  # type: ignore[call-overload]


@pytest.mark.parametrize("by", [dm.WithKeys("delay"), dm.GroupBy("delay")])
def test_an_attribute_error_of_a_rows_own_code_is_reported_unchanged(by: Any) -> None:
    with pytest.raises(dm.UserCodeError, match=r"^AttributeError: 'Late' object has no attribute 'minutes'"):
        outputs(lambda p: p | dm.Create([Late()]) | by)


def test_the_pair_of_results_and_dead_letters_is_refused_as_an_input() -> None:
    p = dm.Pipeline()
    both: Any = p | dm.Create(["1"]) | dm.Map(int).with_exception_handling()
    tagged: Any = p | "one" >> dm.Create([1]) | "tagged" >> dm.Map(int).with_outputs("x").with_exception_handling()
    for given in (both, tagged):
        with pytest.raises(
            dm.InvalidType, match=r"the result and the dead letters .*\nHint: unpack it: good, failed ="
        ):
            _ = given | "text" >> dm.Map(str)


def test_none_from_an_empty_pane_is_explained() -> None:
    script = dm.testing.TestStream().processing_time(1).add(5, 1, key="A").processing_time(20).add(7, 30, key="B")
    trigger = dm.AfterWatermark(early=dm.AfterProcessingTime("5 seconds"))
    windowing = dm.Window.into(dm.FixedWindows("1 minute")).trigger(trigger)

    def greatest(windows: Any) -> list[Any]:
        best = "by key" >> dm.Max.per_key()
        return outputs(lambda p: p | script.processing_time(40) | windows | best | dm.Values() | dm.Max.globally())

    with pytest.raises(
        dm.UserCodeError, match=r"an empty on-time pane .* None too, which .on_time\('fire_if_non_empty'\)"
    ):
        greatest(windowing)
    assert greatest(windowing.on_time("fire_if_non_empty"))[-1] == 7


@pytest.mark.parametrize("name", ["setup", "start_bundle", "finish_bundle", "teardown"])
def test_a_life_cycle_method_of_a_dofn_with_a_required_parameter_is_rejected(name: str) -> None:
    def step(self: Any, bundle: Any) -> None: ...

    kind = type("Lives", (dm.DoFn,), {"process": lambda self, element: [element], name: step})
    with pytest.raises(
        dm.InvalidArgument,
        match=rf"`{name}\(bundle.*\).*` of Lives cannot be called with \(\): missing a required argument: 'bundle'\n"
        rf"Hint: define {name}\(self\)",
    ):
        dm.ParDo(kind())


@pytest.mark.parametrize("name", ["setup", "teardown"])
def test_a_life_cycle_method_of_a_combiner_with_a_required_parameter_is_rejected(name: str) -> None:
    def step(self: Any, worker: Any) -> None: ...

    kind = type("Sums", (dm.Sum,), {name: step})
    with pytest.raises(dm.InvalidArgument, match=rf"`{name}\(worker.*` of Sums cannot be called with \(\)"):
        dm.CombinePerKey(kind())


def test_a_life_cycle_method_of_a_dofn_may_have_parameters_with_defaults() -> None:
    class Lives(dm.DoFn):
        def process(self, element: Any) -> Any:
            yield element

        def finish_bundle(self, *_: Any, final: bool = True) -> None: ...

    dm.ParDo(Lives())


# Factories, called on an instance

WITHOUT_SETTINGS = {(dm.DoFn, "StateParam"), (dm.DoFn, "TimerParam"), (dm.Window, "into"), (dm.Window, "trigger")}
"""Static methods of classes whose instances have no settings, or which have no instances."""


def test_every_factory_of_a_public_class_is_rejected_on_an_instance() -> None:
    modules = (dm, dm.io, dm.testing, windowing, triggers)
    public = [owner for module in modules for name in module.__all__ for owner in [getattr(module, name)]]
    classes = {owner for owner in public if isinstance(owner, type) and owner.__module__.startswith("dataflow_model")}
    plain = {
        (owner, name)
        for owner in classes
        for name in dir(owner)
        if not name.startswith("_")
        for found in [inspect.getattr_static(owner, name)]
        if isinstance(found, staticmethod | classmethod) and not isinstance(found, factory)
    }
    assert plain <= {(owner, name) for owner in classes for base, name in WITHOUT_SETTINGS if issubclass(owner, base)}


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (
            lambda: dm.Join(within="15 minutes").full(),
            r"full\(\) would ignore <Join 'Join', within='15 minutes'>, on which .*\nHint: .* class: Join.full\(…\)",
        ),
        (lambda: dm.Join.left().inner(within=5), r"inner\(\) would ignore <Join 'Join.Left'>, on which"),
        (
            lambda: dm.CalendarWindows.months(3, "Asia/Tokyo").days(),
            r"days\(\) would ignore CalendarWindows.months\(3, 'Asia/Tokyo'\), on which it is called\nHint: ",
        ),
        (
            lambda: TestStream().add(1, 0).parse(["w +inf"], day="2000-01-01"),
            r"parse\(\) would ignore <TestStream .*>, on which it is called\nHint: .*: TestStream.parse",
        ),
        (
            ("latest" >> dm.Latest()).per_key,
            r"per_key\(\) would ignore <Latest 'latest'>, on which it is called\nHint: .*: Latest.per_key\(\)",
        ),
        (lambda: dm.Distinct.per_key().globally(), r"globally\(\) would ignore <Distinct 'Distinct.PerKey'>, on which"),
        (lambda: dm.Count().per_element(), r"per_element\(\) would ignore Count\(\), on which it is called\nHint: "),
    ],
    ids=["joins", "forms of joins", "calendar windows", "scripts", "latest", "distinct", "count"],
)
def test_a_factory_that_would_ignore_its_instance_is_rejected(call: Any, problem: str) -> None:
    with pytest.raises(dm.InvalidType, match=problem):
        call()


def test_counting_per_element_gives_the_counts_of_the_combiner() -> None:
    class Visits(dm.Count):
        pass

    assert outputs(lambda p: p | dm.Create(["a", "a"]) | Visits.per_element()) == [("a", 2)]
    transform: Any = Visits.per_element()
    assert (transform.label, transform.fn) == ("Visits.PerElement", Visits())
