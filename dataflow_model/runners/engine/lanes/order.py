"""The total order of events: the position of an element among all others. Only this module creates and reads orders.

An element has an *instant* (`At`) and, within the instant, an `Order`. The instant is the clock's value, with a step
that distinguishes instants with the same value. Orders are comparable within the input of one stage:

* An element of a source is ordered by (origin, sequence), then by its number among the outputs of the functions after
  the source for the same row.
* An output of a stage is ordered by the *phase* of the instant in which it was emitted: `BEFORE` for timers that were
  due before the instant, `ELEMENT` for elements, `WATERMARK` for the watermark, `AT` for timers due at the instant
  itself. Within a phase, it is ordered by its cause, then by its number among the outputs with the same cause. In the
  phase `ELEMENT` the cause is an element, ordered as in the input of the stage; otherwise it is a timer, ordered by
  (deadline, window end, window start, encoded window, encoded key). Next comes the number among the outputs of the
  functions after the stage, and last the index of its producer in the stage, since two nodes of a stage may have the
  same cause. The shard is not part of the order.
* An element that is not input of a stage passes it unchanged: it is ordered in the phase `ELEMENT` by its own order,
  before the outputs that it causes there. Replayed outputs, and those of a function with side inputs, are before it,
  and so is the record of an element that was dropped.

No order is a prefix of another; otherwise the outputs of one element would come between those of another.

An order is a plain tuple, so that comparing and pickling it is cheap; for all other modules it is opaque. The orders of
a source's rows, and of panes, may be in columns (`OrderLane`) until one of them is read.
"""

from __future__ import annotations

import functools
import itertools
import operator
import zlib
from typing import TYPE_CHECKING, Any, Final, NewType

import attrs
import numpy as np

from dataflow_model.plan.columns.natural_order import natural, original
from dataflow_model.runners.engine.core.operations import ELEMENT, WATERMARK
from dataflow_model.runners.engine.lanes.lanes import array_of
from dataflow_model.runners.engine.lanes.order_lanes import OrderLane, RisingOrders, numbers_within
from dataflow_model.values import encode_window

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.values import Window

At = tuple[int, int]
"""The position of an instant: the clock's value, and a step that distinguishes instants with the same value."""
Order = NewType("Order", tuple[Any, ...])
"""The position of an element among those of its instant, in the input of one stage."""
Cause = NewType("Cause", tuple[Any, ...])
"""The position of a timer among those of one phase of an instant."""

_PASSED: Final = -1
"""In place of an output's number: the element itself, which passes a stage unchanged."""
_JOINED: Final = -2
"""In place of an output's number: the outputs of a function with side inputs follow."""
_REPLAYABLE: Final = -3
"""In place of an output's number: the outputs of a function with memoised outputs follow."""
_DROPPED: Final = -4
"""In place of an output's number: the element itself follows, which was dropped."""
_WHOLE: Final = 1 << 64
_GOLDEN: Final = 0x9E37_79B9_7F4A_7C15
"""The whole divided by the golden ratio: its multiples, modulo the whole, are spread evenly however few they are."""


# Sources --------------------------------------------------------------------------------------------------------------


def name_of_origin(label: str, origin: str) -> str:
    """Return the text by which an origin of a source is ordered among all origins: by label, then in natural order.

    Example:
        >>> name_of_origin("flights", "9.parquet") < name_of_origin("flights", "10.parquet")
        True
    """
    return f"{label}:{natural(str(origin))}"


def of_row(origin: str, sequence: Any) -> Order:
    """Return the order of an element of a source.

    Args:
        origin: the name of its origin; the label of the source if it has no origins.
        sequence: its number in the origin, or anything else that is ordered there.
    """
    return Order((origin, sequence))


def of_rows(origins: str | Iterable[str], sequences: Iterable[Any]) -> list[Order]:
    """Return the orders of elements of a source, with one origin for all or one for each."""
    names = itertools.repeat(origins) if isinstance(origins, str) else origins
    orders: list[Any] = list(zip(names, sequences, strict=False))
    return orders


@functools.total_ordering
@attrs.frozen(order=False)
class Unnumbered:
    """In place of a sequence: a row without one in an origin whose sequences are not numbers, before all that have one.

    Attributes:
        position: its position among such rows.

    Example:
        >>> sorted([of_row("a", "7"), of_row("a", Unnumbered(4)), of_row("a", Unnumbered(3))])
        [('a', Unnumbered(position=3)), ('a', Unnumbered(position=4)), ('a', '7')]
    """

    position: int

    def __lt__(self, other: object) -> bool:
        return self.position < other.position if isinstance(other, Unnumbered) else True


def origin_of(order: Order, label: str) -> str:
    """Return the label of the source of an element and the name of its origin."""
    return label_and_origin(order[0], label)


def label_and_origin(name: str, label: str) -> str:
    """Return the label of a source and the name of an origin, from the text by which the origin is ordered.

    Example:
        >>> label_and_origin(name_of_origin("flights", "2013.parquet"), "flights")
        'flights:2013.parquet'
    """
    start = len(label) + 1
    return name[:start] + original(name[start:])


def with_renamed_sources(order: Order, labels: Mapping[str, str]) -> Order:
    """Return an order, in the input of any stage, whose source has another label.

    Args:
        order: the order.
        labels: the new labels by the old ones.

    Example:
        >>> with_renamed_sources(pass_stages([of_row("rows:a.parquet", 7)], 1)[0], {"rows": "flights"})
        (1, 'flights:a.parquet', 7, -1)
    """
    renamed: Any = tuple(_renamed(part, labels) for part in order)
    return Order(renamed)


def _renamed(part: Any, labels: Mapping[str, str]) -> Any:
    """Return a part of an order; the only text in it is the name of an origin, which begins with a source's label."""
    if type(part) is tuple:
        return tuple(_renamed(inner, labels) for inner in part)
    if type(part) is not str:
        return part
    sources = [label for label in labels if part == label or part.startswith(f"{label}:")]
    if not sources:
        return part
    label = max(sources, key=len)
    return labels[label] + part[len(label) :]


def sequence_of(order: Order) -> int:
    """Return the number of a source's element in its origin."""
    sequence: int = order[1]
    return sequence


def position_in_source(order: Order, label: str) -> tuple[str, int]:
    """Return the origin and the sequence of an element of a source with this label.

    Example:
        >>> position_in_source(of_row(name_of_origin("flights", "2013.parquet"), 7), "flights")
        ('2013.parquet', 7)
    """
    return original(order[0][len(label) + 1 :]), order[1]


def numbered(order: Order, number: int) -> Order:
    """Return the order of an output of element-wise functions: that of its cause, then its number.

    Example:
        >>> of_row("a", 7) < numbered(of_row("a", 7), 0) < numbered(of_row("a", 7), 1) < of_row("a", 8)
        True
    """
    bare: Any = (*order, number)  # calling `Order` for every element takes measurable time
    longer: Order = bare
    return longer


def numbered_by_cause(orders: Sequence[Order], causes: Sequence[int]) -> Sequence[Order]:
    """Return the orders of outputs of element-wise functions: that of the cause, then the number among its outputs.

    Args:
        orders: the orders of the functions' inputs.
        causes: for each output, the index of its input, ascending.

    Example:
        >>> numbered_by_cause([of_row("a", 7), of_row("a", 8)], [0, 0, 1])
        [('a', 7, 0), ('a', 7, 1), ('a', 8, 0)]
    """
    if isinstance(orders, OrderLane):
        indices = causes if isinstance(causes, range) else np.asarray(causes, np.int64)
        columns = orders.numbered(indices)
        return _numbered_again(orders, indices) if columns is None else columns
    if isinstance(causes, range):
        every: list[Any] = [(*order, 0) for order in orders]
        return every
    counted: list[Any] = []
    number, last = 0, -1
    for cause in causes:
        number = number + 1 if cause == last else 0
        last = cause
        counted.append((*orders[cause], number))
    return counted


def _numbered_again(orders: OrderLane, causes: NDArray[np.int64] | range) -> OrderLane:
    """Return the orders of outputs whose causes have been numbered or placed before."""
    if isinstance(causes, range):
        return RisingOrders(orders, np.zeros(len(causes), np.int64))
    return RisingOrders(orders.taken(causes), numbers_within(causes))


def caused(orders: Sequence[Order], causes: NDArray[np.int64]) -> Sequence[Order]:
    """Return the orders of what a keyed node emits for its elements: see `Emissions.of_element`.

    Args:
        orders: the orders of the elements.
        causes: for each output, the index of its element, ascending.

    Example:
        >>> caused([of_row("a", 7), of_row("a", 8)], np.array([0, 0, 1]))
        [(1, 'a', 7, 0), (1, 'a', 7, 1), (1, 'a', 8, 0)]
    """
    if isinstance(orders, OrderLane):
        return _numbered_again(orders, causes).between((ELEMENT,), ())
    numbers = numbers_within(causes)
    placed: list[Any] = [
        (ELEMENT, *orders[cause], number) for cause, number in zip(causes.tolist(), numbers.tolist(), strict=True)
    ]
    return placed


def sorting(orders: Sequence[Order], primary: Sequence[int] | None = None) -> Sequence[int] | NDArray[np.int64] | None:
    """Return the permutation that sorts orders; `None` if they are sorted already.

    Args:
        orders: the orders.
        primary: the primary sort keys, if there are any.

    Example:
        >>> sorting([of_row("a", 7), of_row("b", 0)]), sorting([of_row("b", 0), of_row("a", 7)])
        (None, [1, 0])
    """
    if isinstance(orders, OrderLane):
        return orders.sorting(*([] if primary is None else [array_of(primary)]))
    keys: Sequence[Any] = orders if primary is None else list(zip(primary, orders, strict=True))
    if all(map(operator.le, keys, itertools.islice(keys, 1, None))):
        return None
    return sorted(range(len(keys)), key=keys.__getitem__)


def event_of(order: Order, stages: int) -> int:
    """Return the sequence number in its source of an element that has passed some stages.

    Example:
        >>> event_of(pass_stages([of_row("script", 7)], 2)[0], 2)
        7
    """
    number: int = order[stages + 1]
    return number


# Stages ---------------------------------------------------------------------------------------------------------------


def pass_stages(orders: Sequence[Order], stages: int) -> Sequence[Order]:
    """Return the orders of elements in the input of a later stage, after they have passed some stages.

    Example:
        >>> pass_stages([of_row("a.parquet", 7)], 2)
        [(1, 1, 'a.parquet', 7, -1, -1)]
    """
    if not stages:
        return orders
    before, behind = (ELEMENT,) * stages, (_PASSED,) * stages
    if isinstance(orders, OrderLane):
        return orders.between(before, behind)
    passed: list[Any] = [(*before, *order, *behind) for order in orders]
    return passed


def before_stages(order: Order, stages: int) -> Order:
    """Return the order of an element before it passed some stages.

    Example:
        >>> before_stages(pass_stages([of_row("a.parquet", 7)], 2)[0], 2)
        ('a.parquet', 7)
    """
    return Order(order[stages : len(order) - stages])


def by_producer(orders: Sequence[Order], index: int) -> Sequence[Order]:
    """Return the orders of elements that one of the nodes of a stage has emitted: as before, then by the node.

    Two nodes of a stage that receive the same elements, or have timers for the same windows and keys, emit elements
    with equal causes. The node is compared last, so their outputs for one cause alternate by number.

    Args:
        orders: the orders among the outputs of the node, and of the functions after it.
        index: the index of the node in its stage, in the plan's order.

    Example:
        >>> outputs = [numbered(relayed([of_row("a", 7)])[0], number) for number in range(2)]
        >>> [*by_producer(outputs, 0), *by_producer(outputs, 1)]
        [(1, 'a', 7, 0, 0, 0), (1, 'a', 7, 0, 1, 0), (1, 'a', 7, 0, 0, 1), (1, 'a', 7, 0, 1, 1)]
    """
    if isinstance(orders, OrderLane):
        return orders.between((), (index,))
    placed: list[Any] = [(*order, index) for order in orders]
    return placed


def relayed(orders: Sequence[Order]) -> Sequence[Order]:
    """Return the orders of elements that a stage emits once each, unchanged."""
    if isinstance(orders, OrderLane):
        return orders.between((ELEMENT,), (0,))
    again: list[Any] = [(ELEMENT, *order, 0) for order in orders]
    return again


def replayed(order: Order, index: int, number: int) -> Order:
    """Return the order of an output of a function with memoised outputs.

    Args:
        order: the order of the element.
        index: the index of the function in the plan.
        number: the number of the output.
    """
    return Order((ELEMENT, *order, _REPLAYABLE, index, number))


def of_drop(order: Order, number: int) -> Order:
    """Return the order of the record of an element that was dropped: before all outputs that the element causes.

    Args:
        order: the order of the element.
        number: the number of the record among those of the element.

    Example:
        >>> of_drop(of_row("a", 7), 0) < relayed([of_row("a", 7)])[0] < of_drop(of_row("a", 8), 0)
        True
    """
    return Order((ELEMENT, *order, _DROPPED, number))


def order_in_window(order: Order, window: int) -> Order:
    """Return the order of an element in one of its windows, as the input of a function with side inputs."""
    return Order((ELEMENT, *order, _JOINED, window))


def of_release(produced: int, instant: int, order: Order, window: int) -> Order:
    """Return the same for an element that has waited for a side input: after elements that did not have to wait.

    Args:
        produced: the clock when it was produced.
        instant: the number of the instant at which it arrived.
        order: its order at that instant.
        window: the number of the window among its windows.
    """
    # Like a timer with an empty key: the parts after a key are never compared with those of another timer.
    return Order((WATERMARK, (produced, instant, 0, b"", b"", order), window))


def part_of_join(order: Order, output: int) -> Order:
    """Return the order of an output of a function with side inputs, which has several outputs for one element.

    Args:
        order: the order of the output, as numbered by `Fragment`.
        output: the number of the tagged output.
    """
    return Order((*order[:-1], output, order[-1]))


def rising(orders: Sequence[Order]) -> list[Order]:
    """Return ascending orders, for elements that are in another order than the total one.

    Example:
        >>> rising([of_row("a", 1), of_row("b", 0), of_row("a", 2)])
        [('a', 1, 0), ('b', 0, 1), ('b', 0, 2)]
    """
    return [Order((*top, rank)) for rank, top in enumerate(itertools.accumulate(orders, max))]


def rising_by_key(orders: Sequence[Order], firsts: Sequence[int]) -> Sequence[Order]:
    """Return the `rising` orders of several keys, one key after the other.

    Args:
        orders: the orders.
        firsts: the index of each key's first element; where it would be for a key without elements.

    Example:
        >>> rising_by_key([of_row("a", 2), of_row("a", 1), of_row("a", 0)], [0, 2])
        [('a', 2, 0), ('a', 2, 1), ('a', 0, 0)]
    """
    if isinstance(orders, OrderLane):
        return orders.rising(firsts)
    bounds = itertools.pairwise([*firsts, len(orders)])
    return [order for begin, end in bounds for order in rising(orders[begin:end])]


# Causes ---------------------------------------------------------------------------------------------------------------


def by_window(window: Window) -> tuple[int, int, bytes]:
    """Return the sort key of a window among windows: its end, then its start, then its encoding."""
    return int(window.end), int(window.start), encode_window(window)


def timer_cause(deadline: int, window: tuple[int, int, bytes], key: bytes) -> Cause:
    """Return the position of a timer among those of its phase.

    Args:
        deadline: the time at which it is due.
        window: the sort key of its window, which `by_window` returns.
        key: the encoded key.
    """
    return Cause((deadline, *window, key))


def deadline_of(cause: Cause) -> int:
    """Return when the timer was due that is a cause.

    Example:
        >>> deadline_of(timer_cause(7, (60, 0, b""), b"key"))
        7
    """
    deadline: int = cause[0]
    return deadline


def of_watermark(end: int, start: int, key: bytes) -> Order:
    """Return the order of the single pane of an interval, which fires when the watermark passes the end."""
    return Order((WATERMARK, (end, end, start, b"", key), 0))


class Emissions:
    """Assigns orders to the outputs of a keyed node.

    Example:
        >>> emissions = Emissions()
        >>> emissions.of_element(of_row("a", 7))
        >>> emissions.next(), emissions.next()
        ((1, 'a', 7, 0), (1, 'a', 7, 1))
    """

    def __init__(self) -> None:
        self._cause: tuple[Any, ...] = ()
        self._numbers = itertools.count()

    def of_element(self, order: Order) -> None:
        """Set an element as the cause of the following outputs; if it is the current cause, numbering continues."""
        cause = (ELEMENT, *order)
        if cause != self._cause:
            self._cause, self._numbers = cause, itertools.count()

    def of_timer(self, phase: int, cause: Cause) -> None:
        """Set a timer as the cause of the following outputs; if it is the current cause, numbering continues."""
        if (phase, cause) != self._cause:
            self._cause, self._numbers = (phase, cause), itertools.count()

    def next(self) -> Order:
        """Return the order of the next output."""
        bare: Any = (*self._cause, next(self._numbers))  # calling `Order` for every pane takes measurable time
        order: Order = bare
        return order

    def end(self) -> None:
        """End the instant: if a cause occurs again, its numbering restarts."""
        self._cause = ()


# Instants -------------------------------------------------------------------------------------------------------------


def at_instant(at: At, order: Order) -> tuple[Any, ...]:
    """Return the sort key of an element among those of all instants, in the input of one stage or sink."""
    return (*at, *order)


def shard_by_order(order: Order, shards: int) -> int:
    """Return the shard of an element that has no key: the same shard whenever the element is replayed.

    Few elements that follow one another are spread evenly, which a hash of them would not do: each may stand for much
    work. What follows from the golden ratio also holds for every second one, and for every hundredth.

    Example:
        >>> sum(shard_by_order(of_row("shards", number), 2) for number in range(64))
        34
    """
    total = 0
    for part in order:
        total += part if type(part) is int else _number_of(part)
    return (total * _GOLDEN % _WHOLE) * shards // _WHOLE


def _number_of(part: Any) -> int:
    """Return a number for a part of an order: the sum of what it consists of, or a hash."""
    if type(part) is tuple:
        return sum(map(_number_of, part))
    return int(part) if isinstance(part, int | np.integer) else zlib.crc32(repr(part).encode())
