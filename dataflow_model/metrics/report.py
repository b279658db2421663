"""What a run tells of itself at one moment: by transform, by stage, and as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.time import Duration, EventTime, ProcessingTime

__all__ = ["DistributionValue", "RunReport", "SlowKey", "StageReport", "TransformReport", "UserMetrics"]


@attrs.frozen
class DistributionValue:
    """The count, sum, least and greatest of some numbers; all 0 where there were none.

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
        """The sum by the count; 0 where there were none."""
        return self.sum / self.count if self.count else 0.0


@attrs.frozen
class SlowKey:
    """A key that took long.

    Attributes:
        key: as text, at most 80 characters of it.
        seconds: how long the elements took that were timed; see `docs/watching.md` for how many are.
        elements: how many these were.
    """

    key: str
    seconds: float
    elements: int


@attrs.frozen
class UserMetrics:
    """What a transform's own functions have counted, by name."""

    counters: Mapping[str, int] = attrs.field(factory=dict)
    distributions: Mapping[str, DistributionValue] = attrs.field(factory=dict)
    gauges: Mapping[str, float] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class TransformReport:
    """One transform.

    Attributes:
        label: its full label.
        stage: where it runs: 0 with the sources, n behind the n-th shuffle; sinks come after the last.
        elements_in, elements_out: how many elements it has taken and given; a pane is one element.
        bundle_sizes: of the bundles that it has taken, in elements.
        panes: by `"early"`, `"on_time"` and `"late"`, how many it has emitted.
        dropped: by reason (`"late"`, `"closed"`, …), how many elements it has dropped.
        counters: all that it counts by itself, as in `result.metrics()`.
        watermark: of its output; `None` where it has none of its own.
        watermark_lag: how far that is behind the clock; `None` where it is not known, 0 at +∞.
        state_entries: how many keys (for groupings in columns: partial sums) have state; `None` where it keeps none.
        state_bytes: how large that state is when it is stored; `None` where it is not stored.
        slowest_keys: of those that were timed, the slowest first.
        user: what its own functions have counted.
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
    state_entries: int | None = None
    state_bytes: int | None = None
    slowest_keys: tuple[SlowKey, ...] = ()
    user: UserMetrics = UserMetrics()


@attrs.frozen(kw_only=True)
class StageReport:
    """One keyed stage: what its transforms share. In process and in a bounded job there is no durable state: all 0.

    Attributes:
        stage: its number, from 1.
        transforms: the labels of its keyed transforms.
        cache_fresh, cache_behind, cache_void: how often a worker's copy of a shard was up to date, had to catch up,
            was of no use.
        state_calls: how many calls to the state store there were.
        state_bytes_read, state_bytes_written: how much went through them.
    """

    stage: int
    transforms: tuple[str, ...] = ()
    cache_fresh: int = 0
    cache_behind: int = 0
    cache_void: int = 0
    state_calls: int = 0
    state_bytes_read: int = 0
    state_bytes_written: int = 0


@attrs.frozen(kw_only=True)
class RunReport:
    """A run at one moment.

    Attributes:
        at: the wall clock when the report was made.
        clock: what lags count from: the wall, or how far a replay clock has come.
        commits: how many micro-batches have been committed; 1 for a run that commits at its end.
        system_lag: how long ago the oldest work was seen whose results are not committed yet; 0 where all are.
        transforms: by label.
        stages: the keyed ones, by number.
    """

    at: ProcessingTime
    clock: ProcessingTime
    commits: int
    system_lag: Duration
    transforms: Mapping[str, TransformReport]
    stages: Mapping[int, StageReport]
