"""Lifetimes of users' functions: `setup` before a worker's first use of one, `teardown` after its last."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from dataflow_model.plan.functions.combine import owners_of
from dataflow_model.runners.engine.functions.user_code import life_cycle

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from dataflow_model.plan.functions.combine import CombineFn
    from dataflow_model.plan.functions.dofn import DoFn


@attrs.define(eq=False)
class _Shared:
    """A function that lifetimes currently hold; several shards of a worker, or several transforms, may share it."""

    fn: DoFn | CombineFn[Any, Any, Any]
    lock: threading.Lock = attrs.field(factory=threading.Lock)
    holders: int = 0
    is_set_up: bool = False


_shared: Final[dict[int, _Shared]] = {}
"""The functions that are held, by object identity."""
_lock: Final = threading.Lock()
"""Protects `_shared` and the numbers of holders; never held while user code runs."""


@attrs.define
class Lifetime:
    """One holder of a function; the first holder sets the function up, and the last one tears it down.

    For a combiner that is made of others, such as the two halves of a combiner with a fan-out, it holds those others.

    Args:
        label: the label of the transform.
        fn: its DoFn or CombineFn.

    Example:
        >>> from dataflow_model.plan.functions.combine import CombineFn
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
    _acquired: tuple[_Shared, ...] | None = attrs.field(init=False, default=None)

    def set_up(self) -> None:
        """Hold the function, or those it is made of, and set up what has not been set up.

        Raises:
            UserCodeError: if `setup` raises.
        """
        if self._acquired is not None:
            return
        with contextlib.ExitStack() as acquired:
            shared = []
            for fn in owners_of(self.fn):
                shared.append(self._hold(fn))
                acquired.callback(self._release, shared[-1])
            self._acquired = tuple(shared)
            acquired.pop_all()

    def tear_down(self) -> None:
        """Release what is held, and tear down what nothing else holds.

        Raises:
            UserCodeError: if `teardown` raises.
        """
        acquired, self._acquired = self._acquired or (), None
        with contextlib.ExitStack() as stack:
            for shared in acquired:
                stack.callback(self._release, shared)

    def _hold(self, fn: DoFn | CombineFn[Any, Any, Any]) -> _Shared:
        with _lock:
            shared = _shared.setdefault(id(fn), _Shared(fn))
            shared.holders += 1
        try:
            with shared.lock, life_cycle(self.label, "setup"):
                if not shared.is_set_up:
                    fn.setup()
                    shared.is_set_up = True
        except BaseException:
            _drop_holder(shared)
            raise
        return shared

    def _release(self, shared: _Shared) -> None:
        with shared.lock:
            try:
                if shared.holders == 1:
                    shared.is_set_up = False
                    with life_cycle(self.label, "teardown"):
                        shared.fn.teardown()
            finally:
                _drop_holder(shared)


def _drop_holder(shared: _Shared) -> None:
    """Remove one holder, and the entry of a function without holders."""
    with _lock:
        shared.holders -= 1
        if not shared.holders:
            del _shared[id(shared.fn)]


class _Part(Protocol):
    def tear_down(self) -> None: ...


def tear_down_all(parts: Iterable[_Part]) -> None:
    """Tear down all parts, then raise the first error, if any."""
    with contextlib.ExitStack() as stack:
        for part in parts:
            stack.callback(part.tear_down)


class torn_down_if_failed:  # noqa: N801 - a context manager
    """Tear down parts if the `with` block fails or is left early; errors of the parts are then ignored.

    It is a class, since `contextlib.contextmanager` mishandles an error caused by a `StopIteration`.
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
    """Tear down parts when the `with` block ends in any way; without another error, raise theirs."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Tear down."""
        super().__exit__(kind, error, trace)
        if error is None:
            tear_down_all(self._parts)
