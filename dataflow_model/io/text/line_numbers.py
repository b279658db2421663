"""The lines of rows as an editor counts them; counted only when a message needs one."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from dataflow_model.io.text.row_texts import read_rows
from dataflow_model.io.text.unpacking import blocks

if TYPE_CHECKING:
    from dataflow_model.io.listing.file_identity import FileVersion
    from dataflow_model.io.text.row_texts import TextFormat

_FILES: Final = 64
_counted: dict[tuple[FileVersion, TextFormat], tuple[int, int]] = {}
"""By file, a byte of its text and the line that begins there, so that the next message counts on from it."""


def line_of_row(version: FileVersion, form: TextFormat, row: int) -> int:
    """Return the line on which a row begins, from 1.

    Args:
        version: the file.
        form: how its rows are separated.
        row: the row, from 0; header rows count.

    Raises:
        SourceError: when the file cannot be read.
    """
    [texts] = read_rows(version, form, row, row + 1)
    target = texts.offset + int(texts.starts[0])
    key = version, form
    at, line = _counted.pop(key, (0, 1))
    if at > target:
        at, line = 0, 1
    ends_in_cr = False
    with contextlib.closing(blocks(version, form.encoding, at)) as parts:
        while at < target:
            part = next(parts)[: target - at]
            at += len(part)
            line += part.count(b"\n")
            if form.ends_at_cr:
                line += part.count(b"\r") - part.count(b"\r\n") - (ends_in_cr and part.startswith(b"\n"))
                ends_in_cr = part.endswith(b"\r")
    _counted[key] = at, line
    while len(_counted) > _FILES:
        _counted.pop(next(iter(_counted)), None)
    return line
