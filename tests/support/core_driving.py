"""The same script through the reference engine and through the core, as chunks of instants."""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.endpoints.scripts import AddStep, ClockStep, SignalStep, WatermarkStep
from dataflow_model.plan.functions.combine import GroupFn
from dataflow_model.plan.logical.nodes import MAIN, GroupByKeyAndWindow, Ref
from dataflow_model.runners.engine.grouping.keyed import CoreMachine
from dataflow_model.runners.engine.grouping.pane_lanes import PaneOrders
from dataflow_model.runners.engine.lanes.bundle import Bundle, Update
from dataflow_model.runners.engine.lanes.chunk import Bucket, Chunk, Instants, PlacedBundle
from dataflow_model.runners.engine.lanes.order import of_row
from dataflow_model.runners.engine.lanes.watermarks import Watermarks
from dataflow_model.testing import strategies
from dataflow_model.transforms.grouping.group_by import _ByPosition
from dataflow_model.values import NO_FIRING, Window
from tests.support.laws.examples import share_of_cases
from tests.support.reference.grouping import GroupingEngine
from tests.support.spec.drawing import BOTH, MORE_LEAVES, RESTLESS, STEPS, WINDOW_FNS, windowing_strategy
from tests.support.spec.drawing import script as drawn_script
from tests.support.spec.windows_of_users import USERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.runners.engine.lanes.chunk import Produced
    from dataflow_model.runners.engine.protocol.machine import KeyedMachine
    from dataflow_model.testing import TestStream
    from tests.support.spec.drawing import Pick

PERCENTILES = tuple(sorted(float(percentile) for percentile in strategies.PERCENTILES))
FAST = share_of_cases(int(os.environ.get("CORE_CASES", "200")))
"""How many scripts the profile in use draws on a grid."""
MANY = int(os.environ.get("CORE_NIGHTLY_CASES", "50000"))
PARTS = 10
"""In so many parts does `make test-all` draw `MANY` scripts."""
FIRST, LATEST = int(dm.MIN_TIMESTAMP), int(dm.MAX_TIMESTAMP)
BY_POSITION = _ByPosition(("total", "mean", "most"), (dm.Sum(), dm.Mean(), dm.Max()))
COMBINERS = [
    dm.Sum(),
    dm.Sum(),
    dm.Count(),
    dm.Mean(),
    dm.Min(),
    dm.Max(),
    dm.Together(count=dm.Count(), mean=dm.Mean()),
    dm.Together(total=dm.Sum(), least=dm.Min(), greatest=dm.Max()),
    dm.Together(total=dm.Sum(), values=GroupFn()),
    GroupFn(),
]
"""Combiners, most of which the core folds in arrays; `with_numbers` makes their elements, tuples for `BY_POSITION`."""


@attrs.frozen
class Element:
    """One element: its order is its number in the script; `update` says what it has to do with retractions."""

    key: Any
    value: Any
    time: int
    windows: tuple[Window, ...]
    number: int
    update: Update | None = None


@attrs.frozen
class Instant:
    """What happens at one instant, as a stage is told it."""

    clock: int
    elements: tuple[Element, ...]
    watermark: int
    percentiles: tuple[int, ...]
    signals: tuple[str, ...]
    closes: bool


def instants_of(script: TestStream, strategy: WindowingStrategy, percentiles: Sequence[float]) -> Iterator[Instant]:
    """Yield a script's instants: one for each step, and for each element of a bundle; then the end of the input."""
    number, clock, watermark = 0, 0, FIRST
    ahead = dict.fromkeys(percentiles, FIRST)

    def instant(*elements: Element, signals: tuple[str, ...] = (), closes: bool = False) -> Instant:
        reached = tuple(max(value, watermark) for value in ahead.values())
        return Instant(clock, elements, watermark, reached, signals, closes)

    for step in script.steps:
        match step:
            case AddStep():
                elements = []
                for (key, value), at in step.elements:
                    number += 1
                    windows = tuple(strategy.window_fn.assign(at, (key, value)))
                    elements.append(Element(key, value, int(at), windows, number))
                yield instant(*elements)
            case WatermarkStep() if step.percentile < 100:
                for percentile in ahead:
                    if percentile <= step.percentile:
                        ahead[percentile] = max(ahead[percentile], int(step.watermark))
                yield instant()
            case WatermarkStep():
                watermark = max(watermark, int(step.watermark))
                yield instant()
            case ClockStep():
                clock = int(step.processing_time)
                yield instant()
            case SignalStep():
                yield instant(signals=(step.name,))
    yield instant(closes=True)
    watermark, ahead = LATEST, dict.fromkeys(percentiles, LATEST)
    yield instant()


def joined(instants: Sequence[Instant], joins: Sequence[bool]) -> list[Instant]:
    """Make one instant of some that follow one another, where the later one has no other clock and no signals."""
    result: list[Instant] = []
    for now, is_joined in itertools.zip_longest(instants, joins[: len(instants)], fillvalue=False):
        assert isinstance(now, Instant)
        before = result[-1] if result else None
        if before is not None and is_joined and now.clock == before.clock and not now.signals and not before.closes:
            result[-1] = attrs.evolve(now, elements=before.elements + now.elements, signals=before.signals)
        else:
            result.append(now)
    return result


def with_retractions(pick: Pick, instants: Sequence[Instant]) -> list[Instant]:
    """Retract elements here and there: alone, or replaced in the same or in another window; some never arrived."""
    result: list[Instant] = []
    arrived: list[Element] = []
    numbers = itertools.count(1)
    for now in instants:
        elements: list[Element] = []
        for drawn in now.elements:
            element, emission = drawn, next(numbers)
            retractions = pick([0, 0, 0, 1, 1, 2]) if arrived else 0
            for _ in range(retractions):
                old = pick(arrived)
                if pick([True, True, True, False]):
                    arrived.remove(old)
                elements.append(attrs.evolve(old, number=next(numbers), update=Update((emission,), is_retraction=True)))
                match pick(["in its stead", "in its stead", "elsewhere", "alone"]):
                    case "in its stead":
                        element = attrs.evolve(old, value=drawn.value, update=Update((emission,), is_retraction=False))
                    case "elsewhere":
                        element = attrs.evolve(drawn, update=Update((emission,), is_retraction=False))
                if not arrived:
                    break
            elements.append(attrs.evolve(element, number=next(numbers)))
            arrived.append(attrs.evolve(element, update=None))
        result.append(attrs.evolve(now, elements=tuple(elements)))
    return result


def with_numbers(pick: Pick, instants: Sequence[Instant], combine: Any) -> list[Instant]:
    """Make the elements numbers that add up differently: whole or not, of any size, of one kind or of several."""
    tenth, large, larger = 0.1, 2**52 - 1, 2**61 - 1
    odd = [0.0, -0.0, tenth, -1e300, 1e300, float("inf"), float("-inf"), float("nan")]
    # The combiners that cannot subtract keep their inputs by value, and NaN is no value.
    odd = odd if combine.can_subtract else odd[:-1]
    makers: dict[str, Callable[[Any], Any]] = {
        "as they are": lambda value: value,
        "tenths": lambda value: value * tenth,
        "odd": lambda value: pick([value * tenth, *odd]),
        "large": lambda value: pick([value, large, -large]),
        "larger": lambda value: pick([value, larger, -larger, 2**70]),
        "mixed": lambda value: pick([value, value, value * tenth, True]),
    }
    make = makers[pick(["as they are", "as they are", "tenths", "tenths", "odd", "large", "larger", "mixed"])]

    def made(value: Any) -> Any:
        return (make(value), value, make(value)) if combine is BY_POSITION else make(value)

    return [
        attrs.evolve(now, elements=tuple(attrs.evolve(element, value=made(element.value)) for element in now.elements))
        for now in instants
    ]


def with_keys_that_vary(now: Instant) -> Instant:
    """Give the elements keys of which equal ones look different."""
    return attrs.evolve(now, elements=tuple(map(_with_a_zero, now.elements)))


def _with_a_zero(element: Element) -> Element:
    return attrs.evolve(element, key=(element.key, -0.0 if element.number % 2 else 0.0))


@attrs.define
class Answer:
    """What a grouping has emitted, by instant; what it has counted, and what it waits for after each chunk."""

    panes: list[list[tuple[Any, ...]]] = attrs.field(factory=list)
    watermarks: list[tuple[int, ...]] = attrs.field(factory=list)
    moments: list[tuple[int | None, int | None]] = attrs.field(factory=list)
    counters: Counter[str] = attrs.field(factory=Counter)


def machines(
    strategy: WindowingStrategy,
    combine: Any,
    percentiles: tuple[float, ...],
    *,
    takes_back: bool = False,
    records_percentile: bool = False,
) -> list[KeyedMachine]:
    """Return the reference engine and the core, for one grouping."""
    node = GroupByKeyAndWindow(label="sums", input=Ref("script"), strategy=strategy, combine=combine)
    return [
        GroupingEngine(
            node,
            percentiles=percentiles,
            takes_back=takes_back,
            records_percentile=records_percentile,
        ),
        CoreMachine(node, percentiles=percentiles, takes_back=takes_back, records_percentile=records_percentile),
    ]


def answer_of(machine: KeyedMachine, instants: Sequence[Instant], cuts: Sequence[int]) -> Answer:
    """Run chunks, cut at the given places."""
    answer = Answer()
    width = max((len(instant.percentiles) for instant in instants), default=0)
    bounds = [0, *sorted({cut for cut in cuts if 0 < cut < len(instants)}), len(instants)]
    for begin, end in itertools.pairwise(bounds):
        part = instants[begin:end]
        produced = machine.run(chunk_of(part))
        answer.panes += by_instant(produced, len(part))
        reached = [*produced.watermarks, machine.output_watermarks()]
        answer.watermarks += [(watermarks.low, *watermarks.further(width)) for watermarks in reached]
        answer.moments.append(machine.next_moments())
    answer.counters = Counter(machine.counters)
    return answer


def bounded_answer(machine: KeyedMachine, elements: Sequence[Element]) -> Answer:
    """Run all elements as one bucket of a bounded job, twice: the second finds nothing left of the first."""
    answer = Answer()
    for _ in range(2):
        answer.panes += by_instant(machine.run_bounded(Bucket(bundle_of(elements))), 1)
    answer.counters = Counter(machine.counters)
    return answer


def by_instant(produced: Produced, count: int) -> list[list[tuple[Any, ...]]]:
    """Return what has been emitted at each instant."""
    assert set(produced.outputs) <= {MAIN}
    placed = produced.outputs.get(MAIN, PlacedBundle())
    orders = placed.bundle.orders
    if isinstance(orders, PaneOrders) and orders.instants is not None:
        in_order = list(zip(placed.indices, orders, strict=True))
        assert in_order == sorted(in_order), "sinks do not sort these panes"
    rows: list[list[tuple[Any, ...]]] = [[] for _ in range(count)]
    for place, row in zip(placed.indices, rows_of(placed.bundle), strict=True):
        rows[place].append(row)
    return rows


def rows_of(output: Bundle) -> Iterator[tuple[Any, ...]]:
    """Yield all that is known of each element; `repr` tells apart what is equal and looks different."""
    assert set(output.updates) <= set(range(len(output)))
    for row, value in enumerate(output.values):
        yield (
            repr(value),
            output.windows[row],
            output.times[row],
            output.panes[row],
            output.produced[row],
            output.orders[row],
            output.updates.get(row),
            output.percentiles.get(row),
        )


def chunk_of(part: Sequence[Instant]) -> Chunk:
    """Return instants as a machine takes them."""
    elements = PlacedBundle()
    for index, now in enumerate(part):
        elements.add(index, bundle_of(now.elements))
    signals = {index: now.signals for index, now in enumerate(part) if now.signals}
    return Chunk(
        Instants([now.clock for now in part], [now.closes for now in part], signals),
        elements,
        [Watermarks.of(now.watermark, now.percentiles) for now in part],
    )


def bundle_of(elements: Sequence[Element]) -> Bundle:
    """Return elements as a bundle."""
    return Bundle(
        [(element.key, element.value) for element in elements],
        [element.time for element in elements],
        [element.windows for element in elements],
        [NO_FIRING] * len(elements),
        [of_row("script", element.number) for element in elements],
        [0] * len(elements),
        {row: element.update for row, element in enumerate(elements) if element.update is not None},
    )


def drawn_instants(
    pick: Pick, script: TestStream, strategy: WindowingStrategy, combine: Any
) -> tuple[list[Instant], bool]:
    """Return the instants of a script, changed as is picked, and whether elements are taken back."""
    instants = list(instants_of(script, strategy, PERCENTILES))
    instants = [attrs.evolve(now, closes=pick([now.closes, True, False])) for now in instants]
    instants = joined(instants, [pick([False, False, True]) for _ in instants])
    instants = with_numbers(pick, instants, combine)
    if pick([False, False, True]):
        instants = [with_keys_that_vary(now) for now in instants]
    takes_back = not strategy.merges and pick([False, True])
    if takes_back:
        instants = with_retractions(pick, instants)
    return instants, takes_back


def by_draws(data: st.DataObject) -> Pick:
    """Return what picks with hypothesis."""
    return lambda options: data.draw(st.sampled_from(options))


def check_seeds(check: Callable[..., None], seeds: range) -> None:
    """Run scripts drawn fast, on a grid on which bounds, deadlines and watermarks fall together."""
    for seed in seeds:
        pick = random.Random(seed).choice
        strategy = windowing_strategy(pick, [*WINDOW_FNS, *USERS], [*MORE_LEAVES, RESTLESS, BOTH])
        script = drawn_script(pick, [*STEPS, "percentile", "signal"])
        try:
            check(pick, script, strategy, [*COMBINERS, BY_POSITION])
        except BaseException as error:
            error.add_note(f"seed {seed}: {strategy}\n" + "\n".join(map(str, script.steps)))
            raise
