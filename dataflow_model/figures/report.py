"""A figure in words: its panes as a table, and the list of all figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, format_instant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.figures.figure import Figure
    from dataflow_model.figures.running import PanelRun
    from dataflow_model.values import Window


def table_of(run: PanelRun) -> Table:
    """Return a table of a panel's panes in the order in which they were emitted."""
    title = f"{run.figure.name}: {run.panel.title}" if run.panel.title else run.figure.heading
    table = Table(title=title, title_style="bold", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in ("emitted", "window", "value", "timing", "index", "on time", "first", "last"):
        right = heading in {"value", "index", "on time"}
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
    for pane in run.panes:
        info = pane.info
        table.add_row(
            _clock(int(pane.processing_time)),
            _window(pane.window),
            f"−{pane.value}" if pane.is_retraction else str(pane.value),
            "retraction" if pane.is_retraction else info.timing.name,
            str(info.index),
            str(info.on_time_index),
            "yes" if info.is_first else "",
            "yes" if info.is_last else "",
        )
    return table


def list_of(figures: Iterable[Figure]) -> Table:
    """Return a table of the figures by source: name, number in the source, title."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    source = ""
    for figure in figures:
        if figure.source != source:
            source = figure.source
            table.add_row(f"[bold]{source}[/bold]", "", "")
        table.add_row(f"  {figure.name}", f"figure {figure.number}" if figure.number else "", figure.title)
    return table


def _window(window: Window) -> str:
    if window.start == MIN_TIMESTAMP:
        return "all event time"
    end = "+∞" if window.end == MAX_TIMESTAMP else _clock(int(window.end))
    return f"{_clock(int(window.start))} – {end}"


def _clock(micros: int) -> str:
    """Return an instant as a clock shows it.

    Example:
        >>> _clock(946_728_019_000_000)
        '12:00:19'
    """
    return format_instant(micros).removesuffix("Z").rpartition("T")[2]
