"""The Python that Spark's workers run, without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from dataflow_model.runners.spark.deployment import daemon, worker_python
from dataflow_model.runners.spark.deployment.worker_python import quick_python, quick_workers

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

HOME = "/opt/spark"
ARCHIVES = [
    f"{HOME}/python/lib/pyspark.zip",
    f"{HOME}/python/lib/py4j-0.10.9.9-src.zip",
    f"{HOME}/jars/spark-core_2.13-4.3.0.jar",
]


def path_seen_by(python: str, *folders: str) -> list[str]:
    """Return the path of a Python that is started as Spark starts workers."""
    run = subprocess.run(
        [python, "-c", "import os, sys; print(os.environ['PYTHONPATH']); print(sys.executable)"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        check=True,
    )
    path, executable = run.stdout.split("\n")[:2]
    assert executable == sys.executable
    return path.split(os.pathsep) if path else []


def test_workers_import_pyspark_from_where_it_is_installed_and_everything_else_from_the_same_places() -> None:
    python = quick_python(sys.executable)
    assert python != sys.executable
    assert path_seen_by(python, *ARCHIVES, "/my jobs", "/a*b", "/jobs/pyspark.zip") == [
        "/my jobs",
        "/a*b",
        "/jobs/pyspark.zip",
    ]
    assert path_seen_by(python, *ARCHIVES) == []


def test_a_python_in_a_folder_with_spaces_and_quotes_is_started(tmp_path: Path) -> None:
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    link = folder / "python"
    link.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    link.chmod(0o700)
    launcher = worker_python._launcher(str(link))
    assert launcher is not None
    assert launcher != quick_python(sys.executable)
    assert path_seen_by(launcher, *ARCHIVES, "/jobs") == ["/jobs"]


def test_another_python_than_the_drivers_is_started_as_it_is(tmp_path: Path) -> None:
    other = tmp_path / "python3"
    other.symlink_to(sys.executable)
    assert quick_python(str(other)) == str(other)
    assert quick_python("no-such-python") == "no-such-python"


def test_pyspark_that_is_not_installed_is_imported_from_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "py4j").mkdir()
    (tmp_path / "py4j" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "py4j", raising=False)
    assert quick_python(sys.executable) == sys.executable


@pytest.mark.parametrize(("master", "is_quick"), [("local[2]", True), ("local-cluster[2,1,1024]", False)])
def test_only_functions_of_a_run_in_a_local_session_start_workers_that_way(master: str, *, is_quick: bool) -> None:
    context = SimpleNamespace(master=master, pythonExec=sys.executable)
    spark: Any = SimpleNamespace(sparkContext=context)
    with quick_workers(spark):
        assert (context.pythonExec != sys.executable) == is_quick
    assert context.pythonExec == sys.executable


def test_functions_of_another_sdk_start_workers_that_import_it_also_in_a_session_that_has_a_quick_start() -> None:
    context = SimpleNamespace(master="local[2]", pythonExec=quick_python(sys.executable))
    own = context.pythonExec
    spark: Any = SimpleNamespace(sparkContext=context)
    with quick_workers(spark, ("json",)):
        assert context.pythonExec == quick_python(sys.executable, ("json",)) != own
    assert context.pythonExec == own


def test_the_python_of_a_session_is_restored_behind_the_last_of_several_runs() -> None:
    context = SimpleNamespace(master="local[2]", pythonExec=sys.executable)
    spark: Any = SimpleNamespace(sparkContext=context)
    first, second = quick_workers(spark), quick_workers(spark, ("json",))
    for each in (first, second):
        each.__enter__()
    first.__exit__(None, None, None)
    assert context.pythonExec == quick_python(sys.executable, ("json",))
    second.__exit__(None, None, None)
    assert context.pythonExec == sys.executable


def test_the_workers_of_a_spark_connect_session_are_not_changed() -> None:
    spark: Any = object()
    with quick_workers(spark):
        pass


@pytest.mark.spark
def test_workers_are_forked_with_what_a_task_needs(spark: SparkSession) -> None:
    def imported(_: int) -> list[str]:
        needed = (
            "pandas",
            "dataflow_model.runners.spark.stages",
            "dataflow_model.runners.spark.deployment.session",
            "stages",
        )
        return [name for name in needed if name in sys.modules]

    with quick_workers(spark):
        [names] = spark.sparkContext.parallelize([0], 1).map(imported).collect()
    assert names == ["pandas", "dataflow_model.runners.spark.stages", "dataflow_model.runners.spark.deployment.session"]


def test_a_daemon_imports_what_its_command_names_and_starts_where_one_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[str] = []
    monkeypatch.setattr("pyspark.daemon.manager", lambda: started.append("manager"))
    monkeypatch.setattr(daemon, "_NEEDED", ("no_such_module", "json"))
    monkeypatch.setattr("sys.argv", ["daemon.py", "pyspark.worker", "another_missing_module", "wave"])
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    monkeypatch.setattr("gc.freeze", lambda: started.append("frozen"))
    daemon.main()
    assert started == ["frozen", "manager"]
    assert "wave" in sys.modules


@pytest.mark.parametrize(
    ("arguments", "is_ours"),
    [
        (["-m", "pyspark.daemon", "pyspark.worker"], True),
        (["-m", "pyspark.daemon", "pyspark.sql.worker.plan_data_source_read"], False),
        (["-c", "pass"], False),
    ],
)
def test_only_workers_of_tasks_are_forked_from_our_program(arguments: list[str], is_ours: bool, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nfor argument in "$@"; do echo "$argument"; done\n')
    python.chmod(0o700)
    launcher = worker_python._launcher(str(python))
    assert launcher is not None
    run = subprocess.run([launcher, *arguments], env={"PYTHONPATH": ""}, capture_output=True, text=True, check=True)
    expected = [daemon.__file__, "pyspark.worker"] if is_ours else arguments
    assert run.stdout.split("\n")[:-1] == expected


ONE_STREAM = """
import os
import pathlib
import sys
import dataflow_model as dm
from dataflow_model.runners.spark import local_session

spark = local_session()
runner = dm.SparkRunner(spark, mode="streaming", checkpoint=sys.argv[1])
with dm.Pipeline(runner=runner) as p:
    _ = p | dm.Create([("a", 1)]) | dm.Sum.per_key() | dm.io.Collect()

names = {int(p.name): (p / "cmdline").read_text() for p in pathlib.Path("/proc").glob("[0-9]*")}
parents = {pid: int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in names}


def is_ours(pid: int) -> bool:
    return pid == os.getpid() or (pid in parents and is_ours(parents[pid]))


workers = {pid for pid, name in names.items() if name.endswith("pyspark.worker\\0") and is_ours(pid)}
print(sum(parents[pid] not in workers for pid in workers), "programs")
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_sources_stages_and_sinks_of_a_stream_share_their_workers(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ONE_STREAM, str(tmp_path / "checkpoint")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout.strip().endswith("1 programs"), run.stderr


@pytest.mark.parametrize("module", ["transform_with_state_driver_worker", "another_worker"])
def test_messages_that_a_driver_side_worker_prints_about_itself_are_not_shown(module: str, tmp_path: Path) -> None:
    package = tmp_path / "pyspark" / "sql" / "streaming"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    (package / f"{module}.py").write_text(
        "import sys; print('Received UDF from JVM'); print('failed', file=sys.stderr)"
    )
    run = subprocess.run(
        [quick_python(sys.executable), "-m", f"pyspark.sql.streaming.{module}"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == ("Received UDF from JVM\n" if module == "another_worker" else "")
    assert run.stderr == "failed\n"
