"""What a user's function is called in a label: by its name, or where it has none, by its code."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import linecache
import types
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["CallsUser", "code_name", "shown_arguments"]

_LAMBDA: Final = "<lambda>"
_LONGEST: Final = 60
_DIGEST: Final = 4
"""Bytes of a digest that is shown."""


def shown_arguments(first: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return what an error says about arguments with which a function cannot be called.

    Args:
        first: what the first argument is.
        args: the other positional arguments.
        kwargs: the keyword arguments.

    Example:
        >>> shown_arguments("an element", (), {}), shown_arguments("an element", (2,), {"a": 3})
        ('an element', 'an element, 2, a=3')
    """
    return ", ".join([first, *map(repr, args), *(f"{keyword}={value!r}" for keyword, value in kwargs.items())])


def code_name(code: Any) -> str:
    """Return a short text that tells a user's function from another, the same in every process.

    A function is called by its name, any other object by its class. A lambda is called by its code, whatever the
    line on which it stands, the layout and the comments; what it takes from its surroundings does not count. Code
    that is longer than a label should be is cut short and ends with a digest of the whole. Where the source is not at
    hand, a digest of the compiled code stands for it, which may change with the version of Python.

    Example:
        >>> code_name(len), code_name(lambda   x: x+1), code_name(functools.partial(sorted, reverse=True))
        ('len', 'lambda x: x + 1', 'sorted')
    """
    named = _function_of(code)
    name = getattr(named, "__name__", None)
    if not isinstance(name, str):
        return type(named).__name__
    if name != _LAMBDA or not isinstance(named, types.FunctionType):
        return name
    text = _source(named.__code__)
    if text is None:
        return f"lambda {_digest(_compiled(named.__code__))}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 2 * _DIGEST - 2]}… {_digest(text.encode())}"


class CallsUser:
    """What a callable of this package derives from if it calls one function of the user's, `func`."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        self.__name__ = getattr(func, "__name__", type(func).__name__)


def _function_of(code: Any) -> Any:
    """Return the user's function in what wraps it: a partial call, or a callable of this package that calls it."""
    while isinstance(code, functools.partial | CallsUser):
        code = code.func
    return code


def _source(code: types.CodeType) -> str | None:
    """Return the code of a lambda in Python's own layout, `None` where its source is not to be had."""
    lines = linecache.getlines(code.co_filename)
    tree = _parsed("".join(lines))
    if tree is None:
        return None
    body = {(start, column) for start, _, column, _ in code.co_positions() if start is not None}
    places = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno and _arguments(node) == _names(code)
    ]
    holding = [node for node in places if _starts(node.body) & body]
    if holding:  # of a lambda in a lambda, the one inside
        return ast.unparse(max(holding, key=lambda node: (node.body.lineno, node.body.col_offset)))
    texts = {ast.unparse(node) for node in places}
    return texts.pop() if len(texts) == 1 else None


@functools.lru_cache(maxsize=8)
def _parsed(text: str) -> ast.Module | None:
    if not text:
        return None
    try:
        return ast.parse(text)
    except SyntaxError:  # a notebook's cell with magic, or a file that was changed since
        return None


def _arguments(node: ast.Lambda) -> list[str]:
    signature = node.args
    named = [*signature.posonlyargs, *signature.args, *signature.kwonlyargs]
    return [argument.arg for argument in (*named, *filter(None, (signature.vararg, signature.kwarg)))]


def _names(code: types.CodeType) -> list[str]:
    starred = sum(bool(code.co_flags & flag) for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS))
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + starred])


def _starts(node: ast.AST) -> set[tuple[int, int]]:
    return {(part.lineno, part.col_offset) for part in ast.walk(node) if isinstance(part, ast.expr)}


def _compiled(code: types.CodeType) -> bytes:
    return b"\0".join(_parts(code))


def _parts(code: types.CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield repr((code.co_names, code.co_varnames, code.co_freevars)).encode()
    for constant in code.co_consts:
        yield from _constant(constant)


def _constant(constant: Any) -> Iterator[bytes]:
    match constant:
        case types.CodeType():
            yield from _parts(constant)
        case tuple():
            for part in constant:
                yield from _constant(part)
        case frozenset():  # in an order that does not depend on the process
            yield from sorted(repr(part).encode() for part in constant)
        case _:
            yield repr(constant).encode()


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=_DIGEST).hexdigest()
