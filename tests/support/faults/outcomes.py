"""What a run of the flights job has committed, in a form that compares."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds

from tests.support.faults.flights_job import LABELS
from tests.support.pipelines import seen

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.faults.flights_job import Job

__all__ = ["files_of", "outcome_of"]


def outcome_of(job: Job) -> dict[str, list[Any]]:
    """Return by sink what a run that is over has committed."""
    collected = pickle.loads(job.kept.read_bytes())
    return {"files": files_of(job.out)} | {label: seen(collected[label]) for label in LABELS}


def files_of(out: Path) -> list[str]:
    """Return the rows of all files in a fixed order."""
    return sorted(map(repr, ds.dataset(out, format="parquet").to_table().to_pylist()))
