"""Few test modules reach into the runners: the others hold however a runner is built inside."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

INNER = "dataflow_model.runners"
PUBLIC = {("dataflow_model.runners.spark", "local_session")}
"""What the documents tell users to import from there."""
MOST = 146
"""How many modules import what is inside of the runners: only ever less. What a run shows is tested through
`dm.LocalRunner`, `result` and `dm.testing`, on every host in `tests/conformance`; a unit test of an inner module
counts."""
MOST_OF_BOUNDED = 8
"""How many of them know how a bounded run in process works inside."""
BOUNDED = ("dataflow_model.runners.engine.bounded", "dataflow_model.runners.local.bounded.result")


def inner_imports(source: str) -> set[str]:
    """Return the modules of the runners from which a module imports more than what is public."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                imported.update(alias.name for alias in names if is_inner(alias.name))
            case ast.ImportFrom(module=str(module), names=names) if is_inner(module):
                imported.update(module for alias in names if (module, alias.name) not in PUBLIC)
            case ast.ImportFrom(module="dataflow_model", names=names):
                imported.update(INNER for alias in names if alias.name == "runners")
    return imported


def is_inner(module: str) -> bool:
    return module == INNER or module.startswith(f"{INNER}.")


@functools.cache
def modules_of(repository: Path) -> dict[str, set[str]]:
    """Return what each test module and helper imports of the runners, without those that import nothing."""
    found = {
        str(file.relative_to(repository)): inner_imports(file.read_text(encoding="utf-8"))
        for file in sorted((repository / "tests").rglob("*.py"))
    }
    return {file: imported for file, imported in found.items() if imported}


def test_the_number_of_test_modules_that_import_from_runners_does_not_grow(repository: Path) -> None:
    modules = modules_of(repository)
    assert len(modules) <= MOST, f"{len(modules)} modules, of which one is new: {', '.join(modules)}"
    assert len(modules) >= MOST, f"only {len(modules)} modules reach into the runners now: lower MOST to that"


def test_the_number_of_test_modules_that_import_the_bounded_engine_does_not_grow(repository: Path) -> None:
    modules = [
        file for file, imported in modules_of(repository).items() if any(name.startswith(BOUNDED) for name in imported)
    ]
    assert len(modules) == MOST_OF_BOUNDED, modules


def test_the_conformance_suite_imports_no_runner(repository: Path) -> None:
    assert not [file for file in modules_of(repository) if file.startswith("tests/conformance/")]


@pytest.mark.parametrize(
    ("source", "imported"),
    [
        ("import dataflow_model as dm", set()),
        ("from dataflow_model.runners.spark import local_session", set()),
        ("from dataflow_model.runners.spark import job, local_session", {"dataflow_model.runners.spark"}),
        ("from dataflow_model.runners import inspecting", {"dataflow_model.runners"}),
        ("from dataflow_model import runners", {"dataflow_model.runners"}),
        ("if True:\n    import dataflow_model.runners.local.lock", {"dataflow_model.runners.local.lock"}),
    ],
)
def test_an_import_from_inside_of_runners_is_found(source: str, imported: set[str]) -> None:
    assert inner_imports(source) == imported
