"""The archive of Spark's classes, with which local sessions start faster."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dataflow_model.cli import main
from dataflow_model.errors import InvalidArgument, UnsupportedOnRunner
from dataflow_model.runners.spark.deployment import class_archive
from dataflow_model.runners.spark.deployment.class_archive import archive_options, archive_path, create_archive

if TYPE_CHECKING:
    from pathlib import Path

WRITES_AN_ARCHIVE = [
    sys.executable,
    "-c",
    """
import os, pathlib, re
path = re.search('AtExit="(.+?)"', os.environ["PYSPARK_SUBMIT_ARGS"])[1]
pathlib.Path(path).write_text("classes")
""",
]
USES_A_SESSION = """
from dataflow_model.runners.spark import local_session
spark = local_session()
spark.range(3).collect()
print(spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments())
"""


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the program of a Java home, with a Python environment without an archive."""
    program = tmp_path / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("", encoding="utf-8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    return program


def test_each_build_of_java_has_an_archive_of_its_own(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = archive_path()
    assert archive_path() == first
    os.utime(java, (1, 1))
    upgraded = archive_path()
    monkeypatch.setenv("JAVA_HOME", str(java.parents[3]))  # where there is none
    assert len({first, upgraded, archive_path()}) == 3


@pytest.mark.usefixtures("java")
def test_sessions_use_an_archive_if_it_exists() -> None:
    assert archive_options() == ""
    path = create_archive(WRITES_AN_ARCHIVE)
    assert path.read_text(encoding="utf-8") == "classes"
    assert f'-XX:SharedArchiveFile="{path}"' in archive_options()
    assert list(path.parent.iterdir()) == [path]


def test_a_new_archive_replaces_those_of_older_installations(java: Path) -> None:
    old = create_archive(WRITES_AN_ARCHIVE)
    os.utime(java, (1, 1))
    new = create_archive(WRITES_AN_ARCHIVE)
    assert old != new
    assert list(new.parent.iterdir()) == [new]


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("code", ["print('no Java today'); raise SystemExit(3)", "print('no Java today')"])
def test_a_program_without_an_archive_at_its_end_is_an_error_with_its_last_lines(code: str) -> None:
    with pytest.raises(UnsupportedOnRunner, match=r"wrote no archive(.|\n)*no Java today"):
        create_archive([sys.executable, "-c", code])
    assert list(archive_path().parent.iterdir()) == []


@pytest.mark.usefixtures("java")
def test_a_program_that_fails_does_not_change_the_existing_archive() -> None:
    path = create_archive(WRITES_AN_ARCHIVE)
    with pytest.raises(UnsupportedOnRunner, match="wrote no archive"):
        create_archive([sys.executable, "-c", "raise SystemExit(3)"])
    assert path.read_text(encoding="utf-8") == "classes"
    assert list(path.parent.iterdir()) == [path]


def test_an_environment_that_cannot_be_written_to_is_an_error(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(java))  # a file
    with pytest.raises(InvalidArgument, match="cannot write to"):
        create_archive(WRITES_AN_ARCHIVE)


@pytest.mark.usefixtures("java")
def test_the_command_does_nothing_if_an_archive_exists(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = create_archive(WRITES_AN_ARCHIVE)
    monkeypatch.setattr(class_archive, "create_archive", pytest.fail)
    assert main(["prepare-spark"]) == 0
    assert str(path) in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.spark
def test_a_jvm_uses_the_archive_that_another_one_has_written(
    java_home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    code = f"import sys; sys.prefix = {str(tmp_path)!r}\n{USES_A_SESSION}"
    assert create_archive([sys.executable, "-c", code]).stat().st_size > 50 << 20
    # With this option, a JVM that cannot use its archive does not start.
    required = {"PYSPARK_SUBMIT_ARGS": "--conf spark.driver.extraJavaOptions=-Xshare:on pyspark-shell"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | required, capture_output=True, text=True, check=True
    )
    assert str(archive_path()) in done.stdout
