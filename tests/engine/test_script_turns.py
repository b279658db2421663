"""Scripts that take turns: the steps of several scripts as one sequence."""

from __future__ import annotations

from dataflow_model.plan.endpoints.scripts import AddStep, ClockStep, ScriptSource, WatermarkStep
from dataflow_model.plan.logical.nodes import Read
from dataflow_model.runners.engine.sources.in_program import script_events
from dataflow_model.time import EventTime, ProcessingTime


def added(value: str) -> AddStep:
    return AddStep(((value, EventTime(0)),))


def test_steps_of_scripts_with_turns_take_effect_by_turn_and_those_of_other_scripts_in_the_plans_order() -> None:
    def order(first: tuple[int, ...], second: tuple[int, ...]) -> list[str]:
        tick = ClockStep(ProcessingTime(5))
        reads = [
            Read(label="a", source=ScriptSource((added("a1"), added("a2"), tick, added("a3")), first)),
            Read(label="b", source=ScriptSource((added("b1"), tick, added("b2")), second)),
        ]
        steps = [event.step for event in script_events(reads, ())]
        return [step.elements[0][0] for step in steps if isinstance(step, AddStep)]

    assert order((0, 2, 3, 5), (1, 3, 4)) == ["a1", "b1", "a2", "b2", "a3"]
    assert order((), ()) == ["a1", "a2", "b1", "a3", "b2"]


def test_the_steps_of_a_script_keep_their_turns_without_its_watermarks() -> None:
    script = ScriptSource((added("a"), WatermarkStep(EventTime(1)), added("b")), (3, 5, 8))
    kept = script.in_rounds().as_script
    assert kept is not None
    assert (kept.steps, kept.turns) == ((added("a"), added("b")), (3, 8))
