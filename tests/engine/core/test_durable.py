"""What the core makes durable is what the object engine makes durable, and each goes on with the other's."""

from __future__ import annotations

import itertools
import os
import pickle
import random
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.combine import GroupFn
from dataflow_model.plan.nodes import GroupByKeyAndWindow, Ref
from dataflow_model.plan.strategy import LateData
from dataflow_model.runners.engine.core.durable import DurableMachine
from dataflow_model.runners.engine.grouping import GroupingEngine
from dataflow_model.testing import strategies
from tests.support.core_driving import by_instant, chunk_of, instants_of, joined, with_keys_that_vary
from tests.support.spec.drawing import LEAVES, STEPS, WINDOW_FNS, windowing_strategy
from tests.support.spec.drawing import script as drawn_script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.strategy import WindowingStrategy
    from dataflow_model.runners.engine.cells import Cell, KeyState
    from dataflow_model.runners.engine.key_store import StoredKey
    from dataflow_model.runners.engine.watermarks import Watermarks
    from dataflow_model.testing import TestStream
    from tests.support.core_driving import Instant
    from tests.support.spec.drawing import Pick

    Machine = GroupingEngine | DurableMachine

COMBINERS = [dm.Sum(), dm.Sum(), dm.Max(), dm.Mean(), GroupFn()]
PERCENTILES = tuple(sorted(float(one) for one in strategies.PERCENTILES))
FAST = int(os.environ.get("CORE_CASES", "200"))
MANY = int(os.environ.get("CORE_NIGHTLY_CASES", "50000"))
PARTS = 10
TURNS = ["go on", "go on", "go on", "core", "objects", "elsewhere"]


@attrs.define
class Run:
    """One grouping through micro-batches, its state stored after each, by machines that take turns.

    Attributes:
        node: the grouping.
        kept: how many cells the core keeps in columns.
        machine: the one that has run last.
        entries: what is stored.
        elsewhere: a machine of another worker, and the changes that it has missed.
    """

    node: GroupByKeyAndWindow
    kept: int
    machine: Machine
    entries: dict[bytes, StoredKey] = attrs.field(factory=dict)
    elsewhere: tuple[DurableMachine, list[dict[bytes, StoredKey | None]]] | None = None

    def take_turns(self, turn: str) -> None:
        """Let another machine go on with what is stored."""
        before = self.machine
        match turn:
            case "go on":
                return
            case "core":
                self.machine = core_of(self.node, self.kept)
                self.machine.apply(dict(self.entries))
            case "objects":
                self.machine = objects_of(self.node)
                self.machine.apply(dict(self.entries))
            case "elsewhere":
                if self.elsewhere is None:
                    self.elsewhere = core_of(self.node, self.kept), [dict(self.entries)]
                machine, missed = self.elsewhere
                for changes in missed:
                    machine.apply(changes)
                self.elsewhere = (before, []) if isinstance(before, DurableMachine) else None
                self.machine = machine
        self.machine.counters.clear()
        self.machine.counters.update(before.counters)
        self.machine.stand_at(**before.position())

    def run(self, part: Sequence[Instant]) -> dict[str, Any]:
        """Run a micro-batch, store what has changed, and return all that is to be seen of it."""
        machine = self.machine
        produced = machine.run(chunk_of(part))
        seen: dict[str, Any] = {
            "panes": by_instant(produced, len(part)),
            "watermarks": list(map(in_full, produced.watermarks)),
        }
        changes = machine.settle(pickle.dumps)
        for encoded, entry in changes.items():
            if entry is None:
                self.entries.pop(encoded, None)
            else:
                self.entries[encoded] = entry
        if self.elsewhere is not None:
            self.elsewhere[1].append(changes)
        state = {encoded: plain(entry) for encoded, entry in self.entries.items()}
        stored = [entry for encoded in state if (entry := machine.stored(encoded)) is not None]
        assert list(map(plain, stored)) == list(state.values())
        assert machine.state_size() == (len(state), sum(len(entry.state) for entry in stored))
        return seen | {
            "moments": machine.next_moments(),
            "hold": in_full(machine.output_watermarks()),
            "position": machine.position(),
            "counters": dict(machine.counters),
            "state": state,
        }


def objects_of(node: GroupByKeyAndWindow) -> GroupingEngine:
    return GroupingEngine(node, LateData.DROP, pickle.loads, PERCENTILES)


def core_of(node: GroupByKeyAndWindow, kept: int) -> DurableMachine:
    return DurableMachine(node, LateData.DROP, pickle.loads, PERCENTILES, kept=kept)


def in_full(watermarks: Watermarks) -> tuple[int, tuple[int, ...]]:
    """Return watermarks with all percentiles, also those that are left out because they are at the low watermark."""
    return watermarks.low, watermarks.further(len(PERCENTILES))


def plain(entry: StoredKey) -> tuple[Any, ...]:
    """Return what is stored of a key, without what says nothing of a trigger tree: a count of 0, no condition met."""
    state: KeyState = pickle.loads(entry.state)
    cells = [{window: _plain(cell) for window, cell in of.items()} for of in (state.cells, state.reopened)]
    return repr(state.key), *cells, entry.dues, entry.hold


def _plain(cell: Cell) -> Cell:
    store = {place: value for place, value in cell.tree.store.items() if not _says_nothing(place[1], value)}
    return attrs.evolve(cell, tree=attrs.evolve(cell.tree, store=store))


def _says_nothing(tag: str, value: Any) -> bool:
    return (tag == "met" and not value) or (type(value) is int and value == 0)


def check(pick: Pick, script: TestStream, strategy: WindowingStrategy) -> None:
    """Run a script cut into micro-batches, by the object engine alone and by machines that take turns."""
    node = GroupByKeyAndWindow(label="sums", input=Ref("script"), strategy=strategy, combine=pick(COMBINERS))
    instants = list(instants_of(script, strategy, PERCENTILES))
    instants = [attrs.evolve(now, closes=pick([now.closes, True, False])) for now in instants]
    instants = joined(instants, [pick([False, False, True]) for _ in instants])
    if pick([False, False, True]):
        instants = [with_keys_that_vary(now) for now in instants]
    cuts = {pick(range(1, len(instants) + 1)) for _ in range(pick([1, 3, 6, 20]))} - {len(instants)}
    kept = pick([0, 3, 1_000])
    objects = Run(node, kept, objects_of(node))
    drawn = Run(node, kept, pick([objects_of(node), core_of(node, kept)]))
    for begin, end in itertools.pairwise([0, *sorted(cuts), len(instants)]):
        drawn.take_turns(pick(TURNS))
        assert drawn.run(instants[begin:end]) == objects.run(instants[begin:end])


def by_draws(data: st.DataObject) -> Pick:
    """Return what picks with hypothesis."""
    return lambda options: data.draw(st.sampled_from(options))


def check_seeds(seeds: range) -> None:
    """Run scripts drawn fast, on a grid on which bounds, deadlines and watermarks fall together."""
    leaves = [name for name in LEAVES if not name.startswith("a user's")]
    for seed in seeds:
        pick = random.Random(seed).choice
        strategy = windowing_strategy(pick, WINDOW_FNS, leaves)
        script = drawn_script(pick, [*STEPS, "percentile", "signal"])
        try:
            check(pick, script, strategy)
        except BaseException as error:
            error.add_note(f"seed {seed}: {strategy}\n" + "\n".join(map(str, script.steps)))
            raise


def test_scripts_drawn_on_a_grid() -> None:
    check_seeds(range(FAST))


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("part", range(PARTS))
def test_fifty_thousand_scripts_drawn_on_a_grid(part: int) -> None:
    check_seeds(range(FAST + part, FAST + MANY, PARTS))


@given(
    st.data(),
    strategies.test_streams(keys=("a", "b", "c"), signals=strategies.SIGNALS, percentiles=strategies.PERCENTILES),
    strategies.windowing_strategies(late_data=st.sampled_from(dm.LateData)),
    st.booleans(),
)
def test_any_windows_under_any_trigger(
    data: st.DataObject, script: TestStream, strategy: WindowingStrategy, retracting: bool
) -> None:
    check(by_draws(data), script, attrs.evolve(strategy, retracting=retracting and strategy.accumulates))
