"""The figures of the Dataflow Model paper and of "Streaming Systems", computed by our own engine and drawn.

`draw("6J")` runs a figure's script on `LocalRunner` and draws its panes; `run("6J")` returns the panes; `FIGURES`
contains all figures. No pane is written down here: every one is computed.

Begin with `figure` and `catalogue`, then `running`, `scene` and `drawing`.
"""

from __future__ import annotations

from dataflow_model.figures.catalogue import FIGURES, find
from dataflow_model.figures.drawing import Picture, draw
from dataflow_model.figures.figure import Figure, Panel
from dataflow_model.figures.report import table_of
from dataflow_model.figures.running import PanelRun, run
from dataflow_model.figures.validity import ValidityWindows

__all__ = ["FIGURES", "Figure", "Panel", "PanelRun", "Picture", "ValidityWindows", "draw", "find", "run", "table_of"]
