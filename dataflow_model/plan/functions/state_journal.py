"""What a call of a DoFn changes in the state of its key and window, so that an element that fails changes nothing."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_ABSENT: Final = object()


class StateJournal:
    """Records how to undo what one call does; what the call does not touch is neither copied nor looked at.

    State is copied before it is shown to the function, which may change what it is shown.

    Args:
        values: the non-empty pieces of state, by name.

    Attributes:
        uncopied: the error of the first piece of state that could not be copied.

    Example:
        >>> values = {"names": ["a"], "visits": {"/": [1], "/about": [2]}}
        >>> journal = StateJournal(values)
        >>> journal.before_append("names"); values["names"].append("b")
        >>> journal.before_item("visits", "/"); values["visits"]["/"].append(3)
        >>> journal.before_remove("visits", "/"); del values["visits"]["/"]
        >>> journal.undo(); values
        {'names': ['a'], 'visits': {'/': [1], '/about': [2]}}
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values
        self._undo: list[Callable[[], object]] = []
        self._shown: set[Any] = set()
        self._ordered: set[str] = set()
        self.uncopied: Exception | None = None

    def add(self, undo: Callable[[], object]) -> None:
        """Record how to undo a change that follows."""
        self._undo.append(undo)

    def undo(self) -> None:
        """Undo all changes, the last one first."""
        while self._undo:
            self._undo.pop()()

    def before_replace(self, name: str) -> None:
        """Record that a piece of state is about to be replaced or cleared."""
        before = self._values.get(name, _ABSENT)
        self.add(lambda: self._set(name, before))

    def before_show(self, name: str) -> None:
        """Record that a piece of state is about to be shown, or changed by a combiner."""
        if name not in self._shown:
            self._shown.add(name)
            before = self._copied(self._values[name]) if name in self._values else _ABSENT
            self.add(lambda: self._set(name, before))

    def before_append(self, name: str) -> None:
        """Record that an element is about to be added to a list."""
        length = len(self._values.get(name, ()))
        self.add(lambda: self._truncate(name, length))

    def before_item(self, name: str, key: Any) -> None:
        """Record that the value of a key of a dictionary is about to be shown."""
        if name not in self._shown and (name, key) not in self._shown and key in self._values.get(name, ()):
            self._shown.add((name, key))
            before = self._copied(self._values[name][key])
            self.add(lambda: self._put(name, key, before))

    def before_put(self, name: str, key: Any) -> None:
        """Record that the value of a key of a dictionary is about to be set."""
        before = self._values.get(name, {}).get(key, _ABSENT)
        self.add(lambda: self._put(name, key, before))

    def before_remove(self, name: str, key: Any) -> None:
        """Record that a key of a dictionary is about to be removed, if it is present."""
        entries = self._values.get(name, {})
        if key not in entries:
            return
        if name not in self._ordered:
            self._ordered.add(name)
            order = list(entries)
            self.add(lambda: self._set(name, {each: self._values[name][each] for each in order}))
        self.before_put(name, key)

    def _copied(self, value: Any) -> Any:
        try:
            return copy.deepcopy(value)
        except Exception as error:
            self.uncopied = error
            raise

    def _set(self, name: str, value: Any) -> None:
        if value is _ABSENT:
            self._values.pop(name, None)
        else:
            self._values[name] = value

    def _truncate(self, name: str, length: int) -> None:
        if length:
            del self._values[name][length:]
        else:
            self._values.pop(name, None)

    def _put(self, name: str, key: Any, value: Any) -> None:
        entries = self._values.setdefault(name, {})
        if value is _ABSENT:
            entries.pop(key, None)
        else:
            entries[key] = value
        if not entries:
            del self._values[name]
