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
OWN_TESTS = ("tests/engine/", "tests/runners/")
"""The folders for the tests of inner modules, which import what they test."""
HELPERS = ("tests/support/", "tests/conftest.py")
"""What drives the runners from inside, so that a test need not."""
MOST_HELPERS = 28
MOST_OBSERVERS = 47
"""How many of the other modules import what is inside of the runners: only ever less. What a run shows is tested
through `dm.LocalRunner`, `result` and `dm.testing`, on every host in `tests/conformance`."""
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


def test_fewer_and_fewer_tests_import_the_runners_to_see_what_a_run_does(repository: Path) -> None:
    observers = [file for file in modules_of(repository) if not file.startswith(OWN_TESTS + HELPERS)]
    assert len(observers) <= MOST_OBSERVERS, f"{len(observers)} modules, of which one is new: {', '.join(observers)}"
    assert len(observers) >= MOST_OBSERVERS, f"only {len(observers)} modules are left: lower MOST_OBSERVERS to that"


def test_the_number_of_helpers_that_import_the_runners_does_not_grow(repository: Path) -> None:
    helpers = [file for file in modules_of(repository) if file.startswith(HELPERS)]
    assert len(helpers) == MOST_HELPERS, f"{len(helpers)} helpers: {', '.join(helpers)}"


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
