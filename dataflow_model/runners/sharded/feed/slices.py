"""The parts of sources that tasks read, and placeholders for instants that are known only when they run."""

from __future__ import annotations

from typing import Final

import attrs

from dataflow_model.time import MIN_TIMESTAMP

FIRST: Final = (int(MIN_TIMESTAMP), 0)
"""A placeholder for the run's first instant."""
NOW: Final = (int(MIN_TIMESTAMP), 1)
"""A placeholder for the tick of the micro-batch, under the wall clock."""


@attrs.frozen
class Slice:
    """Rows `[start, stop)` of one origin of one source.

    Attributes:
        base: the number that is added to a row's position to get its sequence number; if positions have gaps, the
            position of the first row.
        version: the version of the origin when it was listed, or read before; `None` if it is not known yet.
        read: the number of rows of the origin that earlier micro-batches have read.
    """

    label: str
    origin: str
    start: int
    stop: int
    base: int = 0
    version: tuple[int | str, ...] | None = None
    read: int = 0
