"""Triggers that users write: leaves and composites, with all that their callbacks can see and do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import pytest

import dataflow_model as dm
from dataflow_model.triggers import FiringMode, Outcome, TimeDomain, TreeState, TriggerMachine
from tests.support.triggers.playing import SECOND, Play, fires_at, merged, window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.triggers import TriggerContext

EVENT, CLOCK = TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME


@attrs.frozen
class Leaf(dm.Trigger):
    """A trigger whose callbacks are given; it notes what it is asked."""

    element: Any = None
    timer: Any = None
    merge: Any = None
    begin: Any = None
    seen: list[Any] = attrs.field(factory=list, eq=False)

    percentiles: ClassVar[tuple[float, ...]] = (90.0,)

    def on_element(self, context: TriggerContext) -> None:
        self.seen.append(("element", context.element))
        if self.element:
            self.element(context)

    def on_timer(self, context: TriggerContext, tag: str) -> None:
        self.seen.append(("timer", tag))
        if self.timer:
            self.timer(context)

    def on_merge(self, context: TriggerContext) -> None:
        self.seen.append(("merge", tuple(int(source.start) // SECOND for source in context.sources)))
        if self.merge:
            self.merge(context)

    def reset(self, context: TriggerContext) -> None:
        self.seen.append(("reset",))
        if self.begin:
            self.begin(context)


# State and timers.


def count_up(context: TriggerContext) -> None:
    context.store_state("n", context.lookup_state("n", 0) + 1)


def test_each_occurrence_of_a_trigger_in_a_tree_has_its_own_state() -> None:
    leaf = Leaf(element=count_up)
    play = Play(dm.AfterAny(leaf, dm.AfterAll(leaf, dm.AfterCount(9))))
    play.play("e 1@1, e 2@1")
    assert {value for (_, tag), value in play.state.store.items() if tag == "n"} == {2}
    assert len([tag for _, tag in play.state.store if tag == "n"]) == 2


def test_a_timer_runs_once_when_its_clock_reaches_it() -> None:
    def wait(context: TriggerContext) -> None:
        context.set_timer("soon", dm.EventTime(5 * SECOND), EVENT)
        context.set_timer("later", dm.ProcessingTime(7 * SECOND), CLOCK)
        context.set_timer("most", dm.EventTime(3 * SECOND), EVENT, 90)

    leaf = Leaf(element=wait, timer=lambda context: context.trigger())
    play = Play(leaf)
    assert play.play("e 1@1, w90 3, w 4, w 5, p 7, p 8") == ["w90 3", "w 5", "p 8"]
    assert [what for what in leaf.seen if what[0] == "timer"] == [
        ("timer", "most"),
        ("timer", "soon"),
        ("timer", "later"),
    ]
    assert play.deadlines == [3, 5, 7]
    assert play.state == TreeState()


def test_a_timer_with_the_same_tag_is_replaced_and_can_be_read_and_deleted() -> None:
    def wait(context: TriggerContext) -> None:
        match context.element:
            case "set":
                assert context.get_timer("t") is None
                context.set_timer("t", dm.EventTime(5 * SECOND), EVENT)
                context.set_timer("t", dm.EventTime(6 * SECOND), EVENT)
                assert context.get_timer("t") == 6 * SECOND
            case _:
                context.delete_timer("t")

    leaf = Leaf(element=wait, timer=lambda context: context.trigger())
    assert Play(leaf).play("e set@1, w 5, w 6") == ["w 6"]
    assert Play(leaf).play("e set@1, e delete@1, w 9") == []


def test_several_timers_due_at_one_watermark_cause_one_firing() -> None:
    def wait(context: TriggerContext) -> None:
        for at in (5, 6, 7):
            context.set_timer(str(at), dm.EventTime(at * SECOND), EVENT)

    play = Play(Leaf(element=wait, timer=lambda context: context.trigger()))
    assert play.play("e 1@1, w 6, w 9") == ["w 6", "w 9"]
    assert play.deadlines == [5, 7]


def test_a_timer_that_is_set_again_by_its_own_firing_is_due_at_the_next_event() -> None:
    def again(context: TriggerContext) -> None:
        context.trigger()
        context.set_timer("t", dm.EventTime(6 * SECOND), EVENT)

    play = Play(Leaf(element=lambda context: context.set_timer("t", dm.EventTime(5 * SECOND), EVENT), timer=again))
    assert play.play("e 1@1, w 8") == ["w 8"]
    assert play.machine.is_overdue(play.state)


def test_now_returns_both_clocks_and_the_percentiles() -> None:
    seen: list[Any] = []
    leaf = Leaf(element=lambda context: seen.append((context.now(EVENT), context.now(CLOCK), context.now(EVENT, 90))))
    Play(leaf).play("w 2, w90 3, p 4, e 1@1")
    assert seen == [(2 * SECOND, 4 * SECOND, 3 * SECOND)]
    assert [type(instant) for instant in seen[0]] == [dm.EventTime, dm.ProcessingTime, dm.EventTime]


def test_the_current_element_has_a_value_and_an_event_time() -> None:
    seen: list[Any] = []
    Play(Leaf(element=lambda context: seen.append((context.element, int(context.event_time))))).play("e 7@3")
    assert seen == [(7, 3 * SECOND)]


def test_state_and_timers_of_a_finished_trigger_are_cleared() -> None:
    def finish(context: TriggerContext) -> None:
        context.store_state("n", 1)
        context.set_timer("t", dm.EventTime(5 * SECOND), EVENT)
        context.done()

    play = Play(Leaf(element=finish))
    assert play.play("e 1@1, w 9, e 2@1") == []
    assert play.state == TreeState(finished=1)


# What is let go.


def test_peek_value_returns_the_value_that_a_pane_would_have_now() -> None:
    def when_odd(context: TriggerContext) -> None:
        if sum(context.peek_value()) % 2:
            context.trigger()

    assert fires_at(Leaf(element=when_odd), "e 1@1, e 1@2, e 2@3, e 3@4") == ["e 1@1", "e 3@4"]


@attrs.frozen
class Thrice(dm.Trigger):
    """Fire at each element until the window has had three panes."""

    reads_history: ClassVar[bool] = True

    def on_element(self, context: TriggerContext) -> None:
        if len(context.trigger_history()) < 3:
            context.trigger()


def test_a_trigger_that_declares_reads_history_sees_the_previous_panes() -> None:
    play = Play(Thrice())
    assert play.machine.reads_history
    assert play.play("e 1@1") == ["e 1@1"]
    play.history = [dm.PaneInfo(index=index) for index in range(3)]
    assert play.play("e 2@1") == []
    assert not TriggerMachine(dm.AfterCount(1)).reads_history


@pytest.mark.parametrize("mode", FiringMode)
def test_a_firing_may_request_to_keep_or_clear_the_accumulated_elements(mode: FiringMode) -> None:
    leaf = Leaf(element=lambda context: context.trigger(mode))
    for tree in (leaf, dm.Repeatedly(leaf), dm.AfterAny(leaf), dm.AfterAll(leaf), leaf.or_finally(dm.Never())):
        play = Play(tree)
        play.play("e 1@1")
        assert [outcome for _, outcome in play.fired] == [Outcome(fired=True, mode=mode)]


def test_the_last_of_several_requested_firing_modes_is_used() -> None:
    keep = Leaf(element=lambda context: context.trigger(FiringMode.ACCUMULATE))
    clear = Leaf(element=lambda context: context.trigger(FiringMode.CLEAR))
    for tree, mode in [
        (dm.AfterAny(keep, clear), FiringMode.CLEAR),
        (dm.AfterAny(clear, keep, dm.Always()), FiringMode.ACCUMULATE),
        (dm.AfterAll(keep, dm.AfterCount(1)), FiringMode.ACCUMULATE),
        (dm.Always().or_finally(clear), FiringMode.CLEAR),
    ]:
        play = Play(tree)
        play.play("e 1@1")
        assert play.fired[0][1].mode is mode


def test_a_firing_of_a_timer_may_request_a_firing_mode() -> None:
    leaf = Leaf(
        element=lambda context: context.set_timer("t", dm.EventTime(5 * SECOND), EVENT),
        timer=lambda context: context.trigger(FiringMode.CLEAR),
    )
    play = Play(dm.Repeatedly(leaf))
    play.play("e 1@1, w 6")
    assert play.fired == [("w 6", Outcome(fired=True, at=5 * SECOND, mode=FiringMode.CLEAR))]


def test_clear_is_reported_whether_or_not_the_event_fires() -> None:
    def forget(context: TriggerContext) -> None:
        if context.element < 0:
            context.clear()
        if context.element % 2:
            context.trigger()

    play = Play(dm.Repeatedly(dm.AfterAny(Leaf(element=forget), dm.Never())))
    play.play("e 2@1, e -2@1, e -1@1, e 1@1")
    assert [outcome for _, outcome in play.fired] == [
        Outcome(cleared=True),
        Outcome(fired=True, cleared=True),
        Outcome(fired=True),
    ]


def test_clear_in_a_timer_callback_is_reported_with_the_event() -> None:
    leaf = Leaf(
        element=lambda context: context.set_timer("t", dm.EventTime(5 * SECOND), EVENT),
        timer=lambda context: context.clear(),
    )
    play = Play(leaf)
    play.play("e 1@1, w 6")
    assert play.fired == [("w 6", Outcome(cleared=True))]


# Merging.


def test_on_merge_sees_the_state_of_each_source() -> None:
    def add(context: TriggerContext) -> None:
        context.store_state("n", sum(context.lookup_source_state(source, "n", 0) for source in context.sources))

    leaf = Leaf(element=count_up, merge=add)
    whole = merged(leaf, [((0, 10), "e 1@1, e 2@1"), ((5, 15), "e 3@6"), ((9, 19), "")])
    assert whole.state.store == {(0, "n"): 3}
    assert ("merge", (0, 5, 9)) in leaf.seen


def test_on_merge_sees_a_source_with_a_finished_composite_only_in_children_finished_there() -> None:
    leaf = Leaf()
    first = [((0, 10), "e 1@1, e 2@1"), ((5, 15), "e 3@6")]
    merged(dm.AfterAny(dm.AfterCount(2), leaf), first)
    assert [what for what in leaf.seen if what[0] == "merge"] == [("merge", (5,))]


def test_is_source_finished_done_and_reopen_work_on_merge() -> None:
    states: list[Any] = []

    def look(context: TriggerContext) -> None:
        states.append(([context.is_source_finished(source) for source in context.sources], context.is_finished()))
        context.done()

    leaf = Leaf(element=lambda context: context.done(), merge=look)
    assert merged(leaf, [((0, 10), "e 1@1"), ((5, 15), "")]).finished
    assert states == [([True, False], False)]
    again = Leaf(element=lambda context: context.done(), merge=lambda context: context.reopen())
    assert not merged(again, [((0, 10), "e 1@1"), ((5, 15), "e 1@6")]).finished


def test_a_timer_set_on_merge_at_or_behind_the_watermark_is_overdue() -> None:
    leaf = Leaf(
        merge=lambda context: context.set_timer("t", dm.EventTime(0), EVENT), timer=lambda context: context.trigger()
    )
    whole = merged(leaf, [((0, 10), "w 3"), ((5, 15), "w 3")])
    assert whole.machine.is_overdue(whole.state)
    assert whole.play("e 1@1") == ["e 1@1"]


def test_a_trigger_that_does_not_say_what_merging_does_is_refused_where_windows_merge() -> None:
    for tree in (Thrice(), dm.Repeatedly(Thrice()), dm.AfterWatermark(early=Thrice()), dm.AfterAll(Thrice())):
        tree.check_for(merging=False)
        with pytest.raises(
            dm.InvalidArgument, match=r"Thrice\(\) does not define how its state is merged when windows merge"
        ):
            tree.check_for(merging=True)


@pytest.mark.parametrize(
    ("callback", "what"),
    [
        (lambda context: context.trigger(), r"asked for trigger\(\) in on_merge"),
        (lambda context: context.clear(), r"asked for clear\(\) in on_merge"),
        (lambda context: context.peek_value(), r"asked for peek_value\(\)"),
        (lambda context: context.event_time, "asked for event_time"),
        (lambda context: context.trigger_history(), "its panes are not kept"),
        (lambda context: context.now(EVENT, 75), "percentile 75 of the watermark, which none of its triggers declares"),
        (lambda context: context.set_timer("t", dm.EventTime(0), EVENT, 75), "percentile 75 of the watermark"),
    ],
)
def test_calls_that_make_no_sense_on_merge_are_refused(callback: Any, what: str) -> None:
    with pytest.raises(dm.InvalidArgument, match=what):
        merged(Leaf(merge=callback), [((0, 10), "")])


def test_firing_at_the_start_of_a_turn_is_refused() -> None:
    again = dm.Repeatedly(dm.AfterAny(dm.AfterCount(1), Leaf(begin=lambda context: context.trigger())))
    with pytest.raises(dm.InvalidArgument, match=r"trigger\(\) in reset: no pane is emitted there"):
        fires_at(again, "e 1@1")


@pytest.mark.parametrize(
    ("time", "domain", "what"),
    [
        (5, EVENT, "set a timer in event time, whose time must be of type EventTime, got 5 of type int"),
        (
            2.5,
            CLOCK,
            "set a timer in processing time, whose time must be of type ProcessingTime, got 2.5 of type float",
        ),
        (dm.ProcessingTime(5), EVENT, "must be of type EventTime, got ProcessingTime"),
        (dm.EventTime(5), CLOCK, "must be of type ProcessingTime, got EventTime"),
        (dm.Duration(micros=5), CLOCK, r"must be of type ProcessingTime, got Duration\(5us\)"),
        (None, CLOCK, "must be of type ProcessingTime, got None"),
    ],
)
def test_a_timer_must_be_set_with_an_instant_of_its_own_clock(time: Any, domain: TimeDomain, what: str) -> None:
    with pytest.raises(dm.InvalidType, match=what):
        fires_at(Leaf(element=lambda context: context.set_timer("t", time, domain)), "e 1@1")


# Composites.


@attrs.frozen
class Both(dm.CompositeTrigger):
    """Fire when both children have in one turn; then begin anew. It notes what it is shown."""

    children: tuple[dm.Trigger, ...]  # type: ignore[misc]
    seen: list[Any] = attrs.field(factory=list, eq=False)

    def on_element(self, context: TriggerContext) -> None:
        self.seen.append(("element", context.element))
        for child in (0, 1):
            self.on_child_timer(context, child)

    def on_child_timer(self, context: TriggerContext, child: int) -> None:
        self.seen.append(("child", child))
        result = context.invoke_child(child)
        if result.fired:
            context.store_state(f"child {child}", True)
        if context.lookup_state("child 0") and context.lookup_state("child 1"):
            context.trigger()
            for each in (0, 1):
                context.store_state(f"child {each}", False)
                context.reset_child(each)

    def finished_from(self, children: Sequence[bool]) -> bool:
        return all(children)


def test_a_composite_passes_elements_and_timers_to_its_children() -> None:
    both = Both((dm.AfterCount(2), dm.AfterProcessingTime(5)))
    assert fires_at(both, "e 1@1, e 2@1, p 6, e 3@1, p 20, e 4@1, e 5@1, p 99") == ["p 6", "e 4@1"]
    assert ("child", 1) in both.seen


def test_a_timer_is_passed_down_through_the_composites_above_it() -> None:
    outer = Both((Both((dm.AfterCount(1), dm.AfterProcessingTime(5))), dm.Always()))
    assert fires_at(outer, "e 1@1, p 6") == ["p 6"]


def test_a_composite_sees_signals_and_retractions_as_events_to_pass_on() -> None:
    both = Both((dm.AfterSignal("go"), dm.AfterCount(1)))
    assert fires_at(both, "e 1@1, s go") == ["s go"]
    assert ("element", None) in both.seen


def test_invoking_a_finished_child_shows_it_nothing() -> None:
    leaf = Leaf(element=lambda context: context.done())

    @attrs.frozen
    class Asks(dm.CompositeTrigger):
        results: ClassVar[list[Any]] = []

        @property
        def children(self) -> tuple[dm.Trigger, ...]:  # type: ignore[override]
            return (leaf,)

        def on_element(self, context: TriggerContext) -> None:
            result = context.invoke_child(0)
            self.results.append((result.fired, result.finished))

    Play(Asks()).play("e 1@1, e 2@1")
    assert Asks.results == [(False, True), (False, True)]
    assert leaf.seen == [("element", 1)]
    with pytest.raises(dm.InvalidArgument, match="does not define whether it has finished when windows merge"):
        Asks().check_for(merging=True)


def test_a_composite_may_set_timers_of_its_own() -> None:
    @attrs.frozen
    class Timeout(dm.CompositeTrigger):
        child: dm.Trigger

        @property
        def children(self) -> tuple[dm.Trigger, ...]:  # type: ignore[override]
            return (self.child,)

        def on_element(self, context: TriggerContext) -> None:
            if context.get_timer("over") is None:
                context.set_timer("over", dm.ProcessingTime(int(context.now(CLOCK)) + 5 * SECOND), CLOCK)
            self.on_child_timer(context, 0)

        def on_child_timer(self, context: TriggerContext, child: int) -> None:
            if context.invoke_child(child).fired:
                context.trigger()
                context.delete_timer("over")

        def on_timer(self, context: TriggerContext, tag: str) -> None:
            assert tag == "over"
            context.trigger()
            context.reset_child(0)

    assert fires_at(Timeout(dm.Repeatedly(dm.AfterCount(2))), "e 1@1, p 6, e 2@1, e 3@1, p 20") == ["p 6", "e 3@1"]


@pytest.mark.parametrize("child", [2, -1, "first"])
@pytest.mark.parametrize("ask", ["invoke_child", "reset_child", "finish_child", "is_finished"])
def test_invoking_a_child_that_a_composite_does_not_have_is_refused(ask: str, child: Any) -> None:
    @attrs.frozen
    class Lost(Both):
        def on_element(self, context: TriggerContext) -> None:
            getattr(context, ask)(child)

    with pytest.raises(dm.InvalidArgument, match=rf"Lost\(.*\) asked for child {child!r}, but it has 2 children"):
        fires_at(Lost((dm.AfterCount(1), dm.AfterCount(2))), "e 1@1")


def test_the_name_of_a_trigger_without_attrs_contains_no_address() -> None:
    class Plain(dm.Trigger):
        def on_element(self, context: TriggerContext) -> None:
            context.trigger()

    assert repr(Plain()) == "Plain()"
    assert Plain().describe() == "Plain()"
    assert Plain().may_finish(allowed_lateness=dm.duration(0))


def test_the_context_has_the_window_of_the_trigger() -> None:
    windows: list[Any] = []

    def look(context: TriggerContext) -> None:
        windows.append(context.window)

    merged(Leaf(element=look, merge=look), [((0, 10), "e 1@1"), ((5, 15), "")])
    assert windows == [window(0, 10), window(0, 15)]


def test_a_child_that_is_not_a_trigger_is_rejected_with_its_position() -> None:
    windows = dm.Window.into(dm.FixedWindows("10 seconds"))
    trigger = Both((dm.AfterCount(1), 3))  # type: ignore[arg-type]
    with pytest.raises(dm.InvalidType, match=r"`children\[1\]` must be a trigger, got 3 of type int"):
        _ = dm.Pipeline() | dm.Create([1]) | windows.trigger(dm.Repeatedly(trigger)).accumulating()
