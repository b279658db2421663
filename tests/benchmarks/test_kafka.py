"""The benchmark of Kafka: a lost or repeated message is noticed, as is one that was not counted."""

from __future__ import annotations

import json

import pytest

from benchmarks.kafka_traffic import FIELDS, Traffic, numbered, object_of


@pytest.mark.parametrize(
    ("results", "is_complete"),
    [
        ([(0, 7, 1), (1, 7, 2), (2, 8, 1)], True),
        ([(0, 7, 1), (1, 7, 2)], False),  # one is lost
        ([(0, 7, 1), (1, 7, 2), (2, 8, 1), (2, 8, 1)], False),  # one came twice
        ([(0, 7, 1), (1, 7, 1), (2, 8, 1)], False),  # one was not counted
    ],
)
def test_a_lost_or_repeated_message_is_noticed(results: list[tuple[int, int, int]], is_complete: bool) -> None:
    traffic = Traffic.__new__(Traffic)
    traffic._written, traffic._results = 3, results
    assert traffic.is_complete is is_complete


def test_values_have_100_bytes_and_those_in_json_the_fields() -> None:
    for number in (0, 7, 999_999):
        assert len(numbered(number)) == len(object_of(number)) == 100
        value = json.loads(object_of(number))
        assert value.keys() == set(FIELDS.names)
        assert value["number"] == number
