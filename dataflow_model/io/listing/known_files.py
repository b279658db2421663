"""What a source remembers of the files that it has listed; nothing of it is pickled with the source."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Self

from dataflow_model.io.listing.file_identity import unfinished_since
from dataflow_model.plan.endpoints.origins import Origin

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, KeysView
    from collections.abc import Set as AbstractSet

    from dataflow_model.io.listing.listed_folder import Names
    from dataflow_model.plan.endpoints.origins import Known
    from dataflow_model.time import Duration


class Listed(dict[str, Origin]):
    """The files of the last listing, so that only new ones are opened."""

    def names(self) -> KeysView[str]:
        """Return the names of all files."""
        return self.keys()

    def is_read(self, name: str) -> bool:
        """Return `False`: nothing is known of what has been read."""
        del name
        return False

    def has_names_of(self, other: Known) -> bool:
        """Return `False`, since this dict is changed in place."""
        del other
        return False

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()


class Compared:
    """The difference between the names of a listing and the known ones, computed again only if either have changed."""

    def __init__(self) -> None:
        self._names: Names | None = None
        self._known: Known | None = None
        self.new: AbstractSet[str] = set()
        self.removed: AbstractSet[str] = set()

    def compare(self, names: Names, known: Known) -> None:
        """Set `new` and `removed`; `names` must be a new object whenever a name has changed."""
        if names is self._names and self._known is not None and known.has_names_of(self._known):
            return
        known_names = known.names()
        self._names, self._known = names, known
        self.new = set(itertools.filterfalse(known_names.__contains__, names))
        are_all_there = len(names) - len(self.new) == len(known_names)
        self.removed = set() if are_all_there else known_names - names.keys()

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()


class Unfinished:
    """The files that may end with a line that is not finished, and the number of lines that wait."""

    def __init__(self) -> None:
        self._is_known = False
        self._names: set[str] = set()

    def finished(self, known: Known, clock: int | None, timeout: Duration | None) -> set[str]:
        """Return the known files whose last line has been without an end for so long that it is a row.

        Args:
            known: the origins that an earlier poll has listed.
            clock: the clock of the stream; `None` if nothing is waited for.
            timeout: how long a line is waited for; `None` for ever.
        """
        if not self._is_known:  # the first poll of this process
            self._is_known = True
            self._names.update(known.names())
        self._names = {name for name in self._names if _since(known.get(name))}
        return {name for name in self._names if is_over(_since(known.get(name)), clock, timeout)}

    def note(self, origins: Iterable[Origin], removed: Collection[str], known: Known) -> dict[str, int]:
        """Remember the files of a poll whose last lines wait, and return how their number has changed.

        Args:
            origins: the new and changed files.
            removed: the names of known files that have disappeared.
            known: the origins that an earlier poll has listed.
        """
        listed = {origin.name: origin for origin in origins}
        waiting = {name for name, origin in listed.items() if _since(origin)}
        self._names |= waiting
        before = sum(_since(known.get(name)) > 0 for name in {*listed, *removed})
        return {"lines_unfinished": len(waiting) - before} if len(waiting) != before else {}

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()


def is_over(since: int, clock: int | None, timeout: Duration | None) -> bool:
    """Return whether a line that has waited since a time is waited for no longer; the arguments are as above."""
    return clock is None or (timeout is not None and clock - since >= int(timeout))


def _since(origin: Origin | None) -> int:
    return 0 if origin is None else unfinished_since(origin.version)
