"""Write docs/errors.md, the page that lists every error a user can meet, from the places that raise them.

Run it after a change to a message or a hint:

    python -m scripts.errors
"""

from __future__ import annotations

import functools
import inspect
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model import errors
from scripts.texts_of_code import PACKAGE, VALUE, Package

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CLASSES", "PACKAGE", "PAGE", "Site", "page", "sites"]

REPOSITORY: Final = Path(__file__).resolve().parents[1]
PAGE: Final = REPOSITORY / "docs" / "errors.md"
CLASSES: Final[dict[str, type[Exception]]] = {
    name: kind
    for name, kind in ((name, getattr(errors, name)) for name in errors.__all__)
    if isinstance(kind, type) and issubclass(kind, errors.DataflowError) and kind is not errors.DataflowError
}
"""The errors of the SDK by name, in the order of their names."""
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


@functools.cache
def sites() -> tuple[Site, ...]:
    """Return each place in the package that makes one of its errors.

    A function that makes an error from a message or a hint that it is given has one place for each of its calls.
    """
    return tuple(_sites())


def _sites() -> Iterator[Site]:
    package = Package.read()
    made = [(kind, *site) for kind in CLASSES for site in package.calls.get(kind, ()) if site[1].args]
    for kind, place, call in made:
        hint = next((keyword.value for keyword in call.keywords if keyword.arg == "hint"), None)
        texts = call.args[:1] if hint is None else [call.args[0], hint]
        for bound, origin, line in package.bindings(place, texts, call.lineno):
            message = " / ".join(package.texts(call.args[0], bound))
            yield Site(
                kind=kind,
                room=place.path.relative_to(PACKAGE).parts[0].removesuffix(".py"),
                message=message,
                hint="" if hint is None else " / ".join(package.texts(hint, bound)) or VALUE,
                path=origin,
                line=line,
                shows_value=VALUE in message,
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
        known = [site for site in by_class[name] if site.message.strip(f" /{VALUE}")]  # not made of values alone
        rows = dict.fromkeys((_cell(site.message), _cell(site.hint), f"`{site.room}`") for site in known)
        if rows:
            lines = [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows]
            parts.append("\n" + "\n".join(["| message | way out | in |", "|---|---|---|", *lines]) + "\n")
    return "".join(parts)


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
