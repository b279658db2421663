"""Databases as fixtures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.exactly_once.databases import execute, postgres_programs, postgres_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Yield the URL of a PostgreSQL server; skip where it is not installed."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("needs PostgreSQL's server; Debian has it in the package `postgresql`")
    with postgres_server(programs) as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database, of SQLite and, among the slow tests, of PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'test.db'}"
    url: str = request.getfixturevalue("postgres")
    execute(url, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return url
