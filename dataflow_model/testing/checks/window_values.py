"""User-defined windows as values: the result of unpickling one, and the fields that its `==` compares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.values import GlobalWindow, IntervalWindow
from dataflow_model.values.pickles import dump, load
from dataflow_model.values.record_keys import equality_owner

if TYPE_CHECKING:
    from dataflow_model.values import Window


def problem_of(window: Window) -> str | None:
    """Return why a window changes when pickled or equals a different window; `None` if there is no problem.

    Example:
        >>> from dataflow_model.values import interval
        >>> problem_of(interval(0, 60)) is None
        True
    """
    kind = type(window)
    if kind in (IntervalWindow, GlobalWindow):
        return None
    try:
        copy = load(dump(window))
    except Exception as error:  # noqa: BLE001 - any error of pickling a user's class
        return f"must use windows that can be pickled, got {window!r}: {type(error).__name__}: {error}"
    fields, copied = _fields_of(window), _fields_of(copy)
    if type(copy) is not kind or copied != fields:
        return (
            f"must use windows that keep class and fields when they are pickled: "
            f"a {kind.__name__} with {fields} became a {type(copy).__name__} with {copied}"
        )
    if copy != window or hash(copy) != hash(window):
        return (
            f"must use windows that are equal to their pickled copies and have their hash, got {window!r} and {copy!r}"
        )
    ignored = sorted(fields.keys() - _compared(kind, fields.keys()))
    if ignored:
        return f"must use windows whose `==` compares all fields; that of {kind.__name__} ignores {', '.join(ignored)}"
    return None


def _fields_of(window: Any) -> dict[str, Any]:
    """Return an instance's fields, without the internal ones of Python and attrs."""
    names = {name for base in type(window).__mro__ for name in getattr(base, "__slots__", ())}
    names |= getattr(window, "__dict__", {}).keys()
    own = (name for name in sorted(names) if not name.startswith(("__", "_attrs_cached")))
    return {name: getattr(window, name) for name in own if hasattr(window, name)}


def _compared(kind: type[Any], names: Any) -> set[str]:
    """Return the fields that `==` compares; all fields for a handwritten `__eq__`."""
    owner = equality_owner(kind)
    if "__attrs_attrs__" not in owner.__dict__:
        return set(names)
    return {field.name for field in attrs.fields(owner) if field.eq}
