"""Feed a grouping its elements in order, each with the values that it replaces."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from dataflow_model.errors import UserCodeError
from dataflow_model.metrics.collecting import key_times
from dataflow_model.runners.engine.functions.user_code import user_error
from dataflow_model.runners.engine.lanes.matching import matched
from dataflow_model.runners.engine.lanes.watermarks import Watermarks
from dataflow_model.values import as_pair, encode_key

if TYPE_CHECKING:
    from collections.abc import Hashable

    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.values import Window
    from tests.support.reference.grouping import GroupingEngine

__all__ = ["feed_pairs"]


def feed_pairs(engine: GroupingEngine, inbox: Bundle, *, follow: bool = False) -> None:
    """Feed a grouping its elements in order.

    Args:
        engine: the grouping.
        inbox: the elements.
        follow: whether the watermark follows their event times, as in a bounded job.

    Raises:
        InvalidType: for an element that is not a pair.
        UserCodeError: if a combiner, a window function or a trigger of the user raises.
    """
    for value in inbox.values:
        as_pair(value, engine.label)
    engine.set_up()
    replacing, alone = _matched(inbox) if inbox.updates else ({}, {})
    times = None if follow else key_times(engine.label)
    columns = zip(inbox.values, inbox.times, inbox.windows, inbox.orders, strict=True)
    for row, (value, time, windows, order) in enumerate(columns):
        try:
            if follow:
                engine.advance_watermarks(Watermarks(time))
            if row in alone:
                engine.retraction(value[0], value[1], time, alone[row], order)
            elif row in replacing:
                engine.element(value[0], value[1], time, windows, order, replacing[row])
            elif row not in inbox.retractions():
                engine.element(value[0], value[1], time, windows, order)
        except UserCodeError:  # raised by a firing of the watermark, which the error already describes
            raise
        except Exception as error:
            raise user_error(error, engine.label, value, hint=None) from error
        if times is not None:
            times.note(encode_key(value[0]), value[0])
    if times is not None:
        times.record()


def _matched(inbox: Bundle) -> tuple[dict[int, dict[Window, list[Any]]], dict[int, list[Window]]]:
    """Match retractions with the values that replace them.

    Returns:
        the values that each value replaces in each window, by its index; and the windows in which nothing replaces a
        retraction, by its index.
    """
    replacing: dict[int, dict[Window, list[Any]]] = {}
    alone: dict[int, list[Window]] = {}
    entries = [(row, window) for row in sorted(inbox.updates) for window in inbox.windows[row]]
    keys = {row: encode_key(inbox.values[row][0]) for row in inbox.updates}
    numbers: dict[Hashable, int] = {}
    groups = [
        numbers.setdefault((inbox.updates[row].emission, keys[row], window), len(numbers)) for row, window in entries
    ]
    is_retraction = [inbox.updates[row].is_retraction for row, _ in entries]
    replaces, replaced = matched(np.array(groups, np.int64), np.array(is_retraction, np.bool_))
    before = iter(replaced.tolist())
    for (row, window), count in zip(entries, replaces.tolist(), strict=True):
        if count > 0:
            values = [inbox.values[entries[index][0]][1] for index in itertools.islice(before, count)]
            replacing.setdefault(row, {})[window] = values
        elif count < 0:
            alone.setdefault(row, []).append(window)
    return replacing, alone
