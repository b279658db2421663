"""Names of the papers' triggers that are still to come: asking for one says so clearly."""

from __future__ import annotations

from typing import Any, NoReturn

from dataflow_model.errors import NotYetSupported, explain
from dataflow_model.triggers.base import Trigger

__all__ = [
    "AfterBytes",
    "AfterEventTime",
    "AfterPunctuation",
    "AfterSignal",
    "Always",
    "AtPeriod",
    "DataTrigger",
    "Never",
    "RepeatCount",
    "RepeatUntil",
]


class _NotYet(Trigger):
    _instead: str = "AfterProcessingTime, AfterCount and AfterWatermark are there"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise NotYetSupported(explain(f"the trigger {type(self).__name__} is not there yet", hint=self._instead))


class AfterEventTime(_NotYet):
    """A delay in event time."""


class AtPeriod(_NotYet):
    """Aligned periods of a clock."""

    _instead = "AfterProcessingTime(period) is aligned to the first element instead of to the clock"


class AfterBytes(_NotYet):
    """A number of bytes."""

    _instead = "AfterCount(n) counts elements"


class AfterPunctuation(_NotYet):
    """A punctuation record."""


class DataTrigger(_NotYet):
    """A user's condition on the elements."""


class RepeatCount(_NotYet):
    """A number of repetitions."""


class RepeatUntil(_NotYet):
    """Repetition until a condition."""

    _instead = "write Repeatedly(t).or_finally(until)"


class Always(_NotYet):
    """Each element."""

    _instead = "write Repeatedly(AfterCount(1))"


class Never(_NotYet):
    """No firing but the one at expiry."""


class AfterSignal(_NotYet):
    """A signal from outside."""
