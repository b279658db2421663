"""Keep freed memory in the process: the kernels' arrays are large, short-lived and alike from chunk to chunk.

By default glibc gives such arrays back to the system at once, and each chunk pays for fresh pages again: about half of
the time that the kernels take.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Final

__all__ = ["keep_freed_memory"]

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGEST_MMAP_THRESHOLD: Final = 32 << 20
_KEPT: Final = 64 << 20


@functools.cache
def keep_freed_memory() -> bool:
    """Let the allocator keep up to 64 MiB of freed memory for the next chunk; tell whether it could be told so.

    Meant for worker processes: call it before the first chunk. Only glibc can be told; elsewhere nothing changes.

    Example:
        >>> keep_freed_memory() in {True, False}
        True
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # Both, for setting either one ends glibc's own adaptation of the other.
    settings = ((_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD), (_M_TRIM_THRESHOLD, _KEPT))
    return all(bool(mallopt(setting, value)) for setting, value in settings)
