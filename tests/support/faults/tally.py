"""How many faults there were, and what was lost or came twice: told at the end of the run, kind by kind."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

from tests.support.pipelines import difference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Count", "Tally"]


@attrs.define
class Count:
    """What faults of one kind have done.

    Attributes:
        faults: how many there were.
        lost: how many records an uninterrupted run commits, and these runs did not.
        duplicated: how many these runs commit beyond that, whether again or wrongly.
    """

    faults: int = 0
    lost: int = 0
    duplicated: int = 0


@attrs.define
class Tally:
    """Counts by kind of fault."""

    counts: dict[str, Count] = attrs.field(factory=dict)

    def judge(
        self, kind: str, faults: int, expected: Mapping[str, Sequence[Any]], actual: Mapping[str, Sequence[Any]]
    ) -> None:
        """Note what came of some faults, then fail if anything of it differs, or if there were none.

        Args:
            kind: what went wrong.
            faults: how often.
            expected: by sink, what an uninterrupted run commits.
            actual: by sink, what this one has.
        """
        count = Count(faults)
        problems = []
        for sink, records in expected.items():
            wanted, there = Counter(map(repr, records)), Counter(map(repr, actual[sink]))
            count.lost += (wanted - there).total()
            count.duplicated += (there - wanted).total()
            problem = difference(records, actual[sink])
            problems += [f"{kind}, {faults} faults, {sink}: {problem}"] if problem else []
        self.add({kind: count})
        assert not problems, "\n".join(problems)
        assert faults, f"{kind}: nothing went wrong, so nothing was tried"

    def add(self, counts: Mapping[str, Count]) -> None:
        """Add counts, kind by kind."""
        for kind, more in counts.items():
            count = self.counts.setdefault(kind, Count())
            count.faults += more.faults
            count.lost += more.lost
            count.duplicated += more.duplicated

    def table(self) -> list[str]:
        """Return the counts as lines of text.

        Example:
            >>> print("\\n".join(Tally({"driver killed": Count(50)}).table()))
            kind           faults  lost  duplicated
            driver killed      50     0           0
        """
        width = max(map(len, ("kind", *self.counts)))
        lines = [f"{'kind':<{width}}  faults  lost  duplicated"]
        return lines + [
            f"{kind:<{width}}  {count.faults:>6}  {count.lost:>4}  {count.duplicated:>10}"
            for kind, count in sorted(self.counts.items())
        ]
