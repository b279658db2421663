"""Peak memory and processor time of a process and all its descendants: the driver, its JVM and the Python workers."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["PeakMemory", "processor_seconds", "proportional", "resident"]

_PERIOD: Final = 0.1
_ROUNDS: Final = 5
"""The number of samples for each one that counts shared pages once, which makes the kernel look at every page."""
_MIB: Final = 1 << 20
_KIB: Final = 1 << 10


class PeakMemory:
    """Sample a tree of processes while the `with` block runs; Linux only, it reads `/proc`.

    Attributes:
        mib: the highest sum of resident sizes. It counts pages that processes share once for each of them, most of all
            those of forked Python workers; so it is an upper bound, and the side with more workers looks the worse for
            it. It also counts the JVM twice if a sample finds it starting a process: see `proportional`.
        once_mib: the highest sum that counts shared pages once, sampled every half second.
    """

    def __init__(self, root: int) -> None:
        self.mib = 0.0
        self.once_mib = 0.0
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
        samples = 0
        while not self._done.wait(_PERIOD):
            self.mib = max(self.mib, resident(self._root) / _MIB)
            if samples % _ROUNDS == 0:
                self.once_mib = max(self.once_mib, proportional(self._root) / _MIB)
            samples += 1


def resident(root: int) -> int:
    """Return the bytes that `root` and its descendants hold now: pages of several processes count for each of them."""
    pages = 0
    for process in _tree(root):
        with contextlib.suppress(OSError, IndexError):  # it ended just now
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def proportional(root: int) -> int:
    """Return the bytes that `root` and its descendants hold now: pages of several processes count once.

    A JVM that starts a process has a child with the same memory for a moment, until that runs its program. The kernel
    reports this memory for both, as if each had it alone; the child is left out.
    """
    tree = _tree(root)
    kib = 0
    for process, parent in tree.items():
        with contextlib.suppress(OSError):  # it ended just now
            program = Path(f"/proc/{process}/exe").readlink()
            if program.name == "java" and parent in tree and Path(f"/proc/{parent}/exe").readlink() == program:
                continue
            sizes = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            kib += sum(int(line.split()[1]) for line in sizes if line.startswith("Pss:"))
    return kib * _KIB


def processor_seconds(root: int) -> float:
    """Return the processor time that `root` and its descendants have taken, those that have ended included."""
    ticks = 0
    for process in _tree(root):
        with contextlib.suppress(OSError, IndexError):  # it ended just now, and counts in its parent from now on
            ticks += sum(map(int, _stat(process)[11:15]))  # its own and its ended children's, as user and as system
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(process: int) -> list[str]:
    """Return the fields of `/proc/…/stat` behind the name of the program."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()  # the name may hold spaces


def _tree(root: int) -> dict[int, int]:
    """Return the processes that are `root` and its descendants, with their parents."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):  # it ended just now
                parents[int(entry.name)] = int(_stat(int(entry.name))[1])
    return {process: parent for process, parent in parents.items() if _descends(process, root, parents)}


def _descends(process: int, root: int, parents: dict[int, int]) -> bool:
    while process not in {root, 0}:
        process = parents.get(process, 0)
    return process == root
