"""The ratios that were met before, and what has become worse since."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from benchmarks.harness import Result

__all__ = ["ALLOWED", "read_baseline", "regressions"]

ALLOWED: Final = 1.25
"""A ratio may be this many times its baseline; machines vary by less."""


def read_baseline(path: Path) -> dict[str, float]:
    """Return the ratios of a baseline file by the names of the benchmarks.

    Args:
        path: a JSON object of names and ratios.
    """
    return {name: float(ratio) for name, ratio in json.loads(path.read_text()).items()}


def regressions(results: Iterable[Result], baseline: Mapping[str, float]) -> list[str]:
    """Return a line for each result whose ratio is worse than its baseline by more than `ALLOWED`.

    A benchmark without a baseline is not compared.
    """
    return [
        f"{result.name}: the ratio is {result.ratio:.3g}, the baseline {baseline[result.name]:.3g}; "
        f"it may be {ALLOWED * baseline[result.name]:.3g}"
        for result in results
        if result.ratio is not None and result.name in baseline and result.ratio > ALLOWED * baseline[result.name]
    ]
