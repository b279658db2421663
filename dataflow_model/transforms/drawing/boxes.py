"""A graph to draw: boxes and lines, and both as Mermaid text."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence


class Kind(enum.Enum):
    """The kinds of boxes."""

    INJECTOR = "injector"
    COMPUTATION = "computation"
    FUSED = "fused"
    SINK = "sink"
    NOBODY = "not taken"


@attrs.frozen
class Box:
    """A part of a topology or of a pipeline; `detail` is what stands under its label, in one or more lines."""

    label: str
    kind: Kind
    detail: str = ""


@attrs.frozen
class Line:
    """A stream from one box to another, both given by their index, with or without a name."""

    start: int
    end: int
    stream: str


SHAPES: Final = {
    Kind.INJECTOR: ('[("', '")]'),
    Kind.COMPUTATION: ('["', '"]'),
    Kind.FUSED: ('("', '")'),
    Kind.SINK: ('[/"', '"/]'),
    Kind.NOBODY: ('(["', '"])'),
}
"""What surrounds the text of a box in Mermaid."""
_CODES: Final = (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"))


def mermaid(boxes: Sequence[Box], lines: Sequence[Line]) -> str:
    """Return boxes and lines as the text of a Mermaid flow chart."""
    text = ["flowchart LR"]
    for index, box in enumerate(boxes):
        before, behind = SHAPES[box.kind]
        detail = "".join(f"<br/>{_quoted(line)}" for line in box.detail.splitlines())
        text.append(f"  n{index}{before}{_quoted(box.label)}{detail}{behind}")
    text += [f"  n{line.start} {_arrow(line.stream)} n{line.end}" for line in lines]
    return "\n".join(text)


def _arrow(stream: str) -> str:
    return f'-- "{_quoted(stream)}" -->' if stream else "-->"


def _quoted(text: str) -> str:
    """Escape text for Mermaid's quotes."""
    for sign, code in _CODES:
        text = text.replace(sign, code)
    return text


def unquoted(text: str) -> str:
    """Undo the escaping of text in Mermaid's quotes.

    Example:
        >>> unquoted(_quoted('a "#1" <br/>'))
        'a "#1" <br/>'
    """
    for sign, code in reversed(_CODES):
        text = text.replace(code, sign)
    return text
