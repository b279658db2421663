"""The built package in an environment of its own, and the package without PySpark."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from packaging.requirements import Requirement

import dataflow_model as dm
from dataflow_model.cli import main
from dataflow_model.errors import UnsupportedOnRunner
from dataflow_model.runners.sharded.checkpoint.parts import common_part
from dataflow_model.runners.spark import local_session
from dataflow_model.runners.spark.deployment import installation
from tests.support.environments import build, environment_of, run_alone, run_in

if TYPE_CHECKING:
    from pathlib import Path

SUMS = """\
import dataflow_model as dm
from dataflow_model.runners.engine.core.build import build_of_core

for _ in range(2):
    with dm.Pipeline() as p:
        p | dm.Create([("a", 1), ("b", 2), ("a", 3)]) | dm.Sum.per_key() | "sums" >> dm.io.Collect()
    print(build_of_core().name, sorted(record.value for record in p.result.collected("sums")))
"""


@pytest.fixture
def no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: dict[str, Any] = sys.modules
    for name in [name for name in modules if name.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(modules, name)
    monkeypatch.setitem(modules, "pyspark", None)


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(repository, tmp_path_factory.mktemp("built"))[1]


# Without PySpark ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_pyspark")
@pytest.mark.parametrize("make", [lambda: dm.SparkRunner(None), local_session])
def test_functions_that_need_pyspark_raise_an_error_with_the_command_that_installs_it(make: Any) -> None:
    with pytest.raises(ModuleNotFoundError) as raised:
        make()
    assert str(raised.value) == (
        "SparkRunner needs PySpark, which is not installed\nHint: run pip install 'dataflow-model[spark]'"
    )
    assert raised.value.name == "pyspark"


@pytest.mark.parametrize(
    ("mode", "too_old", "kind", "oldest"),
    [
        ("batch", "3.5.9", "batch", "4.0"),
        ("streaming", "4.1.4", "streaming", "4.2"),
        ("microbatch", "4.1.4", "streaming", "4.2"),
    ],
)
def test_a_pyspark_that_is_too_old_is_rejected_with_its_version(
    monkeypatch: pytest.MonkeyPatch, mode: Any, too_old: str, kind: str, oldest: str
) -> None:
    monkeypatch.setattr(pytest.importorskip("pyspark"), "__version__", too_old)
    options: dict[str, Any] = {} if mode == "batch" else {"checkpoint": "checkpoint"}
    options |= {"interval": "1 minute"} if mode == "microbatch" else {}
    expected = f"a {kind} run on Spark needs PySpark {oldest} or newer, got {too_old}\nHint: run pip install"
    with pytest.raises(UnsupportedOnRunner, match=re.escape(expected)):
        dm.SparkRunner(None, mode=mode, **options)


def test_a_stream_on_spark_without_protobuf_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_protobuf_is_there", lambda: False)
    dm.SparkRunner(None)  # a batch job does not need it
    with pytest.raises(ModuleNotFoundError, match=r"streaming run on Spark needs protobuf, .*\nHint: run pip install"):
        dm.SparkRunner(None, mode="streaming", checkpoint="checkpoint")


def test_the_extra_brings_all_that_pyspark_needs_for_a_stream(repository: Path) -> None:
    """PySpark does not require protobuf, and imports it for the state of a stream."""
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {Requirement(line).name for line in project["optional-dependencies"]["spark"]}
    assert names == {"protobuf", "pyspark"}


@pytest.mark.parametrize("version", ["4.0.0", "4.3.0", "4.10.0.dev1", "5.0.0"])
def test_a_newer_pyspark_is_accepted(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(pytest.importorskip("pyspark"), "__version__", version)
    dm.SparkRunner(None)


@pytest.mark.usefixtures("no_pyspark")
def test_the_demo_without_pyspark_runs_in_process_and_says_what_it_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--rows", "2000", "--out", str(tmp_path / "demo.png")]) == 0
    printed = capsys.readouterr().out
    assert "Skipped Spark batch and streaming: PySpark is not installed." in printed
    assert "Hint: run pip install 'dataflow-model[spark]', and run this again" in printed
    assert "All results agree." in printed


@pytest.mark.usefixtures("no_pyspark")
@pytest.mark.parametrize("arguments", [["demo", "--runner", "batch"], ["upgrade", "old", "new"]])
def test_a_command_that_needs_pyspark_ends_with_the_way_out(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    common_part(tmp_path / "old").mkdir(parents=True)  # a checkpoint, not of a run in process
    assert main(arguments) == 1
    printed = capsys.readouterr().err
    assert "PySpark is not installed" in printed
    assert "Hint: run pip install 'dataflow-model[spark]'" in printed


def test_java_is_asked_for_only_where_there_is_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_java_is_there", lambda: False)
    monkeypatch.setattr(installation, "_pyspark_is_there", lambda: True)
    missing = installation.missing_for_spark()
    assert missing is not None
    assert "Java 17" in missing.problem
    monkeypatch.setattr(installation, "_java_is_there", lambda: True)
    assert installation.missing_for_spark() is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "tests",
    [
        ["tests/runners/test_local.py", "tests/runners/test_local_stream.py", "tests/demo/test_cli.py"],
        ["tests/metrics/test_report.py", "tests/metrics/test_prometheus.py", "tests/upgrade/test_in_process.py"],
        ["tests/repository/test_documents.py"],
    ],
    ids=["runners", "watching", "documents"],
)
def test_all_but_spark_works_without_pyspark(repository: Path, tests: list[str]) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.no_pyspark", "-p", "no:cacheprovider", "-q"]
    done = subprocess.run(
        [*command, "-m", "not slow and not spark", *tests],
        cwd=repository, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


# The wheel ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_wheel_runs_the_demo_without_a_checkout_spark_or_matplotlib(wheel: Path, tmp_path: Path) -> None:
    binaries = environment_of(wheel, tmp_path / "venv")
    done = run_in(binaries, "dataflow-model", "demo", "--rows", "4000", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Skipped Spark batch and streaming: PySpark is not installed." in done.stdout
    assert "No picture: matplotlib is not installed." in done.stdout
    assert "All results agree." in done.stdout


@pytest.mark.slow
def test_the_wheel_runs_compiled_where_there_is_neither_a_compiler_nor_the_repository(
    wheel: Path, tmp_path: Path
) -> None:
    binaries = environment_of(wheel, tmp_path / "venv")
    (tmp_path / "sums.py").write_text(SUMS)
    done = run_alone(binaries, "sums.py", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "COMPILED [('a', 4), ('b', 2)]\n" * 2, "")


@pytest.mark.slow
def test_an_installation_without_a_compiler_succeeds_and_the_first_pipeline_warns(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "false")
    binaries = environment_of(build(repository, tmp_path / "built")[1], tmp_path / "venv")
    (tmp_path / "sums.py").write_text(SUMS)
    done = run_alone(binaries, "sums.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "PYTHON [('a', 4), ('b', 2)]\n" * 2)
    assert done.stderr.count("RuntimeWarning: the core of dataflow_model is not compiled here") == 1
    assert "Hint: use a wheel, which needs no compiler; or get a C compiler" in done.stderr


@pytest.mark.slow
def test_the_wheel_draws_pictures_with_the_extra_and_holds_the_examples(wheel: Path, tmp_path: Path) -> None:
    binaries = environment_of(wheel, tmp_path / "venv", ["demo"])
    done = run_in(binaries, "dataflow-model", "demo", "--rows", "4000", "--runner", "local", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "demo.png").is_file()
    done = run_in(binaries, "python", "-m", "dataflow_model.examples.zeitgeist", "--days", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "recall 1.00" in done.stdout


@pytest.mark.slow
@pytest.mark.spark
def test_the_wheel_runs_the_demo_on_spark_with_the_extra(
    wheel: Path, tmp_path: Path, java_home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home)
    binaries = environment_of(wheel, tmp_path / "venv", ["spark"])
    done = run_in(binaries, "dataflow-model", "demo", "--rows", "4000", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Spark streaming" in done.stdout
    assert "All results agree." in done.stdout
