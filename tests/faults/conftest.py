"""What the tests of faults share: the input, what an uninterrupted run commits, and the counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.demo.running import first_rows
from tests.support.faults.flights_job import LABELS, Job, build
from tests.support.faults.outcomes import files_of
from tests.support.faults.telling import COUNTS
from tests.support.pipelines import run, seen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.faults.tally import Tally

ROWS = 20_000


@pytest.fixture(scope="session")
def tally(pytestconfig: pytest.Config) -> Tally:
    """Return what counts the faults of the whole run."""
    return pytestconfig.stash[COUNTS]


@pytest.fixture(scope="session")
def departures(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of flights."""
    return first_rows(repository / "data/flights.parquet", ROWS, tmp_path_factory.mktemp("flights") / "flights.parquet")


@pytest.fixture(scope="session")
def uninterrupted(departures: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Return what a run commits that nothing happens to; the local one, whose panes are those of Spark."""
    out = tmp_path_factory.mktemp("uninterrupted")
    result = run(dm.LocalRunner(), lambda p: build(p, str(departures), str(out)))
    return {"files": files_of(out)} | {label: seen(result.collected(label)) for label in LABELS}


@pytest.fixture
def new_job(tmp_path: Path, departures: Path) -> Callable[..., Job]:
    """Return a function that makes a job in a folder of its own, with attributes as they are given."""
    made: list[Job] = []

    def make(**attributes: Any) -> Job:
        made.append(Job(folder=tmp_path / f"run-{len(made)}", flights=departures, **attributes))
        return made[-1]

    return make
