"""What the numbers mean that the compiled modules share with the others."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ACCUMULATES",
    "ADD",
    "CLEAR",
    "CLEARS",
    "CLOCK_LINE",
    "DONE",
    "EXCHANGE",
    "EXPIRE",
    "FIRE",
    "GLOBAL_KIND",
    "INTERVAL_KIND",
    "LOW_LINE",
    "MERGE",
    "MET",
    "PANE_BY_TRIGGER",
    "PANE_EARLY",
    "PANE_FIRST",
    "PANE_LAST",
    "PANE_LATE",
    "PANE_ON_TIME",
    "PANE_RETRACTION",
    "REPLACE",
    "RETRACT",
    "SET",
    "TAKE_BACK",
]

# Operations on a cell, in the log. The argument is
ADD: Final = 0
"""the row of the element that its accumulator takes in;"""
MERGE: Final = 1
"""the slot of a cell that is merged into it; the sources of one merge follow one another;"""
CLEAR: Final = 2
"""nothing: it begins again with an empty accumulator;"""
FIRE: Final = 3
"""the pane whose value it is now;"""
REPLACE: Final = 4
"""the pane whose value it is now, in `slot` the standing entry that keeps it; it follows a `FIRE` of the same pane;"""
RETRACT: Final = 5
"""the pane that takes a value back, in `slot` the standing entry that has kept it;"""
EXPIRE: Final = 6
"""nothing: the cell is gone."""
TAKE_BACK: Final = 7
"""the row of a retracted element that nothing replaces, which its accumulator subtracts;"""
EXCHANGE: Final = 8
"""the row of a retracted element, which its accumulator subtracts; the `ADD` of what replaces it follows."""

# What a firing says of the contents, in the result of a tree; without either, the accumulation mode decides.
ACCUMULATES: Final = 4
CLEARS: Final = 8

# Flags of a pane.
PANE_EARLY: Final = 0
PANE_ON_TIME: Final = 1
PANE_LATE: Final = 2
PANE_FIRST: Final = 4
PANE_LAST: Final = 8
PANE_BY_TRIGGER: Final = 16
PANE_RETRACTION: Final = 32

# Sets of places of the trigger tree that a cell has.
DONE: Final = 0
"""those that have finished;"""
SET: Final = 1
"""those whose timer is set;"""
MET: Final = 2
"""those whose condition has been met since the place above them fired."""

# Kinds of windows; users' classes have further numbers.
INTERVAL_KIND: Final = 0
GLOBAL_KIND: Final = 1

# Lines: the clocks that a cell waits for. The percentiles of the watermark below 100 have further numbers.
LOW_LINE: Final = 0
CLOCK_LINE: Final = 1
