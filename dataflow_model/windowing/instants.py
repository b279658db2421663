"""The windows of an instant: those that a window function assigns whatever the element is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from dataflow_model.time import event_time

if TYPE_CHECKING:
    from dataflow_model.time import EventTime
    from dataflow_model.values import Window
    from dataflow_model.windowing.base import WindowFn

_PROBED: Final = tuple(map(event_time, ("1970-01-01T00:00Z", "2000-02-29T12:00Z", "2030-06-30T23:59:59Z")))
_OPERATIONS: Final = """
    __abs__ __add__ __and__ __bool__ __bytes__ __call__ __contains__ __divmod__ __enter__ __eq__ __float__
    __floordiv__ __format__ __ge__ __getattribute__ __getitem__ __gt__ __hash__ __index__ __int__ __invert__
    __iter__ __le__ __len__ __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__
    __radd__ __rand__ __repr__ __reversed__ __rfloordiv__ __rmod__ __rmul__ __ror__ __round__ __rsub__
    __rtruediv__ __rxor__ __str__ __sub__ __truediv__ __xor__
"""


class _LookedAtError(Exception):
    """A function has looked at an element that is not there."""


class _Unseen:
    """Stands for an element, and notes whether a function has looked at it."""

    __slots__ = ("looked_at",)


def _look(unseen: _Unseen, *_: object) -> NoReturn:
    object.__setattr__(unseen, "looked_at", True)
    raise _LookedAtError


for _operation in _OPERATIONS.split():
    setattr(_Unseen, _operation, _look)


class _UnseenSequence(_Unseen):
    __slots__ = ()


class _UnseenMapping(_Unseen):
    __slots__ = ()


# A `match` statement tries its patterns for sequences, or for mappings, only on what says that it is one.
Sequence.register(_UnseenSequence)  # pyright: ignore[reportAttributeAccessIssue] # an abstract base class
Mapping.register(_UnseenMapping)  # pyright: ignore[reportAttributeAccessIssue]


def windows_at(window_fn: WindowFn, at: EventTime) -> list[Window] | None:
    """Return the windows to which a window function assigns an instant; `None` if that depends on the element.

    A function that raises an error is taken for one that needs an element.

    Example:
        >>> import dataflow_model as dm
        >>> windows_at(dm.FixedWindows(60), dm.event_time(70))
        [[1970-01-01T00:01:00Z, 1970-01-01T00:02:00Z)]
        >>> windows_at(dm.FixedWindows(60, phase_shift=True), dm.event_time(70)) is None
        True
    """
    windows: list[Window] = []
    for unseen in (_UnseenSequence(), _UnseenMapping()):
        element: Any = unseen
        object.__setattr__(unseen, "looked_at", False)
        try:
            windows = list(window_fn.assign(at, element))
        except Exception:  # noqa: BLE001 - a user's function may need an element, and there is none
            return None
        if object.__getattribute__(unseen, "looked_at"):
            return None
    return windows


def looks_at_elements(window_fn: WindowFn) -> bool:
    """Return whether the windows that a function assigns depend on the elements, and not on their event times alone.

    The function is called with a few instants.

    Example:
        >>> import dataflow_model as dm
        >>> looks_at_elements(dm.SlidingWindows(60, 10)), looks_at_elements(dm.FixedWindows(60, phase_shift=True))
        (False, True)
    """
    return window_fn.needs_pairs or any(windows_at(window_fn, at) is None for at in _PROBED)
