"""MapAsync: one output for each element, from a service that is asked for many of them at once."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final, Generic, overload

from dataflow_model.arguments import calls_explained, error_classes, positive_duration, positive_int
from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.functions.dofn import AsyncMapFn
from dataflow_model.plan.functions.typevars import InputT, OutputT
from dataflow_model.transforms.elementwise.pardo import ParDo
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.transforms.pipelines.pcollection import PCollection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Concatenate

    from dataflow_model.time import DurationLike

_RATE_HINT: Final = "use rate=100 for a hundred calls a second, or leave it out for no limit"


@calls_explained({"max_workers": "use `concurrency`", "ttl": "use `cache`", "rate_limit": "use `rate`"})
class MapAsync(ParDo[InputT, PCollection[OutputT]], Generic[InputT, OutputT]):
    """Turn each element into one output with a function that waits for a service; many calls are under way at once.

    Outputs come in the order of the elements. In a stream they are part of the commit: after a restart, no element of a
    committed micro-batch is asked for again. A micro-batch that was cut off is run again, and so are its calls: effects
    that a call has in the service may happen more than once. Behind retracting panes, the answer to an element is kept,
    and its retraction takes back exactly this answer, without a call.

    An element whose call fails for good stops the run, or goes to the dead letters of `with_exception_handling`.

    Args:
        fn: called with the element and the further arguments, as the function of `Map`. An `async` function runs in one
            event loop in a thread of its own. A plain function is called in threads, and is not interrupted at its
            time limit: give what it calls a limit too.
        args, kwargs: further arguments, side inputs among them.
        concurrency: how many calls may be under way in each process.
        timeout: how long an attempt may take; `None` for any time. After that, it fails with a `TimeoutError`.
        retries: how many further attempts are made after one that fails, with pauses from 0.1 seconds, doubled each
            time up to 10 seconds, and shortened at random.
        retry_on: the errors after which they are made: a class, or a tuple of classes.
        rate: how many attempts may begin in a second in each process; `None` for any number.
        cache: how long an answer is kept in each process, and given for equal elements without a call, up to 100,000
            answers; `None` for not at all. Elements and arguments need a hash. Failures are not kept.

    Raises:
        InvalidArgument: for a limit that is not positive, negative `retries`, or a generator function.
        InvalidType: for a value that is not callable, for `retry_on` that is no class of errors, or if an annotation
            excludes the elements.

    Metrics: `calls` (attempts), `retries` and `cache_hits`.

    Source: Flink's `AsyncDataStream.orderedWait`; Beam's `RequestResponseIO` and `Enrichment`.

    Example:
        >>> import asyncio
        >>> import dataflow_model as dm
        >>> async def name_of(code: str) -> str:
        ...     await asyncio.sleep(0.01)  # stands for a request
        ...     return {"UA": "United", "AA": "American"}[code]
        >>> with dm.Pipeline() as p:
        ...     names = p | dm.Create(["UA", "AA", "UA"]) | dm.MapAsync(name_of, concurrency=8, cache="1 hour")
        ...     _ = names | dm.io.Collect()
        >>> [record.value for record in p.result.collected("Collect")]
        ['United', 'American', 'United']
        >>> p.result.metrics()["MapAsync"]["calls"]
        2
    """

    @overload
    def __init__(
        self,
        fn: Callable[Concatenate[InputT, ...], Awaitable[OutputT]],
        *args: Any,
        concurrency: int = ...,
        timeout: DurationLike | None = ...,
        retries: int = ...,
        retry_on: type[Exception] | tuple[type[Exception], ...] = ...,
        rate: float | None = ...,
        cache: DurationLike | None = ...,
        **kwargs: Any,
    ) -> None: ...

    @overload
    def __init__(
        self,
        fn: Callable[Concatenate[InputT, ...], OutputT],
        *args: Any,
        concurrency: int = ...,
        timeout: DurationLike | None = ...,
        retries: int = ...,
        retry_on: type[Exception] | tuple[type[Exception], ...] = ...,
        rate: float | None = ...,
        cache: DurationLike | None = ...,
        **kwargs: Any,
    ) -> None: ...

    def __init__(
        self,
        fn: Callable[..., Any],
        *args: Any,
        concurrency: int = 16,
        timeout: DurationLike | None = "30 seconds",
        retries: int = 3,
        retry_on: type[Exception] | tuple[type[Exception], ...] = Exception,
        rate: float | None = None,
        cache: DurationLike | None = None,
        **kwargs: Any,
    ) -> None:
        _check_callable(fn)
        declared = AsyncMapFn(
            fn,
            positive_int("concurrency", concurrency, "use concurrency=16, for example"),
            None if timeout is None else positive_duration("timeout", timeout, "use timeout=None for no limit"),
            _checked_retries(retries),
            error_classes("retry_on", retry_on),
            _checked_rate(rate),
            None if cache is None else positive_duration("cache", cache, "leave it out to keep no answers"),
        )
        super().__init__(declared, *args, **kwargs)

    def output_type(self, element_type: Any) -> Any:
        """Return the type that the function is annotated to return."""
        del element_type
        return typehints.unwrapped(typehints.return_type(self.fn.user_function()))


def _check_callable(fn: object) -> None:
    if not callable(fn):
        raise InvalidType(f"MapAsync takes a function, got {fn!r}", hint="pass an `async def`, a def or a lambda")
    for function in (fn, getattr(type(fn), "__call__", None)):  # noqa: B004 - instances of its class may be called
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise InvalidArgument(
                f"MapAsync takes a function that returns one output, got the generator {fn!r}",
                hint="return a list, and use dm.FlatMap(lambda outputs: outputs) behind it",
            )


def _checked_retries(retries: object) -> int:
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise InvalidArgument(
            f"`retries` must be 0 or a positive int, got {retries!r}", hint="use retries=3, for example"
        )
    return retries


def _checked_rate(rate: object) -> float | None:
    if rate is None:
        return None
    if not isinstance(rate, int | float) or isinstance(rate, bool):
        raise InvalidType(f"`rate` must be a number of calls a second, got {rate!r}", hint=_RATE_HINT)
    if not 0 < rate < float("inf"):
        raise InvalidArgument(f"`rate` must be positive, got {rate!r}", hint=_RATE_HINT)
    return rate
