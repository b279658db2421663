"""Triggers that count elements or bytes."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.arguments import calls_explained
from dataflow_model.errors import InvalidArgument, InvalidType, KeyEncodingError
from dataflow_model.overriding import override
from dataflow_model.triggers.base import Trigger
from dataflow_model.values import encode_key

if TYPE_CHECKING:
    from dataflow_model.triggers.contexts import TriggerContext

_TAG: Final = ""
_PICKLE_PROTOCOL: Final = 5


def check_number(value: object, hint: str) -> None:
    """Raise unless `value` is a whole number of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidType(f"`n` must be an int, got {value!r}", hint=hint)
    if value < 1:
        raise InvalidArgument(f"`n` must be at least 1, got {value!r}", hint=hint)


def size_in_bytes(value: object) -> int:
    """Return the size of a value: of its encoding as a key or, if it cannot be one, of its pickle."""
    try:
        return len(encode_key(value))
    except KeyEncodingError:
        return len(pickle.dumps(value, protocol=_PICKLE_PROTOCOL))


class _Sum(Trigger):
    """The base of both triggers: adds up a weight per element and fires at `n`."""

    n: int

    def _weight(self, element: Any) -> int:
        raise NotImplementedError

    def on_element(self, context: TriggerContext) -> None:
        """Add the element's weight, and fire once the sum reaches `n`."""
        total = context.lookup_state(_TAG, 0) + self._weight(context.element)
        if total >= self.n:
            context.trigger()
            context.done()
        else:
            context.store_state(_TAG, total)

    def on_merge(self, context: TriggerContext) -> None:
        """Add up the sums of the sources; the arriving element may then fire the trigger."""
        if not context.is_finished():
            context.store_state(_TAG, sum(context.lookup_source_state(window, _TAG, 0) for window in context.sources))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n})"


@calls_explained({"countdown": "use `n`"})
@attrs.frozen(repr=False)
class AfterCount(_Sum):
    """Fire once `n` elements have arrived since the trigger's turn began.

    Elements are counted one by one, regardless of bundle boundaries. When windows merge, their counts are added.

    Args:
        n: the number of elements; at least 1.

    Raises:
        InvalidArgument: if `n` is less than 1.
        InvalidType: if `n` is not an int.

    Source: the papers' AtCount; Beam's `AfterCount`, which counts whole bundles.

    Example:
        >>> AfterCount(2)
        AfterCount(2)
    """

    n: int

    def __attrs_post_init__(self) -> None:
        """Check the number."""
        check_number(self.n, "use AfterCount(1) to fire at each element")

    def _weight(self, element: Any) -> int:
        del element
        return 1

    @override
    def describe(self) -> str:
        return "at an element" if self.n == 1 else f"at {self.n} elements"

    @override
    def describe_repeated(self) -> str:
        return "at each element" if self.n == 1 else f"at every {self.n} elements"


@attrs.frozen(repr=False)
class AfterBytes(_Sum):
    """Fire once `n` bytes have arrived since the trigger's turn began.

    The size of an element, without its key, is the length of its encoding: the deterministic encoding of keys, or
    pickle protocol 5 for values that cannot be keys. When windows merge, their byte counts are added.

    Args:
        n: the number of bytes; at least 1.

    Raises:
        InvalidArgument: if `n` is less than 1.
        InvalidType: if `n` is not an int.

    Source: the papers' AfterBytes.

    Example:
        >>> AfterBytes(1_000_000)
        AfterBytes(1000000)
    """

    n: int

    def __attrs_post_init__(self) -> None:
        """Check the number."""
        check_number(self.n, "pass a number of bytes: AfterBytes(1_000_000) for a megabyte")

    def _weight(self, element: Any) -> int:
        return size_in_bytes(element)

    @override
    def describe(self) -> str:
        return f"at {self.n:,} bytes"

    @override
    def describe_repeated(self) -> str:
        return f"at every {self.n:,} bytes"
