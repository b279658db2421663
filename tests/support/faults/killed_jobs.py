"""Programs that are killed at one crash point after another."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataflow_model.testing import CrashPoint
from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Sequence


def killed_at(point: str, micro_batch: int, mark: str) -> contextlib.AbstractContextManager[Any]:
    """Return what kills this program at a point of a micro-batch, unless the mark says that one has been killed there.

    Args:
        point: the crash point; `""` for none.
        micro_batch: the number of the micro-batch.
        mark: the file that is made when the program is there.
    """
    if not point:
        return contextlib.nullcontext()
    crash = CrashPoint(point, micro_batch)
    crash._mark = Path(mark)
    return crash


def collected_after_kills(module: str, folder: Path, points: Sequence[str], *arguments: str, first: int = 0) -> Any:
    """Kill a program once at each crash point, each time a micro-batch later, let it end, and return what it collected.

    Args:
        module: the program. It takes the folder, a crash point or nothing, the number of a micro-batch, a file that it
            makes when it is there, and further arguments, and writes `collected.json` in the end.
        folder: its folder.
        points: the crash points.
        arguments: the further arguments.
        first: the micro-batch of the first kill.
    """

    def ran(point: str, micro_batch: int, mark: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", module, str(folder), point, str(micro_batch), str(folder / mark), *arguments]
        return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)

    for number, point in enumerate(points, first):
        mark = f"{point} {number}"
        killed = ran(point, number, mark)
        assert (folder / mark).exists(), killed.stderr
    finished = ran("", 0, "none")
    assert finished.returncode == 0, finished.stderr
    return json.loads((folder / "collected.json").read_text())
