"""The declaration of a stateful DoFn's class: states, timers, their callbacks, and the required order of input."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType, refuse_async
from dataflow_model.plan.functions.dofn import DoFn
from dataflow_model.plan.functions.interval_joins import JoinWithin
from dataflow_model.plan.functions.parameters import (
    EXPIRY_METADATA,
    METADATA,
    TIMER_METADATA,
    check_method,
    requested_by,
)
from dataflow_model.plan.functions.state import TIMER_OF, StateSpec, TimerSpec, WatermarkHoldSpec, WatermarkSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

EXPIRY: Final = "on_window_expiry"
"""The function that runs just before a window's state is cleared."""
_STEPS: Final = ("setup", "start_bundle", "process", "process_batch", "finish_bundle", "teardown")
"""The other methods that the runner calls."""
_WITHOUT_ARGUMENTS: Final = ("setup", "start_bundle", "finish_bundle", "teardown")
_SPECS: Final = (StateSpec, TimerSpec, WatermarkSpec, WatermarkHoldSpec)


@attrs.frozen
class Declaration:
    """What the class of a DoFn declares.

    Attributes:
        states, timers: the specs, by the name of the class attribute.
        callbacks: the name of the function that runs when a timer fires, by timer.
        has_expiry: whether the class defines `on_window_expiry`.
        time_sorted: whether it requires its input in event-time order.
        watermarks: the `WatermarkSpec`s and `WatermarkHoldSpec`s, by the name of the class attribute.
        retracts: whether it takes back what it has emitted.
        joins: whether it is a join by distance, which has no functions to call.
    """

    states: Mapping[str, StateSpec] = attrs.field(factory=dict)
    timers: Mapping[str, TimerSpec] = attrs.field(factory=dict)
    callbacks: Mapping[str, str] = attrs.field(factory=dict)
    has_expiry: bool = False
    time_sorted: bool = False
    watermarks: Mapping[str, WatermarkSpec | WatermarkHoldSpec] = attrs.field(factory=dict)
    retracts: bool = False
    joins: bool = False

    @property
    def is_stateful(self) -> bool:
        """Whether the DoFn needs its input by key."""
        has_specs = self.states or self.timers or self.watermarks
        return bool(has_specs or self.has_expiry or self.time_sorted or self.joins)

    @property
    def specs(self) -> dict[str, Any]:
        """The specs that its functions may request as parameters, by name."""
        return {**self.states, **self.timers, **self.watermarks}

    def requested_by(self, function: Callable[..., Any]) -> dict[str, str]:
        """Return what each parameter of one of its functions requests.

        Example:
            >>> import dataflow_model as dm
            >>> class Numbered(dm.DoFn):
            ...     COUNT = dm.ValueStateSpec(default=0)
            ...     def process(self, pair, seen=dm.DoFn.StateParam(COUNT), at=dm.DoFn.TimestampParam): ...
            >>> declaration_of(Numbered).requested_by(Numbered().process)
            {'pair': 'pair', 'seen': 'COUNT', 'at': 'timestamp'}
        """
        return requested_by(function, self.specs)

    def describe(self) -> str:
        """Describe the declaration, for fingerprints and explanations."""
        parts = [f"{name}: {spec.describe()}" for name, spec in sorted(self.specs.items())]
        parts += ["input sorted by event time"] if self.time_sorted else []
        parts += ["the elements of both sides that may have partners"] if self.joins else []
        parts += ["outputs that may be taken back"] if self.retracts else []
        return ", ".join(parts) or "nothing"


def declaration_of(kind: type[DoFn]) -> Declaration:
    """Return the declaration of a DoFn's class.

    Raises:
        InvalidArgument: for a timer without a callback or with two, a callback for an unknown timer, a name that is
            already used, or `retracts` without state.

    Example:
        >>> import dataflow_model as dm
        >>> class Lost(dm.DoFn):
        ...     late = dm.TimerSpec()
        >>> declaration_of(Lost)
        Traceback (most recent call last):
        dataflow_model.errors.InvalidArgument: Lost declares the timer 'late', but nothing runs when it fires
        Hint: decorate the function that should run with @dm.on_timer(late)
    """
    key: Any = kind  # mypy does not consider a class hashable
    declaration: Declaration = _inspected(key)
    return declaration


@functools.lru_cache(maxsize=1024)
def _inspected(kind: Any) -> Declaration:
    attributes = {name: getattr(kind, name) for name in _names(kind)}
    states = {name: spec for name, spec in attributes.items() if isinstance(spec, StateSpec)}
    timers = {name: spec for name, spec in attributes.items() if isinstance(spec, TimerSpec)}
    watermarks = {
        name: spec for name, spec in attributes.items() if isinstance(spec, WatermarkSpec | WatermarkHoldSpec)
    }
    taken = sorted((METADATA | TIMER_METADATA).intersection((*states, *timers, *watermarks)))
    if taken:
        raise InvalidArgument(
            f"{kind.__name__} declares {taken[0]!r}, which is the name of another parameter",
            hint="choose another name",
        )
    callbacks: dict[str, str] = {}
    for name, function in attributes.items():
        timer = getattr(function, TIMER_OF, None) if inspect.isfunction(function) else None
        if timer is None:
            continue
        of = [known for known, spec in timers.items() if spec is timer or known == timer]
        if not of:
            raise InvalidArgument(
                f"{kind.__name__}.{name} is set to run on {timer!r}, which is not a timer of the class",
                hint=f"its timers are {sorted(timers)}; declare a timer with flush = dm.TimerSpec()",
            )
        if of[0] in callbacks:
            raise InvalidArgument(
                f"{kind.__name__} runs both {callbacks[of[0]]!r} and {name!r} on the timer {of[0]!r}",
                hint="a timer runs one function; call the other function from it",
            )
        callbacks[of[0]] = name
    silent = [name for name in timers if name not in callbacks]
    if silent:
        raise InvalidArgument(
            f"{kind.__name__} declares the timer {silent[0]!r}, but nothing runs when it fires",
            hint=f"decorate the function that should run with @dm.on_timer({silent[0]})",
        )
    sorts, has_expiry = kind.requires_time_sorted_input, callable(attributes.get(EXPIRY))
    joins = issubclass(kind, JoinWithin)
    declaration = Declaration(states, timers, callbacks, has_expiry, sorts, watermarks, kind.retracts, joins)
    if kind.retracts and not declaration.is_stateful:
        raise InvalidArgument(
            f"{kind.__name__} declares retracts = True, but it has no state, so it cannot know what it has emitted",
            hint="declare what it remembers, such as emitted = dm.ValueStateSpec(default=None), or leave `retracts` "
            "out: retractions of its input are applied by calling it again",
        )
    return declaration


def check_declared(fn: DoFn, function: Callable[..., Any]) -> None:
    """Check that each spec which a function names as a parameter is an attribute of the class.

    Raises:
        InvalidArgument: for a spec that only the instance has.
        InvalidType: for the class of a spec.

    Example:
        >>> import dataflow_model as dm
        >>> class Numbered(dm.DoFn):
        ...     def __init__(self):
        ...         self.count = dm.ValueStateSpec(default=0)
        ...     def process(self, pair, count): ...
        >>> check_declared(Numbered(), Numbered().process)
        Traceback (most recent call last):
        dataflow_model.errors.InvalidArgument: the spec 'count' of Numbered is an attribute of the instance, ...
        Hint: declare it in the class, not in __init__: count = dm.ValueStateSpec(…)
    """
    kind = type(fn).__name__
    declared = declaration_of(type(fn)).specs
    for name in requested_by(function, declared):
        attribute = getattr(fn, name, None)
        if isinstance(attribute, _SPECS) and name not in declared:
            raise InvalidArgument(
                f"the spec {name!r} of {kind} is an attribute of the instance, and only those of the class are state",
                hint=f"declare it in the class, not in __init__: {name} = dm.{type(attribute).__name__}(…)",
            )
        if isinstance(attribute, type) and issubclass(attribute, _SPECS):
            raise InvalidType(
                f"the attribute {name!r} of {kind} is the class {attribute.__name__}, and not a spec",
                hint=f"call it: {name} = dm.{attribute.__name__}()",
            )


def check_callbacks(fn: DoFn, bound: Collection[str]) -> None:
    """Check what a DoFn defines for the runner to call.

    Args:
        fn: the DoFn.
        bound: the names of the keyword arguments given to `ParDo`.

    Raises:
        InvalidArgument: if a timer's or the expiry's function has a parameter that nothing fills, or a method such as
            `finish_bundle`, which is called without arguments, has one.
        InvalidType: for an `async` method.

    Example:
        >>> import dataflow_model as dm
        >>> class Unknown(dm.DoFn):
        ...     flush = dm.TimerSpec()
        ...     @dm.on_timer(flush)
        ...     def at(self, buffer):
        ...         return []
        >>> check_callbacks(Unknown(), ())
        Traceback (most recent call last):
        dataflow_model.errors.InvalidArgument: at(buffer) has an unknown parameter 'buffer'
        Hint: declare a state or timer of that name, or use one of ['fire_timestamp', 'flush', 'key', 'timer_tag',
        'timestamp', 'window']
    """
    declaration = declaration_of(type(fn))
    for name in (*_STEPS, *declaration.callbacks.values(), EXPIRY):
        refuse_async(getattr(fn, name, None), type(fn).__name__)
    for name in _WITHOUT_ARGUMENTS:
        if getattr(getattr(fn, name), "__func__", None) is not getattr(DoFn, name):
            check_method(fn, name, ())
    for name in declaration.callbacks.values():
        _check(declaration, getattr(fn, name), TIMER_METADATA.union(declaration.specs, bound))
    if declaration.has_expiry:
        function = getattr(fn, EXPIRY)
        timers = [request for request in declaration.requested_by(function).values() if request in declaration.timers]
        if timers:
            raise InvalidArgument(
                f"{EXPIRY} of {type(fn).__name__} takes the timer {timers[0]!r}, which would never fire: "
                "the window has expired",
                hint="emit the remaining state as output instead of setting a timer",
            )
        _check(declaration, function, EXPIRY_METADATA.union(declaration.states, bound))


def _check(declaration: Declaration, function: Callable[..., Any], known: Collection[str]) -> None:
    for name, request in declaration.requested_by(function).items():
        if request not in known:
            parameter = f"parameter {name!r}" if name == request else f"parameter {name!r} for {request!r}"
            raise InvalidArgument(
                f"{function.__name__}{inspect.signature(function)} has an unknown {parameter}",
                hint=f"declare a state or timer of that name, or use one of {sorted(known)}",
            )


def _names(kind: type[DoFn]) -> list[str]:
    """Return the attributes of a class and its bases, bases first, in the order in which they are written."""
    written = [name for base in reversed(kind.__mro__) if base not in {DoFn, object} for name in vars(base)]
    return [name for name in dict.fromkeys(written) if hasattr(kind, name)]
