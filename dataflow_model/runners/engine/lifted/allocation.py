"""Keep freed memory in the process, since the kernels' arrays are large, short-lived and similar from chunk to chunk.

By default glibc returns such arrays to the system immediately, and each chunk needs new pages, which takes about half
of the kernels' time.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGEST_MMAP_THRESHOLD: Final = 32 << 20
_KEPT: Final = 64 << 20


@functools.cache
def keep_freed_memory() -> bool:
    """Make the allocator keep up to 64 MiB of freed memory for the next chunk; return whether that succeeded.

    Call it in a worker process before the first chunk. It affects only glibc; elsewhere nothing changes.

    Example:
        >>> keep_freed_memory() in {True, False}
        True
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # Set both, since setting either one ends glibc's own adaptation of the other.
    settings = ((_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD), (_M_TRIM_THRESHOLD, _KEPT))
    return all(bool(mallopt(setting, value)) for setting, value in settings)
