"""The estimators on a year of flights: what `docs/watermarks.md` says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import dataflow_model as dm
from benchmarks.watermarks import measure

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def flights(repository: Path) -> Path:
    return repository / "data" / "flights.parquet"


def test_adaptive_lateness_is_within_a_factor_of_three_of_its_target_on_data_it_has_not_seen(flights: Path) -> None:
    _, second = measure({"watermark": dm.AdaptiveLateness(0.001)}, flights)
    assert 0.001 / 3 < second.late < 0.001 * 3


def test_a_longer_delay_makes_fewer_elements_late_and_is_further_behind(flights: Path) -> None:
    hour, six = (
        next(measure({"watermark": dm.BoundedOutOfOrderness(delay)}, flights)) for delay in ("1 hour", "6 hours")
    )
    assert hour.late > 10 * six.late
    assert hour.median < six.median
