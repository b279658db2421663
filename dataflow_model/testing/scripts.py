"""`run_script`: run one grouping over a script and return its panes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataflow_model.errors import InvalidType
from dataflow_model.io import Collect
from dataflow_model.plan.logical.runner import wait_or_stop
from dataflow_model.runners.local import LocalRunner
from dataflow_model.testing.streams import TestStream
from dataflow_model.transforms import CombinePerKey, GroupByKey, Pipeline, Window, WindowInto
from dataflow_model.values import Pane
from dataflow_model.values.panes import Panes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.functions.combine import CombineFn
    from dataflow_model.plan.logical.runner import Runner
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.windowing import WindowFn


def run_script(
    script: TestStream,
    windowing: WindowInto | WindowingStrategy | WindowFn,
    combine: CombineFn[Any, Any, Any] | type[CombineFn[Any, Any, Any]] | None = None,
    runner: Runner | None = None,
) -> list[Pane]:
    """Run one grouping over a script and return its panes in emission order.

    Args:
        script: the script; its elements must be pairs, as `add(…, key=…)` creates them.
        windowing: the windowing strategy: windows, trigger, accumulation mode and lateness; or only a window function.
        combine: a combiner, or its class; without one a pane's value is the list of its elements.
        runner: any runner, by default `LocalRunner()`. A batch runner ignores watermarks and clock values.

    Raises:
        InvalidType: for a script that is no `TestStream`.

    Example:
        >>> import dataflow_model as dm
        >>> from dataflow_model.testing import TestStream
        >>> script = TestStream().add(5, event_time=26, key="TeamX").watermark(120).add(9, event_time=85, key="TeamX")
        >>> windowing = dm.Window.into(dm.FixedWindows("2 minutes")).allowed_lateness("1 hour").accumulating()
        >>> [(pane.value, pane.info.timing) for pane in run_script(script, windowing, dm.Sum())]
        [(5, ON_TIME), (14, LATE)]
    """
    if not isinstance(script, TestStream):
        raise InvalidType(
            f"`script` must be a TestStream, got {script!r}",
            hint="write TestStream().add(5, '2013-01-01T05:15Z', key='UA').watermark_to_infinity(), for example",
        )
    pipeline = Pipeline(runner=LocalRunner() if runner is None else runner)
    placed = windowing if isinstance(windowing, WindowInto) else Window.into(windowing)
    windowed = pipeline | "script" >> script | "window" >> placed
    grouped = windowed | "group" >> (GroupByKey() if combine is None else CombinePerKey(combine))
    _ = grouped | "panes" >> Collect()
    result = pipeline.run(until="drained")
    wait_or_stop(result)
    return panes_of(result.collected("panes"))


def panes_of(records: Iterable[Record]) -> Panes:
    """Return the records of a `Collect` of (key, value) pairs as panes.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create([("a", 1), ("a", 2)]) | dm.Sum.per_key() | "sums" >> dm.io.Collect()
        >>> [(pane.key, pane.value, pane.info.timing) for pane in panes_of(p.result.collected("sums"))]
        [('a', 3, ON_TIME)]
    """
    return Panes(
        Pane(
            key=record.value[0],
            window=record.window,
            value=record.value[1],
            timestamp=record.event_time,
            info=record.pane,
            is_retraction=record.is_retraction,
            processing_time=record.processing_time,
        )
        for record in records
    )
