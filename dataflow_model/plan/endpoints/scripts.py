"""Scripts: sources whose steps add elements and advance watermarks and the clock."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from dataflow_model.plan.endpoints.features import Feature
from dataflow_model.plan.endpoints.sources import Source
from dataflow_model.time import MIN_TIMESTAMP, EventTime, ProcessingTime
from dataflow_model.triggers.contexts import LOW_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


@attrs.frozen
class AddStep:
    """Elements of one bundle: `(value, event_time)` pairs, each an event of its own; see `events_of`."""

    elements: tuple[tuple[Any, EventTime], ...]


@attrs.frozen
class WatermarkStep:
    """The watermark, or a percentile of it below 100, advances; it takes effect before the next step."""

    watermark: EventTime
    percentile: float = LOW_WATERMARK


@attrs.frozen
class ClockStep:
    """The processing clock advances; the timers due before it run."""

    processing_time: ProcessingTime


@attrs.frozen
class SignalStep:
    """A signal, which takes effect in every open window whose trigger waits for it."""

    name: str


Step: TypeAlias = AddStep | WatermarkStep | ClockStep | SignalStep


@attrs.frozen(eq=False)
class ScriptSource(Source):
    """A script of elements, watermarks, clock values and signals: `testing.TestStream`. Bounded.

    Attributes:
        steps: the steps.
        turns: for each step, its place in a sequence that several scripts have in common, ascending; empty for a script
            of its own. At equal clocks, the steps of such scripts take effect in the order of their turns.
    """

    steps: tuple[Step, ...]
    turns: tuple[int, ...] = ()

    def describe(self) -> str:
        """Return the number of steps."""
        count = len(self.steps)
        return f"a script of {count} step{'' if count == 1 else 's'}"

    @property
    def feature(self) -> Feature:
        """The feature `SCRIPTS`."""
        return Feature.SCRIPTS

    @property
    def as_script(self) -> ScriptSource:
        """The source itself."""
        return self

    @property
    def has_own_clock(self) -> bool:
        """Whether the data determine the clock; a script does."""
        return True

    @property
    def changes(self) -> bool:
        """Whether the contents change during a run; those of a script do, step by step."""
        return True

    @property
    def may_be_added(self) -> bool:
        """Whether a run can be resumed with this source added; no, since all scripts are merged into one sequence."""
        return False

    def row_count(self) -> int:
        """Return the number of elements that the script adds."""
        return self.count_elements()

    def count_elements(self, first: int = 0, last: int | None = None) -> int:
        """Return the number of elements that the script's events `[first, last)` add."""
        events = itertools.islice(events_of(self.steps), first, last)
        return sum(isinstance(step, AddStep) for _, step in events)

    def in_rounds(self) -> Source:
        """Return the script without its watermarks."""
        kept = [not isinstance(step, WatermarkStep) for step in self.steps]
        return ScriptSource(tuple(itertools.compress(self.steps, kept)), tuple(itertools.compress(self.turns, kept)))


def events_of(steps: Iterable[Step]) -> Iterator[tuple[int, Step]]:
    """Yield a script's events, each with the index of its step; every element of a bundle is an event of its own.

    Example:
        >>> steps = [AddStep((("a", EventTime(1)), ("b", EventTime(2)))), WatermarkStep(EventTime(3))]
        >>> [(index, type(step).__name__) for index, step in events_of(steps)]
        [(0, 'AddStep'), (0, 'AddStep'), (1, 'WatermarkStep')]
    """
    for index, step in enumerate(steps):
        if isinstance(step, AddStep):
            yield from ((index, AddStep((element,))) for element in step.elements)
        else:
            yield index, step


def watermark_after(steps: Iterable[Step], percentiles: Sequence[float]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield a script's watermark after each step, and its percentiles below 100; none is behind a higher one.

    Example:
        >>> steps = [WatermarkStep(EventTime(5), 90), WatermarkStep(EventTime(3)), WatermarkStep(EventTime(7))]
        >>> [(low, *rest) for low, rest in watermark_after(steps, (50, 90))][1:]
        [(3, 5, 5), (7, 7, 7)]
    """
    low = int(MIN_TIMESTAMP)
    values = [low] * len(percentiles)
    for step in steps:
        if isinstance(step, WatermarkStep):
            low = max(low, int(step.watermark)) if step.percentile == LOW_WATERMARK else low
            reached = [percentile <= step.percentile for percentile in percentiles]
            values = [
                max(value, int(step.watermark)) if advances else value
                for value, advances in zip(values, reached, strict=True)
            ]
        yield low, tuple(values)
