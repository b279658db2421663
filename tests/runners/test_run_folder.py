"""Temporary folders of runs and logs: private, and gone with their process, or with the next run if it was killed."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dataflow_model.runners.runs.run_folder import RunFolder
from dataflow_model.runners.spark.deployment import failures
from dataflow_model.runners.spark.deployment.failures import find_our_error, log_file
from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLDING = """
import os, sys
from dataflow_model.runners.runs.run_folder import RunFolder

folder = RunFolder(sys.argv[1])
(folder.path / "part").touch()
is_child = "forks" in sys.argv and not os.fork()
os.write(1, f"{os.getpid() if is_child else folder.path}\\n".encode())  # a whole line at once
sys.stdin.read()
"""
SPARKS = "Job aborted\ndataflow_model.errors.UserCodeError: ValueError: card 4111-1111\n\tat org.apache.spark\n"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Use a folder for temporary files of this test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    failures._log_folder.cache_clear()
    yield folder
    failures._log_folder.cache_clear()


def holder(kind: str, *options: str) -> subprocess.Popen[str]:
    """Start a process that makes a folder, says where, and waits."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLDING, kind, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# Folders.


def test_a_run_folder_is_private_and_is_removed_when_it_is_not_referenced(temporary: Path) -> None:
    before = os.umask(0)
    folder = RunFolder("workers")
    os.umask(before)
    path = folder.path
    assert path.parent == temporary
    assert re.fullmatch(r"dataflow_model-workers-\w+", path.name)
    assert mode(path) == 0o700
    (path / "collected").mkdir()
    del folder
    assert not path.exists()


def test_a_run_folder_is_removed_when_its_process_ends_but_not_when_a_child_does() -> None:
    code = (
        "import os\n"
        "from dataflow_model.runners.runs.run_folder import RunFolder\n"
        "folder = RunFolder()\n"
        "child = os.fork()\n"
        "if child:\n"
        "    os.waitpid(child, 0)\n"
        "    print(folder.path)\n"
        "    assert folder.path.exists()\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not Path(ran.stdout.strip()).exists()


@pytest.mark.parametrize("kind", ["run", "workers", "python", "package"])
def test_run_folders_of_killed_processes_are_removed_by_the_next_run_and_others_are_kept(kind: str) -> None:
    with holder(kind) as killed, holder(kind) as alive:
        left, held = Path(line_of(killed)), Path(line_of(alive))
        killed.kill()
        killed.wait()
        assert (left / "part").exists()
        RunFolder("run")
        assert not left.exists()
        assert (held / "part").exists()
        alive.kill()


def test_a_forked_child_does_not_keep_the_run_folder_of_a_killed_process() -> None:
    with holder("run", "forks") as killed:
        said = {line_of(killed), line_of(killed)}
        [child] = [int(line) for line in said if line.isdigit()]
        [left] = [Path(line) for line in said if not line.isdigit()]
        killed.kill()
        killed.wait()
        try:
            RunFolder("run")
            assert not left.exists()
        finally:
            os.kill(child, 9)


def test_only_run_folders_of_this_user_are_removed_and_no_link_is_followed(temporary: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    (temporary / "dataflow_model-run-link").symlink_to(tmp_path / "mine")
    (temporary / "another-program").mkdir()
    (temporary / "dataflow_model-run-file").touch()
    if not os.geteuid():
        (temporary / "dataflow_model-run-other").mkdir()
        os.chown(temporary / "dataflow_model-run-other", 1, 1)
    before = set(temporary.iterdir())
    folder = RunFolder("run")
    assert set(temporary.iterdir()) == {*before, folder.path}
    assert (tmp_path / "mine" / "file").exists()


# Logs.


def test_spark_s_errors_are_logged_where_only_the_user_can_read_them(temporary: Path) -> None:
    before = os.umask(0)
    error = find_our_error(RuntimeError(SPARKS))
    os.umask(before)
    assert error.__notes__ == [f"Spark's own error, with its stack: {log_file()}"]
    assert "4111" in log_file().read_text()
    assert log_file().is_relative_to(temporary)
    assert str(os.getpid()) not in str(log_file())
    assert (mode(log_file()), mode(log_file().parent)) == (0o600, 0o700)


def test_a_log_follows_no_link_and_takes_away_the_permissions_of_others(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    log_file().symlink_to(victim)
    assert not hasattr(find_our_error(RuntimeError(SPARKS)), "__notes__")
    assert victim.read_text() == "mine"
    log_file().unlink()
    log_file().touch(0o666)
    find_our_error(RuntimeError(SPARKS))
    assert mode(log_file()) == 0o600


def test_a_log_outlives_its_process_and_a_folder_without_one_does_not() -> None:
    with holder("log") as killed:
        kept = Path(line_of(killed))
        killed.kill()
        killed.wait()
    empty = log_file().parent
    failures._log_folder.cache_clear()
    assert not empty.exists()
    with holder("log") as killed:
        unused = Path(line_of(killed))
        (unused / "part").unlink()
        killed.kill()
        killed.wait()
    RunFolder("run")
    assert not unused.exists()
    assert (kept / "part").exists()


def test_the_log_of_a_session_is_private_and_the_jvm_creates_it_so() -> None:
    settings = (Path(failures.__file__).with_name("log4j2.properties")).read_text().splitlines()
    assert "appender.file.filePermissions = rw-------" in settings
