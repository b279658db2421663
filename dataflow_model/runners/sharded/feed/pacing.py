"""How far a micro-batch reads each origin: at most a number of rows, and none too far ahead of the others.

Under a replay clock, a row waits in state until the clocks of all origins have passed its own. So origins are read to
the same clock value, as far as that can be told from what was read of them before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from dataflow_model.plan.columns.natural_order import natural
from dataflow_model.time import MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.logical.nodes import Read
    from dataflow_model.runners.sharded.feed.origins import SourceOffset

Rows = dict[str, dict[str, int]]
"""A number of rows by source and origin."""
_FIRST_ROWS: Final = 100
"""How many rows of an origin are read first, to learn where its clock begins and how far a row advances it."""
_HALVINGS: Final = 80
"""How often the range of a clock is halved: more than enough for microseconds of many thousand years."""


class UnreadOrigin(NamedTuple):
    """An origin with unread rows."""

    label: str
    origin: str
    left: int


def unread(sources: Mapping[str, SourceOffset]) -> Rows:
    """Return the number of unread rows of each origin that has some."""
    return {
        label: {name: origin.left for name, origin in source.open.items() if origin.left}
        for label, source in sources.items()
    }


def shares(left: Rows, most: int, reads: Sequence[Read], committed: Mapping[str, Any]) -> Rows:
    """Return the number of rows that a micro-batch reads of each origin.

    Origins are read in natural order of their names, evenly if each has a watermark of its own, or to the same value of
    a replay clock.

    Args:
        left: the number of unread rows of each origin that has some.
        most: the maximum number of rows to read.
        reads: the sources.
        committed: the progress that the last commit wrote: watermarks, and the progress of each origin.
    """
    waiting = held_back(left, reads, committed)
    candidates = [candidate for candidate in _unread_origins(left) if candidate[:2] not in waiting]
    if any(read.source.processing_time is not None for read in reads):
        counts = _by_clock(candidates, most, committed.get("clocks", {}))
    else:
        by_origin = any(_has_watermarks(read) for read in reads)
        counts = (_evenly if by_origin else _in_turn)([candidate.left for candidate in candidates], most)
    taken: Rows = {}
    for (label, origin, _), count in zip(candidates, counts, strict=True):
        if count:
            taken.setdefault(label, {})[origin] = count
    return taken


def _has_watermarks(read: Read) -> bool:
    """Return whether the origins that are read are known to have watermarks of their own."""
    source, origins = read.source.as_columns, read.source.watermark_origins
    has_column = source is not None and source.origin_column is not None and source.origin_column == origins.by
    return has_column or origins.by == "file" or origins.max_skew is not None


def _in_turn(lefts: Sequence[int], most: int) -> list[int]:
    """Return the number of rows to take from each origin: all rows of one origin before those of the next."""
    counts = []
    for left in lefts:
        counts.append(min(left, most))
        most -= counts[-1]
    return counts


def _evenly(lefts: Sequence[int], most: int) -> list[int]:
    """Return the number of rows to take from each origin: about equally many from each."""
    counts = []
    for index, left in enumerate(lefts):
        counts.append(min(left, most, max(1, most // (len(lefts) - index))))
        most -= counts[-1]
    return counts


def _by_clock(unread: Sequence[UnreadOrigin], most: int, clocks: Mapping[str, Any]) -> list[int]:
    """Return the number of rows to take from each origin to bring their clocks to the same value.

    A few rows are taken from origins of which nothing has been read: until then, no clock can advance.

    Args:
        unread: the origins with unread rows.
        most: the maximum number of rows to take.
        clocks: by source and origin, the last value of its clock, and how far a row advances it on average.
    """
    known = [clocks.get(label, {}).get(origin) for label, origin, _ in unread]
    counts = np.zeros(len(unread), np.int64)
    lefts = np.array([candidate.left for candidate in unread], np.int64)
    new = np.array([clock is None for clock in known], np.bool_)
    counts[new] = _evenly(np.minimum(lefts[new], _FIRST_ROWS).tolist(), most)
    old = ~new
    reached = np.array([clock[0] for clock in known if clock is not None], np.float64)
    periods = np.array([clock[1] for clock in known if clock is not None], np.float64)
    counts[old] = _to_one_value(reached, periods, lefts[old], most - int(counts.sum()))
    behind = np.zeros(len(unread), np.float64)
    behind[new], behind[old] = -np.inf, reached
    order = np.argsort(behind, kind="stable")  # many rows may share a value; the rest go to origins that are behind
    counts[order] += np.array(_in_turn((lefts - counts)[order].tolist(), most - int(counts.sum())), np.int64)
    return counts.tolist()


def _to_one_value(
    reached: NDArray[np.float64], periods: NDArray[np.float64], lefts: NDArray[np.int64], most: int
) -> NDArray[np.int64]:
    """Return the number of rows that bring each clock to the same value: the greatest that needs at most `most` rows.

    Example:
        >>> _to_one_value(np.array([0.0, 50.0, 900.0]), np.array([1.0, 1.0, 1.0]), np.array([500, 500, 500]), 150)
        array([100,  50,   0])
    """
    if not len(reached):
        return lefts

    def needed(value: float) -> NDArray[np.int64]:
        return np.clip((value - reached) / periods, 0, lefts).astype(np.int64)

    low, high = float(reached.min()), float((reached + lefts * periods).max())
    if needed(high).sum() <= most:
        return needed(high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if needed(middle).sum() <= most else (low, middle)
    return needed(low)


def held_back(left: Rows, reads: Sequence[Read], committed: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return the (label, origin) pairs that wait for the watermark because of their source's `max_skew`.

    An origin waits if its own watermark is ahead of its source's by more than that. If all remaining origins of a
    bounded source would wait, the one that is least ahead is read, since nothing else could advance the watermark.
    """
    waiting: set[tuple[str, str]] = set()
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
        remaining = [candidate.origin for candidate in _unread_origins(left) if candidate.label == read.label]
        waits = [origin for origin in remaining if origin in ahead]
        if waits and len(waits) == len(remaining) and read.source.is_bounded:
            waits.remove(min(waits, key=ahead.__getitem__))
        waiting.update((read.label, origin) for origin in waits)
    return waiting


def _by_name(entry: tuple[str, int]) -> str:
    return natural(entry[0])


def _unread_origins(left: Rows) -> list[UnreadOrigin]:
    return [
        UnreadOrigin(label, origin, rows)
        for label, origins in sorted(left.items())
        for origin, rows in sorted(origins.items(), key=_by_name)
        if rows
    ]
