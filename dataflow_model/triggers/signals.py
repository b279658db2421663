"""The trigger that waits for a signal from outside the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.overriding import override
from dataflow_model.triggers.base import Trigger

if TYPE_CHECKING:
    from dataflow_model.triggers.contexts import TriggerContext

_LONGEST: Final = 225
"""The most characters of a quoted name: in a checkpoint, the request for a signal is a file that has it in its name."""


@attrs.frozen(repr=False)
class AfterSignal(Trigger):
    """Fire when `result.signal(name)` is called.

    A signal takes effect once, at the start of a tick, in every window that is open then and whose turn it is; it is
    not kept for windows or turns that begin later.

    Args:
        name: the name of the signal; not empty, and at most 225 characters long when it is quoted as in a URL.

    Raises:
        InvalidArgument: if the name is empty or too long.
        InvalidType: if the name is not a string.

    Source: the papers' external signals, such as data injection requests and the completion of remote calls.

    Example:
        >>> AfterSignal("flush")
        AfterSignal('flush')
    """

    name: str

    def __attrs_post_init__(self) -> None:
        """Check the name."""
        name: object = self.name
        if not isinstance(name, str):
            raise InvalidType(f"`name` must be text, got {name!r}", hint="use AfterSignal('flush')")
        if not name:
            raise InvalidArgument(
                f"`name` must not be empty, got {name!r}", hint="use AfterSignal('flush'), for example"
            )
        length = len(quote(name, safe=""))
        if length > _LONGEST:
            raise InvalidArgument(
                f"`name` must have at most {_LONGEST} characters when it is quoted as in a URL, got {length}: {name!r}",
                hint="use a shorter name, such as AfterSignal('flush')",
            )

    @property
    def signals(self) -> frozenset[str]:  # type: ignore[override]
        """The name, as a set."""
        return frozenset({self.name})

    def on_element(self, context: TriggerContext) -> None:
        """Ignore the element."""

    def on_signal(self, context: TriggerContext, name: str) -> None:
        """Fire if the signal has the trigger's name."""
        if name == self.name:
            context.trigger()
            context.done()

    def on_merge(self, context: TriggerContext) -> None:
        """Do nothing, since the trigger keeps no state."""

    @override
    def describe(self) -> str:
        return f"at the signal {self.name!r}"

    @override
    def describe_repeated(self) -> str:
        return f"at each signal {self.name!r}"

    def __repr__(self) -> str:
        return f"AfterSignal({self.name!r})"
