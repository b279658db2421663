"""Two sides of a join from one script, in which elements of both and watermarks follow each other."""

from __future__ import annotations

from typing import Any

import dataflow_model as dm
from dataflow_model.testing import TestStream

Move = tuple[str, int, int]
"""What happens: an element of the left or right side, or a watermark; its event time, and its value."""


def is_left(pair: tuple[str, tuple[str, int]]) -> bool:
    return pair[1][0] == "left"


def is_right(pair: tuple[str, tuple[str, int]]) -> bool:
    return pair[1][0] == "right"


def bare(pair: Any) -> Any:
    return pair[0], pair[1][1]


def scripted(moves: list[Move]) -> TestStream:
    script, watermark = TestStream(), 0
    for what, at, value in moves:
        if what == "watermark":
            watermark = max(watermark, at)
            script = script.watermark(watermark)
        else:
            script = script.add((what, value), at, key="ab"[value % 2])
    return script


def joined(p: dm.Pipeline, moves: list[Move], join: Any, windowing: dm.WindowInto) -> Any:
    elements = p | "script" >> scripted(moves)
    sides = []
    for name, belongs in (("left", is_left), ("right", is_right)):
        side = elements | f"{name} only" >> dm.Filter(belongs) | f"{name} values" >> dm.Map(bare)
        sides.append(side | f"in {name} windows" >> windowing)
    return tuple(sides) | "join" >> join
