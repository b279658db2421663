"""Calls of a function that waits for a service: many at once, with time limits, further attempts and answers kept."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import inspect
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidType
from dataflow_model.metrics.collecting import apart, count
from dataflow_model.plan.functions.pauses import pause_after

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from dataflow_model.metrics.tally import Tally
    from dataflow_model.plan.functions.dofn import AsyncMapFn

CALLS: Final = "calls"
RETRIES: Final = "retries"
CACHE_HITS: Final = "cache_hits"
_MOST_KEPT: Final = 100_000
"""How many answers are kept; the one that was not used for longest goes first."""
_PATIENCE: Final = 5.0
"""Seconds to wait for the loop to end."""
_CACHE_HINT: Final = "leave out cache=, or map the elements to text, numbers or tuples of them first"


@attrs.frozen
class Outcome:
    """What a call has come to: a value, or an error after the last attempt."""

    value: Any = None
    error: BaseException | None = None


@attrs.frozen
class Call:
    """A call that was begun.

    Attributes:
        future: its outcome.
        tally: what was counted for it, also by the user's function; read it once there is an outcome.
    """

    future: concurrent.futures.Future[Outcome]
    tally: Tally

    def result(self) -> Any:
        """Wait for the answer; raise what the last attempt has raised."""
        outcome = self.future.result()
        if outcome.error is not None:
            raise outcome.error
        return outcome.value


@attrs.define
class _Kept:
    """An answer, or the call that will bring it."""

    task: asyncio.Task[Outcome]
    expires: float | None = None


class ConcurrentCalls:
    """The calls of one function in this process, made by an event loop in a thread of its own.

    Args:
        declared: the function, and how it may be called.
    """

    def __init__(self, declared: AsyncMapFn) -> None:
        self._fn = declared
        own_call = getattr(type(declared.fn), "__call__", None)  # noqa: B004 - instances of its class may be called
        self._is_async = inspect.iscoroutinefunction(declared.fn) or inspect.iscoroutinefunction(own_call)
        self._timeout = None if declared.timeout is None else int(declared.timeout) / 1e6
        self._loop = asyncio.new_event_loop()
        self._slots = asyncio.Semaphore(declared.concurrency)
        self._tasks: set[asyncio.Task[Outcome]] = set()
        self._next_start = 0.0
        self._kept: OrderedDict[Any, _Kept] = OrderedDict()
        self._thread = threading.Thread(target=self._loop.run_forever, name="dataflow_model calls", daemon=True)
        self._thread.start()

    def begin(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
        """Begin a call; it waits for a free slot."""
        future: concurrent.futures.Future[Outcome] = concurrent.futures.Future()
        tally, context = apart()
        coroutine = self._outcome(args, kwargs) if self._fn.cache is None else self._kept_outcome(args, kwargs)
        self._loop.call_soon_threadsafe(self._start, coroutine, future, context)
        return Call(future, tally)

    def close(self) -> None:
        """Cancel the calls that have not ended, and end the thread. A thread that waits in a function is left alone."""
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        if not self._thread.is_alive():
            self._loop.close()

    async def _end(self) -> None:
        """Cancel what has not ended, and wait until functions have released what they hold."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._loop.shutdown_asyncgens()

    def _start(
        self,
        coroutine: Coroutine[Any, Any, Outcome],
        future: concurrent.futures.Future[Outcome],
        context: contextvars.Context,
    ) -> None:
        task = self._loop.create_task(coroutine, context=context)
        self._tasks.add(task)
        task.add_done_callback(functools.partial(self._ended, future))

    def _ended(self, future: concurrent.futures.Future[Outcome], task: asyncio.Task[Outcome]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            future.cancel()
        else:
            future.set_result(task.result())

    async def _kept_outcome(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Outcome:
        """Return the answer to an equal call, if one was begun and has not expired; else call."""
        key = (*args, *sorted(kwargs.items()), *map(type, args))
        try:
            kept = self._kept.get(key)
        except TypeError as error:
            return Outcome(error=InvalidType(f"`cache` needs elements with a hash: {error}", hint=_CACHE_HINT))
        if kept is None or (kept.expires is not None and kept.expires <= self._loop.time()):
            kept = self._kept[key] = _Kept(self._loop.create_task(self._outcome(args, kwargs)))
            self._tasks.add(kept.task)
            kept.task.add_done_callback(functools.partial(self._keep, key, kept))
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        else:
            count(CACHE_HITS)
        self._kept.move_to_end(key)
        return await asyncio.shield(kept.task)

    def _keep(self, key: Any, kept: _Kept, task: asyncio.Task[Outcome]) -> None:
        """Keep an answer from now on; of a failure, only those learn that wait already."""
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is not None or task.result().error is not None:
            if self._kept.get(key) is kept:
                del self._kept[key]
        elif self._fn.cache is not None:
            kept.expires = self._loop.time() + int(self._fn.cache) / 1e6

    async def _outcome(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Outcome:
        """Call until there is an answer, or too many attempts have failed."""
        declared, attempt = self._fn, 0
        while True:
            attempt += 1
            async with self._slots:
                await self._turn()
                count(CALLS)
                outcome = await self._attempted(args, kwargs)
            if not isinstance(outcome.error, declared.retry_on) or attempt > declared.retries:
                return outcome
            count(RETRIES)
            await asyncio.sleep(pause_after(attempt))

    async def _attempted(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Outcome:
        limit = asyncio.timeout(self._timeout)
        asked = self._fn.fn if self._is_async else self._asked_in_thread
        try:
            async with limit:
                return Outcome(await asked(*args, **kwargs))
        except BaseException as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return Outcome(error=TimeoutError(f"no answer within {self._timeout:g} s") if limit.expired() else error)

    async def _turn(self) -> None:
        """Wait until the next call may begin."""
        if self._fn.rate is None:
            return
        now = self._loop.time()
        start = max(now, self._next_start)
        self._next_start = start + 1 / self._fn.rate
        if start > now:
            await asyncio.sleep(start - now)

    async def _asked_in_thread(self, *args: Any, **kwargs: Any) -> Any:
        """Call in a thread, which is not waited for when the program ends."""
        answer: asyncio.Future[Outcome] = self._loop.create_future()
        context = contextvars.copy_context()

        def call() -> None:
            try:
                outcome = Outcome(context.run(self._fn.fn, *args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - raised where the answer is waited for
                outcome = Outcome(error=error)
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits any more
                self._loop.call_soon_threadsafe(_answered, answer, outcome)

        threading.Thread(target=call, name="dataflow_model call", daemon=True).start()
        outcome = await answer
        if outcome.error is not None:
            raise outcome.error
        return await outcome.value if inspect.isawaitable(outcome.value) else outcome.value  # of a lambda, for example


_running: Final[dict[int, ConcurrentCalls]] = {}
"""The calls of each function that has been set up in this process, by object identity."""


def start(declared: AsyncMapFn) -> None:
    """Start to make the calls of a function."""
    _running[id(declared)] = ConcurrentCalls(declared)


def calls_of(declared: AsyncMapFn) -> ConcurrentCalls:
    """Return the calls of a function that has been set up."""
    return _running[id(declared)]


def stop(declared: AsyncMapFn) -> None:
    """Cancel the calls of a function that have not ended."""
    _running.pop(id(declared)).close()


def _answered(answer: asyncio.Future[Outcome], outcome: Outcome) -> None:
    """Set what a thread has come to, unless nobody waits for it any more."""
    if not answer.done():
        answer.set_result(outcome)
