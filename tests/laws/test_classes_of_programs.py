"""Law 3 for values and windows of classes of `__main__`, which are other ones in each start of a program."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.inputs import write_rows
from tests.support.runners.main_classes_job import ROWS
from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

JOB = "tests.support.runners.main_classes_job"


@pytest.mark.spark
@pytest.mark.slow
def test_panes_with_classes_of_the_program_are_the_same_however_often_it_is_restarted_in_process_and_on_spark(
    java_home: str, tmp_path: Path
) -> None:
    write_rows(tmp_path / "rows" / "rows.parquet", 0, ROWS)
    environment = {
        **os.environ,
        "JAVA_HOME": java_home,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(REPOSITORY),
    }
    for step in range(4):
        ran = subprocess.run(
            [sys.executable, "-m", JOB, tmp_path, str(step)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout == "", ran.stdout
