"""How far a micro-batch reads each origin: at most a number of rows, and none too far ahead of the watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dataflow_model.time import MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflow_model.plan.nodes import Read

__all__ = ["Waiting", "advance", "held_back"]

Rows = dict[str, dict[str, int]]
"""A number of rows by source and origin."""


class Waiting(NamedTuple):
    """An origin with unread rows."""

    label: str
    origin: str
    total: int


def advance(rows: Rows, totals: Rows, most: int, reads: Sequence[Read], committed: Mapping[str, Any]) -> None:
    """Take the rows of a micro-batch.

    Origins are read in order of name, or evenly if each has a clock or a watermark of its own.

    Args:
        rows: the number of rows read; changed in place.
        totals: the number of rows.
        most: the maximum number of rows to take.
        reads: the sources.
        committed: the progress that the last commit wrote: watermarks, and the progress of each origin.
    """
    held = held_back(rows, totals, reads, committed)
    waiting = [candidate for candidate in _waiting(rows, totals) if (candidate.label, candidate.origin) not in held]
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
    """Return the (label, origin) pairs that wait for the watermark because of their source's `max_skew`.

    An origin waits if its own watermark is ahead of its source's by more than that. If all remaining origins of a
    bounded source would wait, the one that is least ahead is read, since nothing else could advance the watermark.
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
        remaining = [candidate.origin for candidate in _waiting(rows, totals) if candidate.label == read.label]
        waits = [origin for origin in remaining if origin in ahead]
        if waits and len(waits) == len(remaining) and read.source.is_bounded:
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
