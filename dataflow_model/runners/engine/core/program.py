"""A trigger tree as a program: arrays over the places of the tree."""

from __future__ import annotations

import itertools
from array import array
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.runners.engine.core.operations import CLOCK_DOMAIN, LOW_DOMAIN
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from dataflow_model.triggers import (
    AfterAll,
    AfterAny,
    AfterBytes,
    AfterCount,
    AfterEach,
    AfterEventTime,
    AfterProcessingTime,
    AfterPunctuation,
    AfterSignal,
    AfterWatermark,
    Always,
    AtPeriod,
    DataTrigger,
    Never,
    OrFinally,
    RepeatCount,
    Repeatedly,
    TimeDomain,
    Trigger,
)
from dataflow_model.triggers.contexts import LOW_WATERMARK
from dataflow_model.triggers.elements import checked_answer
from dataflow_model.triggers.local_times import next_time

if TYPE_CHECKING:
    from collections.abc import Callable

(
    NEVER,
    ALWAYS,
    COUNT,
    WEIGH,
    TEST,
    ASK,
    SIGNAL,
    WATERMARK,
    DELAY,
    PERIOD,
    USER,
    REPEATEDLY,
    REPEAT_COUNT,
    EACH,
    ANY,
    ALL,
    OR_FINALLY,
) = range(17)
"""The operations of places; from `REPEATEDLY` on, a place has children."""
BITS_A_WORD: Final = 62
_MOST: Final = 2**63 - 1


@attrs.frozen
class TriggerProgram:
    """A trigger tree as arrays over its places, which are numbered in preorder.

    A trigger of the user's is one operation, together with all places below it, which the program never enters.

    Attributes:
        operation: the operation of each place.
        argument: the argument of the operation: a number of elements, a delay, the number of a signal.
        last: the greatest place below it.
        domain: the clock that its timer waits for; −1 if it has no timer.
        counter: the number of its counter in a cell; −1 if it has none.
        deadline: the number of its deadline in a cell; −1 if it has none. A user's trigger has one for each time
            domain, starting there.
        first_child, children: the position of its first child in `child`, and the number of its children.
        child: the places of all children, concatenated.
        word, mask: its bit in a set of places.
        words: the number of words of such a set.
        counters, deadlines: the number of counters and deadlines of a cell.
        calls: by place, the Python function that it calls; `None` for most.
        merges: by place, the function that merges the states of a user's condition.
        owner: by place, the user's trigger that runs it, itself or one above it; −1 for the other places.
        percentiles: the percentiles of the watermark below 100 that it waits for, lowest first; their time domains
            follow that of the clock.
        signals: the names of the signals that it waits for, in order; a signal's number is its index among them.
    """

    operation: array[int]
    argument: array[int]
    last: array[int]
    domain: array[int]
    counter: array[int]
    deadline: array[int]
    first_child: array[int]
    children: array[int]
    child: array[int]
    word: array[int]
    mask: array[int]
    words: int
    counters: int
    deadlines: int
    calls: tuple[Callable[..., Any] | None, ...]
    merges: tuple[Callable[..., Any] | None, ...]
    owner: tuple[int, ...]
    percentiles: tuple[float, ...]
    signals: tuple[str, ...]

    @property
    def domains(self) -> int:
        """The number of clocks that a cell may wait for."""
        return CLOCK_DOMAIN + 1 + len(self.percentiles)

    @property
    def calls_back(self) -> bool:
        """Whether it calls functions in Python with elements."""
        return USER in self.operation or any(call is not None for call in self.calls)

    def domain_index(self, domain: TimeDomain, percentile: float) -> int:
        """Return the number of the time domain in which a timer of the user's waits."""
        if domain is TimeDomain.PROCESSING_TIME:
            return CLOCK_DOMAIN
        return (
            LOW_DOMAIN if percentile == LOW_WATERMARK else CLOCK_DOMAIN + 1 + self.percentiles.index(float(percentile))
        )


@attrs.define
class _Place:
    operation: int
    argument: int = 0
    domain: int = -1
    counts: bool = False
    waits: int = 0
    call: Callable[..., Any] | None = None
    merge: Callable[..., Any] | None = None
    owner: int = -1
    children: list[int] = attrs.field(factory=list)
    last: int = 0


def compile_tree(trigger: Trigger) -> TriggerProgram:
    """Return the program of a trigger tree.

    Example:
        >>> from dataflow_model.triggers import AfterCount
        >>> program = compile_tree(AfterWatermark(early=AfterCount(10), late=AfterCount(1)))
        >>> program.operation.tolist() == [EACH, OR_FINALLY, REPEATEDLY, COUNT, WATERMARK, REPEATEDLY, COUNT]
        True
        >>> program.last.tolist(), program.counters
        ([6, 4, 3, 3, 4, 6, 6], 2)
    """
    places: list[_Place] = []
    triggers = _gather(trigger)
    percentiles = tuple(sorted({float(p) for tree in triggers for p in tree.percentiles} - {LOW_WATERMARK}))
    signals = tuple(sorted(frozenset[str]().union(*(tree.signals for tree in triggers))))
    _place(trigger, places, percentiles, signals)
    child = [number for place in places for number in place.children]
    first_child = [sum(len(place.children) for place in places[:number]) for number in range(len(places))]
    counting = [number for number, place in enumerate(places) if place.counts]
    waiting = list(itertools.accumulate([place.waits for place in places], initial=0))
    return TriggerProgram(
        operation=array("q", [place.operation for place in places]),
        argument=array("q", [place.argument for place in places]),
        last=array("q", [place.last for place in places]),
        domain=array("q", [place.domain for place in places]),
        counter=_numbered(counting, len(places)),
        deadline=array("q", [at if place.waits else -1 for place, at in zip(places, waiting, strict=False)]),
        first_child=array("q", first_child),
        children=array("q", [len(place.children) for place in places]),
        child=array("q", child or [0]),
        word=array("q", [number // BITS_A_WORD for number in range(len(places))]),
        mask=array("q", [1 << number % BITS_A_WORD for number in range(len(places))]),
        words=(len(places) - 1) // BITS_A_WORD + 1,
        counters=len(counting),
        deadlines=waiting[-1],
        calls=tuple(place.call for place in places),
        merges=tuple(place.merge for place in places),
        owner=tuple(place.owner for place in places),
        percentiles=percentiles,
        signals=signals,
    )


def _numbered(chosen: list[int], places: int) -> array[int]:
    """Number some of the places; the others get −1."""
    return array("q", [chosen.index(place) if place in chosen else -1 for place in range(places)])


def _gather(trigger: Trigger) -> list[Trigger]:
    """Return the triggers of a tree."""
    tree = trigger.lowered()
    return [tree, *(below for child in tree.children for below in _gather(child))]


def _place(trigger: Trigger, places: list[_Place], percentiles: tuple[float, ...], signals: tuple[str, ...]) -> int:
    """Add a tree to the places; return the number of its root."""
    tree = trigger.lowered()
    number = len(places)
    if _is_built_in(tree):
        place = _leaf(tree, percentiles, signals)
        places.append(place)
        place.children = [_place(child, places, percentiles, signals) for child in tree.children]
    else:
        place = _Place(USER, waits=CLOCK_DOMAIN + 1 + len(percentiles), owner=number)
        places.append(place)
        places.extend(_Place(NEVER, owner=number) for _ in _gather(tree)[1:])
    place.last = len(places) - 1
    return number


def _is_built_in(tree: Trigger) -> bool:
    """Return whether a lowered trigger is one whose callbacks the evaluator has as operations of its own."""
    if type(tree) in _BUILT_IN:
        return True
    return isinstance(tree, DataTrigger) and all(
        getattr(type(tree), name) is getattr(DataTrigger, name) for name in _CALLBACKS
    )


def _leaf(tree: Trigger, percentiles: tuple[float, ...], signals: tuple[str, ...]) -> _Place:
    """Return the operation and the argument of a place, without its children."""
    match tree:
        case Always():
            return _Place(ALWAYS)
        case AfterCount(n):
            return _Place(COUNT, min(n, _MOST), counts=True)
        case AfterBytes(n):
            return _Place(WEIGH, min(n, _MOST), counts=True, call=tree._weight)  # noqa: SLF001 - the trigger's own measure
        case AfterPunctuation(predicate):
            return _Place(TEST, call=predicate)
        case DataTrigger():
            return _Place(ASK, call=_asker(tree), merge=tree.merge_state)
        case AfterSignal(name):
            return _Place(SIGNAL, signals.index(name))
        case AfterWatermark():
            share = tree.percentile
            domain = LOW_DOMAIN if share == LOW_WATERMARK else CLOCK_DOMAIN + 1 + percentiles.index(float(share))
            return _Place(WATERMARK, domain=domain)
        case AfterProcessingTime(delay):
            return _Place(DELAY, int(delay), CLOCK_DOMAIN, waits=1)
        case AfterEventTime(delay):
            return _Place(DELAY, int(delay), LOW_DOMAIN, waits=1)
        case AtPeriod():
            domain = LOW_DOMAIN if tree.domain is TimeDomain.EVENT_TIME else CLOCK_DOMAIN
            return _Place(PERIOD, domain=domain, waits=1, call=_next_time(tree))
        case RepeatCount():
            return _Place(REPEAT_COUNT, min(tree.n, _MOST), counts=True)
        case _:
            return _Place(_COMPOSITES.get(type(tree), NEVER))


def _asker(tree: DataTrigger) -> Callable[[Any, Any], tuple[bool, Any]]:
    """Return a function that calls a user's condition and checks its result."""

    def ask(element: Any, state: Any) -> tuple[bool, Any]:
        return checked_answer(tree, tree.should_emit(element, state))

    return ask


def _next_time(tree: AtPeriod) -> Callable[[int], int]:
    """Return a function that returns the next time of a period after an instant."""

    def after(micros: int) -> int:
        at = next_time(micros, int(tree.reference), tree.period, tree.timezone)
        return max(int(MIN_TIMESTAMP), min(at, int(MAX_TIMESTAMP)))

    return after


_COMPOSITES: Final[dict[type[Trigger], int]] = {
    Repeatedly: REPEATEDLY,
    AfterEach: EACH,
    AfterAny: ANY,
    AfterAll: ALL,
    OrFinally: OR_FINALLY,
}
_BUILT_IN: Final = frozenset(
    {
        *_COMPOSITES,
        RepeatCount,
        AfterBytes,
        AfterCount,
        AfterEventTime,
        AfterProcessingTime,
        AfterPunctuation,
        AfterSignal,
        AfterWatermark,
        Always,
        AtPeriod,
        Never,
    }
)
_CALLBACKS: Final = ("on_element", "on_retraction", "on_signal", "on_merge", "on_timer", "reset", "lowered")
