"""Make the report of a run from its counts, in the same form on every runner."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from dataflow_model.metrics.report import (
    DistributionValue,
    RunReport,
    SlowKey,
    StageReport,
    TransformReport,
    UserMetrics,
    WatermarkJump,
)
from dataflow_model.metrics.tally import BUNDLE_SIZE, ELEMENTS_OUT, Readings, Spread, Tally
from dataflow_model.micros import wall_clock
from dataflow_model.plan.logical.nodes import Read, Write
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, EventTime, ProcessingTime

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from dataflow_model.plan.logical.stages import StagedPlan

_PANES: Final = "panes_"
_DROPPED: Final = "dropped_"
_NOTHING: Final = Readings()


class _Machine(Protocol):
    def state_size(self) -> tuple[int, int] | None: ...


def state_sizes(machines: Mapping[str, _Machine]) -> dict[str, tuple[int, int]]:
    """Return the entries and bytes of each machine's state by label, for machines with keyed state."""
    sizes = {label: machine.state_size() for label, machine in machines.items()}
    return {label: size for label, size in sizes.items() if size is not None}


@attrs.frozen(kw_only=True)
class Measured:
    """The measurements of a run at one moment.

    Attributes:
        counters: the counters of each transform, as in `result.metrics()`.
        watermarks: the output watermark of each transform.
        tally: the tally of the run so far.
        state: the entries and bytes of each transform's state; the bytes are `None` if the state is not stored.
        clock: the current value of the run's clock.
        commits: the number of commits.
        pending_since: the wall-clock time at which the oldest uncommitted work was seen; `None` if there is none.
        jumps: by source, the first event that has moved its watermark far ahead of the clock, as its event time and the
            clock.
        levels: by source, the numbers that it reports itself, by name and origin.
    """

    counters: Mapping[str, Mapping[str, Any]]
    watermarks: Mapping[str, int]
    tally: Tally
    state: Mapping[str, tuple[int, int | None]]
    clock: int
    commits: int
    pending_since: int | None
    jumps: Mapping[str, Sequence[int]] = attrs.field(factory=dict)
    levels: Mapping[str, Mapping[str, Mapping[str, int]]] = attrs.field(factory=dict)


@attrs.frozen
class CountedAhead:
    """What was counted before a run, in the passes that compute its static side inputs.

    Attributes:
        counters: the counters of the transforms that run ahead, by label.
        tally: the other counts of these transforms.
        watermarks: the output watermarks of those among them that have one.
    """

    counters: dict[str, Counter[str]] = attrs.field(factory=dict)
    tally: Tally = attrs.field(factory=Tally)
    watermarks: dict[str, int] = attrs.field(factory=dict)

    def note(self, ran: Collection[str], measured: Measured) -> None:
        """Record what was counted in one pass.

        Args:
            ran: the labels of the transforms that it has run. A source that several passes read counts once.
            measured: what was counted.
        """
        labels = [label for label in measured.counters if label in ran and label not in self.counters]
        self.counters.update((label, Counter(measured.counters[label])) for label in labels)
        self.tally.merge(measured.tally.of(labels))
        self.watermarks.update((label, at) for label, at in measured.watermarks.items() if label in labels)

    def added_to(self, counters: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
        """Return the counters of a run with these."""
        return {**counters, **self.counters}

    def with_watermarks(self, watermarks: Mapping[str, EventTime]) -> dict[str, EventTime]:
        """Return the watermarks of a run with these."""
        return {**watermarks, **{label: EventTime(at) for label, at in self.watermarks.items()}}

    def in_measured(self, measured: Measured) -> Measured:
        """Return the measurements of a run with these counts."""
        tally = measured.tally.copy()
        tally.merge(self.tally)
        watermarks = {**measured.watermarks, **self.watermarks}
        counters = self.added_to(measured.counters)
        return attrs.evolve(measured, counters=counters, tally=tally, watermarks=watermarks)


def all_counters(measured: Measured) -> dict[str, dict[str, Any]]:
    """Return the counters by transform, with those of transforms that have none of their own: elements in and out.

    Element-wise transforms are counted by bundle, in the tally, which reports show.
    """
    counted = {}
    for label, counters in measured.counters.items():
        own = _NOTHING if counters else measured.tally.own.get(label, _NOTHING)
        if (sizes := own.distributions.get(BUNDLE_SIZE)) is not None:
            counters = {"elements_in": int(sizes.sum), ELEMENTS_OUT: 0, **own.counters}  # noqa: PLW2901
        counted[label] = dict(counters)
    return counted


def make_report(staged: StagedPlan, measured: Measured, at: int | None = None) -> RunReport:
    """Return the report of a run.

    Args:
        staged: its plan.
        measured: what is known about the run.
        at: the time of the report, by default that of the wall clock.
    """
    at = wall_clock() if at is None else at
    clock = measured.clock if _has_own_clock(staged) else at
    pending = 0 if measured.pending_since is None else max(0, at - measured.pending_since)
    depths = _depths(staged)
    return RunReport(
        at=ProcessingTime(at),
        clock=ProcessingTime(clock),
        commits=measured.commits,
        system_lag=Duration(micros=pending),
        transforms={
            node.label: _transform(node.label, depths[node.label], measured, clock) for node in staged.whole.nodes
        },
        stages={
            depth: StageReport(
                stage=depth,
                transforms=tuple(node.label for node in nodes),
                **{name: count for name, count in measured.tally.stages.get(str(depth), {}).items() if name in _STAGE},
            )
            for depth, nodes in enumerate(staged.stages, 1)
        },
    )


_STAGE: Final = frozenset(attrs.fields_dict(StageReport)) - {"stage", "transforms"}


def _transform(label: str, stage: int, measured: Measured, clock: int) -> TransformReport:
    tally = measured.tally
    own = tally.own.get(label, _NOTHING)
    further = {name: by for name, by in own.counters.items() if name != ELEMENTS_OUT}
    counters = {**further, **measured.counters.get(label, {})}
    sizes = _value(own.distributions.get(BUNDLE_SIZE))
    watermark, jump = measured.watermarks.get(label), measured.jumps.get(label)
    entries, stored = measured.state.get(label, (None, None))
    return TransformReport(
        label=label,
        stage=stage,
        elements_in=int(counters.get("elements_in", sizes.sum)),
        elements_out=int(counters.get(ELEMENTS_OUT, own.counters.get(ELEMENTS_OUT, 0))),
        bundle_sizes=sizes,
        panes={name.removeprefix(_PANES): count for name, count in counters.items() if name.startswith(_PANES)},
        dropped={
            name.removeprefix(_DROPPED).removeprefix("because_"): count
            for name, count in counters.items()
            if name.startswith(_DROPPED)
        },
        counters=counters,
        watermark=None if watermark is None else EventTime(watermark),
        watermark_lag=_lag(watermark, clock),
        watermark_jump=None if jump is None else WatermarkJump(EventTime(jump[0]), ProcessingTime(jump[1])),
        state_entries=entries,
        state_bytes=stored,
        levels=measured.levels.get(label, {}),
        slowest_keys=tuple(SlowKey(key, *spent) for key, spent in tally.slowest(label).items()),
        user=_user(tally.users.get(label, _NOTHING)),
    )


def _user(readings: Readings) -> UserMetrics:
    return UserMetrics(
        dict(readings.counters),
        {name: _value(spread) for name, spread in list(readings.distributions.items())},
        {name: value for name, (_, value) in list(readings.gauges.items())},
    )


def _value(spread: Spread | None) -> DistributionValue:
    return (
        DistributionValue() if spread is None else DistributionValue(spread.count, spread.sum, spread.min, spread.max)
    )


def _lag(watermark: int | None, clock: int) -> Duration | None:
    if watermark is None or watermark == MIN_TIMESTAMP:
        return None
    return Duration(micros=0 if watermark == MAX_TIMESTAMP else clock - watermark)


def _has_own_clock(staged: StagedPlan) -> bool:
    """Return whether the data determine the clock, so that lags are not measured from the wall clock."""
    return any(read.source.has_own_clock for read in staged.sources)


def _depths(staged: StagedPlan) -> dict[str, int]:
    """Return the stage of each transform; one that runs after several stages counts as part of the last of them."""
    depths: dict[str, int] = {}
    keyed = {node.label: depth for depth, nodes in enumerate(staged.stages, 1) for node in nodes}
    for node in staged.whole.nodes:
        if isinstance(node, Read) or node.label in staged.ahead:
            depths[node.label] = 0
        elif isinstance(node, Write):
            depths[node.label] = len(staged.stages) + 1
        else:
            inputs = [depths[ref.label] for ref in node.inputs]
            depths[node.label] = keyed.get(node.label, max(inputs, default=0))
    return depths
