"""State and timers of a DoFn: the specs that its class declares.

A stateful DoFn declares specs as class attributes and names them as parameters of its functions. The handle passed in
belongs to the key and window of the current element, timer or expiring window.

Source: Beam's `userstate`; MillWheel's persistent per-key state and timers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.functions.combine import CombineFn, check_combine_fn
from dataflow_model.plan.functions.state_handles import BagState, CombiningState, MapState, SetState, ValueState
from dataflow_model.plan.functions.typevars import TypeVar
from dataflow_model.plan.names.spellings import with_spellings
from dataflow_model.triggers import TimeDomain

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from dataflow_model.plan.functions.state_handles import StateBoard

T = TypeVar("T", default=Any)
K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)
FunctionT = TypeVar("FunctionT", bound="Callable[..., Any]")

TIMER_OF: Final = "_dataflow_model_timer"
"""The attribute in which `on_timer` stores the timer of a function."""

_BEAMS_ARGUMENTS: Final = frozenset({"name", "coder", "time_domain", "combine_fn", "element_coder"})
"""The arguments of Beam's specs."""


@with_spellings
class _Spec:
    """What specs have in common: they take no name, since they are called as the attribute that holds them."""

    __slots__ = ()
    _positional: ClassVar[int] = 0
    """How many arguments are positional; the others are named."""
    _written: ClassVar[str] = ""
    """The arguments, as a hint shows them."""

    if not TYPE_CHECKING:  # type checkers look at `__init__`

        def __new__(cls, *args: Any, **kwargs: Any) -> Self:
            """Reject Beam's arguments, a name and a coder."""
            beams = [value for argument, value in kwargs.items() if argument in _BEAMS_ARGUMENTS]
            args = (*args, *beams)
            if beams or len(args) > cls._positional:
                name = args[0] if isinstance(args[0], str) and args[0].isidentifier() else "state"
                given = ", ".join(map(repr, args))
                domains = [f"dm.{domain}" for domain in args if isinstance(domain, TimeDomain)]
                raise InvalidType(
                    f"a {cls.__name__} takes neither a name nor a coder, got {cls.__name__}({given})",
                    hint="the attribute that holds a spec is its name, and values are pickled: "
                    f"write {name} = dm.{cls.__name__}({domains[0] if domains else cls._written})",
                )
            return super().__new__(cls)


class StateSpec(_Spec):
    """One piece of state that a DoFn's class declares; the name of the attribute identifies it in checkpoints."""

    __slots__ = ()
    _handle: ClassVar[type[Any]]
    """The class of its handles."""
    _title: ClassVar[str]
    """What fingerprints and explanations call it."""

    def bind(self, board: StateBoard, name: str) -> Any:
        """Return the handle for the state of the key and window that the board currently shows."""
        return self._handle(board, name)

    def describe(self) -> str:
        """Describe the spec, for fingerprints and explanations."""
        return self._title


@attrs.frozen(eq=False)
class ValueStateSpec(StateSpec, Generic[T]):
    """Declare a `ValueState`.

    Args:
        default: the value to read if nothing has been written.

    Raises:
        InvalidType: for an argument without its name, such as Beam's name of the state.

    Source: Beam's `ReadModifyWriteStateSpec`.

    Example:
        >>> import dataflow_model as dm
        >>> class Number(dm.DoFn):
        ...     count = dm.ValueStateSpec(default=0)
        ...     def process(self, pair, count: dm.ValueState[int]):
        ...         count.write(count.read() + 1)
        ...         yield count.read(), pair[1]
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create([("a", "x"), ("b", "y"), ("a", "z")]) | dm.ParDo(Number()) | "out" >> dm.io.Collect()
        >>> [record.value for record in p.result.collected("out")]
        [(1, 'x'), (1, 'y'), (2, 'z')]
    """

    _title = "value"
    _written = "default=…"
    default: Any = attrs.field(default=None, kw_only=True)

    def bind(self, board: StateBoard, name: str) -> ValueState[T]:
        """Return the handle."""
        return ValueState(board, name, self.default)


@attrs.frozen(eq=False)
class BagStateSpec(StateSpec, Generic[T]):
    """Declare a `BagState`.

    Source: Beam's `BagStateSpec`.

    Example:
        >>> import dataflow_model as dm
        >>> class InPairs(dm.DoFn):
        ...     waiting = dm.BagStateSpec()
        ...     def process(self, pair, waiting: dm.BagState[str]):
        ...         waiting.add(pair[1])
        ...         values = list(waiting.read())
        ...         if len(values) == 2:
        ...             waiting.clear()
        ...             yield pair[0], values
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create([("a", "x"), ("a", "y"), ("a", "z")]) | dm.ParDo(InPairs()) | "out" >> dm.io.Collect()
        >>> [record.value for record in p.result.collected("out")]
        [('a', ['x', 'y'])]
    """

    _handle = BagState
    _title = "bag"


@attrs.frozen(eq=False)
class SetStateSpec(StateSpec, Generic[T]):
    """Declare a `SetState`.

    Source: Beam's `SetStateSpec`.

    Example:
        >>> import dataflow_model as dm
        >>> class New(dm.DoFn):
        ...     seen = dm.SetStateSpec()
        ...     def process(self, pair, seen: dm.SetState[str]):
        ...         if pair[1] not in seen.read():
        ...             seen.add(pair[1])
        ...             yield pair
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create([("a", "x"), ("a", "x"), ("b", "x")]) | dm.ParDo(New()) | "out" >> dm.io.Collect()
        >>> [record.value for record in p.result.collected("out")]
        [('a', 'x'), ('b', 'x')]
    """

    _handle = SetState
    _title = "set"


@attrs.frozen(eq=False)
class MapStateSpec(StateSpec, Generic[K, V]):
    """Declare a `MapState`.

    Source: `MapState` of Beam's Java SDK; its Python SDK has none.

    Example:
        >>> import dataflow_model as dm
        >>> class Visits(dm.DoFn):
        ...     pages = dm.MapStateSpec()
        ...     def process(self, pair, pages: dm.MapState[str, int]):
        ...         user, page = pair
        ...         count = (pages.get(page) or 0) + 1
        ...         pages.put(page, count)
        ...         yield user, page, count
        >>> with dm.Pipeline() as p:
        ...     visits = p | dm.Create([("ann", "/"), ("bob", "/"), ("ann", "/")])
        ...     _ = visits | dm.ParDo(Visits()) | "out" >> dm.io.Collect()
        >>> [record.value for record in p.result.collected("out")]
        [('ann', '/', 1), ('bob', '/', 1), ('ann', '/', 2)]
    """

    _handle = MapState
    _title = "map"


_COMBINERS: Final = ((sum, "dm.Sum()"), (min, "dm.Min()"), (max, "dm.Max()"), (len, "dm.Count()"))
"""What to use instead of the builtins that `CombinePerKey` takes, and `len`."""


def _as_combiner(combine: Any) -> CombineFn[Any, Any, Any]:
    combiner = combine() if isinstance(combine, type) and issubclass(combine, CombineFn) else combine
    if not isinstance(combiner, CombineFn):
        instead = next((written for function, written in _COMBINERS if combine is function), None)
        raise InvalidType(
            f"`combine` must be a CombineFn, got {combine!r}",
            hint=f"pass {instead}"
            if instead
            else "pass dm.Sum(), for example, or an instance of a dm.CombineFn of yours",
        )
    check_combine_fn(combiner)
    return combiner


@attrs.frozen(eq=False)
class CombiningStateSpec(StateSpec):
    """Declare a `CombiningState`.

    Args:
        combine: the combiner, or its class.

    Raises:
        InvalidType: if `combine` is neither.

    Source: Beam's `CombiningValueStateSpec`.

    Example:
        >>> import dataflow_model as dm
        >>> dm.CombiningStateSpec(sum)
        Traceback (most recent call last):
        dataflow_model.errors.InvalidType: `combine` must be a CombineFn, got <built-in function sum>
        Hint: pass dm.Sum()
    """

    _positional = 1
    _written = "dm.Sum()"
    combine: CombineFn[Any, Any, Any] = attrs.field(converter=_as_combiner)

    def bind(self, board: StateBoard, name: str) -> CombiningState[Any, Any]:
        """Return the handle."""
        return CombiningState(board, name, self.combine)

    def describe(self) -> str:
        """Describe the spec."""
        return f"combined by {type(self.combine).__name__}"


@attrs.frozen(eq=False)
class TimerSpec(_Spec):
    """Declare a `Timer`, or with tags a family of timers; `on_timer` marks the function that runs when it fires.

    Args:
        domain: whether the timer waits for the watermark (`EVENT_TIME`) or for the clock (`PROCESSING_TIME`).

    Raises:
        InvalidArgument: if `domain` is not a `TimeDomain`.

    Source: Beam's `TimerSpec`.

    Example:
        >>> import dataflow_model as dm
        >>> dm.TimerSpec("event time")
        Traceback (most recent call last):
        dataflow_model.errors.InvalidArgument: a timer's domain must be a TimeDomain, got 'event time'
        Hint: use dm.TimerSpec(dm.TimeDomain.EVENT_TIME)
    """

    _positional = 1
    _written = "dm.TimeDomain.EVENT_TIME"
    domain: TimeDomain = TimeDomain.EVENT_TIME

    def __attrs_post_init__(self) -> None:
        """Check the domain."""
        if not isinstance(self.domain, TimeDomain):
            raise InvalidArgument(
                f"a timer's domain must be a TimeDomain, got {self.domain!r}",
                hint="use dm.TimerSpec(dm.TimeDomain.EVENT_TIME)",
            )

    def describe(self) -> str:
        """Describe the spec."""
        return f"{self.domain.name.lower().replace('_', '-')} timer"


@attrs.frozen(eq=False)
class WatermarkHoldSpec:
    """Declare a `WatermarkHold`, for a DoFn that buffers elements and emits them later at event times that it chooses.

    Source: Beam's Java SDK has `WatermarkHoldState` inside; MillWheel's state carries a timestamp.

    Example:
        >>> import dataflow_model as dm
        >>> class Pairs(dm.DoFn):
        ...     first = dm.ValueStateSpec(default=None)
        ...     since = dm.WatermarkHoldSpec()
        ...     def process(self, pair, timestamp, first: dm.ValueState, since: dm.WatermarkHold):
        ...         if first.read() is None:
        ...             first.write(pair[1])
        ...             since.set(timestamp)
        ...         else:
        ...             yield dm.TimestampedValue((first.read(), pair[1]), since.read())  # where the first one stood
        ...             first.clear()
        ...             since.clear()
        >>> timed = [dm.TimestampedValue(("a", 1), 5), dm.TimestampedValue(("a", 2), 9)]
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create(timed) | dm.ParDo(Pairs()) | "out" >> dm.io.Collect()
        >>> [(record.value, int(record.event_time)) for record in p.result.collected("out")]
        [((1, 2), 5000000)]
    """

    def describe(self) -> str:
        """Describe the spec."""
        return "watermark hold"


@attrs.frozen(eq=False)
class WatermarkSpec:
    """Declare a `Watermark`, for a DoFn that reads the watermark of its input.

    An element is late if its event time is before `watermark.read()`. In a bounded job the watermark follows the
    elements of each key, so that no element is late.

    Source: MillWheel's `low_watermark`; Beam has none.

    Example:
        >>> import dataflow_model as dm
        >>> from dataflow_model.testing import TestStream
        >>> class Late(dm.DoFn):
        ...     watermark = dm.WatermarkSpec()
        ...     def process(self, pair, timestamp, watermark: dm.Watermark):
        ...         yield pair[1], timestamp < watermark.read()
        >>> with dm.Pipeline() as p:
        ...     events = p | TestStream().add("a", 5, key="k").watermark(8).add("b", 7, key="k")
        ...     _ = events | dm.ParDo(Late()) | "out" >> dm.io.Collect()
        >>> [record.value for record in p.result.collected("out")]
        [('a', False), ('b', True)]
    """

    def describe(self) -> str:
        """Describe the spec."""
        return "watermark"


def on_timer(timer: TimerSpec | str) -> Callable[[FunctionT], FunctionT]:
    """Mark a function of a DoFn to run when a timer fires; it returns outputs as `process` does.

    Its parameters are filled by name: the DoFn's states and timers, `key`, `window`, `timestamp` (the event time of
    its outputs), `fire_timestamp` (the time to which the timer was set), `timer_tag`, and the keyword arguments given
    to `ParDo`.

    Args:
        timer: the spec, or the name of the class attribute that holds it.

    Raises:
        InvalidType: if `timer` is neither.

    Source: Beam's `on_timer`.

    Example:
        >>> import dataflow_model as dm
        >>> class Remind(dm.DoFn):
        ...     reminder = dm.TimerSpec(dm.TimeDomain.EVENT_TIME)
        ...     def process(self, pair, reminder: dm.Timer, timestamp):
        ...         reminder.set(timestamp + dm.duration("1 hour"), tag=pair[1])
        ...     @dm.on_timer(reminder)
        ...     def remind(self, key, timer_tag):
        ...         yield f"{key}: {timer_tag}"
        >>> with dm.Pipeline() as p:
        ...     reminders = p | dm.Create([("Ann", "tea"), ("Ann", "post")]) | dm.ParDo(Remind())
        ...     _ = reminders | "out" >> dm.io.Collect()
        >>> [record.value for record in p.result.collected("out")]
        ['Ann: tea', 'Ann: post']
    """
    if not isinstance(timer, TimerSpec | str):
        raise InvalidType(f"on_timer takes a TimerSpec, got {timer!r}", hint="use @dm.on_timer(flush)")

    def mark(function: FunctionT) -> FunctionT:
        setattr(function, TIMER_OF, timer)
        return function

    return mark
