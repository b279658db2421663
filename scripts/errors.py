"""Write docs/errors.md and the pages in docs/errors, which list every error a user can meet, from where it is raised.

Run it after a change to a message or a hint:

    python -m scripts.errors
"""

from __future__ import annotations

import functools
import inspect
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model import errors
from scripts.texts_of_code import PACKAGE, VALUE, Package

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CLASSES", "DOCS", "PACKAGE", "Site", "pages", "sites", "write"]

REPOSITORY: Final = Path(__file__).resolve().parents[1]
DOCS: Final = REPOSITORY / "docs"
CLASSES: Final[dict[str, type[Exception]]] = {
    name: kind
    for name, kind in ((name, getattr(errors, name)) for name in errors.__all__)
    if isinstance(kind, type) and issubclass(kind, errors.DataflowError) and kind is not errors.DataflowError
}
"""The errors of the SDK by name, in the order of their names."""
_HEAD: Final = """\
# Errors

These pages list every error that this package raises on purpose: what its message says, and the way out that it names.
A `…` stands for a value of yours: what you passed, a label, a file. Search the site for the words around it.

Each class is a subclass of `dm.DataflowError` and of a built-in exception, so that `except ValueError` keeps working.
An exception that your own function raises is reported as `UserCodeError`, with your line, the label of the transform
and the element.

The package logs to one logger of Python's `logging`, `dataflow_model`: see [Watching a run](watching.md#the-log).

<!-- Written by scripts/errors.py from the places that raise the errors. -->
"""
_MOST_ROWS: Final = 20
"""A class with more messages has pages of its own."""
_MOST_ROWS_OF_A_PAGE: Final = 150
"""A class with more messages has a page for each of the largest parts of the package, and one for the rest."""
_LARGE_PARTS: Final = ("io", "plan", "runners", "transforms")


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


def pages() -> dict[str, str]:
    """Return the pages as they should be, by their path in the documentation."""
    by_class: dict[str, list[Site]] = defaultdict(list)
    for site in sorted(sites()):
        if site.message.strip(f" /{VALUE}"):  # not made of values alone
            by_class[site.kind].append(site)
    written, overview = {}, [_HEAD]
    for name, kind in CLASSES.items():
        bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
        about = f"{inspect.getdoc(kind)} (Bases: {bases}.)\n"
        overview.append(f"\n## {name}\n\n{about}")
        own = _pages_of(name, by_class[name], about)
        written.update(own)
        if own:
            titles = {path: text.partition("\n")[0].removeprefix("# ") for path, text in own.items()}
            overview.append("\n" + "\n".join(f"* [{title}]({path})" for path, title in titles.items()) + "\n")
        elif by_class[name]:
            overview.append(f"\n{_table(by_class[name])}")
    links = "\n".join(path.removesuffix(".md") for path in written)
    return {"errors.md": "".join([*overview, f"\n```{{toctree}}\n:hidden:\n\n{links}\n```\n"]), **written}


def _pages_of(name: str, found: list[Site], about: str) -> dict[str, str]:
    """Return the pages of a class by path, none if it has few messages."""
    file = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    rows = len(_rows(found))
    if rows <= _MOST_ROWS:
        return {}
    if rows <= _MOST_ROWS_OF_A_PAGE:
        return {f"errors/{file}.md": f"# {name}\n\n{about}\n{_table(found)}"}
    parts: dict[str, list[Site]] = {part: [] for part in (*_LARGE_PARTS, "others")}
    for site in found:
        parts[site.room if site.room in _LARGE_PARTS else "others"].append(site)
    return {
        f"errors/{file}_{part}.md": f"# {name}: {'other parts' if part == 'others' else part}\n\n{about}\n{_table(of)}"
        for part, of in parts.items()
    }


def _table(found: list[Site]) -> str:
    lines = [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in _rows(found)]
    return "\n".join(["| message | way out | in |", "|---|---|---|", *lines]) + "\n"


def _rows(found: list[Site]) -> list[tuple[str, str, str]]:
    return list(dict.fromkeys((_cell(site.message), _cell(site.hint), f"`{site.room}`") for site in found))


def write(docs: Path = DOCS) -> None:
    """Write the pages, and remove those of earlier versions that are not among them."""
    texts = pages()
    for path in docs.glob("errors/*.md"):
        if path.relative_to(docs).as_posix() not in texts:
            path.unlink()
    (docs / "errors").mkdir(exist_ok=True)
    for name, text in texts.items():
        (docs / name).write_text(text, encoding="utf-8")


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
    write()
