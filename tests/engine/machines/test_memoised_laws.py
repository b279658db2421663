"""Laws of functions whose outputs are kept: panes stay as they are, and what stands is what was given."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.logical.nodes import ParDo
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.engine.lanes.bundle import GLOBAL_ONLY, Bundle, Update
from dataflow_model.runners.engine.lanes.order import of_row
from dataflow_model.runners.engine.machines.memoising import MemoMachine
from dataflow_model.runners.engine.machines.shard import StageShard
from dataflow_model.runners.engine.protocol.sharding import rows_by_shard
from dataflow_model.runners.engine.state.resharding import Share
from dataflow_model.testing import TestStream, strategies
from dataflow_model.values import NO_FIRING
from tests.support.instants import run_instant
from tests.support.laws.drawing import AT_THE_END_OF_TIME
from tests.support.laws.examples import share_of_examples
from tests.support.laws.recutting import recut
from tests.support.micro_batches import in_micro_batches
from tests.support.pipelines import difference
from tests.support.retractions.accounts import instants, run
from tests.support.retractions.drawing import ANYTHING, UNMERGED
from tests.support.retractions.memoised import (
    AT_ONCE,
    FOREVER,
    KEPT_SINKS,
    balanced,
    drawn_and_grouped,
    into_one_place,
    named_anew,
    panes_of,
    plain_and_kept,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.testing.proving.micro_batches import MicroBatches

pytestmark = AT_THE_END_OF_TIME

SCRIPTS = strategies.test_streams(keys=("a", "b", "c"), max_steps=12)


@given(SCRIPTS, ANYTHING, UNMERGED)
def test_memoising_a_deterministic_function_changes_no_pane(
    script: TestStream, first: WindowingStrategy, second: WindowingStrategy
) -> None:
    first = attrs.evolve(first, **FOREVER)
    plain, kept = (
        run(lambda p, keeps=keeps: plain_and_kept(p, script, first, second, keeps=keeps))  # type: ignore[misc]
        for keeps in (False, True)
    )
    assert panes_of(kept.collected) == panes_of(plain.collected)


@given(st.data(), SCRIPTS, ANYTHING, AT_ONCE)
def test_after_each_bundle_the_current_outputs_are_those_of_the_current_values(
    data: st.DataObject, script: TestStream, first: WindowingStrategy, second: WindowingStrategy
) -> None:
    first = attrs.evolve(first, **FOREVER)
    cut = data.draw(recut(script))
    result = run(lambda p: drawn_and_grouped(p, cut, first, into_one_place(second)))
    note(str(cut.steps))
    balanced(*(result.collected(label) for label in ("sums", "drawn", "lists")))


@given(SCRIPTS, ANYTHING)
def test_no_retraction_is_too_late_if_windows_do_not_change(script: TestStream, first: WindowingStrategy) -> None:
    """A grouping takes back what it said until its windows expire; as long are the outputs kept."""

    def build(p: dm.Pipeline) -> None:
        sums = p | script | dm.Window.into(first) | dm.Sum.per_key()
        _ = sums | "said" >> dm.io.Collect()
        _ = sums | "draw" >> dm.Map(named_anew).retractable("memoised") | "drawn" >> dm.io.Collect()

    result = run(build)
    for said, named in instants(result.collected("said"), result.collected("drawn")):
        assert sorted(repr(value[1][0]) for value in named.values()) == sorted(map(repr, said.values()))
    assert not result.metrics()["draw"].get("dropped_retractions")


@pytest.mark.parametrize("steps", [None, 1])  # at once, or in micro-batches of which each knows what is durable
def test_a_session_that_an_element_of_a_finished_trigger_has_merged_waits_for_its_last_pane(steps: int | None) -> None:
    """The element is dropped, so that none is pending; the last pane still retracts the smaller session's."""
    once = dm.Window.into(dm.Sessions("11 seconds")).trigger(dm.AfterCount(1), may_lose_data=True)
    script = TestStream().add(1, 0, key="a").watermark(10).add(2, 10, key="a").watermark(12).add(7, 30, key="b")

    def build(p: dm.Pipeline) -> None:
        sums = p | script | once.closing("fire_always").accumulating_and_retracting() | dm.Sum.per_key()
        drawn = sums | "draw" >> dm.Map(named_anew).retractable("memoised")
        _ = drawn | "drawn" >> dm.io.Collect()

    if steps is None:
        result: Any = run(build)
    else:
        pipeline = dm.Pipeline()
        build(pipeline)
        result = in_micro_batches(pipeline, steps, cached=False)
    records = [record for record in result.collected("drawn") if record.value[1][0][0] == "a"]
    seconds = [(record.is_retraction, int(record.window.end) // 1_000_000) for record in records]
    assert seconds == [(False, 11), (True, 11), (False, 21)]
    assert records[0].value == records[1].value


@pytest.mark.parametrize("cached", [True, False])
@share_of_examples(0.4)  # each runs a script through pickles, instant by instant
@given(SCRIPTS, ANYTHING, AT_ONCE, st.integers(1, 6))
def test_memoised_functions_on_two_shards_resume_from_durable_state_after_any_cut(
    cached: bool, script: TestStream, first: WindowingStrategy, second: WindowingStrategy, steps: int
) -> None:
    first, second = attrs.evolve(first, **FOREVER), into_one_place(second)

    def streamed(build: Callable[..., None], **options: Any) -> MicroBatches:
        p = dm.Pipeline(runner=dm.LocalRunner())
        build(p, script, first, second, **options)
        return in_micro_batches(p, steps, cached=cached)

    drawn = streamed(drawn_and_grouped)
    balanced(*(drawn.collected(label) for label in ("sums", "drawn", "lists")))
    kept = streamed(plain_and_kept, keeps=True)
    plain = run(lambda p: plain_and_kept(p, script, first, second, keeps=False))
    expected, actual = panes_of(plain.collected), panes_of(kept.collected)
    for label in KEPT_SINKS:
        assert not difference(expected[label], actual[label]), label


# Shards.


class Shards:
    """A function that names its elements anew, on as many shards as may be; values come to the shards that own them."""

    def __init__(self, count: int) -> None:
        pipeline = dm.Pipeline()
        sums = pipeline | TestStream() | dm.Window.into(dm.GlobalWindows()).accumulating_and_retracting()
        drawn = sums | _BEFORE >> dm.Sum.per_key() | _DRAW >> dm.Map(named_anew).retractable("memoised")
        _ = drawn | _SINK >> dm.io.Collect()
        self.staged = cut_into_stages(pipeline.plan())
        self.shards = self._new(count)

    def instant(self, rows: list[tuple[int, bool]], number: int) -> list[tuple[Any, bool]]:
        """Take elements, or take them back; return what is given, and whether it is taken back."""
        bundle = Bundle()
        for index, (value, back) in enumerate(rows):
            update = Update((number, index), is_retraction=True) if back else None
            bundle.append(value, 0, GLOBAL_ONLY, NO_FIRING, of_row("in", index), number, update)
        node = self.staged.plan[_DRAW]
        assert isinstance(node, ParDo)
        given = Bundle()
        for owner, mine in rows_by_shard(node, bundle, len(self.shards)).items():
            arrivals, _ = run_instant(self.shards[owner], number, {_DRAW: bundle.take(mine)}, {})
            given.extend(arrivals.get(_SINK, Bundle()))
        given = given.in_order()
        return [(value[1], row in given.retractions()) for row, value in enumerate(given.values)]

    def move(self, count: int) -> None:
        """Go on from durable state on another number of shards."""
        parts: list[dict[bytes, Any]] = []
        for shard in self.shards:
            engine = shard.machines[_DRAW]
            assert isinstance(engine, MemoMachine)
            engine.settle()
            parts.append(dict(engine.state._settled))
        self.shards = self._new(count)
        for index, shard in enumerate(self.shards):
            engine = shard.machines[_DRAW]
            assert isinstance(engine, MemoMachine)
            engine.apply(engine.share(parts, Share(index, count)))

    def _new(self, count: int) -> list[StageShard]:
        return [StageShard(self.staged, 2, is_durable=True) for _ in range(count)]


_BEFORE, _DRAW, _SINK = "before", "draw", "out"


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("rows"), st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=6)),
            st.tuples(st.just("move"), st.integers(1, 4)),
        ),
        max_size=12,
    )
)
def test_memoised_outputs_move_with_their_values_to_any_number_of_shards(steps: list[tuple[str, Any]]) -> None:
    shards = Shards(2)
    standing: Counter[int] = Counter()
    names: Counter[Any] = Counter()
    for number, (step, argument) in enumerate(steps):
        if step == "move":
            shards.move(argument)
            continue
        rows = []
        for value, back in argument:
            rows.append((value, back and standing[value] > 0))
            standing[value] += -1 if rows[-1][1] else 1
        for name, back in shards.instant(rows, number):
            assert not back or names[name] == 1, "what is taken back was never given"
            names[name] += -1 if back else 1
        assert Counter(value for value, _ in names.elements()) == +standing
