"""`dataflow-model figure`: run a figure, print its panes, draw it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from dataflow_model.errors import SinkError
from dataflow_model.figures.catalogue import FIGURES
from dataflow_model.figures.drawing import draw
from dataflow_model.figures.report import list_of, table_of
from dataflow_model.figures.running import run

if TYPE_CHECKING:
    from dataflow_model.figures.figure import Figure


def list_figures() -> None:
    """Print the names of all figures."""
    console = Console()
    console.print("`dataflow-model figure NAME` runs one of these figures in process and draws it:")
    console.print(list_of(FIGURES.values()))


def show_figure(figure: Figure, out: Path | None) -> Path | None:
    """Run a figure in process, print its panes as a table, and draw it if matplotlib is installed.

    Args:
        figure: the figure.
        out: the file to write; `figure-NAME.png` in the current directory by default.

    Returns:
        the file that was written; `None` without matplotlib.

    Raises:
        SinkError: if the file cannot be written.
    """
    console = Console()
    console.print(figure.says)
    runs = run(figure)
    for panel_run in runs:
        for word in panel_run.panel.words():
            console.print(f"  {word}", highlight=False, markup=False)
        console.print()
        console.print(table_of(panel_run))
    console.print()
    if importlib.util.find_spec("matplotlib") is None:
        console.print("No picture: matplotlib is not installed.")
        console.print("Hint: run pip install 'dataflow-model[plot]'", markup=False)
        return None
    target = out or Path(f"figure-{figure.name}.png")
    picture = draw(runs)
    try:
        picture.save(target)
    except (OSError, ValueError) as error:
        raise SinkError(
            f"the picture could not be written to {target}: {error}",
            hint=f"choose another file with --out {figure.name}.png",
        ) from error
    console.print(f"Picture: {target}")
    return target
