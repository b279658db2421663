"""The progress of a run: a live table on a terminal and in a notebook, nothing elsewhere."""

from __future__ import annotations

import contextvars
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from dataflow_model.display import Board, cell_text
from dataflow_model.metrics.report_table import board_of
from dataflow_model.plan.logical.nodes import Read, Write
from dataflow_model.plan.logical.runner import is_observed

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Group

    from dataflow_model.metrics.report import RunReport
    from dataflow_model.plan.logical.stages import StagedPlan

_FIRST_SECONDS: Final = 1.0
"""A notebook keeps its output, so a run that ends sooner shows nothing there."""
_BAR: Final = 40
"""The letters of a progress bar."""


class Progress(Protocol):
    """Shows the progress of a run."""

    is_shown: bool
    """Whether the progress is shown anywhere; otherwise it need not be determined."""

    def update(self, board: Callable[[], Board]) -> None:
        """Show the table that the function returns; the function is called only if a table is shown."""
        ...

    def end(self, board: Callable[[], Board]) -> None:
        """Show how the run ended, or remove the table."""
        ...


class _Silent:
    is_shown = False

    def update(self, board: Callable[[], Board]) -> None:
        """Show nothing."""

    def end(self, board: Callable[[], Board]) -> None:
        """Show nothing."""


class _Terminal:
    """A `rich` table that is redrawn in place, and disappears at the end."""

    is_shown = True

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        # What the program prints stays on the standard output; what is logged while the table stands goes above it.
        self._live = Live(
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=True,
        )

    def update(self, board: Callable[[], Board]) -> None:
        """Replace the table."""
        self._live.start()
        self._live.update(progress_table(board()), refresh=True)

    def end(self, board: Callable[[], Board]) -> None:
        """Remove the table."""
        del board
        self._live.stop()


class _Notebook:
    """A table below the cell that has started the run; at the end, it shows how the run ended and stays."""

    is_shown = True

    def __init__(self) -> None:
        # The run has a thread of its own; what it shows belongs to the cell that runs now.
        self._cell = contextvars.copy_context()
        self._first = time.monotonic() + _FIRST_SECONDS
        self._handle: Any = None

    def update(self, board: Callable[[], Board]) -> None:
        """Replace the table below the cell."""
        if time.monotonic() >= self._first:
            self._show(board())

    def end(self, board: Callable[[], Board]) -> None:
        """Show how the run ended, if it took long enough for a table."""
        if self._handle is not None:
            self._show(board())

    def _show(self, board: Board) -> None:
        if self._handle is None:
            from IPython.display import display

            self._handle = self._cell.run(display, board, display_id=True)
        else:
            self._cell.run(self._handle.update, board)


def progress_board(report: RunReport, staged: StagedPlan) -> Board:
    """Return the progress table of a report: a line for each source, keyed transform and sink.

    Example:
        >>> import dataflow_model as dm
        >>> from dataflow_model.plan.logical.stages import cut_into_stages
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create([("UA", 4), ("UA", 6)]) | dm.Sum.per_key() | dm.Values() | dm.io.Collect()
        >>> board = progress_board(p.result.report(), cut_into_stages(p.plan()))
        >>> [row[0] for row in board.rows]
        ['Create', 'Sum.PerKey', 'Collect']
    """
    ends = (node.label for node in staged.whole.nodes if isinstance(node, Read | Write))
    return board_of(report, {*ends, *(node.label for node in staged.keyed)})


def progress_table(board: Board) -> Group:
    """Return a board as a table for the terminal, with its caption on one line below, and a bar if it has one.

    Example:
        >>> table, caption = progress_table(Board(["", "in"], [["Sum.PerKey", 2]], "one commit")).renderables
        >>> [list(column.cells) for column in table.columns], caption.plain
        ([['Sum.PerKey'], ['2']], 'one commit')
    """
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for index, heading in enumerate(board.headings):
        table.add_column(heading, justify="right" if index else "left", no_wrap=True, overflow="ellipsis")
    for row in board.rows:
        table.add_row(*map(cell_text, row))
    # As the caption of the table it would be as narrow as the table, and its last word would stand alone on a line.
    caption = Text(board.caption, style="italic", no_wrap=True, overflow="ellipsis")
    if board.done is None:
        return Group(table, caption)
    return Group(table, caption, ProgressBar(total=1.0, completed=board.done, width=_BAR))


def live_progress() -> Progress:
    """Return the display of a run that starts here: none in tests, under CI, or outside of a terminal or notebook."""
    if not is_observed() or "PYTEST_CURRENT_TEST" in os.environ or os.environ.get("CI"):
        return _Silent()
    if _is_notebook():
        return _Notebook()
    return _Terminal() if sys.stderr.isatty() else _Silent()


def _is_notebook() -> bool:
    """Return whether the program runs in a Jupyter kernel, without importing IPython."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None
