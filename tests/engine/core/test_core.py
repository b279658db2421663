"""The core emits what the reference machine emits: panes, their order, counters, and output watermarks."""

from __future__ import annotations

import itertools
import random
import weakref
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.runners.engine.lanes import overlapping
from dataflow_model.runners.engine.lanes.bundle import Update
from dataflow_model.runners.engine.lanes.value_lanes import Pairs
from dataflow_model.testing import strategies
from tests.support import scripting
from tests.support.core_driving import (
    COMBINERS,
    FAST,
    FIRST,
    LATEST,
    MANY,
    PARTS,
    PERCENTILES,
    Element,
    Instant,
    answer_of,
    bounded_answer,
    by_draws,
    by_instant,
    check_seeds,
    chunk_of,
    drawn_instants,
    instants_of,
    machines,
    with_keys_that_vary,
)
from tests.support.spec.drawing import MORE_LEAVES, SILENT, STEPS, WINDOW_FNS, tree, windowing_strategy
from tests.support.spec.drawing import script as drawn_script
from tests.support.spec.triggers_of_users import FiresWith
from tests.support.spec.windows_of_users import NamedSeconds, ValidUntilNext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.testing import TestStream
    from dataflow_model.triggers import TriggerContext
    from tests.support.spec.drawing import Pick

LATE = st.sampled_from(dm.LateData)


def check(pick: Pick, script: TestStream, strategy: WindowingStrategy, combiners: Sequence[Any] = COMBINERS) -> None:
    """Run a script through both machines: in chunks, and as one bucket of a bounded job."""
    combine = pick(combiners)
    instants, takes_back = drawn_instants(pick, script, strategy, combine)
    cuts = [pick(range(1, len(instants) + 1)) for _ in range(pick([0, 1, 3]))]
    told = {"takes_back": takes_back, "records_percentile": pick([False, True])}
    both = machines(strategy, combine, PERCENTILES, **told)
    elements = [element for now in instants for element in now.elements]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlapping, "PAIRS", pick([overlapping.PAIRS, 1, 2, 5]))
        objects, core = (answer_of(machine, instants, cuts) for machine in both)
        assert core == objects
        both = machines(strategy, combine, PERCENTILES, **told)
        objects, core = (bounded_answer(machine, elements) for machine in both)
        assert core == objects


@given(
    st.data(),
    strategies.test_streams(keys=("a", "b", "c")),
    strategies.windowing_strategies(
        fns=strategies.window_fns(merging=False), trees=st.just(dm.DefaultTrigger()), late_data=LATE
    ),
)
def test_the_core_agrees_with_the_reference_on_windows_under_the_default_trigger(
    data: st.DataObject, script: TestStream, strategy: WindowingStrategy
) -> None:
    check(by_draws(data), script, strategy)


@given(
    st.data(),
    strategies.test_streams(keys=("a", "b", "c"), signals=strategies.SIGNALS, percentiles=strategies.PERCENTILES),
    strategies.windowing_strategies(fns=strategies.window_fns(merging=False), late_data=LATE),
    st.booleans(),
)
def test_the_core_agrees_with_the_reference_on_windows_that_do_not_merge_under_any_trigger(
    data: st.DataObject, script: TestStream, strategy: WindowingStrategy, retracting: bool
) -> None:
    check(by_draws(data), script, attrs.evolve(strategy, retracting=retracting and strategy.accumulates))


@given(
    st.data(),
    strategies.test_streams(keys=("a", "b"), signals=strategies.SIGNALS, percentiles=strategies.PERCENTILES),
    strategies.windowing_strategies(fns=strategies.window_fns(merging=True), late_data=LATE),
    st.booleans(),
)
def test_the_core_agrees_with_the_reference_on_sessions_under_any_trigger(
    data: st.DataObject, script: TestStream, strategy: WindowingStrategy, retracting: bool
) -> None:
    check(by_draws(data), script, attrs.evolve(strategy, retracting=retracting and strategy.accumulates))


def check_script(text: str, windowing: dm.WindowInto, combine: Any = None) -> None:
    """Run a short script, as in tests/support/scripting.py, in one chunk and in one chunk an instant."""
    combine = combine or dm.Sum()
    instants = list(instants_of(scripting.script(text), windowing.strategy, ()))
    for cuts in ([], list(range(1, len(instants)))):
        objects, core = (answer_of(machine, instants, cuts) for machine in machines(windowing.strategy, combine, ()))
        assert core == objects


def test_until_decides_the_deadline_of_a_pane_if_both_triggers_fire_at_once() -> None:
    trigger = dm.AfterEventTime(1).or_finally(dm.AfterEventTime(5))
    check_script("e 1@1, e 2@12, e 4@21, w 60, e 8@61, w +inf", scripting.fixed(trigger, lateness=100))


@pytest.mark.parametrize("inner", [dm.AfterEventTime(3), dm.AfterAny(dm.AfterEventTime(4), dm.AfterEventTime(2))])
def test_the_latest_of_all_conditions_decides_the_deadline_before_1970_as_well(inner: dm.Trigger) -> None:
    trigger = dm.Repeatedly(dm.AfterAll(dm.AfterEventTime(1), inner))
    check_script(
        "e 1@-60, w -57, e 2@-57, e 4@-51, w -40, e 8@-45, w -30, w +inf", scripting.fixed(trigger, lateness=30)
    )


def test_elements_that_were_on_time_are_late_once_their_merged_window_ends_behind_the_watermark() -> None:
    late = dm.AfterWatermark(late=dm.AfterCount(1))
    check_script(
        "e 1@0, e 2@15, w 12, e 4@8, w 18, e 8@20, w 26, e 16@24, w +inf", scripting.sessions(late, lateness=30)
    )


def test_met_conditions_and_started_turns_survive_merges() -> None:
    trigger = dm.Repeatedly(dm.AfterEach(dm.AfterAll(dm.AfterCount(2), dm.AfterProcessingTime(3)), dm.AfterCount(1)))
    text = "p 1, e 1@0, e 2@30, p 2, e 4@9, e 8@21, p 6, e 16@15, p 9, e 32@16, w 50, e 64@45, p 20, w +inf"
    check_script(text, scripting.sessions(trigger, lateness=60))


@attrs.frozen
class Remembering(dm.Trigger):
    """Fires at the last of some elements; those of windows that merge add up, and each of the windows counts too."""

    elements: int

    def on_element(self, context: TriggerContext) -> None:
        seen = context.lookup_state("seen", 0) + 1
        context.store_state("seen", seen)
        if seen >= self.elements:
            context.trigger()
            context.done()

    def on_merge(self, context: TriggerContext) -> None:
        seen = [context.lookup_source_state(window, "seen", 0) for window in context.sources]
        context.store_state("seen", sum(seen) + len(seen))


@pytest.mark.parametrize(
    ("repeated", "times"), [(dm.AfterCount(1), 3), (dm.AfterCount(1), 4), (dm.AfterCount(1), 5), (dm.AfterCount(3), 2)]
)
@pytest.mark.parametrize("after", [None, dm.AfterCount(2)])
def test_completions_of_merging_windows_add_up(repeated: dm.Trigger, times: int, after: dm.Trigger | None) -> None:
    trigger: dm.Trigger = dm.RepeatCount(repeated, times)
    if after is not None:
        trigger = dm.Repeatedly(dm.AfterEach(trigger, after))
    text = (
        "e 1@0, e 2@5, e 4@30, e 8@21, e 16@14, e 32@12, e 64@45, e 128@46, e 256@60, e 512@54, "
        "e 1024@38, e 2048@1, e 4096@2, w 90, w +inf"
    )
    check_script(text, scripting.sessions(trigger, lateness=60))


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("repeated", [dm.AfterCount(1), dm.AfterEach(dm.AfterCount(1), dm.AfterCount(1))])
def test_an_inner_repetition_that_is_completed_by_a_merge_counts_once_for_the_outer_one(
    repeated: dm.Trigger, times: int
) -> None:
    trigger = dm.RepeatCount(dm.RepeatCount(repeated, 2), times)
    text = "e 1@0, e 2@30, e 4@15, e 8@8, e 16@23, e 32@1, e 64@60, e 128@50, e 256@41, e 512@2, e 1024@3, w 90, w +inf"
    check_script(text, scripting.sessions(trigger, lateness=60))


@pytest.mark.parametrize(
    "trigger",
    [
        dm.Repeatedly(dm.AfterEach(dm.AfterCount(1), Remembering(5), dm.AfterCount(2))),
        dm.Repeatedly(dm.AfterEach(dm.AfterCount(2), Remembering(5), dm.AfterCount(2))),
        *(dm.AfterAny(dm.AfterPunctuation(lambda value: value == 64), Remembering(n)) for n in (4, 5, 6, 7)),
    ],
)
def test_a_users_trigger_merges_the_states_of_the_windows_in_which_it_takes_part(trigger: dm.Trigger) -> None:
    text = (
        "e 1@0, e 2@1, e 4@2, e 8@20, e 16@30, e 32@31, e 64@32, e 128@9, e 256@25, e 512@17, e 1024@1, e 2048@2, w 90"
    )
    check_script(text, scripting.sessions(trigger, lateness=60))


@pytest.mark.parametrize("mode", dm.FiringMode)
def test_a_firing_mode_requested_before_a_merge_applies_to_the_merged_window(mode: dm.FiringMode) -> None:
    trigger = dm.Repeatedly(dm.AfterAll(FiresWith((mode, None, None, None, None, None)), dm.AfterCount(3)))
    strategy = attrs.evolve(
        scripting.sessions(trigger, lateness=60).strategy, accumulation_mode=dm.AccumulationMode.ACCUMULATE_BY_DEFAULT
    )
    check_script("e 1@0, e 2@15, e 4@8, e 8@9, e 16@40, w 90", dm.Window.into(strategy))


def test_a_merged_window_holds_the_watermark_for_the_panes_that_it_has_to_retract() -> None:
    late = dm.AfterWatermark(late=dm.AfterCount(2))
    windowing = scripting.sessions(late, lateness=60).accumulating_and_retracting()
    check_script("e 1@0, w 12, e 2@7, w 20, e 4@9, e 8@8, w 40, e 16@3, w +inf", windowing)


def test_a_turn_that_has_not_started_in_the_merged_window_has_no_timer() -> None:
    trigger = dm.Repeatedly(dm.AfterEach(dm.AfterCount(3), dm.AfterProcessingTime(5)))
    text = "p 1, e 1@0, e 2@1, e 4@2, e 8@3, p 2, e 16@15, e 32@8, p 9, e 64@9, p 20, w 50, w +inf"
    check_script(text, scripting.sessions(trigger, lateness=60))


def test_a_reopened_window_is_closed_once_although_it_uses_the_cell_of_a_merged_window() -> None:
    strategy = scripting.sessions(dm.DefaultTrigger()).late_data(dm.LateData.DUPLICATE_WINDOW).strategy
    instants = list(instants_of(scripting.script("e 1@900, e 2@1000, e 4@1005, w 50, e 8@0, w +inf"), strategy, ()))
    core: Any = machines(strategy, dm.Sum(), ())[1]
    answer_of(core, instants, list(range(1, len(instants))))
    assert core._core.machine.cells.live == 0


def check_updates(rows: Sequence[tuple[str, int, int | None]], windowing: dm.WindowInto, combine: Any = None) -> Any:
    """Run rows of sign, value and emission, all at second 1, an instant each; then two watermarks. Return the panes."""
    strategy, second = windowing.strategy, 1_000_000
    windows = tuple(strategy.window_fn.assign(dm.EventTime(second), None))
    instants = [
        Instant(
            0,
            tuple(
                Element("k", value, second, windows, number, None if of is None else Update((of,), sign == "-"))
                for number, (sign, value, of) in enumerate(rows, 1)
            ),
            FIRST,
            (),
            (),
            closes=False,
        ),
        Instant(0, (), 10 * second, (), (), closes=True),
        Instant(0, (), LATEST, (), (), closes=False),
    ]
    objects, core = (
        answer_of(machine, instants, [1]) for machine in machines(strategy, combine or dm.Sum(), (), takes_back=True)
    )
    assert core == objects
    return [[row[0] for row in rows] for rows in core.panes]


def test_a_retraction_and_its_replacement_are_one_element_to_a_trigger() -> None:
    windowing = scripting.fixed(dm.Repeatedly(dm.AfterCount(2))).accumulating()
    panes = check_updates([("+", 1, None), ("-", 1, 7), ("+", 2, 7), ("+", 4, None)], windowing)
    assert panes[0] == ["('k', 2)"]


def test_remaining_inputs_are_emitted_although_as_many_were_retracted_as_added() -> None:
    windowing = scripting.fixed(dm.AfterWatermark(early=dm.AfterCount(1))).accumulating_and_retracting()
    panes = check_updates([("-", 9, 7), ("+", 4, None)], windowing, dm.Max())
    assert panes[0] == ["('k', 4)"]


def test_elements_can_be_subtracted_from_sums_beyond_64_bits() -> None:
    windowing = scripting.fixed(dm.Repeatedly(dm.AfterCount(1))).accumulating()
    panes = check_updates([("+", 2**62, None), ("+", 2**62 + 1, None), ("-", 2**62, 7), ("+", 5, 7)], windowing)
    assert panes[0][-1] == f"('k', {2**62 + 6})"


@attrs.frozen
class SumsThatRefuse(dm.CombineFn[int, int, int]):
    """Sums that raise when 7 is subtracted."""

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + element

    def subtract_input(self, accumulator: int, element: int) -> int:
        if element == 7:
            raise ValueError("not seven")
        return accumulator - element

    def merge_accumulators(self, accumulators: Any) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


@pytest.mark.parametrize(
    ("rows", "element"),
    [([("-", 7, 1), ("+", 4, 1)], 4), ([("-", 7, 1), ("+", 4, None)], 7)],
    ids=["replaced", "alone"],
)
def test_an_exception_of_subtract_input_names_the_element(rows: Any, element: int) -> None:
    strategy = scripting.fixed(dm.DefaultTrigger()).accumulating().strategy
    windows = tuple(strategy.window_fn.assign(dm.EventTime(1), None))
    elements = [
        Element("k", value, 1, windows, number, None if of is None else Update((of,), sign == "-"))
        for number, (sign, value, of) in enumerate(rows, 1)
    ]
    for machine in machines(strategy, SumsThatRefuse(), (), takes_back=True):
        with pytest.raises(dm.UserCodeError, match="not seven") as raised:
            bounded_answer(machine, elements)
        assert f"element: ('k', {element})" in str(raised.value)


@attrs.frozen
class Failing(dm.Trigger):
    """Raises in the callback of this name."""

    callback: str

    def on_element(self, context: TriggerContext) -> None:
        self._fail("on_element")
        context.set_timer("end", context.window.end, dm.TimeDomain.EVENT_TIME)

    def on_timer(self, context: TriggerContext, tag: str) -> None:
        del context, tag
        self._fail("on_timer")

    def _fail(self, callback: str) -> None:
        if callback == self.callback:
            raise ValueError(f"no {callback}")


@pytest.mark.parametrize("callback", ["on_element", "on_timer"])
def test_an_exception_of_a_users_trigger_is_reported_with_its_element_or_timer(callback: str) -> None:
    windowing = scripting.fixed(Failing(callback))
    instants = list(instants_of(scripting.script("e 1@1, e 2@2, w 10, w +inf"), windowing.strategy, ()))
    messages = []
    for machine in machines(windowing.strategy, dm.Sum(), ()):
        with pytest.raises(dm.UserCodeError, match=f"no {callback}") as raised:
            answer_of(machine, instants, [])
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


@attrs.frozen
class OfPlainInts(dm.DataTrigger):
    """Fires if the element is a Python int."""

    def should_emit(self, element: Any, state: Any) -> tuple[bool, Any]:
        return type(element) is int, state


@pytest.mark.parametrize("trigger", [OfPlainInts(), dm.AfterPunctuation(lambda element: type(element) is int)])
def test_users_functions_are_called_with_python_numbers_for_values_in_columns(trigger: dm.Trigger) -> None:
    windowing = scripting.fixed(dm.Repeatedly(trigger))
    instants = list(instants_of(scripting.script("e 1@1"), windowing.strategy, ()))
    chunk = chunk_of(instants[:1])
    chunk.elements.bundle.values = Pairs(pa.chunked_array([["k"]]), pa.chunked_array([[1]]))
    produced = machines(windowing.strategy, dm.Sum(), ())[1].run(chunk)
    assert [row[0] for rows in by_instant(produced, 1) for row in rows] == ["('k', 1)"]


def test_panes_are_numbered_consecutively_when_two_signals_fire_at_one_instant() -> None:
    trigger = dm.Repeatedly(dm.AfterAny(dm.AfterSignal("go"), dm.AfterSignal("stop")))
    strategy = scripting.fixed(trigger).accumulating_and_retracting().strategy
    instants = list(instants_of(scripting.script("e 1@1, e 2@12, p 1, e 4@2, e 8@13, p 2, w +inf"), strategy, ()))
    both = [attrs.evolve(now, signals=("stop", "go") if index in {2, 5} else ()) for index, now in enumerate(instants)]
    objects, core = (answer_of(machine, both, [3]) for machine in machines(strategy, dm.Sum(), ()))
    assert core == objects


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("cuts", [[], [1, 2, 3, 4, 5, 6]])
def test_sums_of_whole_numbers_are_exact_however_large(sign: int, cuts: list[int]) -> None:
    windowing = scripting.sessions(dm.Repeatedly(dm.AfterCount(1)), lateness=60).accumulating_and_retracting()
    instants = list(
        instants_of(scripting.script("e 1@1, e 2@2, e 3@17, e 4@18, e 5@10, w +inf"), windowing.strategy, ())
    )
    large = [
        attrs.evolve(now, elements=tuple(attrs.evolve(element, value=sign * (2**62 + 1)) for element in now.elements))
        for now in instants
    ]
    objects, core = (answer_of(machine, large, cuts) for machine in machines(windowing.strategy, dm.Sum(), ()))
    assert core == objects
    assert repr(("k", sign * 5 * (2**62 + 1))) in {row[0] for panes in core.panes for row in panes}


@pytest.mark.parametrize("value", [2**70, 1.5, True, 2**63 - 1])
def test_sums_that_began_in_arrays_continue_with_numbers_of_any_type(value: Any) -> None:
    windowing = scripting.fixed(dm.Repeatedly(dm.AfterCount(1))).accumulating_and_retracting()
    script = scripting.script("e 1@1, e 2@2, e 3@12, e 4@3, e 5@4, w +inf")
    cut = 3
    instants = list(instants_of(script, windowing.strategy, ()))
    late = [
        attrs.evolve(now, elements=tuple(attrs.evolve(element, value=value) for element in now.elements))
        for now in instants[cut:]
    ]
    late = instants[:cut] + late
    objects, core = (answer_of(machine, late, [cut]) for machine in machines(windowing.strategy, dm.Sum(), ()))
    assert core == objects


def test_a_key_without_open_windows_is_shown_in_the_form_in_which_it_arrives_next() -> None:
    strategy = scripting.fixed(dm.DefaultTrigger()).strategy
    instants = map(with_keys_that_vary, instants_of(scripting.script("e 1@1, e 2@2, e 4@33, e 8@34"), strategy, ()))
    elements = [element for now in instants for element in now.elements]
    elements.sort(key=lambda element: element.time)
    for machine in machines(strategy, dm.Sum(), ()):
        answer = bounded_answer(machine, elements)
        assert [row[0] for row in answer.panes[0]] == ["(('k', -0.0), 3)", "(('k', -0.0), 12)"]
        answer = bounded_answer(machine, elements[1:])
        assert [row[0] for row in answer.panes[0]] == ["(('k', 0.0), 2)", "(('k', -0.0), 12)"]


class Held:
    """A value of which a weak reference tells whether anything still refers to it."""


class Last(dm.CombineFn[Any, tuple[Any, ...], Any]):
    """Its value is the last input itself."""

    def create_accumulator(self) -> tuple[Any, ...]:
        return ()

    def add_input(self, accumulator: tuple[Any, ...], element: Any) -> tuple[Any, ...]:
        del accumulator
        return (element,)

    def merge_accumulators(self, accumulators: Any) -> tuple[Any, ...]:
        return tuple(itertools.chain.from_iterable(accumulators))[-1:]

    def extract_output(self, accumulator: tuple[Any, ...]) -> Any:
        return accumulator[0]


def test_values_of_expired_windows_are_released_although_they_were_not_retracted() -> None:
    strategy = scripting.fixed(dm.Repeatedly(dm.AfterCount(1))).accumulating_and_retracting().strategy
    core = machines(strategy, Last(), ())[1]
    before: list[Instant] = []
    after = list(instants_of(scripting.script("e 1@1, w 20, e 2@30"), strategy, ()))
    value = Held()
    while not before or not before[-1].elements:
        now = after.pop(0)
        before.append(attrs.evolve(now, elements=tuple(attrs.evolve(each, value=value) for each in now.elements)))
    core.run(chunk_of(before))
    reference = weakref.ref(value)
    del value, before, now  # pyright: ignore[reportPossiblyUnboundVariable] # the loop has run
    core.run(chunk_of(after))
    assert reference() is None


@pytest.mark.parametrize("composite", [dm.AfterAny, dm.AfterAll, dm.AfterEach])
def test_the_core_runs_trigger_trees_with_more_than_64_nodes(composite: Any) -> None:
    leaves = [leaf for leaf in MORE_LEAVES if leaf != SILENT]
    for seed in range(4):
        pick = random.Random(seed).choice
        trigger = dm.Repeatedly(composite(*(tree(pick, leaves) for _ in range(70))))
        strategy = attrs.evolve(windowing_strategy(pick, WINDOW_FNS, leaves), trigger=trigger)
        check(pick, drawn_script(pick, [*STEPS, "percentile", "signal"]), strategy)


def test_the_core_agrees_with_the_reference_on_scripts_with_times_on_a_grid() -> None:
    check_seeds(check, range(FAST))


def test_a_percentile_that_the_trigger_does_not_wait_for_fires_nothing() -> None:
    check_seeds(check, range(20_270, 20_271))  # a timer that is due when it is set waits until a clock of its own moves


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("part", range(PARTS))
def test_the_core_agrees_with_the_reference_on_fifty_thousand_scripts_with_times_on_a_grid(part: int) -> None:
    check_seeds(check, range(FAST + part, FAST + MANY, PARTS))


def test_windows_with_the_same_bounds_are_reopened_one_by_one() -> None:
    windowing = dm.Window.into(NamedSeconds()).late_data(dm.LateData.DUPLICATE_WINDOW)
    check_script("e 1@1, w 20, e 2@1, e 4@2, w 30, w +inf", windowing)


def test_elements_that_were_on_time_are_late_once_a_merge_has_moved_the_end_behind_the_watermark() -> None:
    windowing = dm.Window.into(ValidUntilNext()).trigger(dm.AfterWatermark(late=dm.AfterCount(1)))
    check_script("e 1@0, w 50, e 2@30, e 4@10, w 60, e 8@40, w +inf", windowing)
