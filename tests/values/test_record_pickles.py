"""Records in pickles: they are restored by the names of their fields."""

from __future__ import annotations

import copyreg
import dataclasses
import pickle
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import pytest

import dataflow_model as dm
from dataflow_model.runners.sharded.tasks.compact import dump_compact
from dataflow_model.values.pickles import dump, load
from tests.support.state.changing import KINDS, MODULE, define

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def forget_the_module() -> Iterator[None]:
    yield
    sys.modules.pop(MODULE, None)


BOTH = pytest.mark.parametrize("dumped", [dump, dump_compact], ids=["dump", "dump_compact"])


@BOTH
@pytest.mark.parametrize("kind", KINDS)
def test_stored_records_keep_their_values_if_fields_are_reordered(kind: str, dumped: Callable[[Any], bytes]) -> None:
    before = define(kind, "lat: int", "lon: int").Place(lat=1, lon=2)
    pickled = dumped({"here": [before, before]})
    place = define(kind, "lon: int", "lat: int").Place
    first, second = load(pickled)["here"]
    assert first == place(lat=1, lon=2)
    assert hash(first) == hash(place(lat=1, lon=2))
    assert second is first


@pytest.mark.parametrize("kind", KINDS)
def test_an_added_field_has_its_default(kind: str) -> None:
    pickled = dump(define(kind, "lat: int", "lon: int").Place(lat=1, lon=2))
    place = define(kind, "lat: int", "alt: int = 7", "lon: int = 0").Place
    assert load(pickled) == place(lat=1, alt=7, lon=2)


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("frozen dataclass with slots", "seen: list = dataclasses.field(default_factory=list)"),
        ("frozen dataclass", "seen: list = dataclasses.field(default_factory=list)"),
        ("attrs.frozen", "seen: list = attrs.Factory(list)"),
        ("attrs.frozen", "seen: list = attrs.field(default=attrs.Factory(lambda self: [], takes_self=True))"),
    ],
)
def test_an_added_field_with_a_factory_has_a_value_of_its_own(kind: str, field: str) -> None:
    before = define(kind, "lat: int").Place
    pickled = dump([before(1), before(2)])
    define(kind, "lat: int", field)
    first, second = load(pickled)
    assert (first.seen, second.seen) == ([], [])
    assert first.seen is not second.seen


@pytest.mark.parametrize("kind", KINDS)
def test_an_added_field_without_a_default_is_named_with_the_class(kind: str) -> None:
    pickled = dump(define(kind, "lat: int", "lon: int").Place(lat=1, lon=2))
    define(kind, "lat: int", "lon: int", "alt: int")
    message = (
        f"the class 'Place' of the module '{MODULE}' has the fields lat, lon, and none for the new field 'alt'\n"
        "Hint: give 'alt' a default"
    )
    with pytest.raises(dm.CheckpointMismatch, match=message):
        load(pickled)


@pytest.mark.parametrize("kind", KINDS)
def test_a_removed_field_is_left_out(kind: str) -> None:
    pickled = dump(define(kind, "lat: int", "lon: int").Place(lat=1, lon=2))
    place = define(kind, "lon: int").Place
    assert load(pickled) == place(2)
    assert not hasattr(load(pickled), "lat")


def test_a_class_that_is_not_a_record_any_more_is_reported() -> None:
    pickled = dump(define("NamedTuple", "lat: int").Place(1))
    define("attrs.frozen", "lat: int")
    with pytest.raises(dm.CheckpointMismatch, match="the class is no longer a named tuple"):
        load(pickled)


class Point(NamedTuple):
    x: int
    y: int = 0


class Marked(Point):
    """A named tuple with attributes."""


@dataclasses.dataclass
class Node:
    name: str
    others: list[Any] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class Unset:
    name: str
    value: int = dataclasses.field(init=False)


@attrs.frozen
class OwnState:
    a: int

    def __getstate__(self) -> Any:
        return self.a + 1

    def __setstate__(self, state: Any) -> None:
        object.__setattr__(self, "a", state - 1)


@dataclasses.dataclass(frozen=True)
class OwnReduce:
    a: int

    def __reduce__(self) -> Any:
        return OwnReduce, (self.a + 1,)


@dataclasses.dataclass
class Registered:
    a: int


@pytest.mark.parametrize(
    "value",
    [
        Point(1),
        [Point(1, 2), Point(3, 4)],
        Node("a", [Node("b")]),
        OwnState(1),
        dm.PaneInfo(0, 0, is_first=True, is_last=True, timing=dm.PaneTiming.ON_TIME, trigger=None),
        dm.IntervalWindow(dm.EventTime(0), dm.EventTime(5)),
    ],
    ids=repr,
)
def test_records_are_restored_with_equal_values(value: Any) -> None:
    restored = load(dump(value))
    assert restored == value
    assert type(restored) is type(value)


def test_attributes_that_are_not_fields_are_restored() -> None:
    marked, node = Marked(1, 2), Node("a")
    marked.note = "m"  # type: ignore[attr-defined]
    node.note = "n"  # type: ignore[attr-defined]
    restored = load(dump([marked, node]))
    assert [each.note for each in restored] == ["m", "n"]
    assert restored == [marked, node]


def test_a_record_that_contains_itself_is_restored() -> None:
    node = Node("a")
    node.others.append(node)
    restored = load(dump(node))
    assert restored.others[0] is restored


def test_a_field_without_a_value_is_restored_without_one() -> None:
    restored = load(dump(Unset("a")))
    assert restored.name == "a"
    assert not hasattr(restored, "value")


def test_a_class_with_its_own_pickling_is_pickled_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(copyreg.dispatch_table, Registered, lambda value: (Registered, (value.a + 1,)))
    assert load(dump([OwnReduce(1), Registered(1)])) == [OwnReduce(2), Registered(2)]
    assert load(dump(OwnState(1))) == OwnState(1)


def test_a_local_class_is_pickled_with_its_records() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Local:
        a: int

    assert load(dump([Local(1)]))[0].a == 1


def test_the_names_of_fields_are_stored_once_for_many_records() -> None:
    few, many = dump([Point(1)] * 2), dump([Point(1, number) for number in range(1_000)])
    assert (few.count(b"x y"), many.count(b"x y")) == (1, 1)
    assert len(many) < 1.2 * len(pickle.dumps([Point(1, number) for number in range(1_000)], 5))
