"""The runner through Spark Connect, and on executors that do not have the package: it ships itself."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import sysconfig
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.inputs import write_replay
from tests.support.pipelines import difference
from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow]  # a JVM of its own each, 30 to 60 seconds

JOB = REPOSITORY / "tests/support/runners/remote_job.py"
WITHOUT_PATH = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
NAMES = ("summed", "panes", "dead")


def outcome_of(kind: str, folder: Path, java_home: str, **environment: str) -> Mapping[str, Any]:
    """Run the program and return what it printed last."""
    write_replay(folder / "rows", random.Random(5), cases=3, files=2, rows=400)
    ran = subprocess.run(
        [sys.executable, JOB, kind, folder],
        cwd=folder,
        env={**WITHOUT_PATH, "JAVA_HOME": java_home, "PYSPARK_PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    errors = [line for line in ran.stderr.splitlines() if not line.startswith("\tat ")]  # without the JVM's stacks
    assert ran.returncode == 0, "\n".join(errors[:200])
    outcome: Mapping[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return outcome


def check(outcome: Mapping[str, Any]) -> None:
    """Compare with the local run in the same program."""
    for name in NAMES:
        problem = difference(outcome["local"][name], outcome["streaming"][name])
        assert not problem, f"{name}: {problem}"
        assert outcome["local"][name], name
    assert outcome["streaming"]["metrics"] == outcome["local"]["metrics"]
    assert outcome["batch"]["state"] == outcome["streaming"]["state"] == "DONE"
    assert outcome["batch"]["dead"] == outcome["local"]["dead"]
    assert outcome["batch"]["summed"]
    for mode in ("batch", "streaming"):
        first, *others = outcome[f"{mode} failure"].splitlines()
        assert first == "ZeroDivisionError: integer division or modulo by zero", outcome[f"{mode} failure"]
        assert any(line == "  transform: 'share'" for line in others)
        assert others[-1].startswith("Hint: ")
    assert outcome["settings are back"]


def test_batch_and_streaming_run_through_spark_connect(java_home: str, tmp_path: Path) -> None:
    outcome = outcome_of("connect", tmp_path, java_home)
    assert outcome["session"].startswith("pyspark.sql.connect")
    check(outcome)


def test_batch_and_streaming_run_on_executors_that_do_not_have_the_package(java_home: str, tmp_path: Path) -> None:
    # Without `site`, what is installed by a link to the checkout is not found; the other packages are put on the path.
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{sysconfig.get_path("purelib")}:$PYTHONPATH" exec "{sys.executable}" -S "$@"\n'
    )
    python.chmod(0o755)
    attempt = subprocess.run(
        [python, "-c", "import dataflow_model"],
        cwd=tmp_path,
        env=WITHOUT_PATH,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No module named 'dataflow_model'" in attempt.stderr
    outcome = outcome_of(
        "cluster", tmp_path, java_home, PYSPARK_PYTHON=str(python), SPARK_WORKER_DIR=str(tmp_path / "work")
    )
    assert not outcome["session"].startswith("pyspark.sql.connect")
    check(outcome)
