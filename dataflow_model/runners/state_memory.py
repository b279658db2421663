"""The memory bound of a stream's state, as users write it."""

from __future__ import annotations

import re
from typing import Final

from dataflow_model.errors import InvalidArgument

__all__ = ["state_memory"]

_UNITS: Final = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
_TEXT: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")


def state_memory(bound: object) -> int | None:
    """Return the option `max_state_memory` in bytes; `None` stays `None`.

    Raises:
        InvalidArgument: for anything but a positive number of bytes, or a text of a number and a unit.

    Example:
        >>> state_memory("500 MB"), state_memory("1.5GiB"), state_memory(4096), state_memory(None)
        (500000000, 1610612736, 4096, None)
    """
    count: int | None = None
    if bound is None:
        return None
    if isinstance(bound, int) and not isinstance(bound, bool):
        count = bound
    elif isinstance(bound, str) and (match := _TEXT.fullmatch(bound)) and match[2].upper() in _UNITS:
        count = int(float(match[1]) * _UNITS[match[2].upper()])
    if count is None or count < 1:
        raise InvalidArgument(
            f"`max_state_memory` must be a positive number of bytes, or text such as '500 MB', got {bound!r}",
            hint="use max_state_memory='500 MB' or '2 GiB', for example",
        )
    return count
