"""The total order of events: where an element stands among all others. Orders are made and read only here.

An element has an *instant* (`At`) and, within it, an `Order`. The instant is the clock's value and a step that tells
instants at one value apart. Orders compare with one another where they stand for the input of one stage:

* An element of a source stands by (origin, sequence), then by its number among what the functions behind the source
  have made of one row.
* What a stage emits stands by the *phase* of the instant in which that happened: `BEFORE` for timers that were due
  before the instant, `ELEMENT` for elements, `WATERMARK` for the watermark, `AT` for timers due at the instant itself.
  Within a phase it stands by its cause and, for one cause, by its number. The cause in the phase `ELEMENT` is an
  element, which stands as it did in the input of the stage; else it is a timer, which stands by (deadline, window end,
  window start, encoded window, encoded key). Then it stands by its number among what the functions behind the stage
  have made of it, and last by its producer's place in the stage: two nodes side by side may have the same cause. Shards
  do not occur.
* What does not belong to a stage passes it by: it stands in the phase `ELEMENT` by itself, ahead of what it has caused
  there. Outputs that were replayed, and those of a function with side inputs, stand ahead of that.

No order is the beginning of another, else the outputs of one element would come among those of another.

An order is a plain tuple, so that comparing and pickling it cost nothing more; to everyone else it is opaque. The
orders of a source's rows, and of panes, may be columns (`OrderLane`) until someone looks at one.
"""

from __future__ import annotations

import itertools
import operator
import zlib
from typing import TYPE_CHECKING, Any, Final, NewType

import numpy as np

from dataflow_model.runners.engine.lanes import array_of
from dataflow_model.runners.engine.order_lanes import OrderLane
from dataflow_model.values import encode_window

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from dataflow_model.values import Window

__all__ = [
    "AT",
    "BEFORE",
    "ELEMENT",
    "WATERMARK",
    "At",
    "Cause",
    "Emissions",
    "Order",
    "at_instant",
    "by_producer",
    "by_window",
    "event_of",
    "joined",
    "name_of_origin",
    "numbered",
    "numbered_by_cause",
    "of_release",
    "of_row",
    "of_rows",
    "of_timer",
    "of_watermark",
    "origin_of",
    "part_of_join",
    "pass_stages",
    "place_in_source",
    "relayed",
    "replayed",
    "rising",
    "shard_by_order",
    "sorting",
    "stood_in",
    "timer_cause",
]

At = tuple[int, int]
"""Where an instant stands: the clock's value, and a step that tells instants at one value apart."""
Order = NewType("Order", tuple[Any, ...])
"""Where an element stands among those of its instant, in the input of one stage."""
Cause = NewType("Cause", tuple[Any, ...])
"""Where a timer stands among those of one phase of an instant."""

BEFORE, ELEMENT, WATERMARK, AT = range(4)
"""The phases of an instant."""
_PASSED: Final = -1
"""In place of an output's number: the element itself, which passes a stage by."""
_JOINED: Final = -2
"""In place of an output's number: the outputs of a function with side inputs follow."""
_REPLAYABLE: Final = -3
"""In place of an output's number: the outputs of a function whose outputs are kept follow."""


# Sources --------------------------------------------------------------------------------------------------------------


def name_of_origin(label: str, origin: str) -> str:
    """Return the name by which an origin of a source stands among all origins.

    Example:
        >>> name_of_origin("flights", "2013.parquet")
        'flights:2013.parquet'
    """
    return f"{label}:{origin}"


def of_row(origin: str, sequence: int) -> Order:
    """Return where an element of a source stands.

    Args:
        origin: the name of its origin; the label of a source that has none.
        sequence: its number there.
    """
    return Order((origin, sequence))


def of_rows(origins: str | Iterable[str], sequences: Iterable[int]) -> list[Order]:
    """Return where elements of a source stand, all of one origin or each of its own."""
    names = itertools.repeat(origins) if isinstance(origins, str) else origins
    orders: list[Any] = list(zip(names, sequences, strict=False))
    return orders


def origin_of(order: Order) -> str:
    """Return the name of the origin of a source's element."""
    origin: str = order[0]
    return origin


def place_in_source(order: Order, label: str) -> tuple[str, int]:
    """Return the origin and the sequence of an element of a source with this label.

    Example:
        >>> place_in_source(of_row(name_of_origin("flights", "2013.parquet"), 7), "flights")
        ('2013.parquet', 7)
    """
    return order[0][len(label) + 1 :], order[1]


def numbered(order: Order, number: int) -> Order:
    """Return where an output of element-wise functions stands: by its cause, then its number.

    Example:
        >>> of_row("a", 7) < numbered(of_row("a", 7), 0) < numbered(of_row("a", 7), 1) < of_row("a", 8)
        True
    """
    bare: Any = (*order, number)  # a call of `Order` for every element can be felt
    longer: Order = bare
    return longer


def numbered_by_cause(orders: Sequence[Order], causes: Sequence[int]) -> Sequence[Order]:
    """Return where outputs of element-wise functions stand: each by its cause, numbered among those of one cause.

    Args:
        orders: where the functions' inputs stand.
        causes: of each output, the place of its input, rising.

    Example:
        >>> numbered_by_cause([of_row("a", 7), of_row("a", 8)], [0, 0, 1])
        [('a', 7, 0), ('a', 7, 1), ('a', 8, 0)]
    """
    if isinstance(orders, OrderLane):
        rows = np.arange(len(causes)) if isinstance(causes, range) else np.asarray(causes, np.int64)
        columns = orders.numbered(rows)
        if columns is not None:
            return columns
    if isinstance(causes, range):
        every: list[Any] = [(*order, 0) for order in orders]
        return every
    found: list[Any] = []
    number, last = 0, -1
    for cause in causes:
        number = number + 1 if cause == last else 0
        last = cause
        found.append((*orders[cause], number))
    return found


def sorting(orders: Sequence[Order], places: Sequence[int] | None = None) -> Sequence[int] | NDArray[np.int64] | None:
    """Return the places of orders in order; `None` where they are in order already.

    Args:
        orders: the orders.
        places: what counts before the orders.

    Example:
        >>> sorting([of_row("a", 7), of_row("b", 0)]), sorting([of_row("b", 0), of_row("a", 7)])
        (None, [1, 0])
    """
    if isinstance(orders, OrderLane):
        return orders.sorting(*([] if places is None else [array_of(places)]))
    keys: Sequence[Any] = orders if places is None else list(zip(places, orders, strict=True))
    if all(map(operator.le, keys, itertools.islice(keys, 1, None))):
        return None
    return sorted(range(len(keys)), key=keys.__getitem__)


def event_of(order: Order, stages: int) -> int:
    """Return the sequence in its source of an element that has passed some stages by.

    Example:
        >>> event_of(pass_stages([of_row("script", 7)], 2)[0], 2)
        7
    """
    number: int = order[stages + 1]
    return number


# Stages ---------------------------------------------------------------------------------------------------------------


def pass_stages(orders: Sequence[Order], stages: int) -> Sequence[Order]:
    """Return where elements stand in the input of a later stage, having passed some by.

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


def stood_in(order: Order, stages: int) -> Order:
    """Return where an element stood before it passed some stages by.

    Example:
        >>> stood_in(pass_stages([of_row("a.parquet", 7)], 2)[0], 2)
        ('a.parquet', 7)
    """
    return Order(order[stages : len(order) - stages])


def by_producer(orders: Sequence[Order], place: int) -> Sequence[Order]:
    """Return where elements stand that come from one of the nodes of a stage: as before, then by the node.

    Two nodes of a stage that are fed by the same elements, or have timers for the same windows and keys, emit under
    equal causes. The node decides after everything else, so what they emit for one cause alternates by number.

    Args:
        orders: where they stand among what the node alone has emitted, the functions behind it included.
        place: the node's place in its stage, in the plan's order.

    Example:
        >>> outputs = [numbered(relayed([of_row("a", 7)])[0], number) for number in range(2)]
        >>> [*by_producer(outputs, 0), *by_producer(outputs, 1)]
        [(1, 'a', 7, 0, 0, 0), (1, 'a', 7, 0, 1, 0), (1, 'a', 7, 0, 0, 1), (1, 'a', 7, 0, 1, 1)]
    """
    if isinstance(orders, OrderLane):
        return orders.between((), (place,))
    placed: list[Any] = [(*order, place) for order in orders]
    return placed


def relayed(orders: Sequence[Order]) -> Sequence[Order]:
    """Return where the elements stand of which a stage emits each once, as it is."""
    if isinstance(orders, OrderLane):
        return orders.between((ELEMENT,), (0,))
    again: list[Any] = [(ELEMENT, *order, 0) for order in orders]
    return again


def replayed(order: Order, place: int, number: int) -> Order:
    """Return where an output of a function whose outputs are kept stands.

    Args:
        order: the element's.
        place: the function's in the plan.
        number: the output's.
    """
    return Order((ELEMENT, *order, _REPLAYABLE, place, number))


def joined(order: Order, window: int) -> Order:
    """Return where an element stands, in one of its windows, that a function with side inputs is about to see."""
    return Order((ELEMENT, *order, _JOINED, window))


def of_release(produced: int, instant: int, order: Order, window: int) -> Order:
    """Return the same for an element that has waited for a side input: behind what did not have to wait.

    Args:
        produced: the clock when it was produced.
        instant: the number of the instant at which it arrived.
        order: where it stood there.
        window: the number of the window among its windows.
    """
    # As a timer's, with an empty key: what comes behind a key is never compared with another timer's.
    return Order((WATERMARK, (produced, instant, 0, b"", b"", order), window))


def part_of_join(order: Order, output: int) -> Order:
    """Return where an output of a function with side inputs stands, which has several outputs for one element.

    Args:
        order: the output's, as `Fragment` has numbered it.
        output: the number of the output to which it went.
    """
    return Order((*order[:-1], output, order[-1]))


def rising(orders: Sequence[Order]) -> list[Order]:
    """Return orders that rise from one element to the next, for elements that go by another order than the total one.

    Example:
        >>> rising([of_row("a", 1), of_row("b", 0), of_row("a", 2)])
        [('a', 1, 0), ('b', 0, 1), ('b', 0, 2)]
    """
    return [Order((*top, rank)) for rank, top in enumerate(itertools.accumulate(orders, max))]


# Causes ---------------------------------------------------------------------------------------------------------------


def by_window(window: Window) -> tuple[int, int, bytes]:
    """Return where a window stands among windows: by end, then start, then all that tells it apart."""
    return int(window.end), int(window.start), encode_window(window)


def of_timer(deadline: int, window: Window, key: bytes) -> Cause:
    """Return where a timer stands among those of its phase.

    Args:
        deadline: when it was due.
        window: its window.
        key: the encoded key.
    """
    return timer_cause(deadline, by_window(window), key)


def timer_cause(deadline: int, window: tuple[int, int, bytes], key: bytes) -> Cause:
    """Return the same where the place of the window among windows is known, as `by_window` gives it."""
    return Cause((deadline, *window, key))


def of_watermark(end: int, start: int, key: bytes) -> Order:
    """Return where the one pane of an interval stands that the watermark fires as it passes the end."""
    return Order((WATERMARK, (end, end, start, b"", key), 0))


class Emissions:
    """Says where each thing stands that a keyed node emits.

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
        """Let an element be the cause of what follows; the same cause as before goes on counting."""
        cause = (ELEMENT, *order)
        if cause != self._cause:
            self._cause, self._numbers = cause, itertools.count()

    def of_timer(self, phase: int, cause: Cause) -> None:
        """Let a timer be the cause of what follows; the same cause as before goes on counting."""
        if (phase, cause) != self._cause:
            self._cause, self._numbers = (phase, cause), itertools.count()

    def next(self) -> Order:
        """Return where the next thing emitted stands."""
        bare: Any = (*self._cause, next(self._numbers))  # a call of `Order` for every pane can be felt
        order: Order = bare
        return order

    def end(self) -> None:
        """End the instant: causes that come again are new ones."""
        self._cause = ()


# Instants -------------------------------------------------------------------------------------------------------------


def at_instant(at: At, order: Order) -> tuple[Any, ...]:
    """Return where an element stands among those of all instants, in the input of one stage or sink."""
    return (*at, *order)


def shard_by_order(order: Order, shards: int) -> int:
    """Return the shard of an element that belongs to none by its value: the same one whenever it comes again."""
    return zlib.crc32(repr(order).encode()) % shards
