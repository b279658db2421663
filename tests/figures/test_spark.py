"""All figures on Spark: as streams, many in one query, and those of bounded data as a batch job, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.figures import FIGURES
from dataflow_model.testing import panes_of
from tests.support.figures.expected import BOUNDED, check

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dataflow_model.figures import Figure

IN_ROUNDS = [name for name, figure in FIGURES.items() if figure.panels[0].rounds is not None]
AS_STREAMS = [name for name in FIGURES if name not in IN_ROUNDS]


def add_figures(p: dm.Pipeline, figures: Iterable[Figure]) -> None:
    """Draw figures side by side; scripts share the clock, each has its own watermark, and equal ones are read once."""
    scripts: dict[Any, dm.PCollection] = {}
    for figure in figures:
        steps = figure.script.steps
        if steps not in scripts:
            scripts[steps] = p | f"script {len(scripts)}" >> figure.script
        for number, panel in enumerate(figure.panels):
            name = f"{figure.name} {number}"
            placed = scripts[steps] | f"{name} windows" >> panel.windowing
            _ = placed | f"{name} sums" >> dm.Sum.per_key() | name >> dm.io.Collect()


def run(runner: Any, names: Iterable[str]) -> Any:
    pipeline = dm.Pipeline(runner=runner)
    add_figures(pipeline, [FIGURES[name] for name in names])
    result = pipeline.run(until="drained")
    result.wait_until_finish()
    return result


def check_all(result: Any, names: Iterable[str], *, batch: bool = False) -> None:
    for name in names:
        for number, _ in enumerate(FIGURES[name].panels):
            panes = panes_of(result.collected(f"{name} {number}"))
            focus = FIGURES[name].focus
            check(name, number, [pane for pane in panes if focus in (None, pane.window)], batch=batch)


def test_figures_run_together_in_process_give_the_panes_of_each_alone() -> None:
    check_all(run(dm.LocalRunner(), AS_STREAMS), AS_STREAMS)


@pytest.mark.slow
@pytest.mark.parametrize("rows_per_batch", [37, 7])
def test_every_figure_has_the_same_panes_on_spark_streaming(
    spark: SparkSession, tmp_path: Path, rows_per_batch: int
) -> None:
    runner = dm.SparkRunner(spark, mode="streaming", checkpoint=str(tmp_path), max_rows_per_batch=rows_per_batch)
    check_all(run(runner, AS_STREAMS), AS_STREAMS)


@pytest.mark.slow
def test_figures_of_bounded_data_have_the_same_panes_on_spark_batch(spark: SparkSession) -> None:
    assert BOUNDED == ["classic_batch", "windowed_batch", "6B", "6F"]
    check_all(run(dm.SparkRunner(spark), BOUNDED), BOUNDED, batch=True)


@pytest.mark.slow
def test_the_figure_in_micro_batches_has_the_same_panes_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    assert IN_ROUNDS == ["6G"]
    runner = dm.SparkRunner(spark, mode="microbatch", interval="1 minute", checkpoint=str(tmp_path))
    check_all(run(runner, IN_ROUNDS), IN_ROUNDS)
