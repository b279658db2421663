"""The stages that run in this process, from which the results of runs read what has been counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dataflow_model.runners.beam.harness import Operations

_RUNS: Final[dict[str, list[tuple[str, Operations]]]] = {}


def begin(run: str) -> None:
    """Begin to note the stages of a run."""
    _RUNS[run] = []


def add(run: str, label: str, operations: Operations) -> None:
    """Note a stage, if the result of its run is in this process."""
    if run in _RUNS:
        _RUNS[run].append((label, operations))


def stages_of(run: str) -> list[tuple[str, Operations]]:
    """Return the stages of a run by label; one that several parts of a run use is there several times."""
    return list(_RUNS.get(run, ()))


def forget(run: str) -> None:
    """Forget a run, whose result is gone."""
    _RUNS.pop(run, None)
