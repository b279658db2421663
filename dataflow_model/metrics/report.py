"""The report of a run at one moment: by transform, by stage, and as a whole."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import attrs

from dataflow_model.display import brief_fields, brief_repr, html_table
from dataflow_model.metrics.report_table import board_of
from dataflow_model.readable import readable_instant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.time import Duration, EventTime, ProcessingTime


@attrs.frozen
class WatermarkJump:
    """An event from the far future that has moved the watermark of a source more than a day ahead of the clock.

    Attributes:
        event_time: the event time of the element.
        clock: the clock when it arrived.
    """

    event_time: EventTime
    clock: ProcessingTime


@attrs.frozen(repr=False)
class DistributionValue:
    """The count, sum, minimum and maximum of some numbers; all 0 if there were none.

    Example:
        >>> DistributionValue(count=3, sum=15, min=2, max=9).mean
        5.0
    """

    count: int = 0
    sum: float = 0
    min: float = 0
    max: float = 0

    @property
    def mean(self) -> float:
        """The sum divided by the count; 0 if there were no numbers."""
        return self.sum / self.count if self.count else 0.0

    def __repr__(self) -> str:
        return brief_repr(self)


@attrs.frozen
class SlowKey:
    """A key whose elements took long to process.

    Attributes:
        key: the key as text, at most 80 characters.
        seconds: the time that the timed elements took; `docs/watching.md` says which elements are timed.
        elements: the number of timed elements.
    """

    key: str
    seconds: float
    elements: int


@attrs.frozen(repr=False)
class UserMetrics:
    """The metrics that a transform's own functions have recorded, by name."""

    counters: Mapping[str, int] = attrs.field(factory=dict)
    distributions: Mapping[str, DistributionValue] = attrs.field(factory=dict)
    gauges: Mapping[str, float] = attrs.field(factory=dict)

    def __repr__(self) -> str:
        return brief_repr(self)


@attrs.frozen(kw_only=True, repr=False)
class TransformReport:
    """The report of one transform.

    Attributes:
        label: the full label.
        stage: the stage in which it runs: 0 with the sources, n after the n-th shuffle; sinks have the highest number.
        elements_in, elements_out: the number of elements received and emitted; a pane is one element.
        bundle_sizes: the sizes of the bundles received, in elements.
        panes: the number of panes emitted, by `"early"`, `"on_time"` and `"late"`.
        dropped: the number of elements dropped, by reason (`"late"`, `"closed"`, …).
        counters: all counters that the engine keeps for the transform, as in `result.metrics()`.
        watermark: the output watermark; `None` if the transform has none of its own.
        watermark_lag: how far the watermark is behind the clock, negative if it is ahead; `None` if that is unknown, 0
            at +∞.
        watermark_jump: of a source, the first event that has moved its watermark more than a day ahead of the clock, if
            one has. Sources with `max_ahead` report none.
        state_entries: the number of keys with state (of partial sums, for groupings in columns); `None` without state.
        state_bytes: the size of the state when it is stored; `None` if it is not stored.
        levels: of a source of a stream that is running, numbers that it reports itself, by name and origin, such as
            `"lag"`: the rows of each partition of Kafka that are not read yet.
        slowest_keys: the slowest of the timed keys, the slowest first.
        user: the metrics that its own functions have recorded.
    """

    label: str
    stage: int
    elements_in: int = 0
    elements_out: int = 0
    bundle_sizes: DistributionValue = DistributionValue()
    panes: Mapping[str, int] = attrs.field(factory=dict)
    dropped: Mapping[str, int] = attrs.field(factory=dict)
    counters: Mapping[str, int] = attrs.field(factory=dict)
    watermark: EventTime | None = None
    watermark_lag: Duration | None = None
    watermark_jump: WatermarkJump | None = None
    state_entries: int | None = None
    state_bytes: int | None = None
    levels: Mapping[str, Mapping[str, int]] = attrs.field(factory=dict)
    slowest_keys: tuple[SlowKey, ...] = ()
    user: UserMetrics = UserMetrics()

    def __repr__(self) -> str:
        return brief_repr(self)

    def _repr_html_(self) -> str:
        fields = [(name, value) for name, value in brief_fields(self) if name != "label"]
        return html_table(self.label, (), fields, total=len(fields))


@attrs.frozen(kw_only=True, repr=False)
class StageReport:
    """The report of one keyed stage. Without durable state, as in a bounded run, all numbers but `stage` are 0.

    Attributes:
        stage: the number of the stage, from 1.
        transforms: the labels of its keyed transforms.
        cache_fresh, cache_behind, cache_void: how often a worker's copy of a shard's state was up to date, was behind
            and had to catch up, or was unusable.
        state_calls: the number of calls to the state store.
        state_bytes_read, state_bytes_written: the number of bytes read from and written to the state store.
    """

    stage: int
    transforms: tuple[str, ...] = ()
    cache_fresh: int = 0
    cache_behind: int = 0
    cache_void: int = 0
    state_calls: int = 0
    state_bytes_read: int = 0
    state_bytes_written: int = 0

    def __repr__(self) -> str:
        return brief_repr(self)


@attrs.frozen(kw_only=True, repr=False)
class RunReport:
    """The report of a run at one moment.

    Attributes:
        at: the wall-clock time at which the report was made.
        clock: the time from which lags are measured: the wall clock, or the position of a replay clock.
        commits: the number of committed micro-batches; 1 for a run that commits at its end.
        system_lag: the age of the oldest input whose results are not committed yet; 0 if all results are.
        transforms: the transforms, by label.
        stages: the keyed stages, by number.
        notes: what is remarkable about where the run runs, such as executors of Spark without the compiled core.
    """

    at: ProcessingTime
    clock: ProcessingTime
    commits: int
    system_lag: Duration
    transforms: Mapping[str, TransformReport]
    stages: Mapping[int, StageReport]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        notes = "".join(f"\nnote: {note}" for note in self.notes)
        return f"RunReport at {readable_instant(int(self.at), whole_seconds=True)} UTC\n{board_of(self)!r}{notes}"

    def _repr_html_(self) -> str:
        return board_of(self)._repr_html_() + "".join(f"<p>note: {html.escape(note)}</p>" for note in self.notes)
