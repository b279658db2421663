"""The colour of each timing, the same in every picture: of Okabe and Ito, which colour-blind readers distinguish."""

from __future__ import annotations

from typing import Final

from dataflow_model.values.panes import PaneTiming

TIMING_COLOURS: Final = {PaneTiming.EARLY: "#0072B2", PaneTiming.ON_TIME: "#009E73", PaneTiming.LATE: "#D98200"}
"""For areas and lines."""
TIMING_INKS: Final = {PaneTiming.EARLY: "#00558A", PaneTiming.ON_TIME: "#00694D", PaneTiming.LATE: "#8F5600"}
"""For texts, which must be darker to be read on white."""
