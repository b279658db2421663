"""Programs that end without waiting for their runs: nothing is lost silently."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def program(folder: Path, *lines: str, fails: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder; it must exit with 0 unless it fails."""
    path = folder / "program.py"
    path.write_text("\n".join(("import dataflow_model as dm", *lines)))
    ended = subprocess.run([sys.executable, path], check=False, capture_output=True, text=True, cwd=folder, timeout=120)
    assert bool(ended.returncode) is fails, ended.stderr
    return ended


def test_a_program_that_ends_with_run_publishes_the_output(tmp_path: Path) -> None:
    ended = program(
        tmp_path,
        "from concurrent.futures import ThreadPoolExecutor",
        "def doubled(x):",
        "    with ThreadPoolExecutor(1) as pool:",
        "        return pool.submit(lambda: 2 * x).result()",
        "p = dm.Pipeline()",
        "_ = p | dm.Create(range(1000)) | dm.Map(doubled) | dm.Sum.globally() | dm.Map(str) | dm.io.WriteText('out')",
        "p.run()",
    )
    assert not ended.stderr
    (written,) = (tmp_path / "out").glob("part-*")
    assert written.read_text() == f"{2 * sum(range(1000))}\n"


def test_the_error_of_a_run_that_nobody_waits_for_is_logged(tmp_path: Path) -> None:
    ended = program(
        tmp_path,
        "def start():",
        "    p = dm.Pipeline()",
        "    _ = p | 'zeros' >> dm.Create([0]) | 'ratio' >> dm.Map(lambda x: 1 // x)",
        "    p.run()",
        "start()",
    )
    assert "LocalRunner has failed:" in ended.stderr
    assert "transform: 'ratio'" in ended.stderr
    awaited = program(
        tmp_path,
        "p = dm.Pipeline()",
        "_ = p | dm.Create([0]) | dm.Map(lambda x: 1 // x)",
        "try:",
        "    p.run().wait_until_finish()",
        "except dm.UserCodeError:",
        "    pass",
    )
    assert not awaited.stderr


def test_a_stream_is_stopped_when_the_program_ends_unless_it_ends_by_itself(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("at,key\n2013-01-01T05:00Z,UA\n")
    build = (
        "p = dm.Pipeline(runner=dm.LocalRunner(checkpoint='checkpoint'))",
        "rows = p | dm.io.ReadCsv('in/*.csv', event_time='at', follow=True)",
        "_ = rows | dm.Map(lambda row: row.key) | dm.io.WriteText('out')",
    )
    stopped = program(tmp_path, *build, "p.run()")
    assert "LocalRunner, stream: the run is stopped because the program ends" in stopped.stderr
    drained = program(tmp_path, *build, "p.run(until='drained')")
    assert not drained.stderr
    assert [path.read_text() for path in (tmp_path / "out").glob("part-*")] == ["UA\n"]


@pytest.mark.parametrize("ending", ["raise ValueError('bad')", "result.wait_until_finish()"])
def test_a_program_that_fails_or_is_interrupted_does_not_wait_for_a_run(tmp_path: Path, ending: str) -> None:
    ended = program(
        tmp_path,
        "import signal, threading",
        "has_started = threading.Event()",
        "def block(x):",
        "    has_started.wait()",
        "    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # Ctrl-C",
        "    threading.Event().wait()",
        "p = dm.Pipeline()",
        "_ = p | dm.Create([1]) | dm.Map(block)",
        "result = p.run()",
        "has_started.set()",
        ending,
        fails=True,
    )
    assert "LocalRunner: the program ends with an error, so the run is abandoned" in ended.stderr
