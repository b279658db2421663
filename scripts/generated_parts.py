"""The parts of pages that scripts write: between two comments with the name of the part."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["markdown_table", "with_part"]


def with_part(page: str, name: str, text: str) -> str:
    r"""Return a page with another text in one of its parts.

    Args:
        page: the page.
        name: the name of the part.
        text: what to write there.

    Raises:
        ValueError: if the page does not have exactly one such part.

    Example:
        >>> with_part("<!-- rows: by a script -->\nold<!-- end of rows -->", "rows", "new")
        '<!-- rows: by a script -->\n\nnew\n<!-- end of rows -->'
    """
    part = re.compile(rf"(<!-- {name}: .*? -->\n).*?(<!-- end of {name} -->)", flags=re.DOTALL)
    written, count = part.subn(lambda found: f"{found[1]}\n{text}\n{found[2]}", page)
    if count != 1:
        raise ValueError(f"the page must have one part for the {name}, got {count}")
    return written


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    r"""Return a table of Markdown, of which the first row is the head.

    Example:
        >>> markdown_table([["", "n"], ["a", "1"]])
        '| | n |\n|---|---|\n| a | 1 |\n'
    """
    lines = ["|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines) + "\n"
