"""The trigger that waits for a word from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.triggers.base import Trigger

if TYPE_CHECKING:
    from dataflow_model.triggers.contexts import TriggerContext

__all__ = ["AfterSignal"]


@attrs.frozen(repr=False)
class AfterSignal(Trigger):
    """Fire when `result.signal(name)` is called.

    A signal takes effect once, at the start of a tick, in every window that is open then and whose turn it is; it is
    not kept for windows or turns that begin later.

    Args:
        name: the signal's; not empty.

    Source: the papers' external signals, such as data injection requests and the completion of remote calls.

    Example:
        >>> AfterSignal("flush")
        AfterSignal('flush')
    """

    ignores_elements: ClassVar[bool] = True

    name: str

    def __attrs_post_init__(self) -> None:
        """Check the name."""
        given: object = self.name
        if not isinstance(given, str):
            raise InvalidType(f"`name` must be text, got {given!r}", hint="use AfterSignal('flush')")
        if not given:
            raise InvalidArgument(
                f"`name` must not be empty, got {given!r}", hint="use AfterSignal('flush'), for example"
            )

    @property
    def signals(self) -> frozenset[str]:  # type: ignore[override]
        """The one name."""
        return frozenset({self.name})

    def on_element(self, context: TriggerContext) -> None:
        """Take no notice."""

    def on_signal(self, context: TriggerContext, name: str) -> None:
        """Fire if it is the one."""
        if name == self.name:
            context.trigger()
            context.done()

    def on_merge(self, context: TriggerContext) -> None:
        """Remembers nothing."""

    def describe(self) -> str:
        """Say in words when it fires."""
        return f"at the signal {self.name!r}"

    def describe_repeated(self) -> str:
        """Say in words when it fires, started over each time."""
        return f"at each signal {self.name!r}"

    def __repr__(self) -> str:
        return f"AfterSignal({self.name!r})"
