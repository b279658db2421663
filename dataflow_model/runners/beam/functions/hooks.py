"""Hooks into Beam's operations, where these offer none: how long a function goes on, and what a commit calls.

Beam's runners split a restriction from another thread. Here a splittable function that has had its share is split when
it claims the next position, so that it always makes progress: there is room for the commit, other elements, a stop.
"""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import contextlib
import functools
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from apache_beam.runners import common, sdf_utils
from apache_beam.transforms import core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The budget of a splittable function ---------------------------------------------------------------------------------

SECONDS: Final = 1.0
"""After how long a function is split."""
CLAIMS: Final = 50_000
"""After how many claims it is, since its outputs are held until it returns."""


class _Budget(threading.local):
    """What is left for the function that runs in a thread: `None` without a bound."""

    claims: int | None = None
    until: float = 0.0

    def begin(self) -> None:
        self.claims, self.until = CLAIMS, time.monotonic() + SECONDS

    def claims_one(self) -> bool:
        """Count a claim; return whether the function should be split before it."""
        if self.claims is None:
            return False
        is_spent = self.claims <= 0 or (self.claims < CLAIMS and time.monotonic() > self.until)
        self.claims -= 1
        return is_spent


_BUDGET: Final = _Budget()


@contextlib.contextmanager
def budget() -> Iterator[None]:
    """Bound what a splittable function does in the `with` block."""
    _BUDGET.begin()
    try:
        yield
    finally:
        _BUDGET.claims = None


class _BudgetedView(sdf_utils.RestrictionTrackerView):  # type: ignore[misc] # Beam ships no types that mypy takes
    """What a function sees of its restriction."""

    def try_claim(self, position: Any) -> bool:
        """Claim a position; the rest is deferred, so that the claim fails, if the budget is spent."""
        if _BUDGET.claims_one():
            self.defer_remainder()
            _BUDGET.begin()  # for a restriction that cannot be split here
        return bool(super().try_claim(position))


common.RestrictionTrackerView = _BudgetedView  # Beam makes one for each call, and has no other place to ask


# What is called when a bundle is committed ---------------------------------------------------------------------------

_Callbacks: Any = core._BundleFinalizerParam  # noqa: SLF001 - what functions register callbacks with
_call_all: Final = _Callbacks.finalize_bundle


class _Keeping(threading.local):
    """What keeps the callbacks of the bundle that ends in a thread: `None` if they are called at once."""

    uncommitted: Any = None


_KEEPING: Final = _Keeping()


class Uncommitted:
    """The callbacks of bundles that have ended and are not committed yet."""

    def __init__(self) -> None:
        self._callbacks = _Callbacks()

    def __reduce__(self) -> tuple[Any, ...]:
        return Uncommitted, ()

    @contextlib.contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep the callbacks of operations that are finalized in the `with` block."""
        _KEEPING.uncommitted = self._callbacks
        try:
            yield
        finally:
            _KEEPING.uncommitted = None

    def take(self) -> Callable[[], None] | None:
        """Return what calls the callbacks, whose errors Beam logs, and forget them; `None` if there are none."""
        if not self._callbacks.has_callbacks():
            return None
        callbacks, self._callbacks = self._callbacks, _Callbacks()
        return functools.partial(_call_all, callbacks)


def _finalize(registered: Any) -> None:
    if _KEEPING.uncommitted is None:
        _call_all(registered)
    else:
        for callback in registered._callbacks:  # noqa: SLF001
            _KEEPING.uncommitted.register(callback)


_Callbacks.finalize_bundle = _finalize  # an operation has no other way to get at them
