"""Look for cycles among Python objects less often while elements are processed.

CPython looks for cycles each time some hundred more objects have been made than freed. Elements, panes and accumulators
are hundreds of thousands of objects, mostly without cycles, and looking through them again and again takes about a
quarter of the time of a pipeline of Python functions.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_OBJECTS: Final = 100_000
"""The number of new objects after which the youngest generation is collected.

A batch of rows, which is soon freed, creates fewer.
"""
_lock: Final = threading.Lock()
_before: list[tuple[int, int, int]] = []
"""The thresholds from before the first active run, once for each active run."""


def collect_rarely() -> tuple[int, int, int]:
    """Raise the threshold for this process, unless it is higher or collection is off; return what it was.

    Call it in a worker process, which is ours.
    """
    before = gc.get_threshold()
    if 0 < before[0] < _OBJECTS:
        gc.set_threshold(_OBJECTS, *before[1:])
    return before


@functools.cache
def leave_out() -> None:
    """Leave the objects that exist at the first call, such as modules, out of all later searches of this process.

    Call it in a worker process, which is ours, once everything is imported. Spark's workers look through all objects at
    the end of each task: a tenth of a second each time for the modules alone.
    """
    gc.freeze()


@contextlib.contextmanager
def collecting_rarely() -> Iterator[None]:
    """Raise the threshold until the `with` block ends; where several overlap, until the last one ends.

    Example:
        >>> before = gc.get_threshold()
        >>> with collecting_rarely():
        ...     inside = gc.get_threshold()
        >>> inside[0] >= before[0], gc.get_threshold() == before
        (True, True)
    """
    with _lock:
        _before.append(collect_rarely() if not _before else _before[0])
    try:
        yield
    finally:
        with _lock:
            before = _before.pop()
            if not _before:
                gc.set_threshold(*before)
