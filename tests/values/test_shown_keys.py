"""Encoded keys as text."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.values import encode_key
from dataflow_model.values.shown_keys import shown_encoded


class Color(enum.Enum):
    RED = 1


class Place(NamedTuple):
    airport: str
    gate: int


@attrs.frozen
class Flight:
    carrier: str
    number: int


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (None, "None"),
        (True, "True"),
        (-5, "-5"),
        (1.5, "1.5"),
        ("UA", "'UA'"),
        (b"UA", "b'UA'"),
        (datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC), "2013-01-01T00:00:00Z"),
        (datetime.datetime(2013, 1, 1), "2013-01-01T00:00:00"),  # noqa: DTZ001 - a local time
        (datetime.date(2013, 1, 1), "2013-01-01"),
        (datetime.time(3, 4), "03:04:00"),
        (datetime.timedelta(seconds=90), "90 s"),
        (np.timedelta64(3, "M"), "3 months"),
        (decimal.Decimal("1.50"), "Decimal(15E-1)"),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (Color.RED, "Color.RED"),
        (Flight("UA", 7), "Flight('UA', 7)"),
        (Place("EWR", 7), "Place('EWR', 7)"),
        (("UA",), "('UA',)"),
        ((("UA", 7), None), "(('UA', 7), None)"),
        (frozenset({1, 2}), "{1, 2}"),
        (dm.IntervalWindow(dm.EventTime(0), dm.EventTime(5)), "IntervalWindow(EventTime(0), EventTime(5))"),
    ],
)
def test_a_key_is_shown_much_as_python_shows_it(key: Any, text: str) -> None:
    assert shown_encoded(encode_key(key)) == text


@pytest.mark.parametrize("key", ["x" * 200, 10**900, -(10**900), tuple(range(100))])
def test_a_long_key_is_cut_short(key: Any) -> None:
    assert len(shown_encoded(encode_key(key))) <= 80


@given(st.binary(max_size=40))
def test_bytes_that_are_not_an_encoded_key_are_shown(encoded: bytes) -> None:
    assert len(shown_encoded(encoded)) <= 80
