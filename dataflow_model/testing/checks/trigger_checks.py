"""A check for user-defined triggers."""

from __future__ import annotations

import itertools
import pickle
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import cloudpickle

from dataflow_model.errors import InvalidArgument, explain
from dataflow_model.plan.functions.combine import CombineFn, GroupFn
from dataflow_model.plan.logical.strategy import AccumulationMode, WindowingStrategy
from dataflow_model.testing.checks.window_life import Event, Life, events_text
from dataflow_model.testing.proving.arrivals import durations_in
from dataflow_model.testing.proving.drawing import (
    Broken,
    check_subject,
    checked_examples,
    require_hypothesis,
    smallest_broken,
)
from dataflow_model.testing.proving.proof import LawBroken, prove
from dataflow_model.time import Duration, EventTime
from dataflow_model.transforms import CombinePerKey, Window
from dataflow_model.triggers import AfterAll, AfterAny, AfterEach, Repeatedly, Trigger, TriggerMachine
from dataflow_model.values import IntervalWindow
from dataflow_model.windowing import FixedWindows, Sessions, WindowFn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypothesis.strategies import SearchStrategy

_SECOND: Final = 1_000_000
_WINDOWS: Final = tuple(
    IntervalWindow(EventTime(start * _SECOND), EventTime((start + 10) * _SECOND)) for start in (0, 8, 16)
)
_MERGED: Final = IntervalWindow(EventTime(0), EventTime(26 * _SECOND))
_LATENESS: Final = 20 * _SECOND
_EXAMPLES: Final = 100
_RUNS: Final = 25
_REPETITIONS: Final = 20
_MOST_EVENTS: Final = 10

Lives: TypeAlias = tuple[list[list[Event]], list[Event]]
"""The events of three windows, and the events after the windows have merged."""


def check_trigger(
    trigger: Trigger,
    elements: Iterable[Any] = (1, 2, 3),
    *,
    combine: CombineFn[Any, Any, Any] | None = None,
    merging: bool | None = None,
) -> None:
    """Check that a trigger follows the rules that the engine and the runners rely on.

    The check draws elements, watermarks, clock values and signals, and verifies that

    * the trigger is a value: a pickled copy is equal, has the same `repr` and behaves the same;
    * it is deterministic, and its state can be pickled, so that a restart changes nothing;
    * what it declares is true: `may_finish` and `may_fire`;
    * its `continuation()`, which the next grouping inherits, is always the same trigger, and never finishes;
    * it obeys the algebra: `Repeatedly(Repeatedly(t))` behaves like `Repeatedly(t)`, and `AfterAll(t)`, `AfterAny(t)`
      and `AfterEach(t)` behave like `t`;
    * the order in which windows merge does not matter;
    * in a pipeline the laws of `prove` hold: other bundles change nothing, and nothing is lost.

    The same cases are drawn every time. This needs the package hypothesis (the extra `testing`).

    Args:
        trigger: the trigger tree.
        elements: values to draw from, of the type that the trigger expects.
        combine: the combiner of `peek_value()`; by default the value is the list of the elements.
        merging: whether to check windows that merge; by default if the trigger defines `on_merge`.

    Raises:
        AssertionError: with the broken rule and the smallest events found that show it.
        InvalidArgument: if there are no elements, or for `merging=True` and a trigger without `on_merge`.
        InvalidType: for something that is no trigger, such as a class of them.

    Example:
        >>> from dataflow_model.triggers import AfterCount, AfterWatermark
        >>> check_trigger(AfterWatermark(early=AfterCount(2)))
    """
    check_subject(trigger, Trigger, "check_trigger", "dm.AfterCount(2)")
    require_hypothesis("check_trigger")
    values = checked_examples(elements, "elements", "check_trigger")
    combine = combine or GroupFn()
    merges = _merges(trigger, merging)
    _check_value(trigger)
    _check_continuation(trigger)
    checked = _Checked(trigger, combine, merges=merges)
    failure = smallest_broken(_lives(trigger, values), lambda case: checked.check(*case), _EXAMPLES)
    if failure is not None:
        (lives, after), broken = failure
        lines = [f"\n  window {number}: {events_text(events)}" for number, events in enumerate(lives) if events]
        lines += [f"\n  merged: {events_text(after)}"] if after else []
        raise AssertionError(explain(f"{trigger!r} {broken.problem}{''.join(lines)}", hint=broken.law or None))
    for fn in (FixedWindows(10), *([Sessions(10)] if merges else [])):
        _prove_in_pipeline(trigger, values, combine, fn)


def _merges(trigger: Trigger, merging: bool | None) -> bool:  # noqa: FBT001 - the check's own option
    try:
        trigger.check_for(merging=True)
    except InvalidArgument:
        if merging:
            raise
        return False
    return merging is not False


def _check_value(trigger: Trigger) -> None:
    copy = pickle.loads(cloudpickle.dumps(trigger))
    if copy != trigger or hash(copy) != hash(trigger) or repr(copy) != repr(trigger):
        problem = f"{trigger!r} must equal its pickled copy and have the same hash and repr, got {copy!r}"
        raise AssertionError(explain(problem, hint="decorate the class with @attrs.frozen"))


def _check_continuation(trigger: Trigger) -> None:
    continuation: object = trigger.continuation()
    may = [
        isinstance(continuation, Trigger) and continuation.may_finish(allowed_lateness=Duration(micros=lateness))
        for lateness in (0, _LATENESS)
    ]
    for holds, problem, hint in (
        (isinstance(continuation, Trigger), "must be a trigger", "return dm.Repeatedly(dm.AfterProcessingTime(0))"),
        (
            trigger.continuation() == continuation,
            "must be the same every time",
            "decorate its class with @attrs.frozen",
        ),
        (not any(may), "must never finish", "wrap it in dm.Repeatedly(…), so that no elements are dropped"),
    ):
        if not holds:
            raise AssertionError(explain(f"the continuation of {trigger!r} {problem}, got {continuation!r}", hint=hint))


def _lives(trigger: Trigger, values: Sequence[Any]) -> SearchStrategy[Lives]:
    """Draw events whose clock values and watermarks often coincide with the tree's deadlines and the windows' ends."""
    from hypothesis import strategies as st

    spans = sorted({_SECOND, 2 * _SECOND, 10 * _SECOND, *durations_in(trigger)})
    steps = st.sampled_from(spans).flatmap(lambda span: st.sampled_from([span, span - 1]))
    kinds = [
        st.tuples(st.just("element"), st.sampled_from(values)),
        st.tuples(st.just("element"), st.sampled_from(values)),
        st.tuples(st.just("watermark"), steps),
        st.tuples(st.just("clock"), steps),
    ]
    names = sorted(TriggerMachine(trigger).signals)
    if names:
        kinds.append(st.tuples(st.just("signal"), st.sampled_from(names)))
    events: SearchStrategy[list[Event]] = st.lists(st.one_of(kinds), max_size=_MOST_EVENTS)
    return st.tuples(st.lists(events, min_size=1, max_size=3), events)


@attrs.frozen(eq=False)
class _Checked:
    """The rules for one trigger; a broken rule carries its hint as the `law` of `Broken`."""

    trigger: Trigger
    combine: CombineFn[Any, Any, Any]
    merges: bool = attrs.field(kw_only=True)

    def check(self, lives: Sequence[Sequence[Event]], after: Sequence[Event]) -> None:
        """Check all rules."""
        try:
            self._check_one(lives[0])
            if self.merges:
                self._check_merging(lives, after)
        except Broken as broken:
            raise self._by_chance(lives[0]) or broken from None
        except Exception as error:
            raise Broken(f"raises {type(error).__name__}: {error}") from error

    def _life(self, trigger: Trigger | None = None, window: int = 0, **options: Any) -> Life:
        where = _WINDOWS[window]
        expires = options.pop("expires", int(_MERGED.end) + _LATENESS)
        return Life(trigger or self.trigger, where, self.combine, expires, **options)

    def _check_one(self, events: Sequence[Event]) -> None:
        plain = self._life().live(events)
        copy: Trigger = pickle.loads(cloudpickle.dumps(self.trigger))
        for life, rule, hint in (
            (self._life(pickles=True), "must behave the same after its state is pickled", "store picklable values"),
            (self._life(copy), "must behave the same after it is pickled", ""),
        ):
            _compare(plain, life.live(events), rule, hint)
        self._check_promises(events)
        repeated = self._life(Repeatedly(self.trigger)).live(events)
        _compare(
            repeated,
            self._life(Repeatedly(Repeatedly(self.trigger))).live(events),
            "must behave the same when repeated twice",
        )
        for kind in (AfterAll, AfterAny, AfterEach):
            around = self._life(kind(self.trigger)).live(events)
            _compare(plain, around, f"must behave the same inside {kind.__name__}(…)")

    def _by_chance(self, events: Sequence[Event]) -> Broken | None:
        """Return the difference if repeating the same events gives another result, which explains any broken rule."""
        try:
            plain = self._life().live(events)
            for _ in range(_REPETITIONS):
                hint = "keep state only in the context"
                _compare(plain, self._life().live(events), "must behave the same every time", hint)
        except Broken as broken:
            return broken
        except Exception:  # noqa: BLE001 - any error; the broken rule is reported instead
            return None
        return None

    def _check_promises(self, events: Sequence[Event]) -> None:
        """Check what the trigger declares, under several values of allowed lateness."""
        for lateness in (0, _LATENESS):
            life = self._life(expires=int(_WINDOWS[0].end) + lateness)
            outcomes = life.live(events)
            allowed = Duration(micros=lateness)
            if not self.trigger.may_finish(allowed_lateness=allowed) and life.state.is_finished():
                raise Broken(
                    f"declares that it may not finish before its window expires, with {allowed!r} of lateness, but did",
                    law="return True from may_finish; using the trigger then requires may_lose_data=True",
                )
            if not self.trigger.may_fire(allowed_lateness=allowed) and any(
                outcome.fired for step_outcomes in outcomes for outcome in step_outcomes
            ):
                raise Broken(
                    "declares that it may not fire before its window expires, but did",
                    law="return True from may_fire",
                )

    def _check_merging(self, lives: Sequence[Sequence[Event]], after: Sequence[Event]) -> None:
        """Merge windows in every order; the results must be the same."""
        sources = []
        watermark = clock = 0
        for number, events in enumerate(lives):
            source = self._life(window=number, watermark=watermark, clock=clock)
            source.live(events)
            watermark, clock = source.watermark, source.clock
            sources.append(source)
        outcomes: list[Any] = []
        for order in itertools.permutations(sources):
            base = attrs.evolve(order[0], watermark=watermark, clock=clock)
            merged = base.merged(_MERGED, [source.copied() for source in order])
            finished = merged.state.is_finished()
            outcomes.append([(finished,), *merged.live(after)])
            hint = "combine the state of all sources in on_merge, whatever their order"
            _compare(outcomes[0], outcomes[-1], "must not depend on the order in which windows merge", hint)


def _compare(left: Sequence[Any], right: Sequence[Any], rule: str, hint: str = "") -> None:
    for number, pair in enumerate(zip(left, right, strict=True)):
        if pair[0] != pair[1]:
            differing = " and ".join(repr(list(outcomes)) for outcomes in pair)
            raise Broken(f"{rule}, but the outcomes at event {number} are {differing}", law=hint)


def _prove_in_pipeline(
    trigger: Trigger, values: Sequence[Any], combine: CombineFn[Any, Any, Any], fn: WindowFn
) -> None:
    allowed = Duration(micros=_LATENESS)
    strategy = WindowingStrategy(
        window_fn=fn,
        trigger=trigger,
        accumulation_mode=AccumulationMode.CLEAR_ALWAYS,
        allowed_lateness=allowed,
        may_lose_data=trigger.may_finish(allowed_lateness=allowed),
    )

    def pipeline(elements: Any) -> Any:
        return elements | Window.into(strategy) | CombinePerKey(combine)

    data = [(("k", value), 4 * index) for index, value in enumerate([*values, *values][:6])]
    try:
        prove(pipeline, data, examples=_RUNS)
    except LawBroken as broken:
        raise AssertionError(f"{trigger!r} breaks a law over {fn!r}\n{broken}") from broken
