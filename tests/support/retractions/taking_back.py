"""Drawn stateful functions that emit values and take them back, and what must stand behind them."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import attrs
from hypothesis import strategies as st

import dataflow_model as dm
from tests.support.retractions.accounts import Account, batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.strategy import WindowingStrategy

MOVES: Final = ("emit", "aside", "replace", "swap", "drop", "in vain", "again", "timer", "clock")
FOREVER: Final = dm.duration("2000 days")
_NUMBERS: Final = itertools.count(1)

Emitted = tuple[str, Any, dm.EventTime]
"""A tag, a value and its event time."""


class TakingBack(dm.DoFn):
    """Emits values of each key, and takes them back, as a drawn list of moves says.

    Attributes:
        moves: what happens at the elements of a key, in turns.
        ends: whether everything is taken back when the window expires.
        is_pure: whether the values depend on the elements alone; otherwise each is a new number.
    """

    retracts = True
    late_data_horizon = FOREVER
    standing = dm.ValueStateSpec[tuple[Emitted, ...]](default=())
    turns = dm.ValueStateSpec[int](default=0)
    later = dm.TimerSpec(dm.TimeDomain.EVENT_TIME)
    soon = dm.TimerSpec(dm.TimeDomain.PROCESSING_TIME)

    def __init__(self, moves: tuple[str, ...], *, ends: bool, is_pure: bool) -> None:
        self.moves = moves
        self.ends = ends
        self.is_pure = is_pure

    def __repr__(self) -> str:
        return f"TakingBack({self.moves!r}, ends={self.ends}, is_pure={self.is_pure})"

    def process(
        self,
        pair: Any,
        timestamp: dm.EventTime,
        window: Any,
        standing: Any,
        turns: Any,
        later: dm.Timer,
        soon: dm.Timer,
    ) -> Iterator[Any]:
        turn = turns.read()
        turns.write(turn + 1)
        move = self.moves[turn % len(self.moves)]
        emitted = list(standing.read())
        key, value = pair
        new = "main", (key, value if self.is_pure else next(_NUMBERS)), timestamp
        match move:
            case "aside":
                new = "aside", *new[1:]
            case "replace" if emitted:
                yield from taken_back(emitted.pop(0))
            case "drop" if emitted:
                yield from taken_back(emitted.pop())
            case "in vain":
                yield from output(new)
                yield from taken_back(new)
            case "again":
                for each in emitted:
                    yield from taken_back(each)
                    yield from output(each)
            case "timer":
                later.set(min(timestamp + dm.duration("3 s"), window.max_timestamp))
            case "clock":
                soon.set_after("2 s")
        if move not in {"drop", "in vain"}:
            yield from output(new)
            emitted.append(new)
        if move == "swap" and len(emitted) > 1:
            yield from taken_back(emitted.pop(0))
        standing.write(tuple(emitted))

    @dm.on_timer(later)
    def take_all_back(self, standing: Any) -> Iterator[Any]:
        yield from all_taken_back(standing.read())
        standing.clear()

    @dm.on_timer(soon)
    def take_one_back(self, standing: Any) -> Iterator[Any]:
        yield from all_taken_back(standing.read()[:1])
        standing.write(standing.read()[1:])

    def on_window_expiry(self, standing: Any, window: Any) -> Iterator[Any]:
        if self.ends and not isinstance(window, dm.GlobalWindow):  # whose end is further than the horizon
            yield from all_taken_back(standing.read())


def output(emitted: Emitted) -> Iterator[Any]:
    """Emit a value, and that it was emitted."""
    tag, value, at = emitted
    yield _tagged(tag, dm.TimestampedValue(value, at))
    yield dm.TaggedOutput("log", (tag, value, at, False))


def taken_back(emitted: Emitted) -> Iterator[Any]:
    """Take a value back, and emit that it was taken back."""
    tag, value, at = emitted
    yield _tagged(tag, dm.TimestampedValue(dm.Retract(value), at))
    yield dm.TaggedOutput("log", (tag, value, at, True))


def all_taken_back(emitted: Iterable[Emitted]) -> Iterator[Any]:
    return itertools.chain.from_iterable(map(taken_back, emitted))


def _tagged(tag: str, value: Any) -> Any:
    return value if tag == "main" else dm.TaggedOutput(tag, value)


def functions(*, is_pure: bool | None = None) -> st.SearchStrategy[TakingBack]:
    """Draw functions; `is_pure=None` draws both kinds."""
    return st.builds(
        TakingBack,
        st.lists(st.sampled_from(MOVES), min_size=1, max_size=6).map(tuple),
        ends=st.booleans(),
        is_pure=st.booleans() if is_pure is None else st.just(is_pure),
    )


@attrs.frozen
class Behind:
    """Groupings behind a function, each with a sink that is called like it.

    Attributes:
        strategy, chained: the strategies of the groupings, and of those behind them.
    """

    strategy: WindowingStrategy
    chained: WindowingStrategy

    def build(self, taking_back: TakingBack, pairs: Any) -> None:
        """Add the function and what is behind it."""
        main, aside, log = pairs | "taking back" >> dm.ParDo(taking_back).with_outputs("aside", "log")
        _ = log | "log" >> dm.io.Collect()
        _ = main | "main" >> dm.io.Collect()
        _ = aside | "aside" >> dm.io.Collect()
        both = (main, aside) | "both" >> dm.Flatten() | "windows" >> dm.Window.into(self.strategy)
        for name, combine in COMBINERS.items():
            _ = both | f"{name} by key" >> dm.CombinePerKey(combine) | name >> dm.io.Collect()
        sums = both | "to chain" >> dm.Sum.per_key()
        _ = sums | "sums" >> dm.io.Collect()
        again = sums | "by size" >> dm.Map(by_size) | "windows again" >> dm.Window.into(self.chained)
        _ = again | "count" >> dm.Count.per_key() | "chain" >> dm.io.Collect()

    def check(self, result: Any) -> None:
        """Check that what stands behind the function is what a batch job computes of what it has left standing."""
        main, aside = result.collected("main"), result.collected("aside")
        emitted = Counter(
            (tag, record.value, record.event_time, record.is_retraction)
            for tag, records in (("main", main), ("aside", aside))
            for record in records
        )
        assert emitted == Counter(record.value for record in result.collected("log"))
        standing = [*Account().book(main).standing, *Account().book(aside).standing]
        elements = [(*record.value, record.event_time) for record in standing]
        groups = batch(elements, self.strategy.window_fn)
        for name, combine in COMBINERS.items():
            self._compare(result.collected(name), groups, combine, name)
        sums = [(by_size((key, sum(values))), window) for key, window, values in groups]
        chained = [(*pair, window.max_timestamp) for pair, window in sums]
        self._compare(result.collected("chain"), batch(chained, self.chained.window_fn), dm.Count(), "chain")

    @staticmethod
    def _compare(records: Iterable[Record], groups: Any, combine: Any, name: str) -> None:
        expected = {(key, window): combined(combine, values) for key, window, values in groups}
        assert Account().book(records).by_window() == expected, name


COMBINERS: Final[dict[str, Any]] = {
    "sum": dm.Sum(),
    "counts": dm.Count(),
    "means": dm.Mean(),
    "greatest": dm.Max(),
    "sets": dm.ToSet(),
}


def by_size(pair: Any) -> Any:
    return "odd" if pair[1] % 2 else "even", pair[1]


def combined(combine: Any, values: list[Any]) -> Any:
    accumulator = combine.create_accumulator()
    for value in values:
        accumulator = combine.add_input(accumulator, value)
    return combine.extract_output(accumulator)
