"""Keys: equal bytes just when type and value are equal, in every process."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import os
import subprocess
import sys
import uuid
from typing import Any, NamedTuple, cast

import attrs
import numpy as np
import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.errors import KeyEncodingError
from dataflow_model.time import EventTime
from dataflow_model.values import GLOBAL_WINDOW, IntervalWindow, encode_key, shard_hash

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
def test_two_keys_have_equal_bytes_just_when_type_and_value_are_equal(one: Any, other: Any) -> None:
    assert (encode_key(one) == encode_key(other)) == (_typed(one) == _typed(other))


def test_keys_that_python_calls_equal_are_told_apart_by_type() -> None:
    keys = [1, 1.0, True, "1", b"1", decimal.Decimal(1), (1,), frozenset({1}), EventTime(1), None, "None", "", (), b""]
    assert len({encode_key(key) for key in keys}) == len(keys)


def test_nesting_is_part_of_a_tuple_key() -> None:
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
    "key",
    [
        [1],
        {1},
        {"a": 1},
        bytearray(b"a"),
        Mutable("N1"),
        object(),
        np.array([1]),
        np.array([1, 2]),
        (1, [2]),
        Route("a", cast("str", [])),
    ],
    ids=lambda key: type(key).__name__,
)
def test_a_key_that_could_change_is_refused_with_a_way_out(key: Any) -> None:
    with pytest.raises(
        KeyEncodingError, match=r"(?s)a key must be immutable .* got .*\nHint: replace a list by a tuple"
    ):
        encode_key(key)


@pytest.mark.parametrize(
    "key",
    [float("nan"), np.float64("nan"), decimal.Decimal("NaN"), decimal.Decimal("sNaN"), ("a", float("nan"))],
    ids=repr,
)
def test_nan_is_refused_as_a_key_with_a_way_out(key: Any) -> None:
    with pytest.raises(KeyEncodingError, match="NaN, which is not equal to itself\nHint: map it to None"):
        encode_key(key)


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
