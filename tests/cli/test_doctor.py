"""`dataflow-model doctor`: what is installed, and what is missing."""

from __future__ import annotations

import importlib.metadata
import json
from typing import TYPE_CHECKING, Any

import pytest

from dataflow_model.cli import checkup, main
from dataflow_model.runners.engine.core.build import CoreBuild
from dataflow_model.runners.spark.deployment import installation
from tests.support.cli.commands import started
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path


def findings(
    capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0
) -> dict[str, tuple[str, str, str | None]]:
    assert main(["doctor", "--json", *arguments]) == status
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert answer["healthy"] is (status == 0)
    return {found["name"]: (found["status"], found["value"], found["hint"]) for found in answer["findings"]}


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program `java` that is found."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    monkeypatch.setenv("JAVA_HOME", str(home))
    return program


def put_java(program: Path, line: str) -> None:
    program.write_text(f"#!/bin/sh\necho '{line}' >&2\n")
    program.chmod(0o755)


def without(monkeypatch: pytest.MonkeyPatch, *missing: str) -> None:
    """Hide packages."""
    known = importlib.metadata.version

    def version(name: str) -> str:
        if name in missing:
            raise importlib.metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_versions_the_core_and_java_are_shown(java: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_java(java, 'openjdk version "21.0.2" 2024-01-16')
    found = findings(capsys)
    assert found["pyarrow"] == ("ok", importlib.metadata.version("pyarrow"), None)
    assert found["Java"] == ("ok", f"21.0.2 at {java}", None)
    assert found["core"][0] in ("ok", "warning")
    assert {"Python", "dataflow_model", "prometheus-client", "pyspark", "protobuf"} <= found.keys()


@pytest.mark.parametrize("line", ['java version "1.8.0_402"', 'openjdk version "11.0.2"', "no java"])
def test_a_java_that_is_not_new_enough_is_absent_and_with_spark_an_error(
    line: str, java: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_java(java, line)
    status, value, hint = findings(capsys)["Java"]
    assert (status, hint) == ("absent", "for Spark: set JAVA_HOME, or install Java 17 or newer")
    assert "which is not new enough" in value
    found = findings(capsys, "--spark", "local[1]", status=1)
    assert found["Java"][0] == "error"
    assert "Spark" not in found  # no session was started


def test_without_java_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(checkup, "java_path", lambda: None)
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "\nabsent  Java" in printed
    assert "Hint: Java: for Spark: set JAVA_HOME" in printed


def test_a_missing_extra_is_absent_and_a_missing_library_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without(monkeypatch, "psycopg", "pyspark")
    found = findings(capsys)
    assert found["psycopg"] == ("absent", "not installed", "for PostgreSQL tables: pip install 'dataflow-model[sql]'")
    assert found["pyspark"][0] == "absent"
    without(monkeypatch, "numpy")
    assert findings(capsys, status=1)["numpy"][0] == "error"


def test_a_pyspark_that_is_too_old_for_streams_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checkup, "_version", lambda _: "4.1.4")
    status, value, _ = findings(capsys)["pyspark"]
    assert (status, value) == ("warning", "4.1.4, and a streaming run needs 4.2 or newer")


def test_a_core_that_is_not_compiled_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checkup, "build_of_core", lambda: CoreBuild.STALE)
    status, value, _ = findings(capsys)["core"]
    assert status == "warning"
    assert "install the package again" in value


def test_spark_connect_needs_no_java_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "java_path", lambda: None)
    by_name = {finding.name: finding.status for finding in checkup.findings("sc://host")}
    assert by_name["Java"] == "absent"


def test_java_home_comes_before_the_path(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/java")
    assert installation.java_path() == "/usr/bin/java"
    put_java(java, "java")
    assert installation.java_path() == str(java)


@pytest.mark.slow
@pytest.mark.spark
def test_a_session_its_workers_and_its_connectors_are_checked(tmp_path: Path) -> None:
    with started(tmp_path, "doctor", "--spark", "local[1]", "--json") as process:
        out, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    found = {finding["name"]: finding for finding in json.loads(out)["findings"]}
    assert found["Spark"]["value"].endswith(" on local[1]")
    assert found["executor"]["status"] == "ok"
    assert found["Kafka"]["status"] == "absent"


@pytest.mark.slow
@pytest.mark.spark
def test_a_master_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    with started(tmp_path, "doctor", "--spark", "no-such-kind-of-master", "--json") as process:
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    *_, last = json.loads(out)["findings"]
    assert (last["name"], last["status"]) == ("Spark", "error")
