"""All figures by name, and the lookup of a name that a user has typed."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final

from dataflow_model.errors import InvalidArgument
from dataflow_model.figures.book import BOOK
from dataflow_model.figures.paper import PAPER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dataflow_model.figures.figure import Figure

_PREFIX: Final = re.compile(r"^fig(ure|\.)?[\s_-]*")
_WORD: Final = re.compile(r"[^\W_]+")

FIGURES: Final[Mapping[str, Figure]] = {figure.name: figure for figure in (*BOOK, *PAPER)}
"""All figures by name: those of the book, then those of the paper."""


def find(name: str) -> Figure:
    """Return the figure with this name or number.

    The numbers are those of the paper (`figure 14`) and of the book (`figure 2-10 left`); the word `figure` may be left
    out. Letter case and the choice of `-`, `_` or a space do not matter.

    Raises:
        InvalidArgument: if there is none; the message lists the names.

    Example:
        >>> find("figure 14").name, find("Figure 2-10 left").name, find("6j").number
        ('6J', 'watermark_perfect', '14')
        >>> find("figure 2-10")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: there is no figure 'figure 2-10'
        Hint: did you mean 2-10 left or 2-10 right? ...
    """
    figures = {_folded(figure.number): figure for figure in FIGURES.values() if figure.number}
    figures |= {_folded(known): figure for known, figure in FIGURES.items()}
    wanted = _folded(name)
    if wanted in figures:
        return figures[wanted]
    near = [known for known in figures if wanted and known.startswith(f"{wanted}_")]
    alike = difflib.get_close_matches(wanted, figures, n=4, cutoff=0.5)
    near = near or list(dict.fromkeys([*_nearest(wanted, figures), *alike]))
    names = [
        figures[folded].number if folded == _folded(figures[folded].number) else figures[folded].name for folded in near
    ]
    question = f"did you mean {' or '.join(names)}? " if names else ""
    raise InvalidArgument(f"there is no figure {name!r}", hint=f"{question}The figures are: {_names()}")


def _nearest(wanted: str, figures: Iterable[str]) -> list[str]:
    """Return the number that is nearest to a number of no figure; nothing for a name.

    Example:
        >>> _nearest("99", ["6", "6j", "14", "2_10"]), _nearest("bars", ["6"])
        (['14'], [])
    """
    numbers = [number for number in figures if number.isdecimal()]
    if not (wanted.isdecimal() and numbers):
        return []
    return [min(numbers, key=lambda number: abs(int(number) - int(wanted)))]


def _names() -> str:
    """Return the names of all figures, with their numbers if they have one."""
    return ", ".join(f"{name} (figure {figure.number})" if figure.number else name for name, figure in FIGURES.items())


def _folded(name: str) -> str:
    """Return the form of a name or number that is used for lookups.

    Example:
        >>> _folded("Fig. 2-10 Left"), _folded("Table-1")
        ('2_10_left', 'table_1')
    """
    return "_".join(_WORD.findall(_PREFIX.sub("", name.strip().lower())))
