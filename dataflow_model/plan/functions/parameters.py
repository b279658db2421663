"""The parameters of users' functions that are filled by name, or by a default such as `DoFn.TimestampParam`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType, refuse_async

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

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
"""The metadata that a DoFn can request, by the name of the parameter."""
_BY_NAME: Final = inspect.Parameter.KEYWORD_ONLY
EXPIRY_METADATA: Final = frozenset({"key", "window", "timestamp"})
TIMER_METADATA: Final = EXPIRY_METADATA | {"fire_timestamp", "timer_tag"}

_WITH_METADATA: Final = (
    "the functions of dm.Map, dm.FlatMap, dm.Filter and dm.ParDo can take metadata; use one of them before it"
)


@attrs.frozen
class MetadataParam:
    """A default value that requests the metadata with this name."""

    name: str

    def __repr__(self) -> str:
        return f"<DoFn parameter: {self.name}>"


@attrs.frozen(eq=False)
class SpecParam:
    """A default value that requests the state or timer of a spec, which is an attribute of the DoFn's class."""

    spec: Any


ELEMENT: Final = MetadataParam("element")
"""Stands for the element, which is the first parameter."""
SIDE_INPUT: Final = MetadataParam("side input")
"""Stands for an argument given to the transform; the same as no default."""


def requested_by(function: Callable[..., Any], specs: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return what the parameters of a function request, by their names.

    A parameter without a default requests what its name says, and one with a default of `DoFn.…Param` requests that.

    Args:
        function: the user's function.
        specs: the specs of states and timers, by the names of the class attributes.

    Raises:
        InvalidArgument: for a default that requests a state or timer which is not among `specs`.

    Example:
        >>> from dataflow_model.plan.functions.dofn import DoFn
        >>> requested_by(lambda x, window, at=DoFn.TimestampParam, n=1: x)
        {'x': 'x', 'window': 'window', 'at': 'timestamp'}
    """
    requests = {}
    for parameter in _parameters(function):
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            continue
        default = parameter.default
        if default is parameter.empty or default is SIDE_INPUT:
            requests[parameter.name] = parameter.name
        elif isinstance(default, MetadataParam):
            requests[parameter.name] = default.name
        elif isinstance(default, SpecParam):
            requests[parameter.name] = _declared(function, parameter, specs or {})
    return requests


def takes_any_keyword(function: Callable[..., Any]) -> bool:
    """Return whether a function takes any keyword arguments.

    Example:
        >>> takes_any_keyword(lambda x, **options: x), takes_any_keyword(lambda x, *, by: x)
        (True, False)
    """
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in _parameters(function))


def filled_by_position(function: Callable[..., Any], args: Iterable[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return how to pass further positional arguments: by name if the runner fills a parameter before one of them.

    Raises:
        InvalidArgument: if that cannot be done, since some belong to `*args`.

    Example:
        >>> from dataflow_model.plan.functions.dofn import DoFn
        >>> filled_by_position(lambda x, at=DoFn.TimestampParam, by=1: x, [10])
        ((), {'by': 10})
    """
    values = tuple(args)
    further = [p for p in _parameters(function)[1:] if p.kind is p.POSITIONAL_OR_KEYWORD]
    if not any(_is_filled(parameter) for parameter in further[: len(values)]):
        return values, {}
    free = [parameter.name for parameter in further if not _is_filled(parameter)]
    if len(values) > len(free):
        if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in _parameters(function)):
            raise InvalidArgument(
                f"{_written(function)} got further arguments by position ({len(values)}), which would take the places "
                "of the parameters that the runner fills",
                hint="put the parameters that the runner fills after the star, as in *rest, window=dm.DoFn.WindowParam",
            )
        return values, {}  # too many; the check of the call reports it
    return (), dict(zip(free, values, strict=False))


def filled_by_default(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters that a runner fills because of their default.

    Example:
        >>> from dataflow_model.plan.functions.dofn import DoFn
        >>> [parameter.name for parameter in filled_by_default(lambda x, at=DoFn.TimestampParam, by=1: x)]
        ['at']
    """
    return [parameter for parameter in _parameters(function) if _is_filled(parameter)]


def metadata_of(
    fn: Callable[..., Any],
    *,
    given: Collection[str] = (),
    positional: int = 0,
    specs: Mapping[str, Any] | None = None,
    for_pairs: str | None = None,
) -> dict[str, str]:
    """Return which of `METADATA` a function requests, by the names of its parameters.

    Args:
        fn: the user's function; its first parameter is the element.
        given: the names of the arguments that the user has passed by name.
        positional: the number of further positional arguments that the user has passed.
        specs: the specs of states and timers, by the names of the class attributes.
        for_pairs: what to use for pairs, for the hint about a function of two values.

    Raises:
        InvalidArgument: if a parameter without a default is neither metadata nor given, or a default requests something
            that is not metadata.

    Example:
        >>> metadata_of(lambda x, window, timestamp: x)
        {'window': 'window', 'timestamp': 'timestamp'}
    """
    parameters = _parameters(fn)
    first = [parameter.default for parameter in parameters[:1]]
    if any(isinstance(default, MetadataParam | SpecParam) and default is not ELEMENT for default in first) or any(
        parameter.default is ELEMENT for parameter in parameters[1:]
    ):
        raise InvalidArgument(
            f"{_written(fn)} must take the element as its first parameter", hint="put the element first"
        )
    bound = {parameter.name for parameter in parameters[1 : positional + 1] if parameter.kind is not _BY_NAME}
    bound.update(parameter.name for parameter in parameters[:1])
    bound.update(parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_ONLY)
    requests = {}
    for name, request in requested_by(fn, specs).items():
        if name in bound or name in given or (specs is not None and request in specs):
            continue
        if request not in METADATA:
            text = f"parameter {name!r}" if name == request else f"parameter {name!r} for {request!r}"
            raise InvalidArgument(
                f"{_written(fn)} has an unknown {text}",
                hint=f"pass {name}=… as an argument, or use one of {sorted(METADATA.union(specs or ()))}"
                + (f"; for pairs, {for_pairs}" if for_pairs and _takes_two(parameters) else ""),
            )
        requests[name] = request
    return requests


def _takes_two(parameters: Sequence[inspect.Parameter]) -> bool:
    """Return whether a function takes two values by position, as one written for the parts of pairs does."""
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    needed = [parameter.kind for parameter in parameters if parameter.default is parameter.empty]
    return len(needed) == 2 and positional.issuperset(needed)  # noqa: PLR2004 - a key and a value


def _is_filled(parameter: inspect.Parameter) -> bool:
    return isinstance(parameter.default, MetadataParam | SpecParam) and parameter.default is not SIDE_INPUT


def _declared(function: Callable[..., Any], parameter: inspect.Parameter, specs: Mapping[str, Any]) -> str:
    for name, spec in specs.items():
        if spec is parameter.default.spec:
            return name
    raise InvalidArgument(
        f"{_written(function)} asks with {parameter.name!r} for {parameter.default.spec!r}, which its class does not "
        "declare",
        hint="make the spec an attribute of the DoFn's class, and name that: count = dm.ValueStateSpec(default=0)",
    )


def called_signature(fn: Callable[..., Any]) -> inspect.Signature:
    """Return the signature by which a function is called: its own or, if it passes on all arguments, the wrapped one.

    Raises:
        TypeError: for something that cannot be called.
        ValueError: for a builtin whose signature is not known.

    Example:
        >>> import functools
        >>> @functools.cache
        ... def half(number):
        ...     return number / 2
        >>> called_signature(half)
        <Signature (number)>
    """
    try:
        own = inspect.signature(fn, follow_wrapped=False)
    except ValueError:  # what `functools.cache` returns has none of its own
        return inspect.signature(fn)
    passes_on = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in own.parameters.values())
    return inspect.signature(fn) if passes_on else own


def misfit_of(
    fn: Callable[..., Any], args: Sequence[Any] = (None,), kwargs: Mapping[str, Any] | None = None
) -> tuple[inspect.Signature, TypeError] | None:
    """Return the signature of a function that cannot be called with some arguments, and the reason.

    Args:
        fn: the function.
        args: the arguments by position; one unless they are given.
        kwargs: the arguments by name.

    Returns:
        `None` if the function can be called so, or if it is a builtin whose signature is not known.

    Example:
        >>> misfit_of(len) is None
        True
        >>> misfit_of(lambda first, second: first)
        (<Signature (first, second)>, TypeError("missing a required argument: 'second'"))
    """
    try:
        signature = called_signature(fn)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*args, **(kwargs or {}))
    except TypeError as error:
        return signature, error
    return None


def check_method(owner: object, name: str, arguments: Sequence[str], note: str = "") -> None:
    """Check that a method of a user's object can be called with these arguments, by position.

    Args:
        owner: the object.
        name: the name of the method.
        arguments: the names of the arguments, without `self`.
        note: what the hint adds about them, with the sign that parts it from the rest.

    Raises:
        InvalidArgument: if it cannot.
    """
    misfit = misfit_of(getattr(owner, name), arguments)
    if misfit is not None:
        signature, error = misfit
        raise InvalidArgument(
            f"`{name}{signature}` of {type(owner).__name__} cannot be called with ({', '.join(arguments)}): {error}",
            hint=f"define {name}({', '.join(['self', *arguments])}){note}",
        ) from error


def check_plain(fn: Callable[..., Any], label: str) -> None:
    """Check that a function returns its result and asks for nothing that a runner would have to fill.

    Raises:
        InvalidType: for an `async` function, or for one with a default such as `DoFn.WindowParam`, which would be
            taken for a value.
    """
    refuse_async(fn, label)
    if filled_by_default(fn):
        raise InvalidType(f"{label} calls its function without metadata, got {_written(fn)}", hint=_WITH_METADATA)


def check_takes_element(fn: Callable[..., Any], label: str) -> None:
    """Check a function that is called with an element and nothing else.

    Raises:
        InvalidType: if it cannot be called so, and for what `check_plain` rejects.

    Example:
        >>> check_takes_element(lambda element, window: window, "WithKeys")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidType: WithKeys calls its function with an element only, got <lambda>(element, ...
        Hint: the functions of dm.Map, dm.FlatMap, dm.Filter and dm.ParDo can take metadata; use one of them before it
    """
    check_plain(fn, label)
    misfit = misfit_of(fn)
    if misfit is not None:
        signature, error = misfit
        asks = METADATA.intersection(signature.parameters)
        raise InvalidType(
            f"{label} calls its function with an element only, got {_written(fn)}: {error}",
            hint=_WITH_METADATA if asks else "use a function of one argument, such as lambda element: fn(element, 3)",
        ) from error


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # builtins such as `int` may have no signature
        return []


def _written(fn: Callable[..., Any]) -> str:
    return f"{getattr(fn, '__name__', repr(fn))}{inspect.signature(fn)}"
