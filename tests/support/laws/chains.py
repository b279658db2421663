"""Chains of groupings, drawn fast: how they are run, and what the specification makes of them."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import attrs

import dataflow_model as dm
from dataflow_model.plan.endpoints.scripts import AddStep, WatermarkStep
from dataflow_model.testing import TestStream
from dataflow_model.testing.chains import Chain, ChainedGrouping, all_together
from dataflow_model.testing.proving.micro_batches import MicroBatches, MicroBatchRunner, Schedule
from dataflow_model.testing.proving.proof_runs import Observed, Subject, groupings_of, with_panes
from dataflow_model.testing.proving.runner_proof import Copied
from dataflow_model.triggers.contexts import LOW_WATERMARK
from tests.support.pipelines import seen
from tests.support.spec import spec
from tests.support.spec.drawing import LEAVES, STEPS, WINDOW_FNS, script, windowing_strategy
from tests.support.spec.windows_of_users import HalvesOfTen, OtherSessions, ValidUntilNext

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from tests.support.spec.drawing import Pick

KEYS = ["aaab", "adbg", "adbg", "ag"]
"""`a` and `b` have different shards of 3 and of 5; so have `a` and `g`, of 2 too."""
UNMERGED = [fn for fn in WINDOW_FNS if not fn.is_merging]
SESSIONS = [dm.Sessions(2), dm.Sessions(4), dm.Sessions(7)]
MERGED_BY_USERS = [ValidUntilNext(), ValidUntilNext(), HalvesOfTen(), OtherSessions(3)]
SHARDS = (1, 2, 2, 3, 3, 5, 5)
BUSY: list[dm.Trigger] = [
    dm.Always(),
    dm.Repeatedly(dm.AfterCount(1)),
    dm.Repeatedly(dm.AfterCount(2)),
    dm.Repeatedly(dm.AfterProcessingTime(2)),
    dm.Repeatedly(dm.AfterEventTime(2)),
    dm.AfterWatermark(early=dm.AfterCount(2), late=dm.AfterCount(1)),
    dm.AfterWatermark(early=dm.AfterProcessingTime(1), late=dm.AfterProcessingTime(3)),
]
"""Trees that fire often, so that the next grouping has something to do."""
DROPPED = ("dropped_because_late", "dropped_because_closed", "dropped_retractions")
FOREVER = dm.duration("1000 days")
"""Lateness beyond any script: nothing is dropped."""


@attrs.frozen
class Case:
    """A script for a chain, and how the stream of it is run."""

    script: TestStream
    chain: Chain
    schedule: Schedule

    @property
    def labels(self) -> list[str]:
        return self.chain.labels

    def plan(self) -> Plan:
        """Return the plan, which keeps the panes of each grouping."""
        pipeline = dm.Pipeline()
        _ = self.chain(pipeline | "script" >> self.script)
        return with_panes(pipeline.plan())


def by_letter(key: Any, value: Any) -> tuple[str, Any]:
    """Give a key that changes with the value; the three are on different shards."""
    del key
    return "adg"[value % 3], value


REKEYS = [None, by_letter, by_letter, all_together]

# Drawing --------------------------------------------------------------------------------------------------------------


def schedule(pick: Pick) -> Schedule:
    """Draw a number of shards, cuts, restarts and crashes."""
    shards = pick(SHARDS)
    return Schedule(
        shards,
        cuts=pick([(1,), (2, 5), (4,), (7,), (5, 9), (1_000,)]),
        restarts=frozenset(pick(range(9)) for _ in range(pick([0, 0, 1, 2]))),
        crashes={pick(range(6)): pick(range(3 * shards + 1)) for _ in range(pick([0, 1]))},
        seed=pick(range(1_000)),
    )


def chain(pick: Pick, count: int) -> Chain:
    """Draw the groupings, everything anew for each of them."""
    groupings: list[ChainedGrouping] = []
    current = dm.WindowingStrategy()
    for number in range(count):
        combiners: list[Any] = [dm.Sum(), dm.Sum(), dm.Count()] if number < count - 1 else [dm.Sum(), dm.Max(), None]
        combine, rekey = pick(combiners), pick(REKEYS) if number else None
        windowing = pick(["anew", "anew", "anew", "when and how", "inherited"]) if number else "anew"
        strategy, is_retracted = None, current.retracting
        if windowing != "inherited":
            fns = WINDOW_FNS if number == 0 else UNMERGED if is_retracted else [*UNMERGED, *SESSIONS]
            strategy = _strategy(pick, fns)
            if number:  # less than before it, as a rule, so that something is dropped
                lateness = dm.duration(pick([0, 0, 0, 2, 10]))
                lateness = max(lateness, current.allowed_lateness) if is_retracted else lateness
                strategy = attrs.evolve(strategy, allowed_lateness=lateness)
            current = strategy
        if is_retracted and current.accumulation_mode is not dm.AccumulationMode.ACCUMULATE_ALWAYS:
            combine = dm.Sum()  # which can subtract what has been cleared
        groupings.append(ChainedGrouping(strategy, combine, rekey, keeps_windows=windowing == "when and how"))
    return Chain(tuple(groupings))


def _strategy(pick: Pick, fns: Sequence[Any]) -> WindowingStrategy:
    strategy: WindowingStrategy = windowing_strategy(pick, fns, list(LEAVES))
    return attrs.evolve(strategy, trigger=pick(BUSY)) if pick([True, False]) else strategy


def _script(pick: Pick) -> TestStream:
    return script(pick, STEPS, keys=pick(KEYS), lengths=range(6, 27))


def case(pick: Pick) -> Case:
    """Draw a chain of two or three groupings, a script and a schedule."""
    return Case(_script(pick), chain(pick, pick([2, 2, 3])), schedule(pick))


def refining(pick: Pick) -> Case:
    """Draw a case in which nothing is dropped and each grouping takes back what it refines."""
    return _foldable(pick, dm.AccumulationMode.ACCUMULATE_ALWAYS, UNMERGED, REKEYS)


def adding_up(pick: Pick) -> Case:
    """Draw a case in which nothing is dropped and discarding panes add up."""
    drawn = _foldable(pick, dm.AccumulationMode.CLEAR_ALWAYS, [*UNMERGED, *SESSIONS], [None, all_together])
    groupings = [attrs.evolve(grouping, combine=dm.Sum()) for grouping in drawn.chain.groupings]
    for number, grouping in enumerate(groupings[:-1]):
        if grouping.windowing is not None and grouping.windowing.merges:
            unmerged = attrs.evolve(grouping.windowing, window_fn=pick(UNMERGED))
            groupings[number] = attrs.evolve(grouping, windowing=unmerged)
    return attrs.evolve(drawn, chain=Chain(tuple(groupings)))


def _foldable(pick: Pick, mode: dm.AccumulationMode, later_fns: Sequence[Any], rekeys: Sequence[Any]) -> Case:
    count = pick([2, 2, 3])
    groupings = []
    for number in range(count):
        is_last = number == count - 1
        strategy = _strategy(pick, later_fns if number else [*WINDOW_FNS, *MERGED_BY_USERS])
        strategy = attrs.evolve(
            strategy,
            trigger=dm.Repeatedly(strategy.trigger),
            accumulation_mode=mode,
            retracting=mode is dm.AccumulationMode.ACCUMULATE_ALWAYS and (not is_last or pick([True, False])),
            allowed_lateness=FOREVER,
            late_data=dm.LateData.DROP,
        )
        if not is_last:
            strategy = attrs.evolve(strategy, timestamp_combiner=dm.TimestampCombiner.END_OF_WINDOW)
        combine = pick([dm.Sum(), dm.Max()]) if is_last else dm.Sum()
        groupings.append(ChainedGrouping(strategy, combine, pick(rekeys) if number else None))
    return Case(_script(pick), Chain(tuple(groupings)), schedule(pick))


def once(pick: Pick) -> Case:
    """Draw a case without late elements, in which every window emits once, when the watermark passes its end."""
    drawn = case(pick)
    lateness = pick([dm.Duration(0), dm.duration(3), FOREVER])
    groupings = [
        attrs.evolve(
            grouping,
            windowing=grouping.windowing
            and attrs.evolve(
                grouping.windowing,
                window_fn=pick([*UNMERGED, *SESSIONS]),
                trigger=pick([dm.DefaultTrigger(), dm.AfterWatermark()]),
                retracting=False,
                allowed_lateness=lateness,
                closing=dm.ClosingBehavior.FIRE_IF_NON_EMPTY,
            ),
        )
        for grouping in drawn.chain.groupings
    ]
    return attrs.evolve(drawn, script=_without_late(drawn.script), chain=Chain(tuple(groupings)))


def _without_late(stream: TestStream) -> TestStream:
    """Move what would be behind the watermark up to it."""
    watermark = 0
    steps: list[Any] = []
    for step in stream.steps:
        if isinstance(step, WatermarkStep) and step.percentile == LOW_WATERMARK:
            watermark = int(step.watermark)
        if isinstance(step, AddStep):
            moved = [(value, dm.EventTime(max(int(at), watermark))) for value, at in step.elements]
            steps.append(AddStep(tuple(moved)))
        else:
            steps.append(step)
    return TestStream(steps)


def of_seed(seed: int, make: Callable[[Pick], Case] = case) -> Case:
    """Return the case of a seed, fast."""
    return make(random.Random(seed).choice)


def many(number: int, *, scripts: int, chains: int) -> dict[str, tuple[TestStream, Chain]]:
    """Draw cases for one job, some chains for each script; by name."""
    pick = random.Random(number).choice
    drawn = [_script(pick) for _ in range(scripts)]
    return {
        f"{index}.{index_of_chain}": (stream, chain(pick, pick([2, 2, 3])))
        for index, stream in enumerate(drawn)
        for index_of_chain in range(chains)
    }


# Running --------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Outcome:
    """What each grouping has emitted, in order, and what it has dropped."""

    records: list[list[Record]] = attrs.field(eq=False, repr=False)
    dropped: list[dict[str, int]]

    @property
    def panes(self) -> list[list[tuple[Any, ...]]]:
        """All that can be told of the panes of each grouping."""
        return [seen(records) for records in self.records]


def outcome_of(drawn: Case, result: Any) -> Outcome:
    """Return what a run has shown."""
    counters = result.metrics()
    return Outcome(
        [result.collected(f"{label}/panes") for label in drawn.labels],
        [{name: counters.get(label, {}).get(name, 0) for name in DROPPED} for label in drawn.labels],
    )


def on_local(drawn: Case) -> Outcome:
    """Run it on LocalRunner."""
    result = dm.LocalRunner(clock=0).run(drawn.plan())
    result.wait_until_finish()
    return outcome_of(drawn, result)


def as_stream(drawn: Case) -> MicroBatches:
    """Run it in micro-batches, on its schedule."""
    return MicroBatchRunner(drawn.schedule).run(drawn.plan())


def as_probed_stream(drawn: Case) -> tuple[MicroBatches, Observed]:
    """Run it in micro-batches, with a discarding copy beside each grouping that keeps what is in its panes."""
    runs: list[MicroBatches] = []

    class Streams:
        def run(self, plan: Plan, *, until: str | None = None) -> MicroBatches:
            runs.append(MicroBatchRunner(drawn.schedule).run(plan, until=until))
            return runs[-1]

    observed = Subject(drawn.chain).run(drawn.script, Streams(), probed=True)
    return runs[-1], observed


def by_specification(
    drawn: Case, kind: Callable[..., spec.Grouping] = spec.Grouping
) -> tuple[list[list[dm.Pane]], list[dict[str, int]]]:
    """Return the panes of each grouping and what it has dropped, as the specification has it."""
    nodes = groupings_of(drawn.plan())
    panes: list[list[dm.Pane]] = [[] for _ in nodes]
    groupings = [
        kind(node.strategy, grouping.combine, emitted.extend)
        for node, grouping, emitted in zip(nodes, drawn.chain.groupings, panes, strict=True)
    ]
    links = zip(itertools.pairwise(groupings), panes, drawn.chain.groupings[1:], strict=False)
    for (before, after), emitted, grouping in links:
        before.emit = _handing_on(emitted, after, grouping)
    spec.run(drawn.script, groupings)
    return panes, [{name: grouping.dropped[name] for name in DROPPED} for grouping in groupings]


def _handing_on(emitted: list[dm.Pane], to: spec.Grouping, grouping: ChainedGrouping) -> spec.Emit:
    assigns = grouping.windowing is not None and not grouping.keeps_windows
    hand_on = spec.link(to, grouping.rekey or _as_it_is, assigns=assigns)

    def emit(rows: list[dm.Pane]) -> None:
        emitted.extend(rows)
        hand_on(rows)

    return emit


def _as_it_is(key: Any, value: Any) -> tuple[Any, Any]:
    return key, value


# Many in one job ------------------------------------------------------------------------------------------------------


def side_by_side(cases: dict[str, tuple[TestStream, Chain]]) -> Callable[[dm.Pipeline], None]:
    """Return what builds a pipeline of many cases; those of one script share it."""

    def build(pipeline: dm.Pipeline) -> None:
        sources: dict[str, dm.PCollection] = {}
        for name, (stream, groupings) in cases.items():
            source = name.split(".")[0]
            if source not in sources:
                sources[source] = pipeline | f"script {source}" >> stream
            _ = sources[source] | f"case {name}" >> Copied(_kept(groupings))

    return build


def sinks_of(name: str, groupings: Chain) -> list[tuple[str, str]]:
    """Return the label of each grouping of a case and that of its sink."""
    return [(f"case {name}/{label}", f"case {name}/{label} panes") for label in groupings.labels]


def _kept(groupings: Chain) -> Callable[[dm.PCollection], dm.PCollection]:
    """Return the chain with a sink behind each grouping."""

    def apply(pcoll: dm.PCollection) -> dm.PCollection:
        for label, grouping in zip(groupings.labels, groupings.groupings, strict=True):
            pcoll = grouping.apply(pcoll, label)
            _ = pcoll | f"{label} panes" >> dm.io.Collect()
        return pcoll

    return apply
