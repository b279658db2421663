"""The core makes the same state durable as the reference engine, and each can resume from the state of the other."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, Ref
from dataflow_model.plan.logical.strategy import LateData
from dataflow_model.runners.engine.grouping.stored.durable import DurableMachine
from dataflow_model.runners.engine.state.key_store import StoredKey
from dataflow_model.testing import strategies
from dataflow_model.time import EventTime
from dataflow_model.triggers.composites import CONDITIONS_MET
from tests.support import scripting
from tests.support.core_driving import (
    COMBINERS,
    FAST,
    MANY,
    PARTS,
    PERCENTILES,
    by_draws,
    by_instant,
    check_seeds,
    chunk_of,
    drawn_instants,
    instants_of,
)
from tests.support.reference.grouping import GroupingEngine
from tests.support.reference.states import key_state, packed_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.runners.engine.lanes.watermarks import Watermarks
    from dataflow_model.testing import TestStream
    from tests.support.core_driving import Instant
    from tests.support.reference.key_states import Cell
    from tests.support.spec.drawing import Pick

    Machine = GroupingEngine | DurableMachine

KEPT = 1_000
TURNS = ["go on", "go on", "go on", "core", "objects", "elsewhere"]


@attrs.define
class Run:
    """One grouping through micro-batches, its state stored after each, by machines that take turns.

    Attributes:
        node: the grouping.
        kept: how many cells the core keeps in columns.
        machine: the one that has run last.
        takes_back: whether the input may contain retractions.
        entries: what is stored.
        elsewhere: a machine of another worker, and the changes that it has missed.
    """

    node: GroupByKeyAndWindow
    kept: int
    machine: Machine
    takes_back: bool = False
    entries: dict[bytes, bytes] = attrs.field(factory=dict)
    elsewhere: tuple[DurableMachine, list[dict[bytes, bytes | None]]] | None = None

    def take_turns(self, turn: str) -> None:
        """Let another machine go on with what is stored."""
        before = self.machine
        match turn:
            case "go on":
                return
            case "core":
                self.machine = core_of(self.node, self.kept, takes_back=self.takes_back)
                self.machine.apply(self._packed(self.entries))
            case "objects":
                self.machine = objects_of(self.node, takes_back=self.takes_back)
                self.machine.apply(dict(self.entries))
            case "elsewhere":
                if self.elsewhere is None:
                    another = core_of(self.node, self.kept, takes_back=self.takes_back)
                    self.elsewhere = another, [dict(self.entries)]
                machine, missed = self.elsewhere
                for changes in missed:
                    machine.apply(self._packed(changes))
                self.elsewhere = (before, []) if isinstance(before, DurableMachine) else None
                self.machine = machine
        self.machine.counters.clear()
        self.machine.counters.update(before.counters)
        self.machine.set_clocks(**before.clocks())

    def run(self, part: Sequence[Instant]) -> dict[str, Any]:
        """Run a micro-batch, store what has changed, and return all that is to be seen of it."""
        machine = self.machine
        produced = machine.run(chunk_of(part))
        seen: dict[str, Any] = {
            "panes": by_instant(produced, len(part)),
            "watermarks": list(map(in_full, produced.watermarks)),
        }
        changes = machine.settle()
        for encoded, entry in changes.items():
            if entry is None:
                self.entries.pop(encoded, None)
            else:
                self.entries[encoded] = entry
        if self.elsewhere is not None:
            self.elsewhere[1].append(changes)
        state = {encoded: self.plain(entry) for encoded, entry in self.entries.items()}
        stored = [entry for encoded in state if (entry := machine.stored(encoded)) is not None]
        assert list(map(self.plain, stored)) == list(state.values())
        assert machine.state_size() == (len(state), sum(map(len, stored)))
        return seen | {
            "moments": machine.next_moments(),
            "hold": in_full(machine.output_watermarks()),
            "clocks": machine.clocks(),
            "counters": Counter(machine.counters),
            "state": state,
        }

    def _packed(self, changes: Mapping[bytes, bytes | None]) -> dict[bytes, bytes | None]:
        """Return changes in the form that the core reads."""
        return {
            encoded: entry and packed_entry(self.node, encoded, entry, takes_back=self.takes_back)
            for encoded, entry in changes.items()
        }

    def plain(self, stored: bytes) -> tuple[Any, ...]:
        """Return what is stored of a key, without what says nothing of a trigger tree: a count of 0, no condition."""
        entry = StoredKey.unpacked(stored)
        state = key_state(self.node, entry.state, takes_back=self.takes_back)
        cells = [{window: _plain(cell) for window, cell in of.items()} for of in (state.cells, state.reopened)]
        return repr(state.key), *cells, entry.dues, entry.hold


def objects_of(node: GroupByKeyAndWindow, *, takes_back: bool = False) -> GroupingEngine:
    return GroupingEngine(node, LateData.DROP, PERCENTILES, takes_back=takes_back)


def core_of(node: GroupByKeyAndWindow, kept: int = KEPT, *, takes_back: bool = False) -> DurableMachine:
    return DurableMachine(node, LateData.DROP, PERCENTILES, takes_back=takes_back, kept=kept)


def keys_in_columns(machine: Machine) -> int:
    assert isinstance(machine, DurableMachine)
    return machine._core.keys.in_use()


def in_full(watermarks: Watermarks) -> tuple[int, tuple[int, ...]]:
    """Return watermarks with all percentiles, also those that are left out because they are at the low watermark."""
    return watermarks.low, watermarks.further(len(PERCENTILES))


def _plain(cell: Cell) -> Cell:
    store = {key: _in_full(value) for key, value in cell.tree.store.items() if not _says_nothing(key[1], value)}
    standing = tuple(attrs.evolve(pane, value=_in_full(pane.value)) for pane in cell.standing)
    tree = attrs.evolve(cell.tree, store=store)
    return attrs.evolve(cell, tree=tree, accumulator=_in_full(cell.accumulator), standing=standing)


def _in_full(value: Any) -> Any:
    """Return numbers as text, which tells apart 0 and 0.0, and not NaN and NaN."""
    if isinstance(value, dict):
        return {key: _in_full(count) for key, count in value.items()}
    return repr(value) if isinstance(value, int | float | tuple) else value


def _says_nothing(tag: str, value: Any) -> bool:
    return (tag == CONDITIONS_MET and not value) or (type(value) is int and value == 0)


def check(pick: Pick, script: TestStream, strategy: WindowingStrategy, combiners: Sequence[Any] = COMBINERS) -> None:
    """Run a script cut into micro-batches, by the reference engine alone and by machines that take turns."""
    combine = pick(combiners)
    node = GroupByKeyAndWindow(label="sums", input=Ref("script"), strategy=strategy, combine=combine)
    instants, takes_back = drawn_instants(pick, script, strategy, combine)
    cuts = {pick(range(1, len(instants) + 1)) for _ in range(pick([1, 3, 6, 20]))} - {len(instants)}
    kept = pick([0, 3, 5, KEPT])
    objects = Run(node, kept, objects_of(node, takes_back=takes_back), takes_back)
    first = pick([objects_of(node, takes_back=takes_back), core_of(node, kept, takes_back=takes_back)])
    drawn = Run(node, kept, first, takes_back)
    for begin, end in itertools.pairwise([0, *sorted(cuts), len(instants)]):
        drawn.take_turns(pick(TURNS))
        assert drawn.run(instants[begin:end]) == objects.run(instants[begin:end])


def check_script(text: str, windowing: dm.WindowInto, combine: Any = None, *, scale: Any = 1) -> None:
    """Run a short script, as in tests/support/scripting.py, an instant a micro-batch, by machines that take turns."""
    node = GroupByKeyAndWindow(
        label="sums", input=Ref("script"), strategy=windowing.strategy, combine=combine or dm.Sum()
    )
    instants = [
        attrs.evolve(
            now, elements=tuple(attrs.evolve(element, value=element.value * scale) for element in now.elements)
        )
        for now in instants_of(scripting.script(text), windowing.strategy, PERCENTILES)
    ]
    makers: list[Callable[[GroupByKeyAndWindow], Machine]] = [objects_of, core_of]
    for make, turns in itertools.product(makers, [["go on"], ["core"], ["objects", "core"]]):
        objects, other = Run(node, KEPT, objects_of(node)), Run(node, KEPT, make(node))
        for now, turn in zip(instants, itertools.cycle(turns), strict=False):
            other.take_turns(turn)
            assert other.run([now]) == objects.run([now])


def test_durable_state_of_core_and_reference_agree_on_scripts_with_times_on_a_grid() -> None:
    check_seeds(check, range(FAST // 2))


def test_panes_are_restored_with_their_values_if_a_trigger_read_a_pane_before_the_first_value() -> None:
    check_seeds(check, range(19_160, 19_161))


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("part", range(PARTS))
def test_durable_state_of_core_and_reference_agree_on_fifty_thousand_scripts(part: int) -> None:
    check_seeds(check, range(FAST + part, FAST + MANY, PARTS))


@given(
    st.data(),
    strategies.test_streams(keys=("a", "b", "c"), signals=strategies.SIGNALS, percentiles=strategies.PERCENTILES),
    strategies.windowing_strategies(late_data=st.sampled_from(dm.LateData)),
    st.booleans(),
)
def test_durable_state_of_core_and_reference_agree_for_any_windows_under_any_trigger(
    data: st.DataObject, script: TestStream, strategy: WindowingStrategy, retracting: bool
) -> None:
    check(by_draws(data), script, attrs.evolve(strategy, retracting=retracting and strategy.accumulates))


@pytest.mark.parametrize("scale", [2**58, -(2**61), 2**70, 1.5])
def test_sums_of_any_size_and_type_are_restored(scale: Any) -> None:
    windowing = scripting.sessions(dm.Repeatedly(dm.AfterCount(2)), lateness=60).accumulating_and_retracting()
    check_script("e 1@1, e 2@2, e 3@17, e 4@18, w 25, e 5@10, e 6@11, w 50, w +inf", windowing, scale=scale)


def test_windows_reopened_by_late_data_are_restored() -> None:
    windowing = scripting.fixed(dm.DefaultTrigger()).late_data("duplicate_window")
    check_script("e 1@1, w 10, e 2@2, e 3@4, e 4@12, w 15, e 5@3, w 30, e 6@11, w +inf, e 7@3", windowing)


TEN = dm.Duration(micros=10_000_000)


@attrs.frozen(repr=False)
class Coloured(dm.IntervalWindow):
    """A window with a field of its own."""

    colour: str


@attrs.frozen
class ByColour(dm.WindowFn):
    """Two windows of the same bounds for each element."""

    def assign(self, event_time: dm.EventTime, element: Any) -> list[Any]:
        del element
        start = EventTime(int(event_time) // int(TEN) * int(TEN))
        return [Coloured(start, start + TEN, colour) for colour in ("red", "blue")]


def test_windows_of_users_classes_are_restored_with_their_fields() -> None:
    windowing = dm.Window.into(ByColour()).trigger(dm.Repeatedly(dm.AfterCount(2))).accumulating_and_retracting()
    check_script("e 1@1, e 2@12, e 4@3, w 10, e 8@14, w 20, e 16@22, w +inf", windowing)


def test_windows_of_users_classes_are_removed_from_memory_when_they_expire() -> None:
    windowing = dm.Window.into(ByColour())
    node = GroupByKeyAndWindow(label="sums", input=Ref("script"), strategy=windowing.strategy, combine=dm.Sum())
    run = Run(node, 5, core_of(node, 5))
    script = ", ".join(f"e 1@{at}, w {at}" for at in range(0, 300, 10))
    for now in instants_of(scripting.script(script), windowing.strategy, PERCENTILES):
        run.run([now])
        assert isinstance(run.machine, DurableMachine)
        assert len(run.machine._core._windows) <= 5


def test_keys_without_open_windows_leave_nothing_in_memory() -> None:
    strategy = scripting.fixed(dm.DefaultTrigger()).strategy
    node = GroupByKeyAndWindow(label="sums", input=Ref("script"), strategy=strategy, combine=dm.Sum())
    run = Run(node, KEPT, core_of(node))
    instants = list(instants_of(scripting.script("e 1@1, e 2@12, e 3@15, w 10, w 20, w 30"), strategy, PERCENTILES))
    keys = []
    for now in instants:
        run.run(
            [attrs.evolve(now, elements=tuple(attrs.evolve(element, key=element.number) for element in now.elements))]
        )
        keys.append((len(run.entries), keys_in_columns(run.machine)))
    assert keys == [(1, 1), (2, 2), (3, 3), (2, 2), (0, 0), (0, 0), (0, 0), (0, 0)]


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        pytest.param(4, [1, 2, 3, 4, 4], id="all-fit"),
        pytest.param(3, [1, 2, 3, 0, 0], id="another-micro-batch-would-not"),
    ],
)
def test_columns_are_discarded_before_they_exceed_the_number_of_cells_to_keep(kept: int, expected: list[int]) -> None:
    strategy = scripting.fixed(dm.DefaultTrigger()).strategy
    node = GroupByKeyAndWindow(label="sums", input=Ref("script"), strategy=strategy, combine=dm.Sum())
    run = Run(node, kept, core_of(node, kept))
    script = scripting.script("e 0@1, e 1@1, e 2@1, e 3@1, e 0@2, e 1@2")
    by_value = [
        attrs.evolve(now, elements=tuple(attrs.evolve(element, key=element.value) for element in now.elements))
        for now in instants_of(script, strategy, PERCENTILES)
    ]
    keys = []
    for first, last in ((0, 1), (1, 2), (2, 3), (3, 4), (4, 6)):
        run.run(by_value[first:last])
        keys.append(keys_in_columns(run.machine))
    assert keys == expected


def test_a_key_is_restored_when_it_is_used_and_no_earlier() -> None:
    strategy = scripting.fixed(dm.DefaultTrigger()).strategy
    node = GroupByKeyAndWindow(label="sums", input=Ref("script"), strategy=strategy, combine=dm.Sum())
    run = Run(node, KEPT, core_of(node))
    instants = list(instants_of(scripting.script("e 1@1, e 2@12, e 3@25, w 5, e 4@26, w 20"), strategy, PERCENTILES))
    by_key = [
        attrs.evolve(
            now, elements=tuple(attrs.evolve(element, key=element.time // 10_000_000) for element in now.elements)
        )
        for now in instants
    ]
    keys = []
    for index, now in enumerate(by_key[:6]):
        if index == 3:
            run.take_turns("core")
        run.run([now])
        keys.append(keys_in_columns(run.machine))
    assert keys == [1, 2, 3, 0, 1, 1]
