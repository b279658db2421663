"""Loops over columns do not search the list of all names once for each column, which takes quadratic time."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dataflow_model
from dataflow_model.io.sinks.cast_columns import cast_columns

_PACKAGE = Path(dataflow_model.__file__).parent
_LISTS = {"names", "column_names"}
_Loop = ast.For | ast.While | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

FEW = {
    "io/dataframes.py": "the options that name a column",
    "io/tables/table_columns.py": "the keys of a table",
    "io/csv/text_sources.py": "the time columns, of which there are two at most",
    "io/write.py": "the columns that a sink adds, of which there are five at most",
    "runners/engine/lifted/partials.py": "the columns of an accumulator, of which there are two at most",
}
"""The modules that loop over few names, and what these are."""


def _repeated(loop: _Loop) -> list[ast.AST]:
    """Return the parts of a loop that run once for each of its rounds."""
    if isinstance(loop, ast.For):
        return list(loop.body)
    if isinstance(loop, ast.While):
        return [loop.test, *loop.body]
    first, *others = loop.generators
    results = [loop.key, loop.value] if isinstance(loop, ast.DictComp) else [loop.elt]
    return [*results, *first.ifs, *others]


def _searches(source: str) -> list[int]:
    """Return the lines that search a list of columns' names in a loop."""
    lines = set()
    for loop in ast.walk(ast.parse(source)):
        if not isinstance(loop, _Loop):
            continue
        for node in (node for part in _repeated(loop) for node in ast.walk(part)):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
                searched = node.comparators[0]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "count":
                searched = node.func.value
                if isinstance(searched, ast.Name) and searched.id in _LISTS:
                    lines.add(node.lineno)
            else:
                continue
            if isinstance(searched, ast.Attribute) and searched.attr in _LISTS:
                lines.add(node.lineno)
    return sorted(lines)


@pytest.mark.parametrize(
    "source",
    [
        "for field in schema:\n    if field.name in table.column_names: pass",
        "[field for field in schema if field.name not in other.names]",
        "{name: 1 for name in names if names.count(name) > 1}",
        "for name in names:\n    names.count(name)",
    ],
)
def test_a_search_in_a_loop_is_found(source: str) -> None:
    assert _searches(source)


@pytest.mark.parametrize(
    "source",
    [
        "present = set(table.column_names)\nfor field in schema:\n    if field.name in present: pass",
        "if name in schema.names: pass",
        "[name for name in schema.names if name in present]",
    ],
)
def test_other_look_ups_are_not_found(source: str) -> None:
    assert not _searches(source)


def test_no_loop_searches_the_names_of_all_columns() -> None:
    lines = {
        path.relative_to(_PACKAGE).as_posix(): _searches(path.read_text()) for path in sorted(_PACKAGE.rglob("*.py"))
    }
    assert {path: found for path, found in lines.items() if found and path not in FEW} == {}


class _Table:
    """A table that counts how often the list of its names is made."""

    def __init__(self, table: pa.Table) -> None:
        self.table, self.lists = table, 0

    @property
    def column_names(self) -> Any:
        self.lists += 1
        return self.table.column_names

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        return self.table[name]

    @property
    def num_rows(self) -> Any:
        return self.table.num_rows


@pytest.mark.parametrize("columns", [10, 20])
def test_a_sink_lists_the_names_of_a_table_once_for_any_number_of_columns(columns: int) -> None:
    counted: Any = _Table(pa.table({f"c{number}": [number] for number in range(columns)}))
    schema = pa.schema([*counted.table.schema, pa.field("lacking", pa.int64())])
    table = cast_columns(counted, schema)
    assert table is not None
    assert table.schema == schema
    assert counted.lists == 1
