"""LocalRunner on pipelines of several sources, groupings, side inputs and outputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.errors import InvalidType, UserCodeError
from dataflow_model.testing import ManualClock, TestStream
from tests.support.scripting import fixed, script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dataflow_model.plan.columns.records import Record

EACH = dm.Repeatedly(dm.AfterCount(1))


def records(build: Callable[[dm.Pipeline], Any], runner: Any = None) -> list[Record]:
    """Run what `build` makes of a pipeline and return what its collection holds."""
    pipeline = dm.Pipeline(runner=runner or dm.LocalRunner(clock=0))
    _ = build(pipeline) | "kept" >> dm.io.Collect()
    result = pipeline.run()
    result.wait_until_finish()
    kept: list[Record] = result.collected("kept")
    return kept


def values(build: Callable[[dm.Pipeline], Any]) -> list[Any]:
    return [record.value for record in records(build)]


def seconds(record: Record) -> float:
    return int(record.processing_time) / 1e6


# Several sources.


def test_created_elements_arrive_at_the_first_tick_of_a_script() -> None:
    def build(p: dm.Pipeline) -> Any:
        created = p | dm.Create([("k", 1)]) | dm.WithTimestamps(lambda _: 5)
        stream = p | script("p 7, e 2@5, p 8, w 10, p 9")
        return (created, stream) | dm.Flatten() | fixed(EACH, lateness=5).accumulating() | dm.Sum.per_key()

    kept = records(build)
    assert [record.value for record in kept] == [("k", 1), ("k", 3)]


def test_a_created_collection_does_not_hold_back_the_watermark_of_a_script() -> None:
    def build(p: dm.Pipeline) -> Any:
        created = p | dm.Create([("k", 1)]) | dm.WithTimestamps(lambda _: 5)
        stream = p | script("e 2@5, p 8, w 10, p 9")
        return (created, stream) | dm.Flatten() | fixed() | dm.Sum.per_key()

    kept = records(build)
    assert [(record.value, record.pane.timing.name, seconds(record)) for record in kept] == [(("k", 3), "ON_TIME", 8)]


def test_two_scripts_share_the_clock() -> None:
    def build(p: dm.Pipeline) -> Any:
        first = p | "one" >> script("p 3, e 1@5, p 20")
        second = p | "other" >> script("p 5, e 2@5, p 6, e 4@5")
        windowing = fixed(dm.Repeatedly(dm.AfterProcessingTime(10)))
        return (first, second) | dm.Flatten() | windowing | dm.Sum.per_key()

    kept = records(build)
    assert [record.value for record in kept] == [("k", 7)]
    assert [seconds(record) for record in kept] == [13]


def test_the_watermark_after_a_flatten_is_the_minimum_of_its_inputs() -> None:
    def build(p: dm.Pipeline) -> Any:
        first = p | "one" >> script("e 1@5, w 10, p 4")
        second = p | "other" >> script("p 2, w 3, p 4, e 2@5, w 10, p 6")
        return (first, second) | dm.Flatten() | fixed() | dm.Sum.per_key()

    kept = records(build)
    assert [(record.value, seconds(record)) for record in kept] == [(("k", 3), 4)]


def test_a_stalled_source_delays_only_the_groupings_that_depend_on_it() -> None:
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    moving = pipeline | "one" >> script("e 1@5, w 10, p 4") | "1" >> fixed()
    stalled = pipeline | "other" >> script("p 2, p 6") | "2" >> fixed()
    _ = moving | "alone" >> dm.Sum.per_key() | "alone kept" >> dm.io.Collect()
    _ = (moving, stalled) | dm.Flatten() | "both" >> dm.Sum.per_key() | "both kept" >> dm.io.Collect()
    result = pipeline.run()
    result.wait_until_finish()
    assert [seconds(record) for record in result.collected("alone kept")] == [0]
    assert [seconds(record) for record in result.collected("both kept")] == [6]


def test_cogroupbykey_groups_by_key_and_window() -> None:
    def build(p: dm.Pipeline) -> Any:
        first = p | "one" >> script("e 1@5, e 2@15") | "1" >> fixed()
        second = p | "other" >> script("e 10@6") | "2" >> fixed()
        return {"one": first, "other": second} | dm.CoGroupByKey()

    assert values(build) == [("k", {"one": [1], "other": [10]}), ("k", {"one": [2], "other": []})]


# Side inputs.


def test_a_main_element_sees_the_side_window_of_its_own_window() -> None:
    def build(p: dm.Pipeline) -> Any:
        rates = p | "rates" >> dm.Create([(10, 5), (100, 15)]) | dm.WithTimestamps(lambda rate: rate[1])
        windowed = rates | dm.Keys() | "10" >> dm.Window.into(dm.FixedWindows(10))
        numbers = p | "numbers" >> TestStream().bundle([(1, 3), (2, 13), (3, 19)])
        numbers = numbers | "5" >> dm.Window.into(dm.FixedWindows(5))
        return numbers | dm.Map(lambda x, rate: x * rate, rate=dm.AsSingleton(windowed))

    assert values(build) == [10, 200, 300]


def test_side_inputs_are_passed_as_a_list_or_a_dict() -> None:
    def build(p: dm.Pipeline) -> Any:
        names = p | "names" >> dm.Create([("UA", "United"), ("AA", "American")])
        numbers = p | "numbers" >> dm.Create([1, 2])
        codes = p | "codes" >> dm.Create(["UA", "AA"])
        return codes | dm.Map(
            lambda code, names, numbers: (names[code], sorted(numbers)),
            names=dm.AsDict(names),
            numbers=dm.AsIter(numbers),
        )

    assert values(build) == [("United", [1, 2]), ("American", [1, 2])]


def test_a_side_input_may_be_the_result_of_a_grouping() -> None:
    def build(p: dm.Pipeline) -> Any:
        numbers = p | dm.Create([1, 2, 5])
        total = numbers | dm.Sum.globally()
        return numbers | dm.Map(lambda x, total: x / total, total=dm.AsSingleton(total))

    assert values(build) == [0.125, 0.25, 0.625]


def test_an_empty_side_window_is_an_error_or_the_default() -> None:
    def build(p: dm.Pipeline, **default: Any) -> Any:
        nothing = p | "nothing" >> dm.Create([])
        return p | dm.Create([1]) | dm.Map(lambda x, y: (x, y), y=dm.AsSingleton(nothing, **default))

    assert values(lambda p: build(p, default=None)) == [(1, None)]
    with pytest.raises(dm.DataflowError, match="no value in the window"):
        values(build)


# Outputs and errors.


class Sort(dm.DoFn):
    """Sends odd numbers to an output of their own, and refuses zero."""

    def process(self, element: int) -> Iterable[Any]:
        if element == 0:
            raise ValueError("zero is neither")
        yield dm.TaggedOutput("odd", element) if element % 2 else element


def test_tagged_outputs_keep_their_windows() -> None:
    def build(p: dm.Pipeline) -> Any:
        placed = p | TestStream().bundle([(1, 3), (2, 4), (3, 13)]) | dm.Window.into(dm.FixedWindows(10))
        return (placed | dm.ParDo(Sort()).with_outputs("odd"))["odd"]

    kept = records(build)
    assert [(record.value, int(record.window.start) / 1e6) for record in kept] == [(1, 0), (3, 10)]


def test_dead_letters_contain_element_and_label_and_no_other_element_is_lost() -> None:
    def build(p: dm.Pipeline) -> Any:
        outputs, dead = (
            p | dm.Create([1, 0, 2]) | "sort" >> dm.ParDo(Sort()).with_outputs("odd").with_exception_handling()
        )
        letters = dead | "letters" >> dm.Map(lambda letter: (letter.element, letter.label, letter.reason))
        return (outputs.main, outputs["odd"], letters) | dm.Flatten()

    assert sorted(values(build), key=str) == [(0, "sort", "ValueError: zero is neither"), 1, 2]


def test_an_error_of_user_code_shows_the_users_line_then_label_and_element() -> None:
    with pytest.raises(UserCodeError) as raised:
        values(lambda p: p | dm.Create([1, 0, 2]) | "halves" >> dm.Map(lambda x: 1 // x))
    first, where, label, element, hint = str(raised.value).splitlines()
    assert first.startswith("ZeroDivisionError:")
    assert "1 // x" in where
    assert __file__ in where
    assert "'halves'" in label
    assert element.strip() == "element: 0"
    assert hint.startswith("Hint:")


def test_an_error_after_a_grouping_names_its_element() -> None:
    def build(p: dm.Pipeline) -> Any:
        return p | script("e 3@1") | fixed() | dm.Sum.per_key() | "halves" >> dm.Map(lambda pair: pair[1] // 0)

    with pytest.raises(UserCodeError, match=r"'halves'\n  element: \('k', 3\)"):
        values(build)


def test_a_failed_run_is_in_state_failed_and_publishes_nothing() -> None:
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    numbers = pipeline | dm.Create([1, 0])
    _ = numbers | "kept" >> dm.io.Collect()
    _ = numbers | dm.Map(lambda x: 1 // x) | "quotients" >> dm.io.Collect()
    result = pipeline.run()
    with pytest.raises(UserCodeError):
        result.wait_until_finish()
    assert result.state is dm.RunnerState.FAILED
    assert result.collected("kept") == []


class Traced(dm.DoFn):
    """Notes its life."""

    def __init__(self, note: Callable[[str], Any]) -> None:
        self.note = note

    def setup(self) -> None:
        self.note("setup")

    def start_bundle(self) -> None:
        self.note("start")

    def process(self, element: Any) -> Iterable[Any]:
        self.note(f"process {element}")
        yield element

    def finish_bundle(self) -> Iterable[dm.TimestampedValue]:
        self.note("finish")
        return [dm.TimestampedValue("end of bundle", 0)]

    def teardown(self) -> None:
        self.note("teardown")


def test_a_dofn_is_set_up_once_and_called_at_the_start_and_end_of_each_bundle() -> None:
    seen: list[str] = []
    stream = TestStream().bundle([(1, 0), (2, 0)]).add(3, 0)
    given = values(lambda p: p | stream | dm.ParDo(Traced(seen.append)))
    assert seen[0] == "setup"
    assert seen[-1] == "teardown"
    assert seen.count("setup") == seen.count("teardown") == 1
    assert [entry for entry in seen if entry.startswith("process")] == ["process 1", "process 2", "process 3"]
    assert seen.count("start") == seen.count("finish") >= 2
    assert given.count("end of bundle") == seen.count("finish")


def test_a_dofn_receives_event_time_window_pane_and_key() -> None:
    def causes(pair: Any, timestamp: Any, window: Any, pane: Any, key: Any) -> Any:
        return [(key, pair[1], int(timestamp) / 1e6, int(window.end) / 1e6, pane.timing.name)]

    given = values(lambda p: p | script("e 3@1") | fixed() | dm.Sum.per_key() | dm.FlatMap(causes))
    assert given == [("k", 3, 9.999999, 10, "ON_TIME")]


# Chains.


def test_windows_and_watermarks_pass_element_wise_transforms_unchanged() -> None:
    def build(p: dm.Pipeline) -> Any:
        sums = p | script("e 1@1, e 2@11, w 10, p 5, w 20, p 6") | fixed() | "first" >> dm.Sum.per_key()
        halves = sums | dm.MapTuple(lambda key, value: (key * 2, value / 2)) | dm.Filter(lambda pair: pair[1] > 0)
        return halves | "20" >> dm.Window.into(dm.FixedWindows(20)) | "second" >> dm.GroupByKey()

    kept = records(build)
    assert [(record.value, record.pane.timing.name, seconds(record)) for record in kept] == [
        (("kk", [0.5, 1.0]), "ON_TIME", 5)
    ]


def test_a_grouping_inherits_the_strategy_of_its_input() -> None:
    def build(p: dm.Pipeline) -> Any:
        steps = script("e 1@1, p 1, e 2@1, p 2, e 4@1")
        sums = p | steps | fixed(EACH, lateness=9).accumulating() | "first" >> dm.Sum.per_key()
        return sums | "second" >> dm.GroupByKey()

    with pytest.warns(dm.PlanWarning, match="'second' groups the accumulating panes of 'first'"):
        assert values(build) == [("k", [1]), ("k", [1, 3]), ("k", [1, 3, 7])]


def test_windows_that_have_merged_do_not_merge_again_in_the_next_grouping() -> None:
    def build(p: dm.Pipeline) -> Any:
        stream = TestStream().add(1, 0, key="a").add(2, 5, key="a").add(4, 7, key="b")
        sums = p | stream | dm.Window.into(dm.Sessions(10)) | "first" >> dm.Sum.per_key()
        return sums | dm.MapTuple(lambda key, value: ("all", (key, value))) | "second" >> dm.GroupByKey()

    kept = records(build)
    assert [record.value for record in kept] == [("all", [("a", 3)]), ("all", [("b", 4)])]
    assert [int(record.window.end) / 1e6 for record in kept] == [15, 17]


def test_a_pane_reaches_the_next_grouping_at_the_tick_in_which_it_was_emitted() -> None:
    # The first delay is over at 5, between two clock values; the second counts from where the clock is then.
    def build(p: dm.Pipeline) -> Any:
        delayed = fixed(dm.Repeatedly(dm.AfterProcessingTime(5)))
        sums = p | script("e 1@1, p 8, p 12, p 14, p 20") | delayed | "first" >> dm.Sum.per_key()
        return sums | dm.Window.trigger(dm.Repeatedly(dm.AfterProcessingTime(5))) | "second" >> dm.GroupByKey()

    assert [seconds(record) for record in records(build)] == [13]


def test_branches_of_one_collection_do_not_affect_each_other() -> None:
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    pairs = pipeline | script("e 1@1, e 2@11")
    for size in (10, 20):
        placed = pairs | f"into {size}" >> dm.Window.into(dm.FixedWindows(size))
        _ = placed | f"sum {size}" >> dm.Sum.per_key() | f"kept {size}" >> dm.io.Collect()
    result = pipeline.run()
    result.wait_until_finish()
    assert [record.value for record in result.collected("kept 10")] == [("k", 1), ("k", 2)]
    assert [record.value for record in result.collected("kept 20")] == [("k", 3)]


def test_the_wall_clock_can_be_passed_to_the_runner() -> None:
    def build(p: dm.Pipeline) -> Any:
        return p | dm.Create([("k", 1)]) | dm.Sum.per_key()

    assert [seconds(record) for record in records(build, dm.LocalRunner(clock=42))] == [42]


def test_the_class_of_a_clock_instead_of_an_instance_is_refused() -> None:
    kind: Any = ManualClock
    with pytest.raises(InvalidType, match=r"`clock` must be .*, got the class ManualClock\nHint: write ManualClock"):
        dm.LocalRunner(clock=kind)


def test_a_result_has_state_metrics_and_watermarks() -> None:
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    _ = pipeline | "in" >> script("w 30, e 1@1, e 2@35") | fixed() | "sums" >> dm.Sum.per_key() | dm.io.Collect()
    result = pipeline.run()
    assert result.wait_until_finish() is dm.RunnerState.DONE
    assert result.metrics()["sums"] == {"elements_in": 2, "dropped_because_late": 1, "panes_on_time": 1}
    assert result.watermarks() == {"in": dm.MAX_TIMESTAMP, "sums": dm.MAX_TIMESTAMP}


def test_asking_for_an_unknown_label_of_collected_records_names_the_known_ones() -> None:
    p = dm.Pipeline(dm.LocalRunner())
    _ = p | dm.Create([1]) | "kept" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    with pytest.raises(dm.InvalidArgument, match=r"no dm.io.Collect\(\) sink has the label 'keep'\nHint: .*\['kept'\]"):
        result.collected("keep")


def test_dataframes_as_results_are_refused_in_process_with_the_alternative() -> None:
    with dm.Pipeline() as p:
        _ = p | dm.Create([1]) | "out" >> dm.io.Collect()
    with pytest.raises(dm.UnsupportedOnRunner, match=r"got LocalRunner.* 'out'\nHint: use result\.table\('out'\)"):
        p.result.dataframe("out")


@pytest.mark.parametrize("given", ["runs/flights", Path("runs/flights")])
def test_a_directory_passed_as_the_clock_is_refused_with_the_right_argument(given: Any) -> None:
    with pytest.raises(dm.InvalidArgument, match=r"`clock` must be .*\nHint: .*checkpoint='runs/flights'"):
        dm.LocalRunner(given)
