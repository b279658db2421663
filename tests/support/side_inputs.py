"""A pipeline with a changing side input."""

from __future__ import annotations

import dataflow_model as dm
from dataflow_model.testing import TestStream

__all__ = ["joined"]


def joined(p: dm.Pipeline) -> None:
    """Join elements with sums that change while it runs."""
    tens = dm.Window.into(dm.FixedWindows(10))
    main, side = TestStream(), TestStream()
    for number in range(40):
        main = main.processing_time(number).add(number, number, key="ab"[number % 2])
        side = side.processing_time(number).add(1, number, key="xyz"[number % 3])
        side = side.watermark(number - 4) if number >= 4 else side
        main = main.watermark(number - 2) if number >= 2 else main
    sums = p | "side" >> side | "side windows" >> tens | "sums" >> dm.Sum.per_key()
    elements = p | "main" >> main | "main windows" >> tens
    looked = elements | "look" >> dm.Map(lambda pair, side: (pair[0], (pair[1], sorted(side))), dm.AsIter(sums))
    _ = looked | "lists" >> dm.GroupByKey() | "panes" >> dm.io.Collect()
