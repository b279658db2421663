"""The name of a user's function in a label, or its code if it has no name."""

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

_LAMBDA: Final = "<lambda>"
_LONGEST: Final = 60
_DIGEST: Final = 4
"""The number of bytes of a digest that are shown."""


def shown_arguments(first: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return the arguments of a call as an error shows them.

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
    """Return a short text that distinguishes a user's function from others, the same in every process.

    It is the name of a function, the class of any other object, and the code of a lambda. The code does not depend on
    line numbers, layout, comments and the values of captured variables. Code that is too long for a label is cut and
    ends with a digest of the whole. If the source is not available, a digest of the compiled code is used, which may
    change with the version of Python.

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
    """The base class of callables of this package that call one function of the user, `func`."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        self.__name__ = getattr(func, "__name__", type(func).__name__)


def _function_of(code: Any) -> Any:
    """Return the user's function without its wrappers: partial calls and callables of this package."""
    while isinstance(code, functools.partial | CallsUser):
        code = code.func
    return code


def _source(code: types.CodeType) -> str | None:
    """Return the code of a lambda in the layout of `ast.unparse`; `None` if its source is not available."""
    lines = linecache.getlines(code.co_filename)
    tree = _parsed("".join(lines))
    if tree is None:
        return None
    body = {(start, column) for start, _, column, _ in code.co_positions() if start is not None}
    spans = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno and _arguments(node) == _names(code)
    ]
    holding = [node for node in spans if _starts(node.body) & body]
    if holding:  # the inner one of nested lambdas
        return ast.unparse(max(holding, key=lambda node: (node.body.lineno, node.body.col_offset)))
    texts = {ast.unparse(node) for node in spans}
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
