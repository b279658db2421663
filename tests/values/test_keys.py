"""Keys: equal bytes just when type and value are equal, in every process."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import itertools
import os
import pathlib
import pickle
import subprocess
import sys
import uuid
from typing import Any, NamedTuple, cast

import attrs
import cloudpickle
import numpy as np
import pandas as pd
import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.errors import KeyEncodingError, UserCodeError
from dataflow_model.time import EventTime
from dataflow_model.values import GLOBAL_WINDOW, IntervalWindow, are_alike, encode_key, shard_hash
from dataflow_model.values.pickles import dump_with_classes

ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.dates()
    | st.datetimes()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.decimals(allow_nan=False)
)
KEYS = st.recursive(
    ATOMS, lambda part: st.lists(part, max_size=3).map(tuple) | st.frozensets(part, max_size=3), max_leaves=6
)


LOCAL_DAY = datetime.datetime(2020, 1, 1)  # noqa: DTZ001 - a key without a zone


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Mode(enum.Flag):
    READ = 1
    WRITE = 2


class Route(NamedTuple):
    origin: str
    dest: str


class Leg(NamedTuple):
    origin: str
    dest: str


@attrs.frozen
class Plane:
    tail: str


@dataclasses.dataclass(frozen=True)
class Carrier:
    code: str


@attrs.define
class Mutable:
    tail: str


def _typed(key: Any) -> Any:
    """Return a form that `==` compares by type and value, unlike Python's `1 == 1.0 == True`."""
    if isinstance(key, tuple):
        return (type(key), tuple(_typed(part) for part in key))
    if isinstance(key, frozenset):
        return (type(key), frozenset(_typed(part) for part in key))
    return (type(key), key)


@given(KEYS, KEYS)
def test_two_keys_have_equal_bytes_if_and_only_if_type_and_value_are_equal(left: Any, right: Any) -> None:
    assert (encode_key(left) == encode_key(right)) == (_typed(left) == _typed(right))


SMALL = st.sampled_from([0, 1, True, False, 1.0, 0.0, -0.0, "", "1", b"1", None, decimal.Decimal(1), np.int64(1)])
TUPLES = st.tuples(SMALL, SMALL) | st.tuples(st.integers(0, 1) | st.text("a", max_size=1) | st.none(), st.just("a"))


@given(st.lists(SMALL | TUPLES | TUPLES.map(Route._make) | st.tuples(TUPLES), max_size=4))
def test_plain_keys_of_one_type_are_the_same_key_if_and_only_if_they_are_equal(keys: list[Any]) -> None:
    if are_alike(keys):
        for left, right in itertools.combinations(keys, 2):
            assert (left == right) == (encode_key(left) == encode_key(right))
            assert left != right or repr(left) == repr(right)


class LooseRoute(NamedTuple):
    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LooseRoute) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([1, -1], True),
        ([("a", None), (1, b"1"), ("a", 1, 2)], True),
        ([Route("a", "b"), Route("a", "c")], True),
        ([Route("a", "b"), ("a", "b")], False),
        ([Route("a", "b"), Leg("a", "b")], False),
        ([LooseRoute("a")], False),
        ([(1, True)], False),
        ([(1, (2, 3))], False),
        ([None, None], False),
        ([], False),
    ],
)
def test_keys_of_one_type_with_plain_parts_are_recognised(keys: list[Any], expected: bool) -> None:
    assert are_alike(keys) == expected


def test_keys_that_python_considers_equal_are_distinguished_by_type() -> None:
    keys = [1, 1.0, True, "1", b"1", decimal.Decimal(1), (1,), frozenset({1}), EventTime(1), None, "None", "", (), b""]
    assert len({encode_key(key) for key in keys}) == len(keys)


def test_nested_and_flat_tuples_are_different_keys() -> None:
    keys: list[Any] = [("a", "b", "c"), (("a", "b"), "c"), ("a", ("b", "c")), ("ab", "c"), ("a", "bc"), ("abc",)]
    assert len({encode_key(key) for key in keys}) == len(keys)


def test_records_of_two_types_are_two_keys() -> None:
    keys: list[Any] = [Route("JFK", "LAX"), Leg("JFK", "LAX"), ("JFK", "LAX"), Plane("N1"), Carrier("N1"), "N1"]
    assert len({encode_key(key) for key in keys}) == len(keys)
    assert encode_key(Route("JFK", "LAX")) == encode_key(Route("JFK", "LAX"))
    assert encode_key(Plane("N1")) == encode_key(Plane("N1"))


def test_enums_are_keys_by_name() -> None:
    keys: list[Any] = [Colour.RED, Colour.BLUE, Mode.READ, Mode.READ | Mode.WRITE, Mode(0), 1, "RED"]
    assert len({encode_key(key) for key in keys}) == len(keys)


def test_windows_are_keys() -> None:
    window = IntervalWindow(EventTime(0), EventTime(1))
    assert encode_key(window) == encode_key(IntervalWindow(EventTime(0), EventTime(1)))
    assert encode_key(window) != encode_key(GLOBAL_WINDOW)


def test_zeros_of_both_signs_are_one_key() -> None:
    assert encode_key(-0.0) == encode_key(0.0)
    assert encode_key(decimal.Decimal("-0.0")) == encode_key(decimal.Decimal(0))


def test_decimals_that_are_equal_are_one_key_whatever_their_digits() -> None:
    assert encode_key(decimal.Decimal("1.50")) == encode_key(decimal.Decimal("1.5"))
    assert encode_key(decimal.Decimal("1E+2")) == encode_key(decimal.Decimal(100))
    long = "1." + "0" * 40 + "1"
    assert encode_key(decimal.Decimal(long)) != encode_key(decimal.Decimal(1))


def test_one_instant_in_two_zones_is_one_key_and_a_local_time_another() -> None:
    noon = datetime.datetime(2013, 1, 1, 12, tzinfo=datetime.UTC)
    assert encode_key(noon) == encode_key(noon.astimezone(datetime.timezone(datetime.timedelta(hours=-5))))
    assert encode_key(noon) != encode_key(noon.replace(tzinfo=None))
    assert encode_key(pendulum.datetime(2013, 1, 1)) == encode_key(pendulum.datetime(2013, 1, 1))


@pytest.mark.parametrize(
    ("scalar", "value"),
    [(np.int64(5), 5), (np.float64(0.5), 0.5), (np.float32(0.5), 0.5), (np.str_("a"), "a"), (np.bool_(True), True)],
)
def test_a_numpy_scalar_is_the_python_scalar_that_it_holds(scalar: Any, value: Any) -> None:
    assert encode_key(scalar) == encode_key(value)


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ([1], r"tuple\(values\)"),
        ({1}, r"frozenset\(values\)"),
        ({"a": 1}, r"tuple\(sorted\(d\.items\(\)\)\)"),
        (bytearray(b"a"), r"bytes\(data\)"),
        (pathlib.PurePath("a"), r"str\(path\)"),
        (range(3), r"\(start, stop, step\)"),
        (fractions.Fraction(1, 3), r"\(numerator, denominator\)"),
        (Mutable("N1"), r"str\(value\)"),
        (object(), r"str\(value\)"),
        (np.array([1]), r"str\(value\)"),
        (np.array([1, 2]), r"str\(value\)"),
        ((1, [2]), r"tuple\(values\)"),
        (Route("a", cast("str", [])), r"tuple\(values\)"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_key_that_could_change_is_refused_with_a_way_out(key: Any, instead: str) -> None:
    with pytest.raises(KeyEncodingError, match=rf"(?s)a key must be immutable .* got .*\nHint: .*: {instead}, for"):
        encode_key(key)


@pytest.mark.parametrize(
    "key",
    [float("nan"), np.float64("nan"), decimal.Decimal("NaN"), decimal.Decimal("sNaN"), ("a", float("nan"))],
    ids=repr,
)
def test_nan_is_refused_as_a_key_with_a_way_out(key: Any) -> None:
    with pytest.raises(KeyEncodingError, match="NaN, which is not equal to itself\nHint: map it to None"):
        encode_key(key)


@attrs.frozen
class Fare:
    amount: int
    note: str = attrs.field(default="", eq=False)
    currency: str = attrs.field(default="EUR", eq=str.upper)


@dataclasses.dataclass(frozen=True)
class Order:
    number: Any
    note: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True)
class Loose:
    name: str

    def __eq__(self, right: object) -> bool:
        return isinstance(right, Loose) and self.name.lower() == right.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())


@attrs.frozen
class LooseAttrs:
    name: str

    def __eq__(self, right: object) -> bool:
        return isinstance(right, LooseAttrs)

    def __hash__(self) -> int:
        return 0


@dataclasses.dataclass(eq=False)
class Identical:
    name: str


class LooseText(str):
    __slots__ = ()

    def __eq__(self, right: object) -> bool:
        return isinstance(right, str) and self.lower() == right.lower()

    __hash__ = str.__hash__


class LooseColour(enum.Enum):
    RED = 1

    def __eq__(self, right: object) -> bool:
        return isinstance(right, LooseColour)

    __hash__ = enum.Enum.__hash__


def test_a_record_is_encoded_by_the_fields_that_it_compares() -> None:
    assert encode_key(Order(1, "a")) == encode_key(Order(1, "b")) != encode_key(Order(2, "a"))
    assert encode_key(Fare(1, "a")) == encode_key(Fare(1, "b")) != encode_key(Fare(2, "a"))
    assert encode_key(Fare(1, currency="eur")) == encode_key(Fare(1, currency="EUR"))
    assert encode_key(Order(1)) != encode_key(Order(1.0)) != encode_key(Order(True))


@pytest.mark.parametrize(
    "key",
    [Loose("a"), LooseAttrs("a"), Identical("a"), LooseText("a"), LooseColour.RED, (1, Loose("a")), Order(Loose("a"))],
    ids=lambda key: type(key).__name__,
)
def test_a_class_with_an_equality_of_its_own_is_refused_as_a_key(key: Any) -> None:
    with pytest.raises(
        KeyEncodingError, match=r"a key may not be of type \w+: its `__eq__` .*\nHint: let @dataclass\(frozen=True\)"
    ):
        encode_key(key)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pd.Timestamp(1), pd.Timestamp(2)),
        (pd.Timedelta(1), pd.Timedelta(2)),
        (np.datetime64(1, "ns"), np.datetime64(2, "ns")),
        (np.datetime64(5, "ns"), 5),
        (np.datetime64(5, "ns"), np.timedelta64(5, "ns")),
        (np.timedelta64(5, "ns"), np.timedelta64(5, "us")),
        (np.timedelta64(5, "Y"), np.timedelta64(5, "ns")),
        (np.timedelta64(5, "Y"), np.timedelta64(5, "s")),
        (np.timedelta64(1, "as"), np.timedelta64(2, "as")),
        (np.datetime64("2020-01-01", "D"), np.datetime64("2020-01-01", "us")),  # a date and a datetime
        (2**63, 2**64),
        (datetime.time(12, tzinfo=datetime.UTC), datetime.time(12)),
    ],
)
def test_numpy_times_that_differ_in_their_last_digit_are_different_keys(left: Any, right: Any) -> None:
    assert encode_key(left) != encode_key(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pd.Timestamp("2020-01-01"), LOCAL_DAY),
        (pd.Timestamp("2020-01-01", tz="America/New_York"), datetime.datetime(2020, 1, 1, 5, tzinfo=datetime.UTC)),
        (pd.Timedelta(datetime.timedelta(1)), datetime.timedelta(1)),
        (np.datetime64("2020-01-01T00:00", "ns"), LOCAL_DAY),
        (np.datetime64("2020-01-01T00:00", "ns"), np.datetime64("2020-01-01T00:00", "s")),
        (np.datetime64("2020", "Y"), datetime.date(2020, 1, 1)),
        (np.datetime64("2020-02", "M"), datetime.date(2020, 2, 1)),
        (np.datetime64("1969-12-25", "W"), datetime.date(1969, 12, 25)),
        (np.timedelta64(2, "W"), datetime.timedelta(14)),
        (np.timedelta64(4, ("s", 25)), datetime.timedelta(seconds=100)),
        (np.timedelta64(5, "Y"), np.timedelta64(60, "M")),
        (
            datetime.time(12, tzinfo=datetime.UTC),
            datetime.time(13, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
        ),
    ],
)
def test_a_numpy_time_is_encoded_like_the_equal_python_time(left: Any, right: Any) -> None:
    assert encode_key(left) == encode_key(right)


@given(st.integers(0, 1_000), st.integers(600, 20_000), st.sampled_from([-1, 1]))
def test_whole_numbers_are_keys_whatever_their_size(number: int, digits: int, sign: int) -> None:
    large = sign * 10**digits + number
    assert encode_key(large) == encode_key(sign * 10**digits + number)
    assert len({encode_key(key) for key in (large, -large, large + 1, large * 10)}) == 4


@given(st.integers(-(2**62), 2**62), st.sampled_from(["h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"]))
def test_numpy_times_are_one_key_if_and_only_if_numpy_considers_them_equal(count: int, unit: str) -> None:
    for kind in (np.datetime64, np.timedelta64):
        left: Any = kind(count, unit)  # type: ignore[call-overload] # the unit is drawn
        right: Any = kind(count + 1, unit)  # type: ignore[call-overload]
        assert encode_key(left) == encode_key(kind(count, unit))  # type: ignore[call-overload]
        assert encode_key(left) != encode_key(right)


@pytest.mark.parametrize(
    "key",
    [np.datetime64("NaT", "s"), np.timedelta64("NaT", "s"), np.datetime64("NaT", "ns"), pd.NaT, pd.NA, (1, pd.NaT)],
    ids=repr,
)
def test_a_missing_value_of_pandas_or_numpy_is_refused_as_a_key(key: Any) -> None:
    with pytest.raises(KeyEncodingError, match="which is not equal to itself\nHint: map it to None"):
        encode_key(key)


def _nested(depth: int) -> Any:
    key: Any = 1
    for _ in range(depth):
        key = (key,)
    return key


def _with_itself() -> Order:
    order = Order(1)
    object.__setattr__(order, "number", (order,))
    return order


@pytest.mark.parametrize("key", [_nested(102), _nested(10_000), _with_itself()], ids=["102", "10,000", "itself"])
def test_a_key_that_is_nested_too_deep_or_contains_itself_is_refused(key: Any) -> None:
    with pytest.raises(KeyEncodingError, match=r"nested at most 100 deep, and may not contain itself\nHint: "):
        encode_key(key)


def test_a_key_may_be_nested_a_hundred_deep() -> None:
    assert encode_key(_nested(100)) == encode_key(_nested(100)) != encode_key(_nested(99))


@pytest.mark.parametrize(
    "key",
    [np.longdouble(1.5), np.complex128(1), np.datetime64(10**6, "Y"), np.array([5]).view("m8")[0], attrs.evolve],
    ids=["long double", "complex", "a million years", "without a unit", "a function"],
)
def test_whatever_has_no_encoding_is_refused_as_a_key(key: Any) -> None:
    with pytest.raises(KeyEncodingError, match="Hint: "):
        encode_key(key)


def test_a_key_whose_time_zone_fails_is_refused_with_the_reason() -> None:
    class Broken(datetime.tzinfo):
        def utcoffset(self, _: datetime.datetime | None, /) -> datetime.timedelta:
            raise ValueError("no such zone")

        dst = utcoffset

        def tzname(self, _: datetime.datetime | None, /) -> str:
            return "broken"

    with pytest.raises(KeyEncodingError, match=r"cannot be encoded: ValueError: no such zone\nHint: "):
        encode_key(datetime.datetime(2020, 1, 1, tzinfo=Broken()))


def test_a_flag_without_a_name_is_not_the_member_whose_name_is_its_encoding() -> None:
    odd: Any = enum.Flag("odd", {"i0": 1})
    assert encode_key(odd(0)) != encode_key(odd.i0)


def test_bytes_and_shards_are_the_same_in_a_process_with_another_hash_seed() -> None:
    program = (
        "import decimal, uuid\n"
        "from dataflow_model.values import encode_key, shard_hash\n"
        "key = ('UA', 1, 1.5, frozenset('abcdefgh'), decimal.Decimal('1.50'), uuid.UUID(int=7))\n"
        "print(encode_key(key).hex(), shard_hash(encode_key(key)))\n"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }
    key = ("UA", 1, 1.5, frozenset("abcdefgh"), decimal.Decimal("1.50"), uuid.UUID(int=7))
    assert seen == {f"{encode_key(key).hex()} {shard_hash(encode_key(key))}\n"}


@given(KEYS)
def test_a_shard_hash_has_thirty_two_bits(key: Any) -> None:
    assert 0 <= shard_hash(encode_key(key)) < 2**32


@pytest.mark.parametrize("runs", [1, 3])
def test_minus_zero_is_shown_as_zero(runs: int) -> None:
    with dm.Pipeline() as p:
        _ = p | dm.Create([(-0.0, 1), (0.0, 1)] * runs) | dm.Count.per_key() | "counts" >> dm.io.Collect()
    assert p.result is not None
    [record] = p.result.collected("counts")
    assert repr(record.value) == f"(0.0, {2 * runs})"


def test_the_first_of_equal_keys_is_emitted() -> None:
    with dm.Pipeline() as p:
        orders = [(Order(1, "first"), 1), (Order(1, "second"), 1)]
        _ = p | dm.Create(orders) | dm.Count.per_key() | "counts" >> dm.io.Collect()
    assert p.result is not None
    [record] = p.result.collected("counts")
    assert (record.value[0].note, record.value[1]) == ("first", 2)


@pytest.mark.parametrize("key", [_nested(5_000), (10**5000, [1]), pd.NaT], ids=["deep", "a large number", "NaT"])
def test_a_refused_key_is_reported_with_the_label_of_the_transform(key: Any) -> None:
    with (
        pytest.raises(UserCodeError, match=r"transform: 'Count\.PerKey'"),
        dm.Pipeline() as p,
    ):
        _ = p | dm.Create([(key, 1)]) | dm.Count.per_key() | dm.io.Collect()


def test_records_whose_class_was_pickled_by_value_are_keys() -> None:
    @attrs.frozen
    class Of:
        number: int
        name: str = attrs.field(eq=str.lower)

    @attrs.frozen
    class Own:
        number: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

        def __hash__(self) -> int:
            return 0

    for travelled in (pickle.loads(dump_with_classes(Of)), cloudpickle.loads(cloudpickle.dumps(Of))):
        assert encode_key(travelled(3, "A")) == encode_key(travelled(3, "a")) != encode_key(travelled(4, "a"))
    with pytest.raises(KeyEncodingError, match="does not compare field by field"):
        encode_key(pickle.loads(dump_with_classes(Own))(3))


def test_functions_pickled_by_value_keep_the_name_of_their_file() -> None:
    travelled = pickle.loads(dump_with_classes(lambda: [2 * number for number in range(3)]))
    assert travelled() == [0, 2, 4]
    assert travelled.__code__.co_filename == __file__
