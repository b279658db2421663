"""A function of the engine whose work on an element outlasts the input, and plans with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dataflow_model as dm
from dataflow_model.plan.functions.resuming import ResumingFn
from dataflow_model.plan.functions.windowed import WindowedOutput
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, Ref
from dataflow_model.plan.logical.strategy import WindowingStrategy
from dataflow_model.values import NO_FIRING, interval
from tests.support.windowed import SECOND, par_do

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflow_model.plan.logical.nodes import Node

_WINDOW = 10 * SECOND


class Counting(ResumingFn):
    """Counts from 0 up to each element, one number whenever it is resumed, at as many seconds of event time.

    Args:
        pause: after how many microseconds it is resumed.
    """

    next_number = dm.ValueStateSpec[int](default=0)
    end = dm.ValueStateSpec[int](default=0)
    again = dm.TimerSpec(dm.TimeDomain.PROCESSING_TIME)

    def __init__(self, pause: int = 1) -> None:
        self.pause = pause
        self.is_drained = False

    def drain(self) -> None:
        self.is_drained = True

    def process(
        self, pair: tuple[str, int], next_number: dm.ValueState[int], end: dm.ValueState[int], again: dm.Timer
    ) -> Iterator[Any]:
        end.write(pair[1])
        return self._count(pair[0], next_number, end, again)

    @dm.on_timer(again)
    def resume(
        self, key: str, next_number: dm.ValueState[int], end: dm.ValueState[int], again: dm.Timer
    ) -> Iterator[Any]:
        return self._count(key, next_number, end, again)

    def _count(
        self, key: str, next_number: dm.ValueState[int], end: dm.ValueState[int], again: dm.Timer
    ) -> Iterator[Any]:
        number = next_number.read()
        if self.is_drained or number >= end.read():
            next_number.clear()
            end.clear()
            return
        next_number.write(number + 1)
        reached = dm.EventTime((number + 1) * SECOND)
        again.set_after(dm.Duration(micros=self.pause), output_timestamp=reached)
        start = number * SECOND // _WINDOW * _WINDOW
        yield WindowedOutput((key, number), number * SECOND, (interval(start, start + _WINDOW),), NO_FIRING)


def counted(source: Ref, fn: Counting | None = None) -> list[Node]:
    """Return the nodes that count, and sum what is counted by key in windows of 10 seconds."""
    strategy = WindowingStrategy(dm.FixedWindows(dm.Duration(micros=_WINDOW)))
    return [
        par_do("counting", source, fn or Counting()),
        GroupByKeyAndWindow(label="sums", input=Ref("counting"), strategy=strategy, combine=dm.Sum()),
    ]


def sums(*ends: tuple[str, int]) -> list[tuple[str, int, int]]:
    """Return the sum of each key and window, with the window's start in seconds, in order."""
    panes: dict[tuple[str, int], int] = {}
    for key, end in ends:
        for number in range(end):
            panes[key, number // 10 * 10] = panes.get((key, number // 10 * 10), 0) + number
    return sorted((key, start, total) for (key, start), total in panes.items())
