"""Sums as a stream in process, as a program of its own, which a test kills and starts again.

Usage: python -m tests.support.faults.local_job FOLDER; the folder holds a pickled `LocalJob`.
"""

from __future__ import annotations

import datetime
import os
import pathlib
import pickle
import sys
from typing import Any, ClassVar, Final

import attrs

import dataflow_model as dm
from dataflow_model.runners.sharded.commits.progress import read_progress
from dataflow_model.runners.sharded.tasks import faults
from tests.support.exactly_once.databases import rows
from tests.support.faults.flights_job import StreamJob
from tests.support.faults.summing import NETS, SINK, Sums
from tests.support.pipelines import run

__all__ = ["LocalJob", "expected_of", "outcome_of"]

TABLE: Final = "nets"


@attrs.frozen(kw_only=True)
class LocalJob(StreamJob):
    """One run of the sums in process, to files, tables and `Collect`.

    Attributes:
        sums: the pipeline, without tables.
        urls: of the databases that it writes to.
        rows_per_batch: how many rows a micro-batch reads at most.
    """

    sums: Sums
    urls: tuple[str, ...]
    rows_per_batch: int = 3
    program: ClassVar[str] = "tests.support.faults.local_job"

    def killed_at(self, point: str, micro_batch: int, mark: pathlib.Path) -> LocalJob:
        """Return the job that is killed once at a point of a micro-batch, where it leaves a mark."""
        return attrs.evolve(self, fault=faults.Crash(point, micro_batch=micro_batch, mark=str(mark)))

    def micro_batches(self) -> int:
        """Return how many micro-batches have been published."""
        return int(read_progress(str(self.sums.checkpoint / "dataflow")).get("commits", 0))

    def build(self, p: dm.Pipeline, out: pathlib.Path | None = None, urls: tuple[str, ...] = ()) -> None:
        """Build the pipeline, with a table in each database."""
        odd = self.sums.build(p, out)
        for number, url in enumerate(urls or self.urls):
            _ = odd | f"table {number}" >> dm.io.WriteTable(
                url, table=TABLE, keys=("key", "window_start"), schema=NETS, panes=True
            )


def expected_of(job: LocalJob) -> dict[str, list[Any]]:
    """Return what a run commits that nothing happens to."""
    url = f"sqlite:///{job.folder / 'uninterrupted.db'}"
    out = job.folder / "uninterrupted"
    result = run(dm.LocalRunner(), lambda p: job.build(p, out, (url,)))
    outcome = job.sums.outcome(result.collected(SINK), out)
    return outcome | dict.fromkeys(job.urls, _table(url))


def outcome_of(job: LocalJob) -> dict[str, list[Any]]:
    """Return by sink what a run that is over has committed."""
    outcome = job.sums.outcome(pickle.loads(job.kept.read_bytes()))
    return outcome | {url: _table(url) for url in job.urls}


def _table(url: str) -> list[dict[str, Any]]:
    """Return the rows of the table; SQLite has instants as text, and other databases have their own type."""
    row_dicts = [
        {
            name: value.strftime("%Y-%m-%d %H:%M:%S.%f") if isinstance(value, datetime.datetime) else value
            for name, value in row.items()
        }
        for row in rows(url, TABLE)
    ]
    return sorted(row_dicts, key=repr)


def main(job: LocalJob) -> None:
    """Run the job from its checkpoint to its end."""
    faults.arm(job.fault)
    with job.starts.open("a") as starts:
        starts.write(f"{os.getpid()}\n")
    runner = dm.LocalRunner(checkpoint=job.sums.checkpoint, max_rows_per_batch=job.rows_per_batch)
    result = run(runner, job.build, until=None)
    job.kept.write_bytes(pickle.dumps(result.collected(SINK)))


if __name__ == "__main__":
    main(pickle.loads(pathlib.Path(sys.argv[1], "job.pickle").read_bytes()))
