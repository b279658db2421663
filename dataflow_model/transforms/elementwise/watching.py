"""Observe a collection without changing it: Tee and LogElements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.arguments import calls_explained
from dataflow_model.errors import LOG, InvalidType
from dataflow_model.time import format_instant
from dataflow_model.transforms.elementwise.maps import Map
from dataflow_model.transforms.pipelines.ptransform import PTransform

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.plan.functions.typevars import ElementT
    from dataflow_model.time import EventTime
    from dataflow_model.transforms.pipelines.pcollection import PCollection
    from dataflow_model.values import PaneInfo, Window


class Tee(PTransform):
    """Apply transforms to a collection, and return the collection unchanged.

    Args:
        consumers: transforms, or functions of the collection; their results are ignored.

    Raises:
        InvalidType: for a value that is neither.

    Source: Beam's `Tee`.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     lines = p | dm.Create(["to be", "or not"]) | dm.Tee("raw" >> dm.io.Collect())
        ...     _ = lines | dm.FlatMap(str.split) | "words" >> dm.io.Collect()
        >>> [record.value for record in p.result.collected("Tee/raw")]
        ['to be', 'or not']
    """

    input_kind = "collection"

    def __init__(self, *consumers: PTransform | Callable[[PCollection], Any]) -> None:
        branches: tuple[Any, ...] = consumers
        for consumer in branches:
            if not isinstance(consumer, PTransform) and (not callable(consumer) or isinstance(consumer, type)):
                raise InvalidType(
                    f"Tee takes transforms or functions of a collection, got {consumer!r}",
                    hint="use dm.Tee(dm.io.WriteJson('raw/')), for example",
                )
        self.consumers = consumers

    def expand(self, pcoll: PCollection[ElementT], /) -> PCollection[ElementT]:
        """Apply each."""
        for consumer in self.consumers:
            if isinstance(consumer, PTransform):
                _ = pcoll | consumer
            else:
                consumer(pcoll)
        return pcoll


@calls_explained(
    {
        "label": "write 'name' >> dm.LogElements(…)",
        "with_pane_info": "use `with_pane`",
        "use_epoch_time": "leave it out: event times are shown in UTC",
    }
)
class LogElements(PTransform):
    """Print or log each element, and pass it on.

    Lines are written by the process that runs the transform, which on Spark is a worker: they are printed or, with a
    `level`, go to the logger `dataflow_model`.

    Args:
        prefix: the text at the start of each line.
        with_timestamp: add the event time.
        with_window: add the window; an element in several windows is then logged and passed on once for each window.
        with_pane: add the pane's timing and index.
        level: the log level, such as `logging.INFO`; without a level, lines are printed.

    Raises:
        InvalidType: for a level that is not a number.

    Source: Beam's `LogElements`, which logs to the root logger.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create([dm.TimestampedValue("a", 5)]) | dm.LogElements("seen: ", with_timestamp=True)
        seen: a, timestamp=1970-01-01T00:00:05Z
    """

    input_kind = "collection"

    def __init__(
        self,
        prefix: str = "",
        *,
        with_timestamp: bool = False,
        with_window: bool = False,
        with_pane: bool = False,
        level: int | None = None,
    ) -> None:
        if level is not None and type(level) is not int:
            raise InvalidType(f"`level` must be a number, got {level!r}", hint="use level=logging.INFO")
        line = _Line(prefix=prefix, with_timestamp=with_timestamp, with_pane=with_pane, level=level)
        self._fn = _LogWithWindow(line) if with_window else _Log(line)

    def expand(self, pcoll: PCollection[ElementT], /) -> PCollection[ElementT]:
        """Add the function."""
        logged: PCollection[Any] = pcoll | Map(self._fn).with_output_types(pcoll.element_type)
        return logged


@attrs.frozen(kw_only=True)
class _Line:
    """Writes a line about an element to the log, or prints it."""

    prefix: str
    with_timestamp: bool
    with_pane: bool
    level: int | None

    def write(self, element: Any, timestamp: EventTime, pane: PaneInfo, taken_back: bool, window: Any = None) -> None:  # noqa: FBT001
        parts = [f"{self.prefix}{'retraction of ' if taken_back else ''}{element}"]
        if self.with_timestamp:
            parts.append(f"timestamp={format_instant(int(timestamp))}")
        if window is not None:
            parts.append(f"window={window}")
        if self.with_pane:
            parts.append(f"pane={pane.timing.name} {pane.index}")
        line = ", ".join(parts)
        if self.level is None:
            print(line)  # noqa: T201 - what it is for
        else:
            LOG.log(self.level, "%s", line)


@attrs.frozen
class _Log:
    """Writes a line about each element, and returns the element."""

    line: _Line

    def __call__(self, element: Any, timestamp: EventTime, pane: PaneInfo, is_retraction: bool) -> Any:  # noqa: FBT001 - as the engine fills them
        self.line.write(element, timestamp, pane, is_retraction)
        return element


@attrs.frozen
class _LogWithWindow:
    """Writes a line with the window too, which makes the engine call it once for each window of an element."""

    line: _Line

    def __call__(
        self,
        element: Any,
        timestamp: EventTime,
        pane: PaneInfo,
        is_retraction: bool,  # noqa: FBT001 - as the engine fills them
        window: Window,
    ) -> Any:
        self.line.write(element, timestamp, pane, is_retraction, window)
        return element
