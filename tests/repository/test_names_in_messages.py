"""Every public name that an error, a hint or a docstring of the package mentions exists."""

from __future__ import annotations

import ast
import pathlib
import re
from typing import TYPE_CHECKING, Any, Final

import dataflow_model as dm
import dataflow_model.io
import dataflow_model.metrics
import dataflow_model.testing

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE: Final = pathlib.Path(dm.__file__).parent
NAME: Final = re.compile(r"\bdm((?:\.[A-Za-z_]\w*)+)")
UNFINISHED: Final = "\0"
"""Stands for what an f-string fills in: a name that runs into it is not known before it is shown."""


def texts(tree: ast.Module) -> Iterator[str]:
    """Yield the text of each string, the parts of an f-string and of adjacent strings put together."""
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else UNFINISHED for part in node.values)  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def names_in(text: str) -> Iterator[str]:
    for match in NAME.finditer(text):
        if not text[match.end() :].startswith((UNFINISHED, "…")):
            yield match[1].removeprefix(".")


def exists(name: str) -> bool:
    value: Any = dm
    for part in name.split("."):
        if value is dm.beam:
            return part in dm.beam.__all__  # what it has needs Beam, which may not be installed
        value = getattr(value, part, UNFINISHED)
        if value is UNFINISHED:
            return False
    return True


def test_each_public_name_in_a_message_or_docstring_exists() -> None:
    missing = [
        f"{path.relative_to(PACKAGE)}: dm.{name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for text in texts(ast.parse(path.read_text()))
        for name in names_in(text)
        if not exists(name)
    ]
    assert missing == []


def test_names_are_found_in_plain_strings_in_f_strings_and_before_calls() -> None:
    source = '''f"use dm.io.Collect() for {x}, or dm.{y}"; "dm.Sum.per_key()"; "wisdm.x"; f"dm.Map{z}"'''
    assert [name for text in texts(ast.parse(source)) for name in names_in(text)] == ["io.Collect", "Sum.per_key"]
