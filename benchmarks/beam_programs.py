"""Programs of Beam's, each a function from a pipeline and the events to the collection of its results.

They are named in `PROGRAMS`: words counted, Nexmark's queries as Beam ships them, sums per window and session, and a
function with state and a timer. The results of one runner are compared with those of another as lines of JSON.
"""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import functools
import importlib
import json
from typing import TYPE_CHECKING, Any, Final

import apache_beam as beam
from apache_beam.examples.wordcount import WordExtractingDoFn
from apache_beam.testing.benchmarks.nexmark import nexmark_util
from apache_beam.transforms import trigger, userstate, window
from apache_beam.transforms.timeutil import TimeDomain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from benchmarks.data import Events

__all__ = ["PROGRAMS", "Kept", "taken"]

_SHARDS: Final = 16
_KEYS: Final = 100
_START: Final = 1_000_000_000
_SECONDS: Final = 600
"""The event time that the elements of `_elements` span, however many there are."""
_NEXMARK: Final = {
    "auction_skip": 123,
    "window_size_sec": 10,
    "window_period_sec": 5,
    "max_auction_waiting_time": 600,
}
"""The arguments that Beam's launcher gives the queries."""
_KEPT: Final[dict[str, list[str]]] = {}
"""The results that were put out in this process, by the name under which they are kept."""


class Kept(beam.DoFn):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Keeps each result as a line of JSON in this process, where all runners that are compared run functions.

    Args:
        name: under which `taken` finds them.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def process(self, result: Any) -> None:
        """Keep one result; Prism calls it in several threads."""
        _KEPT.setdefault(self._name, []).append(json.dumps(result, default=str, sort_keys=True))


def taken(name: str) -> list[str]:
    """Return what has been kept under a name, and forget it."""
    return _KEPT.pop(name, [])


class _Elements(beam.DoFn):  # type: ignore[misc]
    """Yields the elements of a shard: pairs of a key and a number, whose event times rise and jitter by two seconds."""

    def __init__(self, count: int) -> None:
        self._count = count

    def process(self, shard: int) -> Iterator[Any]:
        for number in range(shard, self._count, _SHARDS):
            time = _START + number * _SECONDS / self._count - (number * 31 % 2_000) / 1_000
            yield window.TimestampedValue((number * 7_919 % _KEYS, number % 100 + 1), time)


class _SumAtEnd(beam.DoFn):  # type: ignore[misc]
    """Adds up the numbers of a key and window in state, and yields the sum when a timer fires at the window's end."""

    TOTAL = userstate.CombiningValueStateSpec("total", sum)
    END = userstate.TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        pair: tuple[int, int],
        at: Any = beam.DoFn.WindowParam,
        total: Any = beam.DoFn.StateParam(TOTAL),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> None:
        total.add(pair[1])
        end.set(at.end)

    @userstate.on_timer(END)  # type: ignore[untyped-decorator]
    def emit(self, key: Any = beam.DoFn.KeyParam, total: Any = beam.DoFn.StateParam(TOTAL)) -> Iterator[Any]:
        yield key, total.read()
        total.clear()


def _elements(pipeline: Any, count: int) -> Any:
    shards = pipeline | beam.Create(list(range(_SHARDS))) | beam.Reshuffle()
    return shards | beam.ParDo(_Elements(count)).with_output_types(tuple[int, int])


def _wordcount(pipeline: Any, events: Events) -> Any:
    """Count words with the functions of Beam's example."""
    words = pipeline | beam.io.ReadFromText(events.words) | beam.ParDo(WordExtractingDoFn()).with_output_types(str)
    return words | "one" >> beam.Map(lambda word: (word, 1)) | beam.CombinePerKey(sum)


def _nexmark(pipeline: Any, events: Events, number: int) -> Any:
    nexmark_util.setup_coder()
    query = importlib.import_module(f"apache_beam.testing.benchmarks.nexmark.queries.query{number}")
    parsed = pipeline | beam.io.ReadFromText(events.nexmark) | beam.ParDo(nexmark_util.ParseJsonEventFn())
    stamped = parsed | "stamped" >> beam.Map(lambda event: window.TimestampedValue(event, event.date_time))
    return query.load(stamped, _NEXMARK, pipeline.options)


def _windowed_sum(pipeline: Any, events: Events) -> Any:
    windowed = _elements(pipeline, events.rows) | beam.WindowInto(window.FixedWindows(10))
    return windowed | beam.CombinePerKey(sum)


def _early_and_late(pipeline: Any, events: Events) -> Any:
    """Sum with early and late panes; of each window the last pane is compared, since runners fire at other elements."""
    windows = beam.WindowInto(
        window.FixedWindows(10),
        trigger=trigger.AfterWatermark(early=trigger.AfterCount(10), late=trigger.AfterCount(1)),
        accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
        allowed_lateness=60,
    )

    def row(pair: Any, at: Any = beam.DoFn.WindowParam, pane: Any = beam.DoFn.PaneInfoParam) -> dict[str, int]:
        return {
            "key": pair[0],
            "window_start": at.start.micros,
            "window_end": at.end.micros,
            "value": pair[1],
            "pane_index": pane.index,
        }

    return _elements(pipeline, events.rows) | windows | beam.CombinePerKey(sum) | "row" >> beam.Map(row)


def _sessions(pipeline: Any, events: Events) -> Any:
    return _elements(pipeline, events.rows) | beam.WindowInto(window.Sessions(0.7)) | beam.CombinePerKey(sum)


def _state(pipeline: Any, events: Events) -> Any:
    return _elements(pipeline, events.rows) | beam.WindowInto(window.FixedWindows(10)) | beam.ParDo(_SumAtEnd())


PROGRAMS: Final[Mapping[str, Callable[[Any, Events], Any]]] = {
    "wordcount": _wordcount,
    **{f"q{number}": functools.partial(_nexmark, number=number) for number in (0, 1, 2, 3, 5, 7, 8)},
    "windowed_sum": _windowed_sum,
    "early_and_late": _early_and_late,
    "sessions": _sessions,
    "state": _state,
}
