"""Triggers that count: elements, bytes."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType, KeyEncodingError
from dataflow_model.triggers.base import Trigger
from dataflow_model.values import encode_key

if TYPE_CHECKING:
    from dataflow_model.triggers.contexts import TriggerContext

__all__ = ["AfterBytes", "AfterCount", "check_number"]

_TAG: Final = ""
_PICKLE_PROTOCOL: Final = 5


def check_number(value: object, hint: str) -> None:
    """Refuse what is no whole number from 1 on."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidType(f"`n` must be an int, got {value!r}", hint=hint)
    if value < 1:
        raise InvalidArgument(f"`n` must be at least 1, got {value!r}", hint=hint)


class _Sum(Trigger):
    """What the two have in common: they add something up and fire at `n`."""

    n: int

    def _weight(self, element: Any) -> int:
        raise NotImplementedError

    def on_element(self, context: TriggerContext) -> None:
        """Add up, and fire at the n-th."""
        total = context.lookup_state(_TAG, 0) + self._weight(context.element)
        if total >= self.n:
            context.trigger()
            context.done()
        else:
            context.store_state(_TAG, total)

    def on_merge(self, context: TriggerContext) -> None:
        """Add up what the sources had; the arriving element may then fire it."""
        if not context.is_finished():
            context.store_state(_TAG, sum(context.lookup_source_state(window, _TAG, 0) for window in context.sources))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n})"


@attrs.frozen(repr=False)
class AfterCount(_Sum):
    """Fire once n elements have come in its turn.

    Elements count one by one, wherever bundles are cut; counts of windows that merge add up.

    Args:
        n: how many; at least 1.

    Source: the papers' AtCount; Beam's `AfterCount`, which sees whole bundles.

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

    def describe(self) -> str:
        """Say in words when it fires."""
        return "at an element" if self.n == 1 else f"at {self.n} elements"

    def describe_repeated(self) -> str:
        """Say in words when it fires, started over each time."""
        return "at each element" if self.n == 1 else f"at every {self.n} elements"


@attrs.frozen(repr=False)
class AfterBytes(_Sum):
    """Fire once n bytes have come in its turn.

    An element counts, without its key, as many bytes as its encoding has: the deterministic one that keys have, or
    pickle 5 for what no key can be. Bytes of windows that merge add up.

    Args:
        n: how many bytes; at least 1.

    Source: the papers' AfterBytes.

    Example:
        >>> AfterBytes(1_000_000)
        AfterBytes(1000000)
    """

    n: int

    def __attrs_post_init__(self) -> None:
        """Check the number."""
        check_number(self.n, "use AfterBytes(1) to fire at each element")

    def _weight(self, element: Any) -> int:
        try:
            return len(encode_key(element))
        except KeyEncodingError:
            return len(pickle.dumps(element, protocol=_PICKLE_PROTOCOL))

    def describe(self) -> str:
        """Say in words when it fires."""
        return f"at {self.n:,} bytes"

    def describe_repeated(self) -> str:
        """Say in words when it fires, started over each time."""
        return f"at every {self.n:,} bytes"
