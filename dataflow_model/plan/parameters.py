"""What a function of the user's is told: by the name of a parameter, or by a default such as `DoFn.TimestampParam`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

__all__ = [
    "ELEMENT",
    "METADATA",
    "SIDE_INPUT",
    "TOLD_AT_EXPIRY",
    "TOLD_TO_TIMERS",
    "Held",
    "Told",
    "filled_by_place",
    "metadata_of",
    "wanted_by",
]

METADATA: Final = frozenset(
    {
        "timestamp",
        "window",
        "pane",
        "watermark_percentile",
        "production_time",
        "trigger",
        "is_retraction",
        "key",
        "record_id",
    }
)
"""What a DoFn is told when a parameter bears the name."""
_BY_NAME: Final = inspect.Parameter.KEYWORD_ONLY
TOLD_AT_EXPIRY: Final = frozenset({"key", "window", "timestamp"})
TOLD_TO_TIMERS: Final = TOLD_AT_EXPIRY | {"fire_timestamp", "timer_tag"}


@attrs.frozen
class Told:
    """A default that asks for what a parameter of the name `what` is told."""

    what: str

    def __repr__(self) -> str:
        return f"<DoFn parameter: {self.what}>"


@attrs.frozen(eq=False)
class Held:
    """A default that asks for the state or timer of a spec, which is an attribute of the DoFn's class."""

    spec: Any


ELEMENT: Final = Told("element")
"""Stands for the element, which is the first parameter."""
SIDE_INPUT: Final = Told("side input")
"""Stands for an argument that is given to the transform: the same as no default."""


def wanted_by(function: Callable[..., Any], specs: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return what the parameters that have to be filled ask for, by their names.

    A parameter without a default asks for what its name says, one with a default of `DoFn.…Param` for that.

    Args:
        function: the user's.
        specs: of states and timers, by the names under which its class declares them.

    Raises:
        InvalidArgument: for a default that stands for a state or timer which is not among `specs`.

    Example:
        >>> from dataflow_model.plan.dofn import DoFn
        >>> wanted_by(lambda x, window, at=DoFn.TimestampParam, n=1: x)
        {'x': 'x', 'window': 'window', 'at': 'timestamp'}
    """
    wanted = {}
    for parameter in _parameters(function):
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            continue
        default = parameter.default
        if default is parameter.empty or default is SIDE_INPUT:
            wanted[parameter.name] = parameter.name
        elif isinstance(default, Told):
            wanted[parameter.name] = default.what
        elif isinstance(default, Held):
            wanted[parameter.name] = _declared(function, parameter, specs or {})
    return wanted


def filled_by_place(function: Callable[..., Any], args: Iterable[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return further positional arguments as they have to be passed: past a parameter that the runner fills, by name.

    Example:
        >>> from dataflow_model.plan.dofn import DoFn
        >>> filled_by_place(lambda x, factor: x, [10]), filled_by_place(lambda x, at=DoFn.TimestampParam, by=1: x, [10])
        (((10,), {}), ((), {'by': 10}))
    """
    given = tuple(args)
    further = [p for p in _parameters(function)[1:] if p.kind is p.POSITIONAL_OR_KEYWORD]
    if not any(_is_filled(parameter) for parameter in further[: len(given)]):
        return given, {}
    free = [parameter.name for parameter in further if not _is_filled(parameter)]
    if len(given) > len(free):
        return given, {}  # too many: refused where the call is checked
    return (), dict(zip(free, given, strict=False))


def metadata_of(
    fn: Callable[..., Any],
    *,
    given: Collection[str] = (),
    positional: int = 0,
    specs: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """Return what `fn` asks for of `METADATA`, by the names of its parameters.

    Args:
        fn: the user's function; its first parameter is the element.
        given: arguments that the user has bound by name.
        positional: how many further positional arguments the user has bound.
        specs: of states and timers, by the names under which its class declares them.

    Raises:
        InvalidArgument: when a parameter without a default is neither metadata nor given, or asks for what is no
            metadata.

    Example:
        >>> metadata_of(lambda x, window, timestamp: x)
        {'window': 'window', 'timestamp': 'timestamp'}
    """
    parameters = _parameters(fn)
    first = [parameter.default for parameter in parameters[:1]]
    if any(isinstance(default, Told | Held) and default is not ELEMENT for default in first) or any(
        parameter.default is ELEMENT for parameter in parameters[1:]
    ):
        raise InvalidArgument(
            f"{_written(fn)} must take the element as its first parameter", hint="put the element first"
        )
    bound = {parameter.name for parameter in parameters[1 : positional + 1] if parameter.kind is not _BY_NAME}
    bound.update(parameter.name for parameter in parameters[:1])
    bound.update(parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_ONLY)
    wanted = {}
    for name, what in wanted_by(fn, specs).items():
        if name in bound or name in given or (specs is not None and what in specs):
            continue
        if what not in METADATA:
            asked = f"parameter {name!r}" if name == what else f"parameter {name!r} for {what!r}"
            raise InvalidArgument(
                f"{_written(fn)} has an unknown {asked}",
                hint=f"pass {name}=… as an argument, or use one of {sorted(METADATA)}",
            )
        wanted[name] = what
    return wanted


def _is_filled(parameter: inspect.Parameter) -> bool:
    return isinstance(parameter.default, Told | Held) and parameter.default is not SIDE_INPUT


def _declared(function: Callable[..., Any], parameter: inspect.Parameter, specs: Mapping[str, Any]) -> str:
    for name, spec in specs.items():
        if spec is parameter.default.spec:
            return name
    raise InvalidArgument(
        f"{_written(function)} asks with {parameter.name!r} for {parameter.default.spec!r}, which its class does not "
        "declare",
        hint="make the spec an attribute of the DoFn's class, and name that: count = dm.ValueStateSpec(default=0)",
    )


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # builtins such as `int` may have no signature
        return []


def _written(fn: Callable[..., Any]) -> str:
    return f"{getattr(fn, '__name__', repr(fn))}{inspect.signature(fn)}"
