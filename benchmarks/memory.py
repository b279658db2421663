"""Peak resident memory of a process and all its descendants: the driver, its JVM and the Python workers."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["PeakMemory"]

_PERIOD: Final = 0.1
_MIB: Final = 1 << 20


class PeakMemory:
    """Sample a tree of processes while the `with` block runs; Linux only, it reads `/proc`.

    The sum of resident sizes counts pages that processes share once for each of them, forked Python workers' most of
    all; so it is an upper bound, and the one with more workers looks the worse for it.
    """

    def __init__(self, root: int) -> None:
        self.mib = 0.0
        self._root = root
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(_PERIOD):
            self.mib = max(self.mib, resident(self._root) / _MIB)


def resident(root: int) -> int:
    """Return the bytes that `root` and its descendants hold now."""
    parents: dict[int, int] = {}
    pages: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name of the program, in parentheses, may hold spaces: fields count from behind it.
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            pages[int(entry.name)] = int((entry / "statm").read_text().split()[1])
        except (OSError, IndexError):
            continue  # it ended just now
    return sum(count for process, count in pages.items() if _descends(process, root, parents)) * os.sysconf(
        "SC_PAGE_SIZE"
    )


def _descends(process: int, root: int, parents: dict[int, int]) -> bool:
    while process not in {root, 0}:
        process = parents.get(process, 0)
    return process == root
