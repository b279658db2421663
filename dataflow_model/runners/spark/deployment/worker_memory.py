"""The memory of Python workers, which stay alive between tasks."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def returning_memory() -> Iterator[None]:
    """Return what the `with` block has freed to the system at its end.

    Otherwise Arrow and the C library keep it for their next allocation, in each worker that waits for a task.
    """
    try:
        yield
    finally:
        pa.default_memory_pool().release_unused()
        trim = _trim()
        if trim is not None:
            trim(0)


@functools.cache
def _trim() -> Any:
    """Return glibc's `malloc_trim`; `None` with another C library."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
