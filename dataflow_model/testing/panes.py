"""`assert_panes`: compare panes field by field, and show both sides as a table if they differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dataflow_model.errors import InvalidType
from dataflow_model.values import Pane, PaneTiming

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

_FIELDS = ("key", "window", "value", "timestamp", "info", "is_retraction", "processing_time")
_INFO = ("index", "on_time_index", "is_first", "is_last", "timing", "trigger")


def assert_panes(actual: Iterable[Pane], expected: Sequence[Any] | AbstractSet[Any]) -> None:
    """Raise an `AssertionError` unless panes are as expected.

    Args:
        actual: the panes.
        expected: for each pane in order, a `Pane` or a mapping of only the fields to compare: `key`, `window`, `value`,
            `timestamp`, `is_retraction`, `processing_time`, and those of the pane info (`index`, `on_time_index`,
            `is_first`, `is_last`, `timing`, `trigger`; a timing may be its name: `"ON_TIME"`). A `set`
            of panes, alone or inside the list, and a list inside the list match their entries in any order.

    Raises:
        AssertionError: if they differ, with both sides as a table.
        InvalidType: for an expected pane that is neither a `Pane` nor a mapping.

    Example:
        >>> assert_panes([], [])
        >>> from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING
        >>> pane = Pane("k", GLOBAL_WINDOW, 3, GLOBAL_WINDOW.max_timestamp, NO_FIRING)
        >>> assert_panes([pane], [{"value": 3, "index": 0}])
    """
    panes = _checked(actual, "actual")
    entries = [expected] if isinstance(expected, set | frozenset) else _checked(expected, "expected")
    groups = [list(entry) if isinstance(entry, set | frozenset | list) else [entry] for entry in entries]
    for entry in (entry for group in groups for entry in group):
        if not isinstance(entry, Pane | Mapping):
            raise InvalidType(
                f"an expected pane must be a Pane or a dict of its fields, got {entry!r}",
                hint=f"write {{'value': {entry!r}}} to compare the value alone",
            )
    for pane in panes:
        if not isinstance(pane, Pane):
            raise InvalidType(f"an actual pane must be a Pane, got {pane!r}", hint="pass what run_script(…) returns")
    at = 0
    for group in groups:
        candidates = panes[at : at + len(group)]
        at += len(group)
        if not _match_any_order(candidates, group):
            raise AssertionError(_table(panes, [expectation for entries in groups for expectation in entries]))
    if at != len(panes):
        raise AssertionError(_table(panes, [expectation for entries in groups for expectation in entries]))


def _checked(panes: Any, name: str) -> list[Any]:
    if not isinstance(panes, Iterable) or isinstance(panes, str | Mapping):
        raise InvalidType(f"`{name}` must be a list of panes, got {panes!r}", hint="write [{'value': 3}], for example")
    return list(panes)


def _match_any_order(panes: list[Pane], group: list[Any]) -> bool:
    """Return whether each expectation can be matched to a different pane."""
    if len(panes) != len(group):
        return False
    fitting = [[index for index, pane in enumerate(panes) if _matches(pane, entry)] for entry in group]
    taken: dict[int, int] = {}
    return all(_is_placed(entry, fitting, taken, set()) for entry in range(len(group)))


def _is_placed(entry: int, fitting: Sequence[Sequence[int]], taken: dict[int, int], tried: set[int]) -> bool:
    """Return whether an expectation gets a pane of its own, for which others may have to move to another pane.

    Args:
        entry: the number of the expectation.
        fitting: the panes that match each expectation.
        taken: the expectation that each pane is matched to; it is changed.
        tried: the panes that were tried for this expectation.
    """
    for index in sorted(fitting[entry], key=taken.__contains__):  # free ones first
        if index not in tried:
            tried.add(index)
            if index not in taken or _is_placed(taken[index], fitting, taken, tried):
                taken[index] = entry
                return True
    return False


def _matches(pane: Pane, expected: Pane | Mapping[str, Any]) -> bool:
    if isinstance(expected, Pane):
        return pane == expected
    return all(_is_as(_field(pane, name), value) for name, value in expected.items())


def _is_as(actual: Any, expected: Any) -> bool:
    """Return whether a field is as expected; a timing may be given by its name, as `"ON_TIME"`."""
    if isinstance(actual, PaneTiming) and isinstance(expected, str):
        return actual.name == expected
    return bool(actual == expected)


def _field(pane: Pane, name: str) -> Any:
    if name in _FIELDS:
        return getattr(pane, name)
    if name in _INFO:
        return getattr(pane.info, name)
    raise AssertionError(f"a pane has no field {name!r}; it has {', '.join((*_FIELDS, *_INFO))}")


def _table(panes: Sequence[Pane], expected: Sequence[Pane | Mapping[str, Any]]) -> str:
    """Return a table of both sides, row by row."""
    names: list[str] = []
    for entry in expected:
        fields = (*_FIELDS[:4], *_INFO[:5]) if isinstance(entry, Pane) else tuple(entry)
        names += [name for name in fields if name not in names]
    names = names or ["key", "window", "value", "timing", "index"]
    lines = [f"{len(panes)} panes, {len(expected)} expected (! marks a difference)"]
    for index in range(max(len(panes), len(expected))):
        pane = panes[index] if index < len(panes) else None
        expectation = expected[index] if index < len(expected) else None
        mark = " " if pane is not None and expectation is not None and _matches(pane, expectation) else "!"
        lines.append(f"{mark} {index:3} actual   {_row(pane, names)}")
        lines.append(f"{mark}     expected {_row(expectation, names)}")
    return "\n".join(lines)


def _row(entry: Pane | Mapping[str, Any] | None, names: Sequence[str]) -> str:
    if entry is None:
        return "–"
    if isinstance(entry, Pane):
        return ", ".join(f"{name}={_field(entry, name)!r}" for name in names)
    return ", ".join(f"{name}={entry[name]!r}" for name in names if name in entry)
