"""The flights file is what its page says, and the page is what the script writes."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from pathlib import Path

MINUTE = 60_000_000


@pytest.fixture(scope="module")
def flights(repository: Path) -> pa.Table:
    return pq.read_table(repository / "data" / "flights.parquet")


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "data" / "README.md").read_text(encoding="utf-8")


def test_the_page_gives_the_files_own_hash_and_size(repository: Path, page: str) -> None:
    content = (repository / "data" / "flights.parquet").read_bytes()
    assert hashlib.sha256(content).hexdigest() in page
    assert f"{len(content):,} bytes" in page
    assert len(content) < 4_000_000


def test_all_departures_of_the_year_are_there(flights: pa.Table) -> None:
    assert flights.num_rows == 336_776
    assert flights.column("dep_delay").null_count == 8_255


def test_the_rows_are_in_the_order_of_the_replay_clock(flights: pa.Table) -> None:
    known = flights.column("known_at").cast(pa.int64()).to_numpy()
    assert (np.diff(known) >= 0).all()


def test_the_replay_clock_of_a_flight_is_its_departure_or_its_schedule_if_it_was_cancelled(flights: pa.Table) -> None:
    known, scheduled = (
        flights.column(name).cast(pa.int64()).to_numpy() for name in ("known_at", "scheduled_departure")
    )
    delay = pc.fill_null(flights.column("dep_delay"), 0).to_numpy().astype(np.int64)
    assert (known == scheduled + delay * MINUTE).all()


@pytest.mark.parametrize(
    ("day", "first"),
    [
        ("2013-03-09", "10:00"),  # 05:00 in New York, standard time
        ("2013-03-10", "09:00"),  # 05:00 there, the first morning of daylight saving
        ("2013-11-02", "09:00"),
        ("2013-11-03", "10:00"),  # standard time again
    ],
)
def test_the_first_hour_of_a_day_in_utc_changes_with_daylight_saving_time(
    flights: pa.Table, day: str, first: str
) -> None:
    scheduled = flights.column("scheduled_departure").to_numpy()
    # Nothing is scheduled between one and five in the morning there on these days.
    of_day = scheduled[(scheduled >= np.datetime64(f"{day}T06")) & (scheduled < np.datetime64(f"{day}T18"))]
    assert of_day.min().astype("datetime64[h]") == np.datetime64(f"{day}T{first[:2]}")


def test_the_file_of_flights_has_several_row_groups_so_that_tasks_can_share_it(repository: Path) -> None:
    metadata = pq.read_metadata(repository / "data" / "flights.parquet")
    assert metadata.num_row_groups == -(-336_776 // 32_768)


def test_about_nine_percent_of_flights_are_late_at_thirty_minutes_after_their_hour(page: str) -> None:
    row = re.search(r"^\| 30 min \| ([0-9.]+) %", page, flags=re.MULTILINE)
    assert row is not None
    assert float(row[1]) == pytest.approx(8.93)
