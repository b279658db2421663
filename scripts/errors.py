"""Write docs/errors.md, the page that lists every error a user can meet, from the places that raise them.

Run it after a change to a message or a hint:

    python scripts/errors.py
"""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CLASSES", "PACKAGE", "PAGE", "Site", "page", "sites"]

REPOSITORY: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = REPOSITORY / "dataflow_model"
PAGE: Final = REPOSITORY / "docs" / "errors.md"
CLASSES: Final[dict[str, type[Exception]]] = {
    name: kind
    for name, kind in ((name, getattr(errors, name)) for name in errors.__all__)
    if isinstance(kind, type) and issubclass(kind, errors.DataflowError) and kind is not errors.DataflowError
}
"""The errors of the SDK by name, in the order of their names."""
_VALUE: Final = "…"
_HEAD: Final = """\
# Errors

This page lists every error that this package raises on purpose: what its message says, and the way out that it names.
A `…` stands for a value of yours: what you passed, a label, a file. Search the page for the words around it.

Each class is a subclass of `dm.DataflowError` and of a built-in exception, so that `except ValueError` keeps working.
An exception that your own function raises is reported as `UserCodeError`, with your line, the label of the transform
and the element.

The package logs to one logger of Python's `logging`, `dataflow_model`: see [Watching a run](watching.md#the-log).

<!-- Written by scripts/errors.py from the places that raise the errors. -->
"""


@attrs.frozen(order=True)
class Site:
    """A place that makes an error.

    Attributes:
        kind: the name of the class.
        message, hint: as texts in which `…` stands for a value; the hint is empty where none is named.
        room: the part of the package.
        path, line: where it is.
        shows_value: whether the message has a value in it.
    """

    kind: str
    room: str
    message: str
    hint: str
    path: Path = attrs.field(order=False)
    line: int = attrs.field(order=False)
    shows_value: bool = attrs.field(order=False)


def sites() -> Iterator[Site]:
    """Yield each place in the package that makes one of its errors."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for scope in _scopes(tree):
            texts = _assigned(scope)
            for call in _calls(scope):
                kind = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                if kind not in CLASSES or not call.args:
                    continue
                hint = next((keyword.value for keyword in call.keywords if keyword.arg == "hint"), None)
                message = " / ".join(_texts(call.args[0], texts))
                yield Site(
                    kind=kind,
                    room=path.relative_to(PACKAGE).parts[0].removesuffix(".py"),
                    message=message,
                    hint="" if hint is None else " / ".join(_texts(hint, texts)) or _VALUE,
                    path=path,
                    line=call.lineno,
                    shows_value=_VALUE in message,
                )


def page() -> str:
    """Return the page as it should be."""
    by_class: dict[str, list[Site]] = defaultdict(list)
    for site in sorted(sites()):
        by_class[site.kind].append(site)
    parts = [_HEAD]
    for name, kind in CLASSES.items():
        bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
        parts.append(f"\n## {name}\n\n{inspect.getdoc(kind)} (Bases: {bases}.)\n")
        known = [site for site in by_class[name] if site.message.strip(f" /{_VALUE}")]  # not made of values alone
        rows = dict.fromkeys((_cell(site.message), _cell(site.hint), f"`{site.room}`") for site in known)
        if rows:
            lines = [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows]
            parts.append("\n" + "\n".join(["| message | way out | in |", "|---|---|---|", *lines]) + "\n")
    return "".join(parts)


def _scopes(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the functions, and the module for what stands outside of them."""
    yield tree
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _calls(scope: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls in a scope, without those in functions inside it."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.FunctionDef):
            continue
        if isinstance(node, ast.Call):
            yield node
        yield from _calls(node)


def _assigned(scope: ast.AST) -> dict[str, list[ast.expr]]:
    """Return what the names of a scope are given."""
    found: dict[str, list[ast.expr]] = defaultdict(list)
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    found[target.id].append(node.value)
    return found


def _texts(node: ast.expr, assigned: dict[str, list[ast.expr]]) -> list[str]:
    """Return the texts that an expression may be, with `…` for what is not known before."""
    match node:
        case ast.Constant(value=str() as text):
            return [" ".join(text.split()) if text.strip() else text]
        case ast.JoinedStr():
            return ["".join(str(part.value) if isinstance(part, ast.Constant) else _VALUE for part in node.values)]
        case ast.BinOp(op=ast.Add()):
            return [left + right for left in _texts(node.left, assigned) for right in _texts(node.right, assigned)]
        case ast.IfExp():
            return [text for side in (node.body, node.orelse) for text in _texts(side, assigned)]
        case ast.Constant(value=None):
            return []
        case ast.Name() if node.id in assigned:
            values, rest = assigned[node.id], {name: v for name, v in assigned.items() if name != node.id}
            return list(dict.fromkeys(text for value in values for text in _texts(value, rest)))
        case _:
            return [_VALUE]


def _cell(text: str) -> str:
    """Return a text as it stands in a table: as code, with as many backquotes around it as it takes."""
    if not text:
        return ""
    flat = " ".join(text.split()).replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in _runs(flat)), default=0))
    space = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{space}{flat}{space}{fence}"


def _runs(text: str) -> list[str]:
    return [run for run in "".join(sign if sign == "`" else " " for sign in text).split() if run]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
