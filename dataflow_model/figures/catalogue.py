"""All figures by name, and the way to one from what a user has typed."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from dataflow_model.errors import InvalidArgument
from dataflow_model.figures.book import BOOK
from dataflow_model.figures.paper import PAPER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.figures.figure import Figure

__all__ = ["FIGURES", "find"]

FIGURES: Final[Mapping[str, Figure]] = {figure.name: figure for figure in (*BOOK, *PAPER)}
"""Every figure by its name: those of the book, then those of the paper."""


def find(name: str) -> Figure:
    """Return the figure of this name; letter case and the choice of `-` or `_` do not matter.

    Raises:
        InvalidArgument: if there is none, with the names that are near.

    Example:
        >>> find("6j").title, find("watermark-perfect").name
        ('Sessions with retractions', 'watermark_perfect')
        >>> find("session")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: there is no figure 'session'
        Hint: did you mean sessions or sessions_retracting? `dataflow-model figure` lists all figures
    """
    folded = {_folded(known): figure for known, figure in FIGURES.items()}
    wanted = _folded(name)
    if wanted in folded:
        return folded[wanted]
    near = [folded[match].name for match in difflib.get_close_matches(wanted, folded, n=4, cutoff=0.5)]
    way_out = f"did you mean {' or '.join(near)}? " if near else ""
    raise InvalidArgument(f"there is no figure {name!r}", hint=f"{way_out}`dataflow-model figure` lists all figures")


def _folded(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_").removeprefix("figure_")
