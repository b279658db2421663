"""`dataflow-model figure`: the examples of the paper and of the book, run and drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dataflow_model.cli.answer import Answer, WrongUsage, add_command
from dataflow_model.errors import InvalidArgument

if TYPE_CHECKING:
    import argparse

    from dataflow_model.cli.answer import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "figure",
        _figure,
        does="run and draw a figure of the paper or of the book",
        example="dataflow-model figure 6J --out sessions.svg",
        description="Run a figure of the Dataflow Model paper or an example of the book in process, print its panes, "
        "and draw them, which needs matplotlib: pip install 'dataflow-model[plot]'. Without a name, list all figures.",
    )
    parser.add_argument(
        "name", nargs="*", metavar="NAME", help="one name or number, such as 6J, figure 14 or 2-10 left"
    )
    parser.add_argument(
        "--out", type=Path, metavar="PATH", help="file for the picture: .png, .svg or .pdf (default: figure-NAME.png)"
    )


def _figure(options: argparse.Namespace) -> Answer:
    from dataflow_model.figures import FIGURES, find
    from dataflow_model.figures.command import list_figures, show_figure

    if not options.name:
        list_figures()
        return Answer({"figures": list(FIGURES)})
    try:
        figure = find(" ".join(options.name))
    except InvalidArgument as error:
        raise WrongUsage(str(error)) from error
    picture = show_figure(figure, options.out)
    return Answer({"figure": figure.name, "picture": None if picture is None else str(picture)})
