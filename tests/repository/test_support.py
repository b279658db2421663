"""Where helpers of tests live; which process a Spark test runs in; what is skipped on an older PySpark."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def imported_by(module: Path) -> Iterator[str]:
    """Yield the dotted names that a module imports, at whatever level; `from a import b` may import `a.b`."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(source, names) if source is not None:
                yield from (f"{source}.{alias.name}" for alias in names)


def test_a_module_outside_support_contains_tests_or_fixtures(repository: Path) -> None:
    tests = repository / "tests"
    modules = [path.relative_to(tests) for path in tests.rglob("*.py") if path.name != "conftest.py"]
    misplaced = [path for path in modules if path.name.startswith("test_") == (path.parts[0] == "support")]
    assert misplaced == []


def test_no_module_imports_a_test_module_or_fixtures(repository: Path) -> None:
    tests = repository / "tests"
    modules = [path for folder in ("tests", "benchmarks", "examples") for path in (repository / folder).rglob("*.py")]
    names = {".".join(path.relative_to(repository).with_suffix("").parts): path for path in tests.rglob("*.py")}
    of_tests = {name for name, path in names.items() if path.name == "conftest.py" or path.name.startswith("test_")}
    importing = [
        (path.relative_to(repository).as_posix(), name)
        for path in modules
        for name in imported_by(path)
        if name in of_tests or name.rpartition(".")[0] in of_tests
    ]
    assert importing == []


@pytest.mark.spark
def test_a_test_with_the_spark_mark_runs_in_the_process_of_the_session(request: pytest.FixtureRequest) -> None:
    group = request.node.get_closest_marker("xdist_group")  # this test has the mark and does not take the fixture
    assert group is not None
    assert group.args == ("spark",)


STREAMS = """
import pyspark, pytest
import dataflow_model as dm
from dataflow_model.errors import UnsupportedOnRunner

pyspark.__version__ = "4.1.4"

@pytest.fixture
def runner():
    return dm.SparkRunner(None, mode="streaming", checkpoint="checkpoint")

def test_streams():
    dm.SparkRunner(None, mode="streaming", checkpoint="checkpoint")

def test_streams_by_a_fixture(runner):
    pass

def test_is_rejected_for_another_reason():
    raise UnsupportedOnRunner("a batch run on Spark needs PySpark 4.2 or newer, got 4.1.4")

def test_runs_as_a_batch():
    dm.SparkRunner(None)
"""


def test_only_tests_that_need_a_stream_are_skipped_if_pyspark_cannot_stream(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "test_streams.py").write_text(STREAMS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.support.older_spark", "-p", "no:cacheprovider", "-rA", "-q"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(repository)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 failed, 1 passed, 2 skipped" in done.stdout, done.stdout
    assert "a streaming run on Spark needs PySpark 4.2 or newer, got 4.1.4" in done.stdout
    assert "FAILED test_streams.py::test_is_rejected_for_another_reason" in done.stdout
