"""The output of the demo: the runs, the panes of a few windows, and whether all results agree."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow.parquet as pq
from rich.table import Table

from dataflow_model.demo.answers import answer_of, by_group, differences, fold, pane_differences
from dataflow_model.demo.choice import choose, local, worst_day
from dataflow_model.demo.pipeline import DELAY, LATENESS
from dataflow_model.runners.engine.core.build import build_of_core
from dataflow_model.time import duration_text
from dataflow_model.values import PaneTiming

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

    from dataflow_model.demo.answers import Answer, Group, Outcome
    from dataflow_model.demo.choice import Shown
    from dataflow_model.plan.columns.records import Record

EARLY_SHARE: Final = 0.10
LATE_SHARE: Final = 0.01
_SHOWN: Final = 6
_STYLES: Final = {PaneTiming.EARLY: "blue", PaneTiming.ON_TIME: "green", PaneTiming.LATE: "red"}
_NAMES: Final = {PaneTiming.EARLY: "early", PaneTiming.ON_TIME: "on time", PaneTiming.LATE: "late"}


@attrs.frozen
class Check:
    """A condition that must hold, and whether it does."""

    text: str
    holds: bool


def introduce(console: Console, path: Path) -> None:
    """Print what is about to run."""
    rows = pq.ParquetFile(path).metadata.num_rows
    console.print(
        f"[bold]{rows:,} flights from New York in 2013[/bold], replayed as they became known: departures and mean "
        "delay per carrier and scheduled hour.\n"
        f"The watermark is {duration_text(DELAY)} behind the latest schedule, with {duration_text(LATENESS)} of "
        "allowed lateness and early, on-time and late panes that accumulate.\n"
        f"The core of the engine is {build_of_core().value}.\n"
    )


def print_run(console: Console, outcome: Outcome) -> None:
    """Print a line about a run that has ended."""
    speed = outcome.rows / outcome.seconds
    console.print(
        f"[bold]{outcome.name}[/bold]: {outcome.rows:,} rows in {outcome.seconds:.1f} s, {speed:,.0f} rows/s, "
        f"{len(outcome.hourly):,} panes"
    )


def print_refinements(console: Console, outcome: Outcome) -> None:
    """Print some windows of the worst day, and every pane of one of them."""
    day = worst_day(outcome.hourly)
    if day is None:
        return
    shown = choose(outcome.hourly, day)
    table = Table(title_style="bold", title=f"{day:%-d %B %Y}: departures, mean delay in minutes", title_justify="left")
    for heading in ("carrier", "hour", "first early pane", "on-time pane", "last late pane", "panes"):
        table.add_column(heading, justify="left" if heading in {"carrier", "hour"} else "right")
    for window in sorted(shown[:_SHOWN], key=lambda window: (window.group[1], window.group[0])):
        panes = {timing: [pane for pane in window.panes if pane.pane.timing is timing] for timing in _STYLES}
        table.add_row(
            window.group[0],
            _hours(window.group),
            _value(panes[PaneTiming.EARLY][:1]),
            _value(panes[PaneTiming.ON_TIME]),
            _value(panes[PaneTiming.LATE][-1:]),
            str(len(window.panes)),
        )
    console.print(table)
    if shown:
        console.print(_all_panes(shown[0]))


def _all_panes(shown: Shown) -> Table:
    carrier = shown.group[0]
    table = Table(title_style="bold", title=f"Every pane of {carrier}, {_hours(shown.group)}", title_justify="left")
    for heading in ("pane", "timing", "emitted", "departures", "mean delay"):
        table.add_column(heading, justify="left" if heading == "timing" else "right")
    for pane in shown.panes:
        answer = answer_of(pane)
        timing = pane.pane.timing
        table.add_row(
            str(pane.pane.index),
            f"[{_STYLES[timing]}]{timing.name}[/]",
            f"{local(int(pane.processing_time)):%H:%M}",
            str(answer.count),
            _minutes(answer),
        )
    return table


def print_summary(console: Console, outcomes: Sequence[Outcome]) -> None:
    """Print a table with a column for each runner: windows, panes by timing, dropped elements, speed."""
    table = Table(title_style="bold", title="Results by runner", title_justify="left")
    table.add_column("")
    columns = []
    for outcome in outcomes:
        table.add_column(outcome.name, justify="right")
        timings, panes = outcome.timings(), len(outcome.hourly)
        columns.append(
            {
                "windows": f"{len(by_group(outcome.hourly)):,}",
                "panes": f"{panes:,}",
                **{
                    f"  {_NAMES[timing]}": f"{timings[timing]:,} ({_share(timings[timing], panes):.1%})"
                    for timing in _STYLES
                },
                "dropped elements": f"{outcome.dropped:,}",
                "cancelled flights": f"{sum(answer.count for answer in fold(outcome.cancelled).values()):,}",
                "seconds": f"{outcome.seconds:.1f}",
                "rows per second": f"{outcome.rows / outcome.seconds:,.0f}",
            }
        )
    for name in columns[0] if columns else ():
        table.add_row(name, *(column[name] for column in columns))
    console.print(table)


def checks(
    outcomes: Sequence[Outcome],
    plain: tuple[Mapping[Group, Answer], Mapping[Group, Answer]],
    *,
    of_all_rows: bool = True,
) -> list[Check]:
    """Check the results of the runs.

    Args:
        outcomes: the runs, with or without a batch run.
        plain: the hourly answers and the cancelled flights of a plain group-by.
        of_all_rows: whether all rows were used. Only then are there enough early and late panes to check their share.
    """
    checked: list[Check] = []
    for outcome in outcomes:
        wrong = differences(fold(outcome.hourly), plain[0]) + differences(fold(outcome.cancelled), plain[1])
        checked.append(
            Check(
                f"{outcome.name}: the last panes equal the results of a plain group-by"
                + (f", except {wrong:,} of them" if wrong else f" ({len(plain[0]):,} hourly, {len(plain[1]):,} daily)"),
                wrong == 0,
            )
        )
        checked.append(Check(f"{outcome.name}: {outcome.dropped:,} elements were dropped", outcome.dropped == 0))
    checked += _pairs(outcomes)
    for outcome in outcomes:
        if outcome.name == "Spark batch" or not of_all_rows:
            continue  # a batch job has no clock, and therefore no early panes
        timings, panes = outcome.timings(), len(outcome.hourly)
        early, late = _share(timings[PaneTiming.EARLY], panes), _share(timings[PaneTiming.LATE], panes)
        checked.append(
            Check(
                f"{outcome.name}: {early:.1%} of the panes are early (at least {EARLY_SHARE:.0%}), "
                f"{late:.1%} late (at least {LATE_SHARE:.0%})",
                early >= EARLY_SHARE and late >= LATE_SHARE,
            )
        )
    return checked


def _pairs(outcomes: Sequence[Outcome]) -> list[Check]:
    """Compare each two runs: streams pane for pane, a stream and a batch job by their final results."""
    checked = []
    for left, right in itertools.combinations(outcomes, 2):
        names = f"{left.name} and {right.name}"
        if "Spark batch" in {left.name, right.name}:
            wrong = differences(fold(left.hourly), fold(right.hourly))
            wrong += differences(fold(left.cancelled), fold(right.cancelled))
            agreement, unit = "agree on every result", "results"
        else:
            wrong = pane_differences(left.hourly, right.hourly) + pane_differences(left.cancelled, right.cancelled)
            agreement, unit = "agree pane for pane, including timing and processing time", "panes"
        text = f"{names} {agreement}" if wrong == 0 else f"{names} differ in {wrong:,} {unit}"
        checked.append(Check(text, wrong == 0))
    return checked


def print_checks(console: Console, checked: Sequence[Check]) -> bool:
    """Print the checks; return whether all hold."""
    for check in checked:
        mark = "[green]✓[/green]" if check.holds else "[bold red]✗[/bold red]"
        console.print(f"{mark} {check.text}", highlight=False)
    agree = all(check.holds for check in checked)
    console.print("[bold green]All results agree.[/]" if agree else "[bold red]Some checks failed.[/]")
    return agree


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _hours(group: Group) -> str:
    return f"{local(group[1]):%H:%M}–{local(group[2]):%H:%M}"


def _value(panes: Sequence[Record]) -> str:
    if not panes:
        return "–"
    answer = answer_of(panes[0])
    return f"{answer.count}, {_minutes(answer)}"


def _minutes(answer: Answer) -> str:
    return "–" if answer.mean is None else f"{answer.mean:.1f}"
