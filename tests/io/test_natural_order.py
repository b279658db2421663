"""Files are read in natural order of their names, by every host, in small micro-batches and in large ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

import dataflow_model as dm
from dataflow_model.io.listing.matching import list_files
from dataflow_model.plan.columns.natural_order import natural, original
from tests.support.pipelines import run
from tests.support.runners.local_streams import Stepped, put_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NAMES = st.text(st.sampled_from("0019a-/.٣é\0"), max_size=30) | st.text(max_size=8)
DAYS = [f"2024-1-{day}" for day in range(1, 13)]


@given(NAMES)
def test_a_file_name_is_restored_from_its_text_form(name: str) -> None:
    assert original(natural(name)) == name


@given(NAMES, NAMES)
def test_the_natural_order_of_names_is_total(first: str, second: str) -> None:
    assert (natural(first) == natural(second)) is (first == second)


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b-", "é"]), st.integers(0, 10**20)), min_size=2, max_size=6))
def test_numbers_in_names_are_compared_as_numbers(parts: list[tuple[str, int]]) -> None:
    names = [f"{text}{number}x" for text, number in parts]
    in_order = sorted(range(len(parts)), key=lambda place: (parts[place][0], parts[place][1]))
    assert [re.sub(" ", "", names[place]) for place in in_order if parts[place][0]] == [
        name for name in sorted(names, key=natural) if not name[0].isdigit()
    ]


@pytest.mark.parametrize(
    "names",
    [
        ["2024-1-2", "2024-01-3", "2024-1-10"],
        ["a1", "a01", "a2", "a10", "a10b", "ab"],
        ["day=9/x", "day=10/x", "day=10/y"],
        ["0", "00", "1", "9", "10", "99", "100", "123456789", "1234567890", "9" * 20, "1" + "0" * 20],
        ["x٣", "x٣٣"],  # digits of other scripts are ordinary characters
    ],
)
def test_these_names_are_in_natural_order(names: list[str]) -> None:
    assert sorted(set(names), key=natural) == names


def rows_of_days(folder: Path) -> Path:
    """Write a file for each day, with rows in order of time, and return the folder."""
    for number, day in enumerate(DAYS):
        put_rows(folder, day, [(number * 86_400 + hour * 3_600, "k", number * 24 + hour) for hour in range(24)])
    return folder


def counting(folder: Path, **options: Any) -> Any:
    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(folder, event_time="at", **options)
        pairs = rows | dm.Map(lambda row: (row.key, row.n))
        windows = dm.Window.into(dm.FixedWindows("1 hour"))
        _ = pairs | windows | "sums" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()
        _ = rows | dm.Map(lambda row: row.n) | "numbers" >> dm.io.Collect()

    return build


@pytest.mark.parametrize("size", [5, 24, 1_000])
@pytest.mark.parametrize("follow", [False, True])
def test_nothing_is_late_in_a_stream_however_small_the_micro_batches_are(
    tmp_path: Path, size: int, *, follow: bool
) -> None:
    folder = rows_of_days(tmp_path / "rows")
    stepped = Stepped(counting(folder, follow=follow), tmp_path / "checkpoint", rows=size, until="drained")
    stepped.steps()
    assert [record.value for record in stepped.collected("numbers")] == list(range(24 * len(DAYS)))
    assert len(stepped.collected("panes")) == 24 * len(DAYS)
    assert not stepped.metrics()["sums"].get("dropped_because_late", 0)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bounded_run_reads_files_in_natural_order(tmp_path: Path, workers: int) -> None:
    folder = rows_of_days(tmp_path / "rows")
    result = run(dm.LocalRunner(workers=workers), counting(folder))
    assert [record.value for record in result.collected("numbers")] == list(range(24 * len(DAYS)))


def test_listings_and_globs_are_in_natural_order(tmp_path: Path) -> None:
    folder = rows_of_days(tmp_path / "rows")
    expected = [f"{day}.parquet" for day in DAYS]
    assert list_files((str(folder),)) == expected
    assert list_files((str(folder / "2024-*.parquet"),)) == expected
    source: Any = dm.io.ReadParquet(folder, event_time="at").source
    assert [origin.name for origin in source.origins()] == expected


def test_the_id_of_a_record_contains_the_unchanged_name_of_the_file(tmp_path: Path) -> None:
    put_rows(tmp_path, "part-007", [(0, "k", 1)])
    p = dm.Pipeline()
    rows = p | "rows:1" >> dm.io.ReadParquet(tmp_path, event_time="at")
    _ = rows | dm.Map(lambda _, record_id: record_id) | "ids" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    [record] = result.collected("ids")
    assert record.value[:3] == ("rows:1", "part-007.parquet", 0)


def test_on_spark_a_bounded_job_reads_files_in_natural_order(spark: SparkSession, tmp_path: Path) -> None:
    folder = rows_of_days(tmp_path / "rows")
    result = run(dm.SparkRunner(spark, mode="batch"), counting(folder))
    assert [record.value for record in result.collected("numbers")] == list(range(24 * len(DAYS)))
