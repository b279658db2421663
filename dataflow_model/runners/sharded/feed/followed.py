"""The part of an offset for an unbounded source whose origins appear, grow, are replaced and disappear, like a folder.

An offset describes only the origins that exist, so its size does not depend on the amount of data read. An origin with
unread rows is *open*. It has an entry in `rows` (the number of rows read), `totals` (the number of rows) and `versions`
(its base, then its version). An origin that has been read completely is *done* and has an entry in `done` (its number
of rows, its base, then its version); `completed` names those that the micro-batch has finished reading. For all other
origins the offset has one number: `passed`, the rows of origins that are not open.

The *base* of an origin is the number of rows of the source that had been read when it was listed. A row's sequence
number is its position in the origin plus the base, so that no two rows with the same origin name have the same number,
even if a file is replaced, or removed and written again. If positions have gaps, the base is the position of the first
row, and `rows`, `totals` and `passed` count positions from there.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.plan.columns.natural_order import natural
from dataflow_model.plan.endpoints.sources import Origin, OriginPosition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.plan.endpoints.sources import Changes, ColumnSource, Known

BY_SOURCE: Final = ("rows", "totals", "versions", "done", "completed", "passed", "changes")
"""The parts of an offset that have an entry for each source."""

Entry = list[Any]


@attrs.define
class Followed:
    """The origins of one unbounded source; the module's docstring explains the attributes.

    Attributes:
        changes: changes in the last poll that are reported to users: `files_replaced`; `rows_lost`, the number of
            unread rows of files that were removed or replaced; and `files_skipped`, of which no row was read.
    """

    rows: dict[str, int] = attrs.field(factory=dict)
    totals: dict[str, int] = attrs.field(factory=dict)
    versions: dict[str, Entry] = attrs.field(factory=dict)
    done: dict[str, Entry] = attrs.field(factory=dict)
    completed: list[str] = attrs.field(factory=list)
    passed: int = 0
    changes: dict[str, int] = attrs.field(factory=dict)

    @classmethod
    def of(cls, offset: Mapping[str, Any], label: str) -> Followed:
        """Return the part of an offset for a source."""
        return cls(
            rows=dict(offset["rows"].get(label, {})),
            totals=offset["totals"].get(label, {}),
            versions=offset["versions"].get(label, {}),
            done=offset["done"].get(label, {}),
            completed=offset["completed"].get(label, []),
            passed=offset["passed"].get(label, 0),
            changes=offset["changes"].get(label, {}),
        )

    def names(self) -> set[str]:
        """Return the names of all origins."""
        return {*self.done, *self.totals}

    def get(self, name: str, /) -> Origin | None:
        """Return an origin as it was listed, or `None` if there was none with that name."""
        rows = self.totals[name] if name in self.totals else self.done.get(name, [None])[0]
        return None if rows is None else Origin(name, rows, self.version(name))

    def has_names_of(self, other: Known) -> bool:
        """Return whether the names are those of an earlier object, whose origins are then shared."""
        return isinstance(other, Followed) and self.done is other.done and self.totals is other.totals

    def after(self, source: ColumnSource, listing: Changes) -> Followed:
        """Return the current origins. Unchanged origins that are done are shared, at no cost.

        Args:
            source: the source.
            listing: the result of its poll.
        """
        changed = {origin.name: origin for origin in listing.origins}
        open_before = [self.get(name) for name in self.totals if name not in changed and name not in listing.gone]
        base = self.passed + sum(self.rows.values())
        after = Followed(passed=base)
        for name in listing.gone:
            if self._left(name):
                source.check_may_skip(name, self.place_of(name))
        counts: Counter[str] = Counter(listing.counts)
        counts.update(rows_lost=sum(map(self._left, listing.gone)))
        counts["files_skipped"] = sum(self._left(name) > 0 == self.place_of(name) for name in listing.gone)
        for origin in sorted([*changed.values(), *filter(None, open_before)], key=lambda listed: natural(listed.name)):
            name, rows, version = origin.name, origin.row_count, list(origin.version or ())
            is_known = name in self.totals or name in self.done
            if not is_known or origin.replaced:
                if is_known:
                    counts["files_replaced"] += 1
                    counts["rows_lost"] += self._left(name)
                has_gaps = source.position_column is not None
                after.totals[name], after.versions[name] = rows, [origin.first if has_gaps else base, *version]
                continue
            read = self.place_of(name)
            after.rows[name], after.totals[name], after.versions[name] = read, rows, [self.base(name), *version]
            after.passed -= read
        ended = self.done.keys() & {*listing.gone, *after.totals}
        after.done = {name: entry for name, entry in self.done.items() if name not in ended} if ended else self.done
        after.changes = {name: count for name, count in counts.items() if count}
        return after

    def unpolled(self) -> Followed:
        """Return the origins for a micro-batch that does not look for new ones."""
        return attrs.evolve(self, totals=dict(self.totals), versions=dict(self.versions), completed=[], changes={})

    def complete(self) -> None:
        """Move the open origins whose rows have all been read to those that are done."""
        self.completed = [name for name, total in self.totals.items() if self.rows.get(name, 0) >= total]
        if not self.completed:
            return
        self.done = dict(self.done)
        for name in self.completed:
            self.done[name] = [self.totals.pop(name), *self.versions.pop(name)]
            self.passed += self.rows.pop(name, 0)

    def base(self, name: str) -> int:
        """Return the base of an origin, which is added to the positions of its rows."""
        return int(next(iter(self._entry(name)), 0))

    def version(self, name: str) -> tuple[int | str, ...] | None:
        """Return the version of an origin, or `None` if it has none."""
        return tuple(self._entry(name)[1:]) or None

    def is_same(self, name: str, earlier: Followed) -> bool:
        """Return whether a name meant the same origin in an earlier offset."""
        return (name in earlier.totals or name in earlier.done) and self.base(name) == earlier.base(name)

    def place_of(self, name: str) -> int:
        """Return the number of rows read from an origin."""
        return int(self.done[name][0]) if name in self.done else self.rows.get(name, 0)

    def _entry(self, name: str) -> Entry:
        """Return the base and the version of an origin, open or done."""
        return self.versions.get(name, self.done.get(name, [])[1:])

    def _left(self, name: str) -> int:
        return max(0, self.totals.get(name, 0) - self.rows.get(name, 0))


def positions(offset: Mapping[str, Any], label: str, *, has_gaps: bool) -> dict[str, OriginPosition]:
    """Return how far each origin of a source that exists has been read.

    Args:
        offset: the offset.
        label: the label of the source.
        has_gaps: whether the positions of the source have gaps.
    """
    followed = Followed.of(offset, label)
    found = {}
    for name in sorted({*followed.names(), *followed.rows}, key=natural):
        first = followed.base(name) if has_gaps else 0
        end = followed.totals.get(name, followed.place_of(name))
        found[name] = OriginPosition(first + followed.place_of(name), first + end, followed.version(name))
    return found


def rows_read(offset: Mapping[str, Any], label: str) -> int:
    """Return the number of rows read from a source, including origins that no longer exist.

    Example:
        >>> rows_read({"rows": {"logs": {"b": 3}}, "totals": {"logs": {"b": 5}}, "passed": {"logs": 40}}, "logs")
        43
    """
    return int(sum(offset["rows"].get(label, {}).values()) + offset["passed"].get(label, 0))
