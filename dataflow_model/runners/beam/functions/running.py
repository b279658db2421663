"""The runs of this process: their stages, from which results read what has been counted, and their packages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflow_model.runners.beam.functions.packages import NO_PACKAGES

if TYPE_CHECKING:
    from dataflow_model.runners.beam.functions.harness import Operations
    from dataflow_model.runners.beam.functions.packages import Packages

_RUNS: Final[dict[str, list[tuple[str, Operations]]]] = {}
_PACKAGES: Final[dict[str, Packages]] = {}


def begin(run: str, packages: Packages) -> None:
    """Begin to note the stages of a run.

    Args:
        run: its id.
        packages: what other processes that run its functions import.
    """
    _RUNS[run], _PACKAGES[run] = [], packages


def packages_for(run: str) -> Packages:
    """Return what other processes that run the functions of a run import."""
    return _PACKAGES.get(run, NO_PACKAGES)


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
    _PACKAGES.pop(run, None)
