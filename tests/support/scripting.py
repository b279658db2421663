"""Short scripts and short forms of panes, for examples that fit on a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

import dataflow_model as dm
from dataflow_model.testing import TestStream, panes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.plan.logical.strategy import WindowingStrategy

KEY = "k"


def script(text: str) -> TestStream:
    """Read `"e 1@5, w 10, p 3, w +inf"`: elements (value@event time), watermarks, clock values; all in seconds.

    `e 1@5+2@6` are two elements in one bundle.
    """
    stream = TestStream()
    for step in text.split(", ") if text else ():
        kind, _, rest = step.partition(" ")
        match kind:
            case "w" if rest == "+inf":
                stream = stream.watermark_to_infinity()
            case "w":
                stream = stream.watermark(float(rest))
            case "p":
                stream = stream.processing_time(float(rest))
            case _:
                pairs = [element.split("@") for element in rest.split("+")]
                stream = stream.bundle([(int(value), float(at)) for value, at in pairs], key=KEY)
    return stream


@attrs.frozen
class Run:
    """What one grouping has given."""

    panes: list[dm.Pane]
    counters: Mapping[str, Any]

    @property
    def brief(self) -> list[tuple[Any, str]]:
        """Each pane's value and timing."""
        return [(pane.value, pane.info.timing.name) for pane in self.panes]

    @property
    def values(self) -> list[Any]:
        """Each pane's value."""
        return [pane.value for pane in self.panes]

    @property
    def clocks(self) -> list[float]:
        """Each pane's processing time in seconds."""
        return [int(pane.processing_time) / 1e6 for pane in self.panes]

    @property
    def times(self) -> list[float]:
        """Each pane's event time in seconds, rounded to what is not the last microsecond."""
        return [round(int(pane.timestamp) / 1e6, 3) for pane in self.panes]


def run(
    text: str | TestStream,
    windowing: dm.WindowInto | WindowingStrategy,
    combine: dm.CombineFn[Any, Any, Any] | None = None,
) -> Run:
    """Run one grouping, sums by default."""
    stream = text if isinstance(text, TestStream) else script(text)
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    placed = windowing if isinstance(windowing, dm.WindowInto) else dm.Window.into(windowing)
    grouped = pipeline | "script" >> stream | placed | "group" >> dm.CombinePerKey(combine or dm.Sum())
    _ = grouped | "panes" >> dm.io.Collect()
    result = pipeline.run()
    result.wait_until_finish()
    return Run(panes_of(result.collected("panes")), result.metrics().get("group", {}))


def fixed(trigger: dm.Trigger | None = None, lateness: float = 0) -> dm.WindowInto:
    """Windows of ten seconds, discarding; trees that may lose data are taken."""
    windowing = dm.Window.into(dm.FixedWindows(10)).allowed_lateness(lateness)
    return windowing if trigger is None else windowing.trigger(trigger, may_lose_data=True)


def sessions(trigger: dm.Trigger | None = None, lateness: float = 0) -> dm.WindowInto:
    """Sessions with a gap of ten seconds, discarding; trees that may lose data are taken."""
    windowing = dm.Window.into(dm.Sessions(10)).allowed_lateness(lateness)
    return windowing if trigger is None else windowing.trigger(trigger, may_lose_data=True)
