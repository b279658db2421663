"""The functions that both sides of the comparisons in process call."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

import dataflow_model as dm

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = [
    "BUCKETS",
    "PAID_WITHIN",
    "Statistics",
    "Summary",
    "as_pair",
    "both_of",
    "buckets",
    "doubled",
    "hot_pair",
    "scaled",
    "scaled_columns",
    "total_of",
    "write_sums_of_table",
]

BUCKETS: Final = 100
PAID_WITHIN: Final = "15 minutes"
"""How much later than its order a payment may be."""


class Summary(NamedTuple):
    """What `Statistics` gives; `value` is the column whose answers are compared."""

    elements: int
    value: int
    least: int
    greatest: int


def as_pair(row: Any) -> tuple[int, int]:
    """Return the key and the value of a row."""
    return row.key, row.value


def hot_pair(row: Any) -> tuple[int, int]:
    """Return the key that most rows have, or else the row's own, and the value."""
    return row.hot_key, row.value


def both_of(pair: tuple[int, tuple[int, int]]) -> tuple[int, int]:
    """Return the key of an order and its payment, and the sum of their values."""
    key, (ordered, paid) = pair
    return key, ordered + paid


def total_of(pair: tuple[int, Summary]) -> tuple[int, int]:
    """Return a key and the sum of its values."""
    return pair[0], pair[1].value


def write_sums_of_table(database: Path, out: Path) -> None:
    """Write the sum of the values of each key in a table to Parquet, with instants as part of what is summed."""
    summed = "SELECT key, sum(value + CAST(substr(event_time, 21) AS INTEGER)) FROM events GROUP BY key"
    with contextlib.closing(sqlite3.connect(database)) as connection:
        keys, sums = zip(*connection.execute(summed), strict=True)
    pq.write_table(pa.table({"key": keys, "value": sums}), out / "sums.parquet")


def doubled(pair: tuple[int, int]) -> tuple[int, int]:
    """Double the value of a pair, and add 1."""
    return pair[0], pair[1] * 2 + 1


def buckets(pair: tuple[int, int]) -> tuple[int, int]:
    """Put a pair's key into one of a hundred buckets."""
    return pair[0] % BUCKETS, pair[1]


def words_of(value: int) -> list[str]:
    """Return ten words, of five thousand."""
    return [f"word {value * number % 5_000}" for number in range(1, 11)]


def scaled(row: Any) -> tuple[int, int]:
    """Return the key of a row and its value, doubled and with 1 added."""
    return row.key, row.value * 2 + 1


def scaled_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Do so for all rows of a batch."""
    return pa.record_batch({"key": batch["key"], "value": batch["value"].to_numpy() * 2 + 1})


class Statistics(dm.CombineFn[int, tuple[int, int, int, int], Summary]):
    """Count, sum, least and greatest of some numbers, in a tuple."""

    def create_accumulator(self) -> tuple[int, int, int, int]:
        """Return what there is of no numbers; bounds that every number is within."""
        return 0, 0, 1 << 40, -(1 << 40)

    def add_input(self, accumulator: tuple[int, int, int, int], element: int) -> tuple[int, int, int, int]:
        """Take a number in."""
        count, total, least, greatest = accumulator
        return count + 1, total + element, min(least, element), max(greatest, element)

    def merge_accumulators(self, accumulators: Iterable[tuple[int, int, int, int]]) -> tuple[int, int, int, int]:
        """Put several together."""
        merged = self.create_accumulator()
        for count, total, least, greatest in accumulators:
            merged = merged[0] + count, merged[1] + total, min(merged[2], least), max(merged[3], greatest)
        return merged

    def extract_output(self, accumulator: tuple[int, int, int, int]) -> Summary:
        """Name the parts."""
        return Summary(*accumulator)
