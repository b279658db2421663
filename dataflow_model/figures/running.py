"""Run a figure in process: the panes of each of its panels, in the order in which they are emitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from dataflow_model.figures.catalogue import find
from dataflow_model.figures.figure import Figure
from dataflow_model.plan.logical.runner import unobserved
from dataflow_model.runners.local import LocalRunner
from dataflow_model.testing import run_script
from dataflow_model.transforms import Sum
from dataflow_model.values.panes import Panes

if TYPE_CHECKING:
    from dataflow_model.figures.figure import Panel
    from dataflow_model.values import Pane


@attrs.frozen(eq=False, repr=False)
class PanelRun:
    """A panel and the panes that our engine emits for it.

    Attributes:
        panes: the panes of the window in focus, or all panes if there is none; in the order of emission.
    """

    figure: Figure
    panel: Panel
    panes: tuple[Pane, ...]

    def __repr__(self) -> str:
        title = f", {self.panel.title}" if self.panel.title else ""
        return f"<run of {self.figure!r}{title}: {len(self.panes)} panes>"

    def _repr_html_(self) -> str:
        return Panes(self.panes)._repr_html_()


def run(figure: Figure | str) -> list[PanelRun]:
    """Run a figure's script on `LocalRunner`: no Java, and the same panes each time.

    Raises:
        InvalidArgument: for an unknown name.

    Example:
        >>> [pane.value for pane in run("6E")[0].panes]
        [12, 7, 11, 12, 9]
    """
    figure = figure if isinstance(figure, Figure) else find(figure)
    return [PanelRun(figure, panel, _panes(figure, panel)) for panel in figure.panels]


def _panes(figure: Figure, panel: Panel) -> tuple[Pane, ...]:
    runner = LocalRunner() if panel.rounds is None else LocalRunner(mode="microbatch", interval=panel.rounds)
    with unobserved():
        panes = run_script(figure.script, panel.windowing, Sum(), runner)
    return tuple(pane for pane in panes if figure.focus is None or pane.window == figure.focus)
