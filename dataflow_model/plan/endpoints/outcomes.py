"""What is right for the panes of a grouping: each accumulation mode, with each firing, into each kind of reader.

The rules here are the only place that decides. `run()` checks a plan against them, and the table in the documentation
is written from them.
"""

from __future__ import annotations

import enum
from typing import Final

import attrs


class Mode(enum.Enum):
    """What a pane contains; a mode that obeys the trigger counts as its default."""

    DISCARDING = "discarding"
    ACCUMULATING = "accumulating"
    RETRACTING = "retracting"


class Firings(enum.Enum):
    """When a window may emit panes."""

    ON_TIME = "on time"
    """One pane, when the watermark passes the window: the windows of a key in the order of their ends."""
    ONCE = "once"
    """One pane, at any time: the windows of a key in any order."""
    EARLY = "early"
    LATE = "late"
    EARLY_AND_LATE = "early and late"
    REOPENED = "reopened"
    """Another first pane of a window that has expired: `late_data="duplicate_window"`."""


class Windows(enum.Enum):
    """What may become of a window that has emitted a pane."""

    STAY = "stay"
    MERGE = "merge"
    """It may become part of another one."""
    VANISH = "vanish"
    """All of its elements may be taken back, since they are panes of a retracting grouping."""


class Reader(enum.Enum):
    """Who takes the panes, by what it can tell about them."""

    ROWS = "`WriteParquet`, `WriteJson`, `WriteCsv`, `WriteKafka`, `ToDataFrame`"
    ROWS_WITH_PANES = "the same with `panes=True`"
    LINES = "`WriteText`"
    ROW_OF_PANE = "`WriteTable`, `WriteKafka(…, upsert=True)`, keys with window and `pane_index`"
    ROW_OF_WINDOW = "`WriteTable`, `WriteKafka(…, upsert=True)`, keys with the window"
    NEWEST_ROW = "`WriteTable` with `panes=True`, keys without the window"
    ROW = "`WriteTable`, `WriteKafka(…, upsert=True)`, without the window"
    REPLACED_ROW = '`WriteTable(…, upsert="replace")`, `WriteKafka(…, upsert="replace")`'
    VALUES = "`ForeachBundle`"
    RECORDS = "`Collect`, `ForeachBundle(…, whole_records=True)`, your own sinks"
    PARTS = "a grouping that combines parts: a sum of sums or counts, a maximum of maxima"
    WHOLES = "a grouping that takes each pane as a whole: `Count`, `Mean`, or any of a `Mean`"


class Verdict(enum.Enum):
    """Whether the result is right; a warning is for a result that is right only if the reader knows how to read it."""

    RIGHT = "right"
    WARNED = "warned"
    REJECTED = "rejected"


_REFINED: Final = frozenset({Firings.EARLY, Firings.LATE, Firings.EARLY_AND_LATE})
_UPSERTED: Final = frozenset({Reader.ROW_OF_WINDOW, Reader.NEWEST_ROW, Reader.ROW})
_GROUPED: Final = frozenset({Reader.PARTS, Reader.WHOLES})
_APPENDED: Final = frozenset({Reader.ROWS, Reader.ROWS_WITH_PANES, Reader.LINES})
_ALL: Final = frozenset(Mode)
_SUMMED: Final = "the panes of a window add up to its elements"
_REPLACE: Final = 'or pass upsert="replace" if the row emitted last is meant'
_RETRACT: Final = "use .accumulating_and_retracting()"


@attrs.frozen
class Outcome:
    """The answer for one combination.

    Attributes:
        verdict: whether it is right.
        why: how the result is read if it is right, else what would be wrong, as a clause.
        way_out: what to do instead, as an imperative in which `{grouping}` stands for the label of the grouping; empty
            if the outcome is right.
    """

    verdict: Verdict
    why: str
    way_out: str = ""


@attrs.frozen
class Rule:
    """One outcome and the combinations to which it applies, unless an earlier rule does."""

    outcome: Outcome
    modes: frozenset[Mode] = _ALL
    firings: frozenset[Firings] = frozenset(Firings)
    windows: frozenset[Windows] = frozenset(Windows)
    readers: frozenset[Reader] = frozenset(Reader)

    def applies(self, mode: Mode, firings: Firings, windows: Windows, reader: Reader) -> bool:
        """Return whether a combination is one of the rule's."""
        return mode in self.modes and firings in self.firings and windows in self.windows and reader in self.readers


def _warned(why: str, way_out: str) -> Outcome:
    return Outcome(Verdict.WARNED, why, way_out)


def _rejected(why: str, way_out: str) -> Outcome:
    return Outcome(Verdict.REJECTED, why, way_out)


def _right(why: str) -> Outcome:
    return Outcome(Verdict.RIGHT, why)


_DISCARDING: Final = frozenset({Mode.DISCARDING})
_ACCUMULATING: Final = frozenset({Mode.ACCUMULATING})
_RETRACTING: Final = frozenset({Mode.RETRACTING})
_MERGE: Final = frozenset({Windows.MERGE})
_VANISH: Final = frozenset({Windows.VANISH})
_VANISHED: Final = _rejected(
    "a window whose elements are all taken back would leave no result in the row, although the key may have an older "
    "window",
    f"add 'window_start' to keys= with panes=True to keep a row for each window, {_REPLACE}",
)

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        _right("the row emitted last stands, whichever window and pane it is of"),
        readers=frozenset({Reader.REPLACED_ROW}),
    ),
    Rule(
        _right("each record has its window, its pane and `is_retraction`; a merged window replaces those in it"),
        readers=frozenset({Reader.RECORDS}),
    ),
    Rule(
        _rejected(
            "a reopened window starts again with pane 0, which contains only late elements, and this pane would "
            "replace the row of the whole window",
            f'use .allowed_lateness(…) with .accumulating() instead of late_data="duplicate_window", {_REPLACE}',
        ),
        firings=frozenset({Firings.REOPENED}),
        readers=_UPSERTED | {Reader.ROW_OF_PANE},
    ),
    Rule(
        _rejected(
            "each pane contains only what is new, so a row would hold the last increment and not the whole window",
            f"use .accumulating(), or add 'pane_index' to keys= with panes=True and add the rows up, {_REPLACE}",
        ),
        _DISCARDING,
        _REFINED,
        readers=_UPSERTED,
    ),
    Rule(
        _rejected(
            "the table does not have the windows, so a pane of an older window would replace the row of a newer one",
            "pass panes=True and add 'window_start' to keys= to keep a row for each window (WriteTable keeps that of "
            f"the newest window with panes=True alone), {_REPLACE}",
        ),
        firings=_REFINED | {Firings.ONCE},
        readers=frozenset({Reader.ROW}),
    ),
    Rule(
        _VANISHED,
        _DISCARDING | _ACCUMULATING,
        windows=_VANISH,
        readers=frozenset({Reader.NEWEST_ROW, Reader.ROW}),
    ),
    Rule(_VANISHED, _RETRACTING, _REFINED, _VANISH, frozenset({Reader.NEWEST_ROW})),
    Rule(
        _rejected("the rows of windows that have merged into others would stay", f"{_RETRACT}, {_REPLACE}"),
        _ACCUMULATING,
        _REFINED,
        _MERGE,
        frozenset({Reader.ROW_OF_WINDOW}),
    ),
    Rule(
        _warned(
            "each pane contains the elements of the previous ones, so these are counted more than once",
            f"{_RETRACT} before {{grouping}}; .discarding() is right only where combining the panes combines the "
            "elements, as in a sum of sums or counts, or the greatest of the greatest, but not in a mean of means",
        ),
        _ACCUMULATING,
        _REFINED,
        readers=_GROUPED,
    ),
    Rule(
        _warned(
            "each pane contains only what is new, but the grouping takes it for the result of a whole window",
            f"{_RETRACT} before {{grouping}}",
        ),
        _DISCARDING,
        _REFINED | {Firings.REOPENED},
        readers=frozenset({Reader.WHOLES}),
    ),
    Rule(
        _warned(
            "a reopened window has another pane, but the grouping takes each pane for the result of a whole window",
            "use .allowed_lateness(…) with .accumulating_and_retracting() before {grouping}",
        ),
        firings=frozenset({Firings.REOPENED}),
        readers=frozenset({Reader.WHOLES}),
    ),
    Rule(
        _warned(
            "a window whose elements are all taken back keeps a pane without elements, which the grouping counts",
            f"{_RETRACT} before {{grouping}}",
        ),
        _DISCARDING | _ACCUMULATING,
        windows=_VANISH,
        readers=frozenset({Reader.WHOLES}),
    ),
    Rule(
        _warned(
            "each pane contains the elements of the previous ones, and rows of windows that have merged into others "
            "stay, so no reader can tell which rows count",
            _RETRACT,
        ),
        _ACCUMULATING,
        _REFINED,
        _MERGE,
        frozenset({Reader.ROWS, Reader.ROWS_WITH_PANES, Reader.ROW_OF_PANE}),
    ),
    Rule(
        _warned(
            "each pane contains the elements of the previous ones, but a reader cannot tell which row is the newest",
            f"pass panes=True, and read the row with the greatest `pane_index` of each key and window, or {_RETRACT}",
        ),
        _ACCUMULATING,
        _REFINED,
        readers=frozenset({Reader.ROWS}),
    ),
    Rule(
        _warned(
            "each pane contains the elements of the previous ones, but a reader cannot tell which line is the newest",
            "use dm.io.WriteCsv or dm.io.WriteJson with panes=True, or .discarding() if the lines may be added up",
        ),
        _ACCUMULATING,
        _REFINED,
        readers=frozenset({Reader.LINES}),
    ),
    Rule(
        _rejected(
            "it emits retractions, which a line cannot show",
            "use dm.io.WriteCsv or dm.io.WriteJson, which have a column for them",
        ),
        _RETRACTING,
        _REFINED,
        readers=frozenset({Reader.LINES}),
    ),
    Rule(
        _rejected(
            "it emits retractions, and the function is passed plain values, so it could not recognise them",
            "pass whole_records=True, and check record.is_retraction",
        ),
        _RETRACTING,
        _REFINED,
        readers=frozenset({Reader.VALUES}),
    ),
    # What is right, and how it is read.
    Rule(_right("each window has one pane"), firings=frozenset({Firings.ON_TIME, Firings.ONCE})),
    Rule(_right(_SUMMED), firings=frozenset({Firings.REOPENED})),
    Rule(_right(_SUMMED), _DISCARDING),
    Rule(
        _right("the values minus the retractions are the results"),
        _RETRACTING,
        readers=_APPENDED | _GROUPED,
    ),
    Rule(
        _right("the row of a key and window with the greatest `pane_index` is its result"),
        _ACCUMULATING,
        readers=frozenset({Reader.ROWS_WITH_PANES, Reader.ROW_OF_PANE}),
    ),
    Rule(_right("the row of a key is the newest pane of its newest window"), readers=frozenset({Reader.NEWEST_ROW})),
    Rule(
        _right("the row of a key and window is its newest pane"),
        readers=frozenset({Reader.ROW_OF_WINDOW, Reader.ROW_OF_PANE}),
    ),
    Rule(
        _right(
            "values are passed in emission order: the last of a window counts, and a merged window replaces those in it"
        ),
        _ACCUMULATING,
    ),
)
"""The first rule that applies decides."""


def outcome(mode: Mode, firings: Firings, windows: Windows, reader: Reader) -> Outcome:
    """Return what becomes of the panes.

    Example:
        >>> outcome(Mode.DISCARDING, Firings.LATE, Windows.STAY, Reader.ROW_OF_WINDOW).verdict
        <Verdict.REJECTED: 'rejected'>
        >>> outcome(Mode.ACCUMULATING, Firings.LATE, Windows.STAY, Reader.ROW_OF_WINDOW).why
        'the row of a key and window is its newest pane'
    """
    return next(rule.outcome for rule in RULES if rule.applies(mode, firings, windows, reader))
