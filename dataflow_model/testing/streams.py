"""`TestStream`: a script of elements, watermarks and clock values, as a source and for `run_script`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Self

from dataflow_model.arguments import calls_explained, factory
from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.endpoints.scripts import AddStep, ClockStep, ScriptSource, SignalStep, Step, WatermarkStep
from dataflow_model.plan.functions.dofn import element_time
from dataflow_model.plan.logical.nodes import Read
from dataflow_model.plan.names.spellings import with_spellings
from dataflow_model.time import (
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    Instant,
    InstantLike,
    ProcessingTime,
    event_time,
    processing_time,
)
from dataflow_model.transforms import PBegin, PCollection, PTransform
from dataflow_model.triggers.contexts import LOW_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Sequence


_NO_KEY: Any = object()
_PARTS: Final = 2


@with_spellings
@calls_explained({"coder": "leave it out: elements are pickled"})
class TestStream(PTransform[PBegin, PCollection]):
    """A scripted source: each step is an event of its own, in the order written, on every runner.

    Add steps by chaining calls; each returns a new script. The clock starts at 0 and, like the watermark, never goes
    backward. The end of the script is the end of the input: the watermark then advances to +∞ by itself.

    Raises:
        InvalidType: for a value that is not a step.

    Source: Beam's `TestStream`.

    Example:
        >>> script = TestStream().watermark(0).processing_time(5).add("x", event_time=3, key="k")
        >>> script = script.watermark_to_infinity()
        >>> len(script.steps)
        4
    """

    __test__ = False  # pytest: not a test class
    input_kind = "pipeline"

    def __init__(self, steps: Sequence[Step] = ()) -> None:
        super().__init__()
        given: Any = steps
        wrong = [step for step in given if not isinstance(step, Step)] if isinstance(given, Iterable) else [given]
        if wrong:
            raise InvalidType(
                f"a TestStream consists of steps, got {wrong[0]!r}",
                hint="chain calls, as in TestStream().add(…), or read text with TestStream.parse([…], day=…)",
            )
        self.steps = tuple(steps)

    def watermark(self, watermark: InstantLike, *, percentile: float = LOW_WATERMARK) -> TestStream:
        """Advance the watermark; it takes effect before the next step.

        Args:
            watermark: the new watermark, an event time.
            percentile: below 100, advance only that percentile and the lower ones, since no percentile is behind a
                higher one.

        Raises:
            InvalidArgument: if the watermark would go backward or be behind a higher percentile, or for a percentile
                outside (0, 100].

        Example:
            >>> TestStream().watermark(5, percentile=90).watermark(3).watermark(4, percentile=90)
            Traceback (most recent call last):
            ...
            dataflow_model.errors.InvalidArgument: the watermark's percentile 90 of a script cannot go backward, got ...
            Hint: move the step up
        """
        to = event_time(watermark)
        given: Any = percentile
        if not isinstance(given, int | float) or not 0 < given <= LOW_WATERMARK:
            raise InvalidArgument(
                f"`percentile` must be in (0, 100], got {percentile!r}",
                hint="use 100 for the low watermark, 95 to leave out the last twentieth",
            )
        before = MIN_TIMESTAMP
        for step in reversed(self.steps):
            if isinstance(step, WatermarkStep) and step.percentile >= percentile:
                before = max(before, step.watermark)
                if step.percentile == percentile:  # it was not behind any step before it
                    break
        _check_forward(
            "watermark" if percentile == LOW_WATERMARK else f"watermark's percentile {percentile:g}", before, to
        )
        return self._then(WatermarkStep(to, percentile))

    def signal(self, name: str) -> TestStream:
        """Send a signal; it takes effect in every open window whose trigger waits for it.

        Raises:
            InvalidType: if `name` is not text.
        """
        given: Any = name
        if not isinstance(given, str):
            raise InvalidType(f"a signal has a name, got {given!r}", hint="write .signal('flush'), for example")
        return self._then(SignalStep(name))

    def processing_time(self, time: InstantLike) -> TestStream:
        """Advance the processing clock; timers due before the new time run.

        Raises:
            InvalidArgument: if the clock would go backward.
        """
        to = processing_time(time)
        clocks = (step.processing_time for step in reversed(self.steps) if isinstance(step, ClockStep))
        before = next(clocks, ProcessingTime(0))
        _check_forward("processing time", before, to)
        return self._then(ClockStep(to))

    def add(self, value: Any, event_time: InstantLike, key: Any = _NO_KEY) -> TestStream:
        """Add one element; with `key=` the pair `(key, value)`."""
        return self.bundle([(value, event_time)], key=key)

    def bundle(self, elements: Iterable[tuple[Any, InstantLike]], key: Any = _NO_KEY) -> TestStream:
        """Add several `(value, event time)` elements in one bundle.

        Only a `DoFn` with `start_bundle` or `finish_bundle` can observe the bundle. Each element is an event of its
        own, as if it had been added alone, and takes effect downstream before the next one.

        Raises:
            InvalidType: for an element without an event time.
        """
        given: Any = elements
        timed: list[Any] = list(given) if isinstance(given, Iterable) else [given]
        for element in timed:
            if not isinstance(element, tuple | list) or len(element) != _PARTS:
                raise InvalidType(
                    f"an element of a bundle must be a pair of a value and its event time, got {element!r}",
                    hint="write .bundle([(5, '2013-01-01T05:15Z'), (7, '2013-01-01T05:16Z')]), for example",
                )
        added = tuple((value if key is _NO_KEY else (key, value), element_time(at)) for value, at in timed)
        return self._then(AddStep(added))

    def watermark_to_infinity(self) -> TestStream:
        """Advance the watermark to +∞, which means that the input is complete."""
        return self._then(WatermarkStep(MAX_TIMESTAMP))

    def expand(self, pcoll: PBegin, /) -> PCollection:
        """Add the source to the pipeline."""
        source = ScriptSource(self.steps)
        collection: PCollection = pcoll.pipeline.add_main(Read(label=pcoll.pipeline.scope, source=source))
        return collection

    def _then(self, step: Step) -> Self:
        script = type(self)()
        script.steps = (*self.steps, step)  # not checked again: long scripts are built step by step
        return script

    @factory
    def parse(cls, steps: Iterable[str], *, day: str, key: Any = _NO_KEY) -> TestStream:
        """Parse a script in short form.

        The steps are `"w 12:00:00"` or `"w +inf"` for the watermark, `"w90 12:00:00"` for its 90th percentile,
        `"p 12:04:59"` for processing time, `"e 5@12:00:26"` for the element 5 with its event time, and `"s NAME"` for a
        signal.

        Args:
            steps: one string per step; elements are integers.
            day: the date of all times, which are in UTC.
            key: the key of every element.

        Raises:
            InvalidArgument: for text that is not a step.
            InvalidType: for one text instead of a list.

        Example:
            >>> TestStream.parse(["w 12:00:00", "e 5@12:00:26"], day="2000-01-01", key="TeamX").steps[1].elements
            ((('TeamX', 5), EventTime(2000-01-01T12:00:26Z)),)
        """
        if isinstance(steps, str):
            raise InvalidType(
                f"`steps` must be a list with a text for each step, got {steps!r}", hint=f"write [{steps!r}]"
            )
        script = cls()
        for text in steps:
            kind, _, rest = text.partition(" ")
            match kind:
                case "w" if rest == "+inf":
                    script = script.watermark_to_infinity()
                case "w":
                    script = script.watermark(_instant_of(day, rest, text))
                case "p":
                    script = script.processing_time(_instant_of(day, rest, text))
                case "s" if rest:
                    script = script.signal(rest)
                case _ if _is_percentile(kind):
                    script = script.watermark(_instant_of(day, rest, text), percentile=float(kind[1:]))
                case "e":
                    value, _, at = rest.partition("@")
                    if not at or not _is_integer(value):
                        raise InvalidArgument(
                            f"an element of a short script must be an integer with its time, got {text!r}",
                            hint="write 'e 5@12:00:26'; other values are added with .add(value, event_time=…)",
                        )
                    script = script.add(int(value), _instant_of(day, at, text), key=key)
                case _:
                    raise InvalidArgument(f"{text!r} is not a step", hint="start it with w, p, e or s: 'e 5@12:00:26'")
        return script


def _instant_of(day: str, time: str, step: str) -> str:
    """Return the time of day of a step of a short script, on a day in UTC."""
    instant = f"{day}T{time}Z"
    try:
        event_time(instant)
    except InvalidArgument as error:
        raise InvalidArgument(
            f"{step!r} on the day {day!r} must have a time of day at its end",
            hint="write 'e 5@12:00:26' for example, with day='2000-01-01'",
        ) from error
    return instant


def _is_integer(text: str) -> bool:
    return text.strip().removeprefix("-").isdecimal()


def _is_percentile(kind: str) -> bool:
    return kind[:1] == "w" and kind[1:].replace(".", "", 1).isdigit()


def _check_forward(quantity: str, before: Instant, to: Instant) -> None:
    if int(to) < int(before):
        raise InvalidArgument(
            f"the {quantity} of a script cannot go backward, got {to!r} after {before!r}", hint="move the step up"
        )
