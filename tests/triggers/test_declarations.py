"""What a trigger declares of its `on_element` is not inherited by a class with another one."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream, run_script
from dataflow_model.triggers import TriggerContext  # noqa: TC001 - the context of a user's trigger


@attrs.frozen(repr=False, init=False)
class AfterSilence(dm.AfterProcessingTime):
    """Fires once nothing has come for a while: each element puts the deadline off."""

    def on_element(self, context: TriggerContext) -> None:
        self._wait_until(context, self._deadline(context))


def test_a_subclass_that_overrides_on_element_receives_every_element() -> None:
    script = TestStream().add(1, event_time=0, key="a").processing_time(3).add(2, event_time=0, key="a")
    windowing = dm.Window.into(dm.FixedWindows(60)).trigger(dm.Repeatedly(AfterSilence(5)))
    [pane] = run_script(script.processing_time(20), windowing=windowing, combine=dm.Sum())
    assert (pane.value, int(pane.processing_time)) == (3, 8_000_000)


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ({"percentiles": 90}, r"`percentiles` of Mine must be a collection, got 90\nHint: write \(90,\)"),
        ({"percentiles": "90"}, r"`percentiles` of Mine must be a collection, got '90'"),
        ({"percentiles": ("90",)}, r"`percentiles` of Mine must be numbers, got '90'\nHint: write \(90,\)"),
        ({"percentiles": (None, 90)}, r"`percentiles` of Mine must be numbers, got None"),
        ({"signals": "go"}, r"`signals` of Mine must be a collection of names, got 'go'\nHint: write signals"),
        ({"signals": ("go", 1)}, r"`signals` of Mine must be a collection of names, got \('go', 1\)"),
        (
            {"may_finish": lambda _self: False},
            r"`may_finish\(_self\)` of Mine cannot be called with \(\*, allowed_lateness\): got an unexpected keyword",
        ),
        ({"may_fire": lambda _self: False}, r"Hint: write def may_fire\(self, \*, allowed_lateness\)"),
    ],
)
def test_a_wrong_declaration_in_a_class_of_triggers_is_rejected_with_the_class(declared: Any, problem: str) -> None:
    with pytest.raises(dm.InvalidType, match=problem):
        type("Mine", (dm.Trigger,), declared)


@pytest.mark.parametrize(
    ("base", "name", "method", "problem"),
    [
        (
            dm.Trigger,
            "on_element",
            lambda _self, element, window, context: (element, window, context),
            r"`on_element\(_self, element, window, context\)` of Mine cannot be called with \(context\): missing a",
        ),
        (
            dm.Trigger,
            "on_timer",
            lambda _self, context: context,
            r"with \(context, tag\): too many positional arguments",
        ),
        (
            dm.CompositeTrigger,
            "on_child_timer",
            lambda _self, context: context,
            r"on_child_timer.self, context, child",
        ),
        (
            dm.DataTrigger,
            "should_emit",
            lambda _self, element: element,
            r"Hint: write def should_emit.self, element",
        ),
        (dm.DataTrigger, "merge_state", lambda _self, *, states: states, r"with \(states\): too many positional arg"),
    ],
)
def test_a_method_of_a_trigger_with_other_parameters_is_rejected_with_the_class(
    base: type[dm.Trigger], name: str, method: Any, problem: str
) -> None:
    with pytest.raises(dm.InvalidType, match=problem):
        type("Mine", (base,), {name: method})


@pytest.mark.parametrize("percentile", [0, -5, 101, float("nan")])
def test_a_percentile_out_of_range_is_rejected_with_the_class(percentile: float) -> None:
    problem = rf"`percentiles` of Mine must lie between 0 and 100, got {percentile}"
    with pytest.raises(dm.InvalidArgument, match=problem):
        type("Mine", (dm.Trigger,), {"percentiles": (90, percentile)})


def test_a_class_of_triggers_may_name_the_low_watermark_and_compute_its_declarations() -> None:
    type("Mine", (dm.Trigger,), {"percentiles": [90, 100], "signals": ["go"]})
    type("Mine", (dm.Trigger,), {"percentiles": property(lambda _self: (90,))})


def test_a_class_of_triggers_may_have_fields_as_declarations() -> None:
    @attrs.frozen
    class Mine(dm.Trigger):
        percentiles: tuple[float, ...] = (90,)  # type: ignore[misc] # a field instead of a class attribute
        signals: frozenset[str] = attrs.field(default=frozenset({"go"}))  # type: ignore[misc] # as above

    assert (Mine().percentiles, Mine(signals=frozenset()).signals) == ((90,), frozenset())
