"""The figures of the paper: ten points, one key, sums; panes exact in every field that the data file gives."""

from __future__ import annotations

import pytest

import dataflow_model as dm
from dataflow_model.figures import FIGURES, run
from tests.support.figures.expected import PAPER_NAMES, check


@pytest.mark.parametrize("name", PAPER_NAMES)
def test_the_panes_of_each_figure_equal_those_in_the_paper(name: str) -> None:
    for number, panel in enumerate(run(name)):
        check(name, number, panel.panes)


def test_every_figure_of_the_paper_is_available() -> None:
    assert PAPER_NAMES == ["6B", "6C", "6D", "6E", "6F", "6G", "6H", "6I", "table_1", "6J"]
    assert {name for name, figure in FIGURES.items() if figure.source == "The Dataflow Model"} == set(PAPER_NAMES)


def test_the_table_of_the_paper_compares_discarding_accumulating_and_retracting() -> None:
    modes = [panel.windowing.strategy for panel in FIGURES["table_1"].panels]
    assert [(mode.accumulates, mode.retracting) for mode in modes] == [(False, False), (True, False), (True, True)]


@pytest.mark.parametrize("name", FIGURES)
def test_each_retraction_equals_a_pane_that_was_emitted_before(name: str) -> None:
    for panel in run(name):
        standing: list[tuple[object, ...]] = []
        for pane in panel.panes:
            said = (pane.key, pane.window, pane.value, pane.timestamp, pane.info)
            if pane.is_retraction:
                standing.remove(said)
            else:
                standing.append(said)
        if panel.panel.windowing.strategy.retracting:
            windows = [window for _, window, *_ in standing]
            assert len(windows) == len(set(windows))


def test_the_micro_batch_figure_counts_panes_as_early_until_the_end() -> None:
    panes = run("6G")[0].panes
    assert {pane.info.timing for pane in panes} == {dm.PaneTiming.EARLY}
    assert not any(pane.info.is_last for pane in panes)
