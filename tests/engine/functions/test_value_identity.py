"""Which value a retraction takes back: the one that it retracts, after a restart too, and none that only equals it."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.functions.combine import GroupFn
from dataflow_model.runners.engine.functions.uncombining import Multiset, MultisetFn
from dataflow_model.runners.engine.functions.value_identity import are_identical, encode_value
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from pathlib import Path

BERLIN = datetime.timezone(datetime.timedelta(hours=2))
LOOKALIKES: list[tuple[Any, Any]] = [
    (0.0, -0.0),
    (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
    (datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC), datetime.datetime(2024, 1, 1, 14, tzinfo=BERLIN)),
    (5, np.int64(5)),
]
KEPT = MultisetFn(GroupFn())


@dataclasses.dataclass(frozen=True)
class Order:
    number: int
    note: str = dataclasses.field(compare=False)


@dataclasses.dataclass
class Basket:
    names: set[str]
    first: Any


@pytest.mark.parametrize(("one", "other"), [*LOOKALIKES, (Order(1, "a"), Order(1, "b"))], ids=repr)
@pytest.mark.parametrize("nest", [lambda value: value, lambda value: [value], lambda value: ("x", value)])
def test_values_that_are_equal_as_keys_are_retracted_separately(one: Any, other: Any, nest: Any) -> None:
    one, other = nest(one), nest(other)
    assert encode_value(one) == encode_value(other)
    inputs = Multiset()
    for value in (one, other, one):
        inputs = KEPT.add_input(inputs, value)
    for first in (one, other):
        left = KEPT.subtract_input(Multiset(inputs), first)
        rest = KEPT.extract_output(left)
        assert len(rest) == 2
        assert sum(are_identical(value, first) for value in rest) == (1 if first is one else 0)


class Note:
    encoded = 0

    def __init__(self, text: str) -> None:
        self.text = text

    def __reduce__(self) -> tuple[Any, ...]:
        Note.encoded += 1
        return Note, (self.text,)


def test_a_retraction_is_not_compared_with_all_values_that_are_equal_to_its_own() -> None:
    orders = [Order(1, Note(str(number))) for number in range(200)]  # type: ignore[arg-type]
    Note.encoded, inputs = 0, Multiset()
    for order in orders:
        inputs = KEPT.add_input(inputs, order)
    for order in orders:
        inputs = KEPT.subtract_input(inputs, order)
    assert not inputs
    assert Note.encoded < 10 * len(orders)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", "d"]), st.sampled_from([1, -1])), max_size=20))
def test_values_that_are_equal_as_keys_are_counted_one_by_one(changes: list[tuple[str, int]]) -> None:
    inputs, expected = Multiset(), 0
    for note, by in changes:
        known = {value.note: count for value, count in inputs.values()}
        inputs = (KEPT.add_input if by > 0 else KEPT.subtract_input)(inputs, Order(1, note))
        expected += by
        counts = {value.note: count for value, count in inputs.values()}
        assert len(counts) == len(inputs)  # each value has one place
        assert sum(counts.values()) == expected
        if note in known or all(count * by > 0 for count in known.values()):
            assert counts.get(note, 0) == known.get(note, 0) + by
        resumed: Any = pickle.loads(pickle.dumps(inputs))
        assert not isinstance(resumed, Multiset)
        assert resumed == inputs
        inputs = KEPT.add_input(KEPT.subtract_input(resumed, Order(2, note)), Order(2, note))


def test_a_value_that_has_changed_its_form_since_it_was_stored_can_be_retracted() -> None:
    inputs = KEPT.subtract_input(KEPT.add_input(Multiset(), np.int64(5)), 5)
    assert not inputs
    early = KEPT.subtract_input(Multiset(), 0.0)
    assert not KEPT.add_input(early, -0.0)


VALUES = st.sampled_from([value for pair in LOOKALIKES for value in pair] + ["x"])


@given(st.lists(st.tuples(VALUES, st.sampled_from([1, -1])), max_size=12), st.integers(0, 12))
def test_counts_of_values_do_not_depend_on_how_inputs_are_merged(changes: list[tuple[Any, int]], cut: int) -> None:
    def kept(part: list[tuple[Any, int]]) -> Multiset:
        inputs = Multiset()
        for value, by in part:
            inputs = (KEPT.add_input if by > 0 else KEPT.subtract_input)(inputs, value)
        return inputs

    def counts(inputs: Multiset) -> dict[bytes, int]:
        total: dict[bytes, int] = {}
        for value, count in inputs.values():
            total[encode_value(value)] = total.get(encode_value(value), 0) + count
        return {encoded: count for encoded, count in total.items() if count}

    merged = KEPT.merge_accumulators([kept(changes[:cut]), kept(changes[cut:])])
    assert counts(merged) == counts(kept(changes))


def test_the_encoding_of_a_value_depends_neither_on_shared_objects_nor_on_the_order_of_sets() -> None:
    name, again, once_more = (str(b"UA", "ascii") for _ in range(3))
    shared = Basket({"a", "b", "c"}, (name, name))
    copied = Basket({"c", "b", "a"}, (again, once_more))
    assert pickle.dumps(shared) != pickle.dumps(copied)
    assert encode_value([shared]) == encode_value([copied])
    assert encode_value([shared]) != encode_value([Basket({"a", "b"}, ("UA", "UA"))])


def test_an_object_that_contains_itself_has_an_encoding() -> None:
    basket = Basket(set(), None)
    basket.first = basket
    assert encode_value(basket) == encode_value(pickle.loads(pickle.dumps(basket)))


@pytest.mark.parametrize("bound", [None, 1])
def test_rows_with_lists_can_be_retracted_after_they_were_stored(tmp_path: Path, bound: int | None) -> None:
    table = pa.table({"at": [n * 1_000_000 for n in range(1, 6)], "carrier": ["UA", "AA", "UA", "AA", "UA"]})
    pq.write_table(table, tmp_path / "rows.parquet")
    runner = dm.LocalRunner(checkpoint=tmp_path / "checkpoint", max_rows_per_batch=1, max_state_memory=bound)
    with dm.Pipeline(runner=runner) as p:
        rows = p | dm.io.ReadParquet(tmp_path / "rows.parquet", event_time="at", processing_time="at")
        each = dm.Window.into(dm.FixedWindows("1 hour")).trigger(dm.Repeatedly(dm.AfterProcessingTime(0)))
        carriers = dm.GroupBy("carrier").aggregate_field(lambda row: row, dm.ToList(), "flights")
        groups = rows | each.accumulating_and_retracting() | carriers
        _ = groups | dm.Map(lambda group: ("all", group)) | dm.GroupByKey() | "all" >> dm.io.Collect()
        _ = groups | dm.Map(str).retractable("memoised") | "memoised" >> dm.io.Collect()
    _, last = p.result.collected("all")[-1].value
    assert sorted((group.carrier, len(group.flights)) for group in last) == [("AA", 2), ("UA", 3)]
    assert sum(-1 if record.is_retraction else 1 for record in p.result.collected("memoised")) == 2


def test_a_second_grouping_keeps_values_that_are_equal_as_keys_apart() -> None:
    orders = TestStream()
    for at, (name, order) in enumerate(
        [("Ann", Order(1, "Ann's")), ("Ben", Order(1, "Ben's")), ("Ann", Order(2, "Ann's second"))]
    ):
        orders = orders.add(order, at, key=name)
    each = dm.Window.into(dm.FixedWindows(60)).trigger(dm.Repeatedly(dm.AfterCount(1)))
    with dm.Pipeline() as p:
        newest = p | orders | each.accumulating_and_retracting() | dm.Latest.per_key()
        _ = newest | dm.Map(lambda pair: ("all", pair[1])) | dm.GroupByKey() | "all" >> dm.io.Collect()
    _, last = p.result.collected("all")[-1].value
    assert sorted(order.note for order in last) == ["Ann's second", "Ben's"]
