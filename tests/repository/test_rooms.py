"""The rooms of the package: their size, what they say of themselves, and that imports between them point one way."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import dataflow_model

PACKAGE = Path(dataflow_model.__file__).parent
MOST_MODULES = 20
ROOMS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)


def name_of(path: Path) -> str:
    return ".".join(("dataflow_model", *path.relative_to(PACKAGE).with_suffix("").parts))


def modules_in(room: Path) -> set[str]:
    return {path.stem for path in room.glob("*.py")} - {"__init__"}


def is_module(name: str) -> bool:
    return PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py").is_file()


def rooms_imported_by(code: str) -> set[str]:
    """Return the rooms from which a module imports something, be it for types alone."""
    rooms = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            is_of_module = is_module(node.module)
            rooms.add(node.module.rpartition(".")[0] if is_of_module else node.module)
        elif isinstance(node, ast.Import):
            rooms |= {name.name.rpartition(".")[0] if is_module(name.name) else name.name for name in node.names}
    return {room for room in rooms if room.startswith("dataflow_model.")}


def imports_between_rooms() -> dict[str, set[str]]:
    """Return by room the others that its modules import; façades belong to no room."""
    between: dict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        if path.name != "__init__.py" and path.parent != PACKAGE:
            room = name_of(path.parent)
            between[room] |= rooms_imported_by(path.read_text(encoding="utf-8")) - {room}
    return between


@pytest.mark.parametrize("room", ROOMS, ids=name_of)
def test_no_room_has_more_than_twenty_modules(room: Path) -> None:
    assert len(modules_in(room)) <= MOST_MODULES


@pytest.mark.parametrize("room", ROOMS, ids=name_of)
def test_the_docstring_of_each_room_says_what_it_is_for_and_where_to_begin(room: Path) -> None:
    says = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    parts = modules_in(room) | {path.parent.name for path in room.glob("*/__init__.py")}
    assert says
    assert not parts or parts & set(re.findall(r"`(\w+)`", says))


def test_no_two_rooms_import_each_other_not_even_for_types() -> None:
    TopologicalSorter(imports_between_rooms()).prepare()


def test_the_check_finds_rooms_that_import_each_other() -> None:
    between = imports_between_rooms()
    between["dataflow_model.values"] = rooms_imported_by("from dataflow_model.io.read import ReadCsv")
    with pytest.raises(CycleError):
        TopologicalSorter(between).prepare()
