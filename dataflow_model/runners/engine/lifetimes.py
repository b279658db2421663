"""Lifetimes of users' functions: `setup` before a worker's first use of one, `teardown` after its last."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from dataflow_model.runners.engine.user_code import life_cycle

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from dataflow_model.plan.combine import CombineFn
    from dataflow_model.plan.dofn import DoFn

__all__ = ["Lifetime", "tear_down_all", "torn_down", "torn_down_if_failed"]


@attrs.define(eq=False)
class _Shared:
    """A function that lifetimes hold now: several shards of one worker, or several transforms, share the object."""

    fn: DoFn | CombineFn[Any, Any, Any]
    lock: threading.Lock = attrs.field(factory=threading.Lock)
    holders: int = 0
    is_set_up: bool = False


_shared: Final[dict[int, _Shared]] = {}
"""The functions that are held, by identity."""
_lock: Final = threading.Lock()
"""Guards `_shared` and the numbers of holders; never held while user code runs."""


@attrs.define
class Lifetime:
    """One holder of a function; a function that several hold is set up by the first and torn down by the last.

    Args:
        label: the transform's.
        fn: its DoFn or CombineFn.

    Example:
        >>> from dataflow_model.plan.combine import CombineFn
        >>> class Loud(CombineFn):
        ...     def setup(self):
        ...         print("setup")
        ...     def teardown(self):
        ...         print("teardown")
        >>> loud = Loud()
        >>> one, other = Lifetime("sum", loud), Lifetime("sum", loud)
        >>> one.set_up(); one.set_up(); other.set_up()
        setup
        >>> one.tear_down(); other.tear_down(); other.tear_down()
        teardown
    """

    label: str
    fn: DoFn | CombineFn[Any, Any, Any]
    _held: _Shared | None = attrs.field(init=False, default=None)

    def set_up(self) -> None:
        """Hold the function, and set it up unless that has been done.

        Raises:
            UserCodeError: when `setup` raises.
        """
        if self._held is not None:
            return
        with _lock:
            shared = _shared.setdefault(id(self.fn), _Shared(self.fn))
            shared.holders += 1
        try:
            with shared.lock, life_cycle(self.label, "setup"):
                if not shared.is_set_up:
                    self.fn.setup()
                    shared.is_set_up = True
        except BaseException:
            _let_go(shared)
            raise
        self._held = shared

    def tear_down(self) -> None:
        """Let the function go, and tear it down if nothing else holds it.

        Raises:
            UserCodeError: when `teardown` raises.
        """
        shared, self._held = self._held, None
        if shared is None:
            return
        with shared.lock:
            try:
                if shared.holders == 1:
                    shared.is_set_up = False
                    with life_cycle(self.label, "teardown"):
                        self.fn.teardown()
            finally:
                _let_go(shared)


def _let_go(shared: _Shared) -> None:
    """Count one holder less; nothing is kept of a function that nobody holds."""
    with _lock:
        shared.holders -= 1
        if not shared.holders:
            del _shared[id(shared.fn)]


class _Part(Protocol):
    def tear_down(self) -> None: ...


def tear_down_all(parts: Iterable[_Part]) -> None:
    """Tear parts down, all of them, then raise the first error of any."""
    with contextlib.ExitStack() as stack:
        for part in parts:
            stack.callback(part.tear_down)


class torn_down_if_failed:  # noqa: N801 - a context manager
    """Tear parts down when the block fails or is left early; what they raise then is dropped: the first error counts.

    A class, since `contextlib.contextmanager` mistakes an error that a `StopIteration` has caused.
    """

    def __init__(self, *parts: _Part) -> None:
        self._parts = parts

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Tear down if there is an error."""
        if error is not None:
            with contextlib.suppress(Exception):
                tear_down_all(self._parts)


class torn_down(torn_down_if_failed):  # noqa: N801 - a context manager
    """Tear parts down when the block is left, however that is; without another error, raise what they raise."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Tear down."""
        super().__exit__(kind, error, trace)
        if error is None:
            tear_down_all(self._parts)
