"""Checks of arguments, and calls that Python rejects with a bare `TypeError`, with the argument that was meant."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

import pendulum

from dataflow_model.errors import InvalidArgument, InvalidType, shown
from dataflow_model.time import Duration, DurationLike, duration, duration_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = [
    "EXTRA",
    "OTHER_CHECKPOINTS",
    "calls_explained",
    "check_zone",
    "error_classes",
    "factory",
    "local_path",
    "nonnegative_duration",
    "positive_duration",
    "positive_int",
    "way_out",
]

FunctionT = TypeVar("FunctionT", bound="Callable[..., Any]")

EXTRA: Final = "*"
"""Stands for an argument by position where none is taken, in the table of hints."""
OTHER_CHECKPOINTS: Final = ("checkpointLocation", "checkpoint_location", "checkpoint_dir", "checkpoint_path")
"""What others call the argument `checkpoint` of a runner."""
_OTHER_NAMES: Final = {
    "decimal": "decimal_point",
    "file_path_prefix": "path",
    "file_name_suffix": "suffix",
    "file_path_suffix": "suffix",
    "file_pattern": "path",
    "names": "columns",
    "na_rep": "null",
    "na_values": "null_values",
    "sep": "delimiter",
    "separator": "delimiter",
    "time_zone": "zone",
    "timezone": "zone",
    "tz": "zone",
}
"""Arguments of Beam, pandas and others, and what they are called here."""
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # pathlib makes `s3:/bucket` of `s3://bucket`
_FILE_URL: Final = re.compile(r"file:(//)?(?=/(?!/))")


def way_out(name: str, arguments: Iterable[str]) -> str:
    """Return the hint for an argument that does not exist: the one that was probably meant, or all of them.

    Example:
        >>> way_out("sep", ["path", "delimiter"]), way_out("x", ["path", "delimiter"])
        ('use `delimiter`', 'its arguments are `path`, `delimiter`')
    """
    names = list(arguments)
    for argument in (_OTHER_NAMES.get(name, ""), *difflib.get_close_matches(name, names, n=1)):
        if argument in names:
            return f"use `{argument}`"
    return f"its arguments are {', '.join(f'`{argument}`' for argument in names)}" if names else "leave it out"


def positive_int(name: str, value: object, hint: str) -> int:
    """Return the argument of this name, a positive int.

    Raises:
        InvalidArgument: for anything else, with the hint.

    Example:
        >>> positive_int("workers", 0, "use workers=os.cpu_count(), for example")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: `workers` must be a positive int, got 0
        Hint: use workers=os.cpu_count(), for example
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidArgument(f"`{name}` must be a positive int, got {value!r}", hint=hint)
    return value


def positive_duration(name: str, value: DurationLike, hint: str) -> Duration:
    """Return an argument as a `Duration`, if it is positive.

    Raises:
        InvalidArgument: if it is not; the hint says what to pass instead.

    Example:
        >>> positive_duration("interval", 0, "pass interval='1 minute', for example")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: `interval` must be positive, got '0 seconds'
        Hint: pass interval='1 minute', for example
    """
    length = duration(value)
    if length <= Duration(0):
        raise InvalidArgument(f"`{name}` must be positive, got {duration_text(length)!r}", hint=hint)
    return length


def nonnegative_duration(name: str, value: DurationLike, hint: str) -> Duration:
    """Return an argument as a `Duration`, if it is not negative; see `positive_duration`."""
    length = duration(value)
    if length < Duration(0):
        raise InvalidArgument(f"`{name}` must not be negative, got {duration_text(length)!r}", hint=hint)
    return length


def error_classes(name: str, value: object) -> tuple[type[Exception], ...]:
    """Return an argument that is a class of exceptions, or a tuple of such, as a tuple.

    Raises:
        InvalidType: for anything else, and for an empty tuple.

    Example:
        >>> error_classes("retry_on", ValueError)
        (<class 'ValueError'>,)
    """
    kinds: tuple[Any, ...] = value if isinstance(value, tuple) else (value,)
    if not kinds or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        raise InvalidType(
            f"`{name}` must be a class of exceptions, or a tuple of such, got {value!r}",
            hint=f"use {name}=(ValueError, KeyError), for example",
        )
    return kinds


def check_zone(name: object) -> None:
    """Raise unless `name` is the name of a time zone."""
    problem = f"`timezone` must be the name of a zone of the IANA database, got {name!r}"
    hint = "use 'America/New_York', for example"
    if not isinstance(name, str):
        raise InvalidType(problem, hint=hint)
    try:
        pendulum.timezone(name)
    except (ValueError, OSError) as error:
        raise InvalidArgument(problem, hint=hint) from error


def local_path(text: str) -> str | None:
    """Return the path that a text names, which may be the URL of a local file; `None` for any other URL.

    Taken for a relative path, a URL would be a different directory for each working directory.

    Raises:
        InvalidArgument: for a text with the character NUL, which no path contains.

    Example:
        >>> local_path("file:///data/my%20flights"), local_path("file:/data"), local_path("runs/a:b")
        ('/data/my flights', '/data', 'runs/a:b')
        >>> local_path("s3://bucket/flights"), local_path("file://host/flights")
        (None, None)
    """
    url = _FILE_URL.match(text)
    path = text if url is None else unquote(text[url.end() :], errors="surrogateescape")
    if "\0" in path:
        raise InvalidArgument(
            f"a path cannot contain the character NUL, got {path!r}",
            hint="strip it from names that come from a binary format: name.rstrip('\\0')",
        )
    return None if url is None and _URL.match(text) else path


def calls_explained(
    hints: Mapping[str, str] | None = None, *, name: str | None = None, otherwise: str | None = None
) -> Callable[[FunctionT], FunctionT]:
    """Return a decorator of a class or a function that raises `InvalidType` for arguments that it does not take.

    Nothing is checked in a call that succeeds.

    Args:
        hints: the hints by the name of an argument that is missing or does not exist, or `EXTRA`. In a hint, `{value}`
            stands for what was given.
        name: what is called, for the message; by default the name of the class or function.
        otherwise: the hint for all other arguments; by default it names the arguments that exist.

    Example:
        >>> @calls_explained({"on": "make pairs with dm.WithKeys({value})"})
        ... def joined(left: object, *, within: float = 0) -> None: ...
        >>> joined([], on="id")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidType: joined has no argument 'on'
        Hint: make pairs with dm.WithKeys('id')
    """
    table = hints or {}

    def decorate(target: Any) -> Any:
        is_class = isinstance(target, type)
        function: Any = vars(target).get("__init__") or target.__init__ if is_class else target
        owner = name or target.__name__

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                explained = _explained(function, owner, args, kwargs, {EXTRA: otherwise, **table}, otherwise)
                if explained is None or error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise  # the call was right, and something in the function has failed
                raise explained from None

        if not is_class:
            return call
        target.__init__ = call  # it is the same to callers
        return target

    return decorate


if TYPE_CHECKING:
    factory = classmethod
else:

    class factory(classmethod):  # noqa: N801 - a decorator, as classmethod is
        """A class method that creates a value from its arguments alone; on an instance, it raises.

        Example:
            >>> import dataflow_model as dm
            >>> dm.Join(within="15 minutes").full()
            Traceback (most recent call last):
            ...
            dataflow_model.errors.InvalidType: full() would ignore <Join 'Join', within='15 minutes'>, on which it ...
            Hint: call it on the class: Join.full(…)
        """

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return super().__get__(None, owner)

            @functools.wraps(self.__func__)
            def rejected(*_args: Any, **_kwargs: Any) -> None:
                name = self.__func__.__name__
                takes = len(inspect.signature(self.__func__).parameters) > 1
                raise InvalidType(
                    f"{name}() would ignore {shown(instance)}, on which it is called",
                    hint=f"call it on the class: {type(instance).__name__}.{name}({'…' * takes})",
                )

            return rejected


def _explained(
    function: Any,
    owner: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    hints: Mapping[str, str | None],
    otherwise: str | None,
) -> InvalidType | None:
    """Return the error for a call with arguments that the function does not take; `None` if it takes them."""
    parameters = [] if function is object.__init__ else [*inspect.signature(function).parameters.values()]
    if function is object.__init__:
        args = args[1:]
    elif parameters and parameters[0].name in {"self", "cls"}:
        parameters, args = parameters[1:], args[1:]
    positional = [parameter for parameter in parameters if parameter.kind in _POSITIONAL]
    named = [parameter.name for parameter in parameters if parameter.kind not in {_ANY_POSITIONAL, _ANY_NAME}]
    unknown = [given for given in kwargs if given not in named]
    missing = [
        parameter.name
        for index, parameter in enumerate(parameters)
        if parameter.name in named and parameter.default is parameter.empty and parameter.name not in kwargs
        if not (parameter.kind in _POSITIONAL and index < len(args))
    ]
    if any(parameter.kind is _ANY_NAME for parameter in parameters):  # they are checked by the function itself
        unknown = [given for given in unknown if difflib.get_close_matches(given, missing, n=1)]
    if unknown:
        own = _filled(hints.get(unknown[0]) or otherwise, kwargs[unknown[0]])
        return InvalidType(f"{owner} has no argument {unknown[0]!r}", hint=own or way_out(unknown[0], named))
    if len(args) > len(positional) and all(parameter.kind is not _ANY_POSITIONAL for parameter in parameters):
        value = args[len(positional)]
        count = f"{len(positional) or 'no'} argument{'s' * (len(positional) > 1)}"
        return InvalidType(
            f"{owner} takes {count} by position, got {shown(value)}",
            hint=_filled(hints.get(EXTRA), value)
            or (
                f"pass {missing[0]}={shown(value)}"
                if missing
                else f"{'pass it by name: ' * bool(named)}{way_out('', named)}"
            ),
        )
    if missing:
        own = hints.get(missing[0]) or otherwise
        return InvalidType(f"{owner} needs the argument `{missing[0]}`", hint=own or f"pass {missing[0]}=…")
    return None


def _filled(hint: str | None, value: object) -> str | None:
    return hint and hint.replace("{value}", shown(value))


_POSITIONAL: Final = frozenset({inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD})
_ANY_POSITIONAL: Final = inspect.Parameter.VAR_POSITIONAL
_ANY_NAME: Final = inspect.Parameter.VAR_KEYWORD
