"""The examples of the book: nine points, one key, sums; panes exact in every field that the data file gives."""

from __future__ import annotations

import pytest

from dataflow_model.figures import FIGURES, run
from tests.support.figures.expected import BOOK_NAMES, check


@pytest.mark.parametrize("name", BOOK_NAMES)
def test_the_panes_of_each_figure_equal_those_in_the_book(name: str) -> None:
    for number, panel in enumerate(run(name)):
        check(name, number, panel.panes)


def test_every_example_of_the_book_is_a_figure() -> None:
    assert len(BOOK_NAMES) == 16
    assert [name for name, figure in FIGURES.items() if figure.source == "Streaming Systems"] == BOOK_NAMES
