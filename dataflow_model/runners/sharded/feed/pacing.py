"""How far a micro-batch reads each origin: so many rows in all, and none that runs too far ahead of the watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dataflow_model.time import MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflow_model.plan.nodes import Read

__all__ = ["Waiting", "advance", "held_back"]

Rows = dict[str, dict[str, int]]
"""By source and origin, a number of rows."""


class Waiting(NamedTuple):
    """An origin with rows that have not been read."""

    label: str
    origin: str
    total: int


def advance(rows: Rows, totals: Rows, most: int, reads: Sequence[Read], committed: Mapping[str, Any]) -> None:
    """Take as many rows as a micro-batch may.

    In order of name, or evenly from all origins where each has a clock or a watermark of its own.

    Args:
        rows: how many rows have been read; changed in place.
        totals: how many there are.
        most: how many to take.
        reads: the sources.
        committed: the progress that the last commit wrote: watermarks, and how far each origin is.
    """
    held = held_back(rows, totals, reads, committed)
    waiting = [one for one in _waiting(rows, totals) if (one.label, one.origin) not in held]
    evenly = any(
        read.source.processing_time is not None
        or read.source.watermark_origins.by == "file"
        or read.source.watermark_origins.max_skew is not None
        for read in reads
    )
    left = most
    for place, (label, origin, total) in enumerate(waiting):
        share = max(1, left // (len(waiting) - place)) if evenly else left
        at = rows.setdefault(label, {}).get(origin, 0)
        rows[label][origin] = min(total, at + share)
        left -= rows[label][origin] - at
        if left <= 0:
            return


def held_back(rows: Rows, totals: Rows, reads: Sequence[Read], committed: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return the (label, origin) of those that wait for the watermark, by their source's `max_skew`.

    An origin whose own watermark is more than that ahead of its source's waits. Where that would be all that a bounded
    source has, the one that is least ahead goes on: nothing else could move the watermark.
    """
    held: set[tuple[str, str]] = set()
    for read in reads:
        most = read.source.watermark_origins.max_skew
        if most is None:
            continue
        low = committed.get("watermarks", {}).get(read.label, int(MIN_TIMESTAMP))
        ahead = {
            origin: watermark - low
            for origin, watermark in committed.get("reach", {}).get(read.label, {}).items()
            if watermark - low > int(most)
        }
        left = [one.origin for one in _waiting(rows, totals) if one.label == read.label]
        waits = [origin for origin in left if origin in ahead]
        if waits and len(waits) == len(left) and read.source.is_bounded:
            waits.remove(min(waits, key=ahead.__getitem__))
        held.update((read.label, origin) for origin in waits)
    return held


def _waiting(rows: Rows, totals: Rows) -> list[Waiting]:
    return [
        Waiting(label, origin, total)
        for label, origins in sorted(totals.items())
        for origin, total in sorted(origins.items())
        if rows.get(label, {}).get(origin, 0) < total
    ]
