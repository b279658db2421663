"""How values show themselves: a short `repr`, a table of text, and one of HTML where a notebook asks for it.

The HTML has no colour of its own but the grey of its lines, so that it can be read on light and on dark pages. All
texts are escaped, and a table has a bounded size, whatever is in it.
"""

from __future__ import annotations

import datetime
import html
import itertools
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.readable import readable_duration, readable_instant
from dataflow_model.time import Duration, Instant

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

__all__ = [
    "MOST_ROWS",
    "Board",
    "Count",
    "PrintedText",
    "brief_fields",
    "brief_repr",
    "cell_text",
    "html_table",
    "numeric_columns",
    "text_table",
]

MOST_ROWS: Final = 20
"""So many rows does a table have at most."""
_MOST_COLUMNS: Final = 30
_MOST_LETTERS: Final = 200
_MOST_LETTERS_OF_A_LINE: Final = 60
"""Of a cell: in a table of HTML, whose cells have several lines, and in one of text."""
_STYLE: Final = (
    "<style>"
    ".dataflow-model{overflow-x:auto;max-width:100%;font-size:.9em;color:inherit}"
    ".dataflow-model table{border-collapse:collapse;margin:.3em 0;border:none;color:inherit}"
    ".dataflow-model th,.dataflow-model td{padding:.2em .8em;text-align:left;vertical-align:top;border:none;"
    "border-bottom:1px solid rgba(127,127,127,.35);white-space:pre-wrap;background:none;color:inherit}"
    ".dataflow-model .number{text-align:right;font-variant-numeric:tabular-nums;white-space:pre}"
    ".dataflow-model .note{opacity:.75}"
    "</style>"
)


class PrintedText(str):
    """A text that prints itself: a prompt and a notebook show it as it is, with its lines and without quotes.

    Example:
        >>> PrintedText("stage 0: Create")
        stage 0: Create
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Count(int):
    """A number of things, shown in groups of three digits; in other numbers, such as years, groups would be wrong."""


def brief_repr(value: Any, *, without: Collection[str] = ()) -> str:
    """Return the `repr` of an attrs value with only the fields that differ from their defaults.

    Args:
        value: the value.
        without: fields that are left out in any case.

    Example:
        >>> @attrs.frozen
        ... class Point:
        ...     x: int
        ...     y: int = 0
        ...     name: str = ""
        >>> brief_repr(Point(1)), brief_repr(Point(1, 2, "a"), without=["name"])
        ('Point(x=1)', 'Point(x=1, y=2)')
    """
    shown = (f"{name}={given!r}" for name, given in brief_fields(value) if name not in without)
    return f"{type(value).__name__}({', '.join(shown)})"


def brief_fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of those fields of an attrs value that differ from their defaults."""
    for field in attrs.fields(type(value)):
        given = getattr(value, field.name)
        if not _is_default(field, given):
            yield field.name, given


def _is_default(field: attrs.Attribute[Any], given: Any) -> bool:
    default: Any = field.default
    default = default.factory() if hasattr(default, "factory") else default
    return default is not attrs.NOTHING and type(given) is type(default) and bool(given == default)


def cell_text(value: object) -> str:
    """Return a value as the text of a cell: texts as they are, times readable, anything else as its `repr`.

    A long text is cut.

    Example:
        >>> cell_text("UA"), cell_text(2013), cell_text(Count(336_776)), cell_text(None), cell_text(("UA", 4))
        ('UA', '2013', '336,776', '', "('UA', 4)")
        >>> len(cell_text("x" * 1_000))
        200
    """
    match value:
        case None:
            text = ""
        case str():
            text = value
        case Count():
            text = f"{value:,}"
        case datetime.datetime():
            text = value.isoformat()
        case Instant():
            text = readable_instant(int(value))
        case Duration():
            text = readable_duration(int(value))
        case _:
            text = repr(value)
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"


def html_table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], *, total: int = 0, notes: Iterable[str] = ()
) -> str:
    """Return a table as HTML, at most `MOST_ROWS` rows of it.

    Args:
        title: what stands above it; may be empty.
        headings: of the columns; without any there is no line for them.
        rows: their cells; no more are taken than are shown.
        total: how many rows there are, if that is known and may be more.
        notes: lines below it.

    Example:
        >>> print(html_table("", ["key", "sum"], [("<UA>", 4)]).partition("<tbody>")[2])  # doctest: +ELLIPSIS
        <tr><td style="text-align:left">&lt;UA&gt;</td><td class="number" ...>4</td></tr></tbody></table></div>
    """
    shown = [list(itertools.islice(row, _MOST_COLUMNS)) for row in itertools.islice(rows, MOST_ROWS)]
    numeric = numeric_columns(headings[:_MOST_COLUMNS], shown)
    head = "".join(_cell("th", heading, numeric[index]) for index, heading in enumerate(headings[:_MOST_COLUMNS]))
    body = "".join(
        "<tr>" + "".join(_cell("td", value, numeric[index]) for index, value in enumerate(row)) + "</tr>"
        for row in shown
    )
    below = _hidden_rows(total - len(shown))
    if len(headings) > _MOST_COLUMNS:
        below.append(f"… {len(headings) - _MOST_COLUMNS:,} more columns")
    parts = [
        f"<strong>{html.escape(cell_text(title))}</strong>" if title else "",
        "<table>" if shown or headings else "",
        f"<thead><tr>{head}</tr></thead>" if headings else "",
        f"<tbody>{body}</tbody>" if shown else "",
        "</table>" if shown or headings else "",
        *(f'<div class="note">{html.escape(note)}</div>' for note in (*below, *notes)),
    ]
    return f'<div class="dataflow-model">{_STYLE}{"".join(parts)}</div>'


def text_table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, total: int = 0, notes: Iterable[str] = ()
) -> str:
    """Return a table as text, at most `MOST_ROWS` rows of it, with numbers on the right; see `html_table`.

    Example:
        >>> print(text_table(["key", "sum"], [("UA", 4), ("AA", 12)], total=3, notes=["of a sample"]))
        key  sum
        UA     4
        AA    12
        … 1 more row
        of a sample
    """
    shown = list(itertools.islice(rows, MOST_ROWS))
    lines = _aligned([headings, *shown], numeric_columns(headings, shown))
    return "\n".join([*lines, *_hidden_rows(total - len(shown)), *notes])


@attrs.frozen(repr=False, eq=False)
class Board:
    """A small table for a terminal or a notebook, with texts in the first column and numbers in the others.

    Attributes:
        headings: of the columns.
        rows: their cells.
        caption: a line below.
        done: the part of the work that is done, from 0 to 1, for a bar; `None` if that is not known.

    Example:
        >>> Board(["", "in", "out"], [["Create", None, Count(1_000)], ["Sum.PerKey", Count(1_000), 2]], "1 commit")
                       in    out
        Create              1,000
        Sum.PerKey  1,000       2
        1 commit
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""
    done: float | None = None

    def __repr__(self) -> str:
        right = [False] + [True] * (len(self.headings) - 1)
        lines = _aligned([self.headings, *self.rows[:MOST_ROWS]], right)
        return "\n".join([*lines, *_hidden_rows(len(self.rows) - MOST_ROWS), self.caption])

    def _repr_html_(self) -> str:
        table = html_table("", self.headings, self.rows, total=len(self.rows), notes=[self.caption])
        if self.done is None:
            return table
        return f'{table}<progress max="1" value="{self.done:.3f}" style="width:24em">{self.done:.0%}</progress>'


def _aligned(rows: Sequence[Sequence[object]], right: Sequence[bool]) -> list[str]:
    """Return rows as lines whose columns are aligned; `right` says which of them on the right."""
    texts = [[_on_one_line(cell_text(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = (
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        for row in texts
    )
    return [line.rstrip() for line in lines]


def _on_one_line(text: str) -> str:
    text = " ".join(text.splitlines()) if "\n" in text else text
    return text if len(text) <= _MOST_LETTERS_OF_A_LINE else f"{text[: _MOST_LETTERS_OF_A_LINE - 1]}…"


def _hidden_rows(hidden: int) -> list[str]:
    return [f"… {hidden:,} more row{'' if hidden == 1 else 's'}"] if hidden > 0 else []


def numeric_columns(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> list[bool]:
    """Return which columns of a table hold numbers alone, and are therefore aligned on the right."""
    columns = max([len(headings), *map(len, rows)], default=0)
    return [_is_numeric([row[index] for row in rows if index < len(row)]) for index in range(columns)]


def _is_numeric(values: Sequence[object]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in known)


def _cell(kind: str, value: object, numeric: bool) -> str:  # noqa: FBT001 - of its column
    # The style sheet of a notebook is stronger than that of the table, and aligns all cells on the right.
    look = 'class="number" style="text-align:right"' if numeric else 'style="text-align:left"'
    return f"<{kind} {look}>{html.escape(cell_text(value))}</{kind}>"
