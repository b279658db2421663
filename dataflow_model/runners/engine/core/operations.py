"""The numeric codes that the compiled modules share with the modules that run as Python."""

from __future__ import annotations

from typing import Final

BEFORE, ELEMENT, WATERMARK, AT = range(4)
"""The phases of an instant, in the total order of events."""
# Operations on a cell, in the log. Each docstring says what the argument of the operation is.
ADD: Final = 0
"""The row of the element that is added to the accumulator."""
MERGE: Final = 1
"""The slot of a cell that is merged into this one; the sources of one merge follow one another."""
CLEAR: Final = 2
"""None; the accumulator becomes empty."""
FIRE: Final = 3
"""The pane that is emitted with the current value."""
REPLACE: Final = 4
"""The pane whose value the standing entry in `slot` keeps; it follows the `FIRE` of the same pane."""
RETRACT: Final = 5
"""The pane that retracts the value kept by the standing entry in `slot`."""
EXPIRE: Final = 6
"""None; the cell has expired."""
TAKE_BACK: Final = 7
"""The row of a retracted element without a replacement, which the accumulator subtracts."""
EXCHANGE: Final = 8
"""The row of a retracted element, which the accumulator subtracts; the `ADD` of its replacement follows."""

# Events for a trigger tree.
EVENT_ELEMENT: Final = 0
EVENT_TIMER: Final = 1
EVENT_SIGNAL: Final = 2
EVENT_RETRACTION: Final = 3
EVENT_MERGE: Final = 4

# The bits of the result of a tree.
FIRED: Final = 1
FINISHED: Final = 2
ACCUMULATES: Final = 4
"""The firing keeps the contents; if neither this nor `CLEARS` is set, the accumulation mode decides."""
CLEARS: Final = 8
"""The firing clears the contents."""

# Flags of a pane; without the first two it is early.
PANE_ON_TIME: Final = 1
PANE_LATE: Final = 2
PANE_FIRST: Final = 4
PANE_LAST: Final = 8
PANE_BY_TRIGGER: Final = 16
PANE_RETRACTION: Final = 32

# The sets of places of the trigger tree that a cell keeps.
DONE: Final = 0
"""Places that have finished."""
SET: Final = 1
"""Places whose timer is set."""
MET: Final = 2
"""Places whose condition has been met since their parent last fired."""

# Why elements are dropped; the numbers are indices of `grouping.keyed.DROP_REASONS`.
DROPPED_LATE: Final = 0
DROPPED_CLOSED: Final = 1
DROPPED_RETRACTION: Final = 2

# Kinds of windows. Users' classes have higher numbers.
INTERVAL_KIND: Final = 0
GLOBAL_KIND: Final = 1

# Time domains: the clocks that a cell can wait for. Percentiles of the watermark below 100 have higher numbers.
LOW_DOMAIN: Final = 0
CLOCK_DOMAIN: Final = 1
