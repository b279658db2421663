"""Run the example on each of the three runners."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import dataflow_model as dm
from dataflow_model.examples.zeitgeist.report import Outcome
from dataflow_model.examples.zeitgeist.topology import Searches, zeitgeist

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflow_model.examples.zeitgeist.scenario import History, Scenario
    from dataflow_model.plan.logical.runner import Runner

RUNNERS: Final = ("local", "batch", "streaming")
_ROWS_PER_BATCH: Final = 8_000
_CORES: Final = 2


@contextlib.contextmanager
def runner_of(name: str, spark: Any = None) -> Iterator[Runner]:
    """Yield the named runner, with its own Spark session unless one is passed."""
    with contextlib.ExitStack() as stack:
        if name == "local":
            yield dm.LocalRunner()
            return
        if spark is None:
            from dataflow_model.runners.spark import local_session

            # Spark and its workers log to a file, because their output would hide the table.
            log = stack.enter_context(tempfile.TemporaryDirectory(prefix="zeitgeist-"))
            spark = local_session("zeitgeist", _CORES, log=str(Path(log, "spark.log")))
            stack.callback(spark.stop)
        if name == "batch":
            yield dm.SparkRunner(spark, mode="batch")
            return
        checkpoint = stack.enter_context(tempfile.TemporaryDirectory(prefix="zeitgeist-"))
        yield dm.SparkRunner(spark, mode="streaming", checkpoint=checkpoint, max_rows_per_batch=_ROWS_PER_BATCH)


def run(scenario: Scenario, history: History, runner: Runner, *, by_centre: bool = True) -> Outcome:
    """Run the topology on a history to its end."""
    with tempfile.TemporaryDirectory(prefix="zeitgeist-") as folder:
        searches = Searches(history.write(Path(folder, "searches.parquet")), by_centre=by_centre)
        result = zeitgeist(searches, scenario.calendar, scenario.learning_days).run(runner)
        result.wait_until_finish()
        return Outcome.of(result)
