"""Drawn pipelines of impure functions, whose elements carry random ids, and what all their readers must agree on."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs
from hypothesis import strategies as st

import dataflow_model as dm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dataflow_model.plan.logical.runner import PipelineResult

__all__ = ["Impure", "Made", "Step", "check_calls", "check_one_value", "impure_pipelines", "readings"]

CALLS: Final = "calls"

Kind = Literal["map", "stamped", "tagged", "grouped", "stateful"]


@attrs.frozen
class Made:
    """An element of a drawn pipeline.

    Attributes:
        label: the transform that has made it.
        drawn: its id, which is drawn anew in each call.
        sources: the ids of the elements from which it was made.
        sides: the ids in each side input that the function saw, by label.
    """

    label: str
    drawn: str
    sources: tuple[str, ...] = ()
    sides: tuple[tuple[str, tuple[str, ...]], ...] = ()


@attrs.frozen
class Step:
    """A transform: its kind, the collection that it reads, and those that it reads as side inputs, by index."""

    kind: Kind
    read: int
    sides: tuple[int, ...] = ()


@attrs.frozen
class Impure:
    """A pipeline: the number of elements of its source, and its transforms, each of which makes a collection.

    Each collection also has a sink.
    """

    count: int
    steps: tuple[Step, ...]

    def build(self, p: dm.Pipeline) -> None:
        """Build the pipeline."""
        self.build_on(p | "source" >> dm.Create(range(self.count)))

    def build_on(self, numbers: Any) -> list[Any]:
        """Add the transforms to a source, and return their collections."""
        collections = [numbers | name_of(0) >> dm.Map(made(name_of(0)))]
        for number, step in enumerate(self.steps, 1):
            sides = [(name_of(side), dm.AsIter(collections[side])) for side in step.sides]
            collections.append(_applied(name_of(number), step.kind, collections[step.read], dict(sides)))
        for number, collection in enumerate(collections):
            _ = collection | f"out {name_of(number)}" >> dm.io.Collect()
        return collections


def name_of(number: int) -> str:
    """Return the label of the transform with this index, and thus of its collection."""
    return f"step {number}"


def made(label: str) -> Callable[..., Made]:
    """Return a function that makes an element of an element and of side inputs, and counts its calls."""

    def make(element: Any, **sides: list[Made]) -> Made:
        dm.metrics.counter(CALLS).inc()
        seen = tuple((name.replace("_", " "), tuple(sorted(one.drawn for one in side))) for name, side in sides.items())
        return Made(label, uuid.uuid4().hex, _ids(element), seen)

    return make


class Together(dm.CombineFn[Made, tuple[str, ...], tuple[str, ...]]):
    """Draws an id whenever it adds an element, and collects the ids."""

    def create_accumulator(self) -> tuple[str, ...]:
        return ()

    def add_input(self, accumulator: tuple[str, ...], element: Made) -> tuple[str, ...]:
        return (*accumulator, element.drawn)

    def merge_accumulators(self, accumulators: Any) -> tuple[str, ...]:
        return tuple(drawn for accumulator in accumulators for drawn in accumulator)

    def extract_output(self, accumulator: tuple[str, ...]) -> Any:
        return (uuid.uuid4().hex, *accumulator)


class Remember(dm.DoFn):
    """Keeps the number of its calls by key, and draws an id in each."""

    calls = dm.CombiningStateSpec(dm.Sum())

    def __init__(self, label: str) -> None:
        self.label = label

    def process(self, pair: tuple[int, Made], calls: Any) -> Any:
        dm.metrics.counter(CALLS).inc()
        calls.add(1)
        yield Made(self.label, uuid.uuid4().hex, (pair[1].drawn,))


def _applied(label: str, kind: Kind, collection: Any, sides: Mapping[str, Any]) -> Any:
    make = made(label)
    keyed = label + "/keyed"
    views = {name.replace(" ", "_"): view for name, view in sides.items()}
    match kind:
        case "map":
            return collection | label >> dm.Map(make, **views)
        case "stamped":
            return collection | label >> dm.ParDo(_Stamped(make), **views)
        case "tagged":
            both = collection | label >> dm.ParDo(_Tagged(make), **views).with_outputs("odd", main="even")
            return (both["even"], both["odd"]) | f"{label} together" >> dm.Flatten()
        case "grouped":
            pairs = collection | keyed >> dm.WithKeys(lambda one: int(one.drawn, 16) % 2)
            groups = pairs | f"{label} combined" >> dm.CombinePerKey(Together())
            return groups | label >> dm.Map(make, **views)
        case "stateful":
            pairs = collection | keyed >> dm.WithKeys(lambda one: int(one.drawn, 16) % 2)
            return pairs | label >> dm.ParDo(Remember(label))


class _Stamped(dm.DoFn):
    """Emits what a function makes with a time of its own, which is that of the element."""

    def __init__(self, make: Callable[..., Made]) -> None:
        self.make = make

    def process(self, element: Any, timestamp: dm.EventTime, **sides: Any) -> Any:
        return [dm.TimestampedValue(self.make(element, **sides), timestamp)]


class _Tagged(dm.DoFn):
    """Emits what a function makes in one of two outputs."""

    def __init__(self, make: Callable[..., Made]) -> None:
        self.make = make

    def process(self, element: Any, **sides: Any) -> Any:
        one = self.make(element, **sides)
        yield dm.TaggedOutput("odd", one) if int(one.drawn, 16) % 2 else one


def _ids(element: Any) -> tuple[str, ...]:
    """Return the ids of the elements that an input of a function consists of."""
    match element:
        case Made():
            return (element.drawn,)
        case (_, (_, *ids)):  # a key with what `Together` returns
            return tuple(sorted(ids))
        case _:
            return ()


@st.composite
def impure_pipelines(draw: st.DrawFn, most: int = 6) -> Impure:
    """Draw a pipeline; every other transform has side inputs."""
    steps = []
    for number in range(draw(st.integers(1, most))):
        before = st.integers(0, number)
        kind: Kind = draw(st.sampled_from(["map", "map", "stamped", "tagged", "grouped", "stateful"]))
        sides = [] if kind == "stateful" else draw(st.lists(before, max_size=3, unique=True))
        steps.append(Step(kind, draw(before), tuple(sides)))
    return Impure(draw(st.integers(0, 4)), tuple(steps))


def readings(result: Any, case: Impure) -> dict[str, list[Made]]:
    """Return what the sink of each collection has received."""
    names = [name_of(number) for number in range(len(case.steps) + 1)]
    return {name: [record.value for record in result.collected(f"out {name}")] for name in names}


def check_one_value(collections: Mapping[str, list[Made]], case: Impure) -> None:
    """Check that all readers of each collection have seen the same elements, and each of them once."""
    ids = {name: sorted(one.drawn for one in elements) for name, elements in collections.items()}
    assert len(ids[name_of(0)]) == case.count
    for number, step in enumerate(case.steps, 1):
        elements = collections[name_of(number)]
        assert sorted(drawn for one in elements for drawn in one.sources) == ids[name_of(step.read)], step
        for one in elements:
            assert dict(one.sides) == {name_of(side): tuple(ids[name_of(side)]) for side in step.sides}, step


def check_calls(result: PipelineResult, collections: Mapping[str, list[Made]]) -> None:
    """Check that each function was called once for each element that it has made."""
    transforms = result.report().transforms
    for name, elements in collections.items():
        assert transforms[name].user.counters.get(CALLS, 0) == len(elements), name
