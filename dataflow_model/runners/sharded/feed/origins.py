"""The part of an offset for one source: how far each of its origins has been read.

An offset describes only the origins that exist, so its size does not depend on the amount of data read. An origin with
unread rows is *open*; all origins of a bounded source are. An origin of an unbounded source that has been read
completely is *done*; `completed` names those that the micro-batch has finished reading. For all other origins the
offset has one number: `passed`, the rows of origins that are not open.

Positions are those of `record_id`. If positions have gaps, they are the source's own. Otherwise the first position of
an origin is the number of rows of the source that had been read when it was listed, so that no two rows with the same
origin name have the same number, even if a file is replaced, or removed and written again.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Self

import attrs

from dataflow_model.errors import SourceError, shown
from dataflow_model.plan.columns.natural_order import natural
from dataflow_model.plan.endpoints.origins import CURSORS, Origin, OriginPosition, stored_cursor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflow_model.plan.endpoints.column_sources import ColumnSource
    from dataflow_model.plan.endpoints.origins import Changes, Known


def _version(given: Sequence[int | str] | None) -> tuple[int | str, ...] | None:
    return None if given is None else tuple(given)


@attrs.frozen
class OriginOffset:
    """How far an origin has been read.

    Attributes:
        first: the position of its first row.
        position: the position of the next row to read.
        end: the position after the last row that was listed.
        version: its version; `None` if it cannot change, or is not known yet.
        cursor: what its source needs to go on behind the last row that was listed; any JSON value.
    """

    first: int
    position: int
    end: int
    version: tuple[int | str, ...] | None = attrs.field(default=None, converter=_version)
    cursor: Any = None

    @property
    def read(self) -> int:
        """The number of rows, or of positions if they have gaps, that have been read."""
        return self.position - self.first

    @property
    def left(self) -> int:
        """The number of rows, or of positions if they have gaps, that have not been read."""
        return max(0, self.end - self.position)

    def to_json(self) -> list[Any]:
        """Return it as JSON values, which are short, since a folder may contain many files."""
        version = None if self.version is None else list(self.version)
        fields = [self.first, self.position - self.first, version, self.cursor, self.end - self.position or None]
        while fields[-1] is None:
            fields.pop()
        return fields

    @classmethod
    def of_json(cls, fields: Sequence[Any]) -> Self:
        """Return what `to_json` has written.

        Example:
            >>> OriginOffset.of_json(OriginOffset(0, 3, 7, (12, "a")).to_json())
            OriginOffset(first=0, position=3, end=7, version=(12, 'a'), cursor=None)
            >>> OriginOffset(40, 47, 47, (12, "a")).to_json()
            [40, 7, [12, 'a']]
        """
        first, read, version, cursor, left = [*fields, None, None, None][:5]
        return cls(first, first + read, first + read + (left or 0), version, cursor)


@attrs.frozen(kw_only=True)
class SourceOffset:
    """The origins of one source; the module's docstring explains most attributes.

    Attributes:
        is_followed: whether the source is unbounded.
        changes: changes in the last poll that are reported to users: `files_replaced`; `rows_lost`, the number of
            unread rows of files that were removed or replaced; and `files_skipped`, of which no row was read.
    """

    is_followed: bool = True
    open: Mapping[str, OriginOffset] = attrs.field(factory=dict)
    done: Mapping[str, OriginOffset] = attrs.field(factory=dict)
    completed: tuple[str, ...] = ()
    passed: int = 0
    changes: Mapping[str, int] = attrs.field(factory=dict)

    @property
    def rows_read(self) -> int:
        """The number of rows read, including those of origins that no longer exist.

        Example:
            >>> SourceOffset(open={"b": OriginOffset(0, 3, 5)}, passed=40).rows_read
            43
        """
        return self.passed + sum(origin.read for origin in self.open.values())

    def find(self, name: str) -> OriginOffset | None:
        """Return an origin, open or done; `None` if there is none with that name."""
        return self.open.get(name) or self.done.get(name)

    def names(self) -> set[str]:
        """Return the names of all origins."""
        return {*self.done, *self.open}

    def get(self, name: str, /) -> Origin | None:
        """Return an origin as it was listed, or `None` if there was none with that name."""
        origin = self.find(name)
        if origin is None:
            return None
        return Origin(name, origin.end - origin.first, origin.version, cursor=origin.cursor)

    def is_read(self, name: str, /) -> bool:
        """Return whether all rows of an origin have been read."""
        origin = self.find(name)
        return origin is not None and not origin.left

    def has_names_of(self, other: Known) -> bool:
        """Return whether the names are those of an earlier object, whose origins are then shared."""
        return isinstance(other, SourceOffset) and self.done is other.done and self.open.keys() == other.open.keys()

    def positions(self, *, has_gaps: bool) -> dict[str, OriginPosition]:
        """Return how far each origin has been read, in the numbers that `read` of the source takes.

        Args:
            has_gaps: whether the positions of the source have gaps.
        """
        positions = {}
        for name in sorted(self.names(), key=natural):
            origin = self.open.get(name) or self.done[name]
            shift = 0 if has_gaps else origin.first
            positions[name] = OriginPosition(origin.position - shift, origin.end - shift, origin.version, origin.cursor)
        return positions

    def listed(self, source: ColumnSource, listing: Changes, label: str) -> Self:
        """Return the origins after a poll. Unchanged origins that are done are shared, at no cost.

        Args:
            source: the source.
            listing: the result of its poll.
            label: the label of the source.

        Raises:
            SourceError: if rows before the position of an origin were removed, or rows that were read are not there.
        """
        has_gaps = source.position_column is not None
        before = {name: origin for name in listing.gone if (origin := self.find(name)) is not None}
        for name, origin in before.items():
            if origin.left:
                source.check_may_skip(name, origin.read)
        counts: Counter[str] = Counter(listing.counts)
        counts.update(rows_lost=sum(origin.left for origin in before.values()))
        counts["files_skipped"] = sum(origin.left > 0 and not origin.read for origin in before.values())
        passed = read = self.rows_read
        changed = {origin.name: _with_stored_cursor(label, origin) for origin in listing.origins}
        kept = [name for name in self.open if name not in changed and name not in listing.gone]
        after: dict[str, OriginOffset] = {}
        for name in sorted([*changed, *kept], key=natural):
            known, now = self.find(name), changed.get(name)
            if known is None or (now is not None and now.replaced):
                assert now is not None  # noqa: S101 - it is changed, or it is known
                if known is not None:
                    counts["files_replaced"] += 1
                    counts["rows_lost"] += known.left
                first = now.first if has_gaps else read
                after[name] = OriginOffset(first, first, first + now.row_count, now.version, now.cursor)
                continue
            origin = known if now is None else _grown(label, known, now, has_gaps=has_gaps)
            if name in self.open or origin != known:
                after[name] = origin
                passed -= known.read
        ended = self.done.keys() & {*listing.gone, *after}
        done = {name: origin for name, origin in self.done.items() if name not in ended} if ended else self.done
        changes = {name: count for name, count in counts.items() if count}
        return attrs.evolve(self, open=after, done=done, completed=(), passed=passed, changes=changes)

    def unpolled(self) -> Self:
        """Return the origins for a micro-batch that does not look for new ones."""
        return attrs.evolve(self, completed=(), changes={})

    def advanced(self, counts: Mapping[str, int]) -> Self:
        """Return the origins after more rows have been read of some of them."""
        if not counts:
            return self
        read = {
            name: attrs.evolve(self.open[name], position=self.open[name].position + count)
            for name, count in counts.items()
        }
        return attrs.evolve(self, open={**self.open, **read})

    def finished(self) -> Self:
        """Return the origins after the open ones that have been read completely have become done."""
        completed = tuple(name for name, origin in self.open.items() if not origin.left)
        if not completed:
            return attrs.evolve(self, completed=())
        done = {name: self.open[name] for name in completed}
        return attrs.evolve(
            self,
            open={name: origin for name, origin in self.open.items() if name not in done},
            done={**self.done, **done},
            completed=completed,
            passed=self.passed + sum(origin.read for origin in done.values()),
        )

    def is_same(self, name: str, earlier: SourceOffset) -> bool:
        """Return whether a name meant the same origin in an earlier offset."""
        now, before = self.find(name), earlier.find(name)
        return now is not None and before is not None and now.first == before.first

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values, in which each name stands once: under `done` are those of earlier micro-batches."""
        earlier = self.done.keys() - self.completed
        return {
            "is_followed": self.is_followed,
            "open": {name: origin.to_json() for name, origin in self.open.items()},
            "done": {name: origin.to_json() for name, origin in self.done.items() if name in earlier},
            "completed": {name: self.done[name].to_json() for name in self.completed},
            "passed": self.passed,
            "changes": dict(self.changes),
        }

    @classmethod
    def of_json(cls, fields: Mapping[str, Any]) -> Self:
        """Return what `to_json` has written.

        Example:
            >>> offset = SourceOffset(open={"a": OriginOffset(0, 3, 3), "b": OriginOffset(3, 3, 5)}).finished()
            >>> offset.to_json()["completed"], SourceOffset.of_json(offset.to_json()) == offset
            ({'a': [0, 3]}, True)
        """
        origins = {
            part: {name: OriginOffset.of_json(origin) for name, origin in fields[part].items()}
            for part in ("open", "done", "completed")
        }
        return cls(
            is_followed=fields["is_followed"],
            open=origins["open"],
            done={**origins["done"], **origins["completed"]},
            completed=tuple(origins["completed"]),
            passed=fields["passed"],
            changes=fields["changes"],
        )


def _with_stored_cursor(label: str, origin: Origin) -> Origin:
    """Return an origin with its cursor as a checkpoint gives it back."""
    if origin.cursor is None:
        return origin
    try:
        return origin._replace(cursor=stored_cursor(origin.cursor))
    except (TypeError, ValueError) as error:
        raise SourceError(
            f"the cursor of {origin.name}, which {label!r} lists, must be a JSON value, got {shown(origin.cursor)}: "
            f"{error}",
            hint=CURSORS,
        ) from error


def _grown(label: str, known: OriginOffset, now: Origin, *, has_gaps: bool) -> OriginOffset:
    """Return a known origin as it is listed now."""
    shift = 0 if has_gaps else known.first
    end = (now.first if has_gaps else known.first) + now.row_count
    if has_gaps and now.first > known.position:
        raise SourceError(
            f"{label!r} was to read {now.name} from position {known.position} on, but it begins at {now.first} now: "
            f"{now.first - known.position} positions are lost",
            hint="start a new run with another checkpoint, and keep rows for longer than the run may stand still",
        )
    if end < known.position:
        raise SourceError(
            f"{label!r} has read {now.name} up to position {known.position - shift}, but it ends at {end - shift} now",
            hint="restore what was removed; an origin that starts over is listed with replaced=True",
        )
    return attrs.evolve(known, end=end, version=now.version, cursor=now.cursor)
