"""`prove` finds what breaks the laws, shows the smallest input, and leaves good pipelines alone."""

from __future__ import annotations

import math
import random
import statistics
import time
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.columns.records import Record
from dataflow_model.testing import LawBroken, TestStream, prove, run_script
from dataflow_model.testing.proving.arrivals import all_at_once, elements_of, recut, script_text
from dataflow_model.testing.proving.drawing import Broken
from dataflow_model.testing.proving.laws import check_pane_sequence
from dataflow_model.testing.proving.proof import _check_in_process
from dataflow_model.testing.proving.proof_runs import Subject
from tests.support.laws.examples import share_of_cases
from tests.support.spec.windows_of_users import ValidUntilNext
from tests.support.triggers.odd import IsOdd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

DATA = [(("a", 3), 1), (("a", 5), 8), (("b", 2), 12), (("a", 7), 4), (("b", 1), 25), (("a", 4), 31)]
EAGER = dm.AfterWatermark(early=dm.AfterCount(1), late=dm.AfterCount(1))


def windowed(fn: dm.WindowFn | None = None) -> dm.WindowInto:
    return dm.Window.into(fn or dm.FixedWindows(10)).trigger(EAGER).allowed_lateness(15)


def broken(pipeline: Callable[[Any], Any], data: Any = DATA, examples: int = 60) -> LawBroken:
    with pytest.raises(LawBroken) as caught:
        prove(pipeline, data, examples=examples)
    return caught.value


# What holds ----------------------------------------------------------------------------------------------------------


WINDOWS = [dm.FixedWindows(10), dm.Sessions(10), dm.SlidingWindows(10, 5), dm.GlobalWindows()]
MODES = ["discarding", "accumulating", "accumulating_and_retracting"]
QUICK = {(0, 0), (1, 2), (2, 1)}
"""Which windows with which mode are tried in the quick suite: each mode, and each kind of finite windows."""


@pytest.mark.parametrize(
    ("fn", "how"),
    [
        pytest.param(fn, how, marks=[] if (number, index) in QUICK else pytest.mark.slow)
        for number, fn in enumerate(WINDOWS)
        for index, how in enumerate(MODES)
    ],
)
def test_a_mean_under_every_mode_keeps_the_laws(fn: dm.WindowFn, how: str) -> None:
    windowing = getattr(windowed(fn), how)()
    prove(lambda elements: elements | windowing | dm.Mean.per_key(), DATA, examples=15)


def test_a_chain_under_retractions_keeps_the_laws() -> None:
    def by_total(elements: Any) -> Any:
        totals = elements | windowed().accumulating_and_retracting() | dm.Sum.per_key()
        return totals | dm.Map(lambda pair: (pair[1] > 5, pair[1])) | "again" >> dm.Sum.per_key()

    prove(by_total, DATA, examples=15)


def test_grouping_without_a_combiner_keeps_the_laws_since_lists_have_no_order() -> None:
    prove(lambda elements: elements | windowed() | dm.GroupByKey(), DATA, examples=15)


def test_data_may_be_a_strategy_of_elements_or_of_lists_of_them() -> None:
    elements = st.tuples(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), st.integers(0, 40))
    for data in (elements, st.lists(elements, max_size=4)):
        prove(lambda given: given | windowed() | dm.Sum.per_key(), data, examples=10)


def test_combining_in_parts_keeps_the_laws_although_the_parts_depend_on_the_bundles() -> None:
    prove(
        lambda elements: elements | windowed() | dm.Sum.per_key().with_hot_key_fanout(4),
        DATA,
        examples=share_of_cases(40),
    )


class SumOfWindow(dm.DoFn):
    """Adds up the values of each key and window in state, and emits the sum at the window's end."""

    total = dm.ValueStateSpec(default=0)
    end = dm.TimerSpec()

    def process(self, element: Any, total: Any, end: Any, window: Any) -> None:
        total.write(total.read() + element[1])
        end.set(window.end)

    @dm.on_timer(end)
    def at_the_end(self, key: Any, total: Any) -> Iterator[Any]:
        yield key, total.read()
        total.clear()


def late_element() -> TestStream:
    """Return a script whose last element is late for a stateful transform, but not for a grouping behind it."""
    return TestStream().add(("a", 1), 0).watermark(1000).add(("a", 2), 5)


@pytest.mark.parametrize("transform", [dm.ParDo(SumOfWindow()), dm.Deduplicate(lambda kv: kv, horizon=3)], ids=repr)
def test_elements_that_a_stateful_transform_drops_are_not_expected_in_the_batch_result(transform: Any) -> None:
    def pipeline(elements: Any) -> Any:
        return elements | dm.Window.into(dm.FixedWindows(10)) | transform | dm.Sum.per_key()

    subject, script = Subject(pipeline), late_element()
    observed = _check_in_process(subject, script, [False] * 9, dm.LocalRunner(clock=0), [])
    assert observed.dropped_anything()


def test_elements_that_a_join_by_distance_drops_are_not_expected_in_the_batch_result() -> None:
    def pipeline(elements: Any) -> Any:
        return (elements, elements) | dm.Join.inner(within=10)

    observed = _check_in_process(Subject(pipeline), late_element(), [False] * 9, dm.LocalRunner(clock=0), [])
    assert observed.dropped_anything()


@attrs.frozen
class PlanWindow(dm.IntervalWindow):
    plan: str = ""


@attrs.frozen
class SessionsByPlan(dm.WindowFn):
    """Sessions of six seconds of the elements with one plan, which may overlap those of another plan."""

    is_merging = True

    def assign(self, event_time: dm.EventTime, element: Any) -> tuple[PlanWindow]:
        (window,) = dm.Sessions(6).assign(event_time, element)
        return (PlanWindow(window.start, window.end, element[0]),)

    def merge(self, windows: Any) -> Any:
        for plan in sorted({window.plan for window in windows}):
            for merged, window in dm.Sessions(6).merge([window for window in windows if window.plan == plan]):
                yield merged, PlanWindow(window.start, window.end, plan)


def test_windows_with_fields_that_merge_beside_each_other_keep_the_laws() -> None:
    windowing = dm.Window.into(SessionsByPlan()).trigger(dm.Repeatedly(dm.AfterCount(1))).allowed_lateness(60)
    prove(
        lambda pairs: pairs | windowing | dm.Map(lambda pair: ("z", pair[1])) | dm.Sum.per_key(),
        [(("b", 4), 10), (("c", 5), 10), (("c", 10), 11)],
        examples=20,
    )


def test_keys_beyond_the_range_of_floats_are_compared_with_floats() -> None:
    prove(lambda pairs: pairs | windowed() | dm.Count.per_key(), [((2**2000, 1), 0), ((1.5, 1), 0)], examples=10)


def test_a_pipeline_without_a_grouping_is_compared_by_its_elements() -> None:
    prove(lambda elements: elements | dm.Map(lambda pair: pair[1]), DATA, examples=15)


def test_the_probes_do_not_disturb_a_trigger_that_uses_values() -> None:
    def odd(elements: Any) -> Any:
        return elements | windowed().trigger(dm.Repeatedly(IsOdd())) | dm.Sum.per_key()

    prove(odd, DATA, examples=20)


# What breaks ---------------------------------------------------------------------------------------------------------


class Difference(dm.CombineFn[int, int, int]):
    """Neither associative nor commutative."""

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return element - accumulator

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        merged = 0
        for accumulator in accumulators:
            merged = accumulator - merged
        return merged

    def extract_output(self, accumulator: int) -> int:
        return accumulator


class MeanOfMeans(dm.CombineFn[float, list[float], float]):
    """Commutative, but partial means weigh the same however many they are of."""

    def create_accumulator(self) -> list[float]:
        return []

    def add_input(self, accumulator: list[float], element: float) -> list[float]:
        return [*accumulator, element]

    def merge_accumulators(self, accumulators: Iterable[list[float]]) -> list[float]:
        return [sum(values) / len(values) for values in accumulators if values]

    def extract_output(self, accumulator: list[float]) -> float:
        return sum(accumulator) / len(accumulator) if accumulator else 0


@pytest.mark.parametrize("combine", [Difference(), MeanOfMeans()])
def test_a_combiner_that_is_not_associative_is_found(combine: dm.CombineFn[Any, Any, Any]) -> None:
    breach = broken(lambda elements: elements | windowed(dm.Sessions(10)) | dm.CombinePerKey(combine))
    assert breach.law == "law 1, batch ≡ stream"
    assert len(breach.elements) <= 3


def number(values: Any) -> int:
    return len(list(values))


@pytest.mark.parametrize("function", [number, statistics.geometric_mean])
def test_a_function_that_is_not_associative_is_found_although_it_is_called_with_up_to_31_values(function: Any) -> None:
    breach = broken(lambda elements: elements | windowed().accumulating() | dm.CombinePerKey(function))
    assert breach.law == "law 1, batch ≡ stream"
    assert len(breach.elements) <= 3


def test_an_associative_function_keeps_the_laws() -> None:
    prove(lambda elements: elements | windowed(dm.Sessions(10)) | dm.CombinePerKey(math.prod), DATA, examples=20)


class FirstOfEachKey(dm.DoFn):
    """Keeps state between elements."""

    def setup(self) -> None:
        self.seen: set[Any] = set()

    def process(self, element: Any) -> Iterator[Any]:
        if element[0] not in self.seen:
            self.seen.add(element[0])
            yield element


def test_a_function_that_depends_on_the_order_of_arrival_is_found_and_the_input_is_the_smallest() -> None:
    breach = broken(
        lambda elements: elements | dm.ParDo(FirstOfEachKey()) | windowed().accumulating() | dm.Sum.per_key()
    )
    assert breach.law == "law 1, batch ≡ stream"
    assert [value[0] for value, _ in breach.elements] == ["a", "a"]
    assert not [step for step in breach.script.steps if not hasattr(step, "elements")], "no watermark is needed"
    assert (breach.left[0][0], breach.right[0][0]) == ("a", "a")
    assert "Sum.PerKey" in str(breach)


class ByBundles(dm.DoFn):
    """Emits what it has gathered when a bundle ends."""

    def start_bundle(self) -> None:
        self.gathered: list[Any] = []

    def process(self, element: Any) -> None:
        self.gathered.append(element)

    def finish_bundle(self) -> Iterator[Any]:
        if self.gathered:
            yield dm.TimestampedValue(("all", len(self.gathered)), dm.event_time(60))


def test_a_function_that_depends_on_bundles_is_found() -> None:
    breach = broken(lambda elements: elements | dm.ParDo(ByBundles()) | windowed() | dm.Max.per_key())
    assert breach.law == "law 2, bundling"
    assert len(breach.elements) == 2


@pytest.mark.parametrize("look", [time.time, random.random])
def test_a_function_of_the_wall_clock_or_of_chance_is_found(look: Callable[[], float]) -> None:
    breach = broken(lambda elements: elements | dm.Map(lambda pair: (pair[0], look())) | windowed() | dm.Max.per_key())
    assert breach.law == "determinism"
    assert len(breach.elements) == 1


@attrs.frozen
class AnyLength(dm.WindowFn):
    """Not deterministic."""

    def assign(self, event_time: dm.EventTime, element: Any) -> Any:
        return dm.FixedWindows(random.choice([10, 20])).assign(event_time, element)


def test_a_window_function_that_is_not_deterministic_is_found() -> None:
    breach = broken(lambda elements: elements | windowed(AnyLength()) | dm.Sum.per_key())
    assert breach.law == "determinism"


@attrs.frozen
class ForgetfulOnce(dm.Trigger):
    """Says that it never finishes, and finishes when windows merge: what comes then is dropped."""

    def on_element(self, context: Any) -> None:
        context.trigger()

    def on_merge(self, context: Any) -> None:
        context.done()

    def may_finish(self, *, allowed_lateness: dm.Duration) -> bool:
        return False


def test_a_trigger_whose_merge_loses_data_is_found() -> None:
    breach = broken(lambda elements: elements | windowed(dm.Sessions(10)).trigger(ForgetfulOnce()) | dm.Sum.per_key())
    assert breach.law == "law 5, conservation"
    assert "may_finish" in breach.problem
    assert len(breach.elements) == 2


def test_accumulating_before_another_grouping_counts_twice_which_is_found() -> None:
    def doubly(elements: Any) -> Any:
        return elements | windowed().accumulating() | dm.Sum.per_key() | "again" >> dm.Sum.per_key()

    breach = broken(doubly)
    assert "'again'" in breach.problem


def test_an_element_for_which_the_pipeline_fails_is_found() -> None:
    breach = broken(lambda elements: elements | dm.Map(lambda pair: (pair[0], 1 / (pair[1] - 7))) | dm.Sum.per_key())
    assert breach.law == "running on every input"
    assert breach.elements[-1][0] == ("a", 7)


# What it says --------------------------------------------------------------------------------------------------------


def test_the_printed_input_can_be_pasted_and_breaks_the_same_law() -> None:
    windowing = windowed()
    breach = broken(lambda elements: elements | windowing | dm.CombinePerKey(Difference()))
    names: dict[str, Any] = {"TestStream": TestStream, "dm": dm}
    exec(script_text(breach.script), names)
    assert names["script"].steps == breach.script.steps
    assert script_text(breach.script).splitlines()[1].strip() in str(breach)
    assert run_script(names["script"], windowing, Difference())


def test_a_script_may_be_recut_without_losing_an_event() -> None:
    script = TestStream().bundle([(1, 0), (2, 5)]).watermark(5).processing_time(3).add(3, 9).watermark_to_infinity()
    for cuts in ((), (True,) * 6, (False, True, False, True)):
        assert elements_of(recut(script, cuts)) == elements_of(script)
    assert [value for value, _ in elements_of(all_at_once(TestStream().add(2, 9).add(1, 3)))] == [1, 2]


def test_data_that_are_not_pairs_of_value_and_event_time_are_refused() -> None:
    with pytest.raises(dm.InvalidArgument, match="pairs of a value and its event time, got 5"):
        prove(lambda elements: elements, [5])


def test_a_function_that_returns_no_collection_is_refused() -> None:
    with pytest.raises(dm.InvalidType, match="must return the collection to compare, got None"):
        prove(lambda elements: None, DATA)


def test_the_laws_hold_for_windows_that_merging_makes_shorter() -> None:
    elements = [(("k", "first"), 0), (("k", "second"), 5)]
    shortened = windowed(ValidUntilNext()).allowed_lateness("1 hour").accumulating_and_retracting()
    each = shortened.trigger(dm.AfterWatermark(early=dm.AfterCount(1), late=dm.AfterCount(1)))
    prove(lambda pairs: pairs | each | dm.GroupByKey(), elements, examples=share_of_cases(100))


# Windows that are reopened

REOPENING = [(("ab"[number % 2], number), number * 3 % 41) for number in range(1, 14)]


def reopening(windows: dm.WindowFn, mode: str, combine: Any = None, trigger: dm.Trigger | None = None) -> Any:
    def build(elements: Any) -> Any:
        windowing = dm.Window.into(windows).late_data("duplicate_window")
        chain = getattr(windowing if trigger is None else windowing.trigger(trigger), mode)()
        return elements | chain | dm.CombinePerKey(dm.Sum() if combine is None else combine)

    return build


@pytest.mark.parametrize(
    ("windows", "mode"),
    [
        pytest.param(windows, mode, marks=[] if mode in quick else pytest.mark.slow)
        for windows, quick in [
            (dm.SlidingWindows(10, 5), {"accumulating_and_retracting"}),
            (dm.Sessions(4), {"discarding"}),
        ]
        for mode in MODES
    ],
    ids=repr,
)
def test_the_laws_hold_for_each_life_of_a_window_that_is_reopened(windows: dm.WindowFn, mode: str) -> None:
    prove(reopening(windows, mode, trigger=EAGER), REOPENING, examples=share_of_cases(40))


def test_the_laws_hold_for_a_grouping_of_reopened_windows() -> None:
    def build(elements: Any) -> Any:
        again = reopening(dm.SlidingWindows(10, 5), "accumulating_and_retracting")(elements)
        return again | "all" >> dm.Sum.per_key()

    prove(build, REOPENING, examples=share_of_cases(40))


@pytest.mark.slow
def test_a_combiner_that_is_wrong_only_where_a_window_is_reopened_is_found() -> None:
    class Forgets(dm.Sum):
        """Does not add what it merges."""

        def merge_accumulators(self, accumulators: Any) -> Any:
            return max(accumulators, default=0)

    with pytest.raises(
        LawBroken, match="law 1, batch ≡ stream does not hold: the accumulators of the discarding panes"
    ):
        prove(reopening(dm.SlidingWindows(10, 5), "discarding", Forgets()), REOPENING)


def reopened_pane(value: int, index: int, timing: dm.PaneTiming = dm.PaneTiming.LATE, *, is_last: bool = True) -> Any:
    info = dm.PaneInfo(index, 0, is_first=index == 0, is_last=is_last, timing=timing, trigger=None)
    window = dm.IntervalWindow(dm.EventTime(0), dm.EventTime(10))
    return Record(("a", value), dm.EventTime(9), window, info)


@pytest.mark.parametrize(
    "wrong",
    [
        [reopened_pane(2, 0, is_last=False), reopened_pane(3, 1)],
        [reopened_pane(2, 0, dm.PaneTiming.ON_TIME)],
        [reopened_pane(2, 0, is_last=False)],
    ],
    ids=["two panes", "on time", "not the last"],
)
def test_a_reopened_window_with_another_pane_than_a_late_last_one_is_found(wrong: list[Any]) -> None:
    p = dm.Pipeline()
    _ = reopening(dm.FixedWindows(10), "accumulating")(p | dm.Create([("a", 1)]))
    node: Any = p.plan()["CombinePerKey"]
    panes = [reopened_pane(1, 0, dm.PaneTiming.ON_TIME)]
    check_pane_sequence(node, [*panes, reopened_pane(2, 0)])
    with pytest.raises(Broken, match="a reopened window has other panes"):
        check_pane_sequence(node, [*panes, *wrong])
