"""The flights that run on clusters, and the Python environments of executors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from dataflow_model.demo import flights_file
from tests.support.cluster.cluster import environment

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first flights of the year."""
    path = tmp_path_factory.mktemp("rows") / "flights.parquet"
    pq.write_table(pq.read_table(flights_file()).slice(0, 8_000), path)
    return path


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of executors that do not have the package."""
    return environment(tmp_path_factory.mktemp("bare"), has_package=False)


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of executors that have the package installed, with the compiled core."""
    return environment(tmp_path_factory.mktemp("full"), has_package=True)
