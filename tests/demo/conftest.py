"""A slice of the flights, and one local run over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dataflow_model.demo.running import first_rows, run_local

if TYPE_CHECKING:
    from pathlib import Path

    from dataflow_model.demo.answers import Outcome

SLICE = 4_000


@pytest.fixture(scope="session")
def some_flights(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of the first flights of the year."""
    target = tmp_path_factory.mktemp("flights") / "flights.parquet"
    return first_rows(repository / "data" / "flights.parquet", SLICE, target)


@pytest.fixture(scope="session")
def local_run(some_flights: Path) -> Outcome:
    """Return what LocalRunner makes of them."""
    return run_local(some_flights)
