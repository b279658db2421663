"""`python -m dataflow_model.examples.zeitgeist`: run the example, and compare detections with planted anomalies."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from rich.console import Console

from dataflow_model.examples.zeitgeist.report import score
from dataflow_model.examples.zeitgeist.running import RUNNERS, run, runner_of
from dataflow_model.examples.zeitgeist.scenario import Scenario
from dataflow_model.examples.zeitgeist.table import summary, table

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDTH: Final = 110
"""The width of a row of the table in characters; a narrower terminal wraps whole lines rather than cells."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example, and return 0 if its precision and recall are good enough."""
    parser = argparse.ArgumentParser(
        prog="python -m dataflow_model.examples.zeitgeist", description="Spikes and dips in searches."
    )
    parser.add_argument(
        "--runner",
        choices=RUNNERS,
        default="local",
        help="the runner (default: %(default)s); batch and streaming need Java 17",
    )
    parser.add_argument("--seed", type=int, default=Scenario().seed, help="the seed of the history")
    parser.add_argument(
        "--days",
        type=int,
        default=Scenario().days,
        help="the length of the history in days, including those to learn from",
    )
    parser.add_argument(
        "--one-watermark",
        action="store_true",
        help="use one watermark for all data centres, so that delayed data look like a dip",
    )
    options = parser.parse_args(arguments)
    if options.days <= Scenario().learning_days:
        parser.error(f"--days must be more than the {Scenario().learning_days} learning days, got {options.days}")
    scenario = Scenario(seed=options.seed, days=options.days)
    history = scenario.make()
    with runner_of(options.runner) as runner:
        outcome = run(scenario, history, runner, by_centre=not options.one_watermark)
    result = score(history.planted, outcome.detections)
    console = Console(width=max(Console().width, _WIDTH))
    console.print(table(result, history.outages))
    console.print(summary(history, outcome, result))
    return 0 if result.is_good else 1


if __name__ == "__main__":
    raise SystemExit(main())
