"""Joins: combine the elements of two collections by key, and by window or by distance in event time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, Never, overload

import attrs

from dataflow_model.arguments import EXTRA, calls_explained, factory
from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.columns.rows import field_getter
from dataflow_model.plan.functions.interval_joins import CorrectedJoinWithin, Firing, JoinWithin
from dataflow_model.plan.functions.typevars import KeyT, TypeVar, ValueT
from dataflow_model.plan.logical.refinements import may_refine
from dataflow_model.plan.names.spellings import with_spellings
from dataflow_model.time import duration_text
from dataflow_model.transforms.elementwise.dropped import restored
from dataflow_model.transforms.elementwise.maps import FlatMap, Map
from dataflow_model.transforms.elementwise.pardo import ParDo
from dataflow_model.transforms.elementwise.reshaping import Flatten
from dataflow_model.transforms.elementwise.timestamps import WithTimestamps
from dataflow_model.transforms.joining.as_of_joins import AsOf, CorrectedJoinAsOf, JoinAsOf
from dataflow_model.transforms.joining.cogroup import CoGroupByKey
from dataflow_model.transforms.joining.firings import firing_alone, firing_as_of
from dataflow_model.transforms.joining.interval_joins import Partners, distance_of
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.transforms.pipelines.inputs import common_strategy
from dataflow_model.transforms.pipelines.output_tags import check_dropped
from dataflow_model.transforms.pipelines.pcollection import PCollection
from dataflow_model.transforms.pipelines.ptransform import PTransform
from dataflow_model.transforms.pipelines.windows import Window
from dataflow_model.values import as_pair
from dataflow_model.windowing import GlobalWindows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dataflow_model.plan.functions.dofn import DoFn
    from dataflow_model.plan.functions.interval_joins import Distance
    from dataflow_model.plan.logical.dropped import Dropped
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.time import Duration, DurationLike, InstantLike
    from dataflow_model.transforms.joining.as_of_joins import Direction
    from dataflow_model.triggers import Trigger

NoLeftT = TypeVar("NoLeftT", default=Any)
NoRightT = TypeVar("NoRightT", default=Any)
RightT = TypeVar("RightT", default=Any)
_TWO: Final = 2
_Grouped = tuple[Any, tuple[list[Any], list[Any]]]


_HINTS: Final = {
    EXTRA: "put both sides left of it: (left, right) | dm.Join.inner()",
    **dict.fromkeys(("on", "by", "keys"), "make pairs of both sides first: … | dm.WithKeys({value})"),
    **dict.fromkeys(("how", "type"), "write dm.Join.inner(), dm.Join.left(), dm.Join.right() or dm.Join.full()"),
}
_AS_OF_HINTS: Final = {
    EXTRA: "put both sides left of it: (left, right) | dm.Join.as_of()",
    **dict.fromkeys(("on", "left_on", "right_on", "keys"), "make pairs of both sides: … | dm.WithKeys({value})"),
    **dict.fromkeys(("how", "type"), "write dm.Join.as_of() or dm.Join.left_as_of()"),
    **dict.fromkeys(("strategy",), "write direction={value}"),
    **dict.fromkeys(("tolerance",), "write within={value}"),
}


@calls_explained(_HINTS)
@with_spellings
class Join(PTransform, Generic[NoLeftT, NoRightT]):
    """Join two collections of pairs within each key and window: `(left, right) | Join()`.

    The output is a pair of the key and a pair of values, for each combination of values of the two sides. If a left or
    full join finds no partner for a value, the missing value is `None`. A pane contains the combinations of the
    elements in that pane, so late elements that reopen their window (`late_data="duplicate_window"`) find only each
    other, and a left or full join finds no partner for them. With an accumulating strategy, later panes therefore
    repeat the combinations of earlier panes. With a retracting strategy, they retract the earlier combinations first: a
    left join that has emitted `(key, (click, None))` retracts it when the partner arrives. All combinations of one key
    and window are in memory at the same time.

    Both sides must have the same window function. They keep their elements until the window expires.

    With `within`, windows are ignored: partners are elements with the same key whose event times differ by at most
    `within`. With `between=("0 s", "15 minutes")`, the right element must be 0 seconds to 15 minutes later than the
    left one; a negative duration allows it to be earlier. A combination is emitted in the global window as soon as both
    partners have arrived, at the later one's event time. An element that a left or full join emits without a partner
    keeps its own event time, and is emitted when no partner can arrive anymore. An element waits for partners until the
    watermark has passed the last event time that a partner can have by the greater allowed lateness of the two sides.
    Elements that are later than this lateness are dropped, and counted as `dropped_because_late`. Elements without
    event times, at −∞, are no time apart.

    With `within` or `between`, the sides' trigger and mode decide when an element is emitted without a partner. In a
    mode that does not retract, that is when no partner can arrive anymore. With `.accumulating_and_retracting()` it is
    when the watermark has passed the last event time of a partner, and with `.trigger(dm.Always())` in addition it is
    at once. If a partner arrives after all, it is retracted.

    `Join.inner`, `Join.left`, `Join.right` and `Join.full` take the same arguments; `Join()` is the same as
    `Join.inner()`. `Join.as_of` pairs a left element with one row of the right side: the last one before it.

    Args:
        within: how far apart the event times of partners may be; `None` joins by window.
        between: instead of `within`, how much later than the left partner the right one must be at least, and may be at
            most.

    Raises:
        InvalidType: for an input that is not a tuple of two collections, or a collection whose elements are known not
            to be pairs; by `inner`, `left`, `right` and `full` if they are called on an instance.
        PlanError: by `run()`, for `within` after a grouping that emits retractions.
        InvalidArgument: for a discarding strategy whose windows may have several panes, because partners in different
            panes would not be joined; for sides that are windowed differently; for a left, right or full join with
            `within`, if the sides' trigger fires early but not at each element, or without retractions; for a negative
            `within`, for `between` with the greater duration first, and for both of them.

    Source: the papers' windowed join; Scio's `join`, `leftOuterJoin` and `fullOuterJoin`, Beam Java's `Join`; with
        `within`, Flink's interval join.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     queries = p | "queries" >> dm.Create([("q1", "shoes"), ("q2", "hats")])
        ...     clicks = p | "clicks" >> dm.Create([("q1", "ad 7")])
        ...     _ = (queries, clicks) | dm.Join.left() | dm.io.Collect()
        >>> sorted(record.value for record in p.result.collected("Collect"))
        [('q1', ('shoes', 'ad 7')), ('q2', ('hats', None))]
        >>> shown = [dm.TimestampedValue(("ad 7", "Ann"), 0), dm.TimestampedValue(("ad 7", "Bob"), 250)]
        >>> with dm.Pipeline() as p:
        ...     views = p | "views" >> dm.Create(shown)
        ...     clicks = p | "clicks" >> dm.Create([dm.TimestampedValue(("ad 7", "click"), 400)])
        ...     _ = (views, clicks) | dm.Join(within="5 minutes") | dm.io.Collect()
        >>> [record.value for record in p.result.collected("Collect")]
        [('ad 7', ('Bob', 'click'))]
    """

    input_kind = "collections"
    _keeps_left = False
    _keeps_right = False
    _name = "Join"
    _match: Distance | AsOf | None
    _by: str | Callable[[Any], InstantLike] | None = None
    _dropped: str | None = None

    if TYPE_CHECKING:

        @overload  # type: ignore[override] # it joins two collections of pairs, and takes nothing else
        def __ror__(
            self, several: tuple[PCollection[tuple[KeyT, ValueT]], PCollection[tuple[KeyT, RightT]]], /
        ) -> PCollection[tuple[KeyT, tuple[ValueT | NoLeftT, RightT | NoRightT]]]: ...

        @overload
        def __ror__(
            self, several: Sequence[PCollection[tuple[KeyT, ValueT]]], /
        ) -> PCollection[tuple[KeyT, tuple[ValueT | NoLeftT, ValueT | NoRightT]]]: ...

        def __ror__(self, several: Any, /) -> Any: ...

    def __init__(
        self: Join[Never, Never],
        *,
        within: DurationLike | None = None,
        between: tuple[DurationLike, DurationLike] | None = None,
    ) -> None:
        self._match = distance_of(within, between)

    @factory
    @calls_explained(_HINTS, name="Join.inner")
    def inner(
        cls, *, within: DurationLike | None = None, between: tuple[DurationLike, DurationLike] | None = None
    ) -> Join[Never, Never]:
        """Return a join that emits a combination for each pair of partners, and nothing for a value without a partner.

        Example:
            >>> import dataflow_model as dm
            >>> p = dm.Pipeline()
            >>> clicks, queries = p | "c" >> dm.Create([("q", 1)]), p | "q" >> dm.Create([("q", "shoes")])
            >>> ((clicks, queries) | dm.Join.inner()).element_type
            tuple[str, tuple[int, str]]
        """
        joined: Join[Never, Never] = _joined(cls, "Join.Inner", within, between)
        return joined

    @factory
    @calls_explained(_HINTS, name="Join.left")
    def left(
        cls, *, within: DurationLike | None = None, between: tuple[DurationLike, DurationLike] | None = None
    ) -> Join[Never, None]:
        """Return a join that also emits `(key, (left, None))` for a left value without a partner.

        Example:
            >>> import dataflow_model as dm
            >>> p = dm.Pipeline()
            >>> clicks, queries = p | "c" >> dm.Create([("q", 1)]), p | "q" >> dm.Create([("q", "shoes")])
            >>> ((clicks, queries) | dm.Join.left()).element_type == tuple[str, tuple[int, str | None]]
            True
        """
        joined: Join[Never, None] = _joined(cls, "Join.Left", within, between, _keeps_left=True)
        return joined

    @factory
    @calls_explained(_HINTS, name="Join.right")
    def right(
        cls, *, within: DurationLike | None = None, between: tuple[DurationLike, DurationLike] | None = None
    ) -> Join[None, Never]:
        """Return a join that also emits `(key, (None, right))` for a right value without a partner.

        Example:
            >>> import dataflow_model as dm
            >>> p = dm.Pipeline()
            >>> clicks, queries = p | "c" >> dm.Create([("q", 1)]), p | "q" >> dm.Create([("q", "shoes")])
            >>> ((clicks, queries) | dm.Join.right()).element_type == tuple[str, tuple[int | None, str]]
            True
        """
        joined: Join[None, Never] = _joined(cls, "Join.Right", within, between, _keeps_right=True)
        return joined

    @factory
    @calls_explained(_HINTS, name="Join.full")
    def full(
        cls, *, within: DurationLike | None = None, between: tuple[DurationLike, DurationLike] | None = None
    ) -> Join[None, None]:
        """Return a join that emits every value of both sides at least once, with `None` for a missing partner.

        Example:
            >>> import dataflow_model as dm
            >>> p = dm.Pipeline()
            >>> clicks, queries = p | "c" >> dm.Create([("q", 1)]), p | "q" >> dm.Create([("q", "shoes")])
            >>> ((clicks, queries) | dm.Join.full()).element_type == tuple[str, tuple[int | None, str | None]]
            True
        """
        joined: Join[None, None] = _joined(cls, "Join.Full", within, between, _keeps_left=True, _keeps_right=True)
        return joined

    @factory
    @calls_explained(_AS_OF_HINTS, name="Join.as_of")
    def as_of(
        cls,
        *,
        by: str | Callable[[Any], InstantLike] | None = None,
        within: DurationLike | None = None,
        direction: Direction = "backward",
    ) -> Join[Never, Never]:
        """Return a join of each left value with the row of the right side that holds at its event time.

        By default that is the last row of the same key at or before the left value: the price at the time of an order.
        Each left value is in at most one pair; a left value without a row is not emitted. Of rows with equal times only
        the last one to arrive counts, which corrects the ones before it.

        The join waits until no other row can belong to a left value: until the watermark has passed it (or, for a
        later row, has passed that row) by the greater allowed lateness of the two sides. With
        `.accumulating_and_retracting()` on the left side it waits only for the watermark, and retracts and replaces a
        pair if a late row belongs to it. With `.trigger(dm.Always())` in addition it does not wait at all.

        The watermark is that of both sides, so a right side that is silent for long holds the left values back. Read it
        with `watermark=dm.WallTime("1 minute")`, which advances without rows, or with `idle_after` if only some of its
        partitions are silent.

        A pair has the event time of the later of its two elements, in the global window. Elements later than the
        allowed lateness are dropped, and counted as `dropped_because_late`. A row is kept until no left value to which
        it belongs can arrive anymore. Without `within` the last row of each key is therefore kept until the input ends.

        Args:
            by: the time from which a row holds: a field of the right values, or a function of a right value. It becomes
                the row's event time, and may be later than that, but not earlier: for earlier times, use
                `WithTimestamps` with a `late_data_horizon` on the right side. By default it is the row's event time.
            within: how far a row may be from a left value; `None` for any distance.
            direction: `"backward"` for the last row at or before a left value, `"forward"` for the first one at or
                after it, `"nearest"` for the one that is closest, and the earlier one of two that are equally close.

        Raises:
            InvalidArgument: for another direction, a negative `within`, and when it is applied for a trigger of a side
                that fires early but not at each element, or without retractions, and for sides that do not agree.
            InvalidType: for `by` that is neither a name nor a function.
            PlanError: by `run()`, behind a grouping that emits retractions.

        Source: Flink's event-time temporal join; `merge_asof` of pandas, `join_asof` of Polars.

        Example:
            >>> import dataflow_model as dm
            >>> prices = [dm.TimestampedValue(("pen", 2.0), 0), dm.TimestampedValue(("pen", 2.5), 60)]
            >>> orders = [dm.TimestampedValue(("pen", "Ann"), 50), dm.TimestampedValue(("pen", "Bob"), 70)]
            >>> with dm.Pipeline() as p:
            ...     sides = p | "orders" >> dm.Create(orders), p | "prices" >> dm.Create(prices)
            ...     _ = sides | dm.Join.as_of() | dm.io.Collect()
            >>> [record.value for record in p.result.collected("Collect")]
            [('pen', ('Ann', 2.0)), ('pen', ('Bob', 2.5))]
        """
        joined: Join[Never, Never] = _joined_as_of(cls, "Join.AsOf", by, AsOf.of(direction, within))
        return joined

    @factory
    @calls_explained(_AS_OF_HINTS, name="Join.left_as_of")
    def left_as_of(
        cls,
        *,
        by: str | Callable[[Any], InstantLike] | None = None,
        within: DurationLike | None = None,
        direction: Direction = "backward",
    ) -> Join[Never, None]:
        """Return the same join as `Join.as_of`, which also emits `(key, (left, None))` for a left value without a row.

        Example:
            >>> import dataflow_model as dm
            >>> orders = [dm.TimestampedValue(("pen", "Ann"), 50), dm.TimestampedValue(("ink", "Bob"), 70)]
            >>> with dm.Pipeline() as p:
            ...     prices = p | "prices" >> dm.Create([dm.TimestampedValue(("pen", 2.0), 0)])
            ...     _ = (p | "orders" >> dm.Create(orders), prices) | dm.Join.left_as_of() | dm.io.Collect()
            >>> sorted(record.value for record in p.result.collected("Collect"))
            [('ink', ('Bob', None)), ('pen', ('Ann', 2.0))]
        """
        joined: Join[Never, None] = _joined_as_of(cls, "Join.LeftAsOf", by, AsOf.of(direction, within), keeps_left=True)
        return joined

    @calls_explained(
        otherwise="it takes only the tag of the dropped elements, and returns a pair: the results, and what was dropped"
    )
    def with_dropped_output(self, tag: str = "dropped") -> PTransform[Any, tuple[PCollection, PCollection[Dropped]]]:
        """Send elements that are dropped to a separate output, as `Dropped` records.

        Applying the join then returns a pair: the combinations, and the records, whose `input` is `"left"` or
        `"right"`. See `CombinePerKey.with_dropped_output`. With `within` or `between`, an element is dropped if it is
        later than the allowed lateness, and its window is the global window.

        Args:
            tag: the tag of the output.

        Raises:
            InvalidArgument: for the tag of the main output.
            InvalidType: for a tag that is not text.
        """
        check_dropped(tag)
        changed: Any = self._but(_dropped=tag)
        joined: PTransform[Any, tuple[PCollection, PCollection[Dropped]]] = changed
        return joined

    def default_label(self) -> str:
        """Return the name of the method that created the join."""
        return self._name

    def __repr__(self) -> str:
        match = "" if self._match is None else f", {self._match!r}"
        return f"<Join {self.label!r}{match}>"

    def expand(self, pcoll: Any, /) -> Any:
        """Group both sides by key, and combine within each group."""
        sides = [] if isinstance(pcoll, dict) else list(pcoll)
        if len(sides) != _TWO or not all(isinstance(side, PCollection) for side in sides):
            raise InvalidType(
                f"{self.label!r} joins two collections, got {pcoll!r}",
                hint="pass a tuple: (left, right) | dm.Join.inner(); dm.CoGroupByKey() takes more than two",
            )
        left, right = sides
        typehints.check_common_keys([left.element_type, right.element_type], left.pipeline.scope)
        output = self._output(left.element_type, right.element_type)
        if self._match is not None:
            return self._by_time(left, right, output)
        _check_panes(common_strategy(sides, left.pipeline.scope), left.pipeline.scope)
        combine = _Combinations(keeps_left=self._keeps_left, keeps_right=self._keeps_right)
        combinations = FlatMap(combine).with_output_types(output)
        if self._dropped is None:
            return (left, right) | CoGroupByKey() | combinations
        grouped, records = (left, right) | CoGroupByKey().with_dropped_output(self._dropped)
        return grouped | combinations, restored(records, _by_side)

    def _by_time(self, left: PCollection, right: PCollection, output: Any) -> Any:
        """Flatten both sides, and join them in the state of each key."""
        if self._by is not None:
            right = right | "valid from" >> WithTimestamps(_ValidFrom(self._by))
        lateness = max(left.strategy.allowed_lateness, right.strategy.allowed_lateness)
        fn, trigger = self._function(left, right, lateness)
        windows = Window.into(GlobalWindows())
        if fn.retracts:  # groupings behind it are corrected under the same trigger, and for as long
            windows = windows.trigger(trigger).accumulating_and_retracting().allowed_lateness(lateness)
        sides = []
        for name, member, marked in (("left", left, _on_left), ("right", right, _on_right)):
            typehints.check_pairs(member.element_type, f"{member.pipeline.scope}/{name}")
            everywhere = member | f"{name} windows" >> windows
            sides.append(everywhere | name >> Map(marked).with_output_types(tuple[Any, Any]))
        together = tuple(sides) | "together" >> Flatten()
        if isinstance(fn, JoinWithin):
            joined = together | "partners" >> Partners(fn, output, self._dropped)
            return joined if self._dropped is None else (joined[0], restored(joined[1], _without_side))
        partners = ParDo(fn).with_output_types(output)
        if self._dropped is None:
            return together | "partners" >> partners
        joined, records = together | "partners" >> partners.with_dropped_output(self._dropped)
        return joined, restored(records, _without_side)

    def _function(self, left: PCollection, right: PCollection, lateness: Duration) -> tuple[DoFn, Trigger]:
        """Return the function that joins by event time, and the trigger under which its outputs are corrected."""
        scope, length = left.pipeline.scope, int(lateness)
        if isinstance(self._match, AsOf):
            firing = firing_as_of(left.strategy, right.strategy, lateness, scope)
            wait = {Firing.AT_ONCE: None, Firing.ON_TIME: 0, Firing.FINAL: length}[firing]
            kind = JoinAsOf if firing is Firing.FINAL else CorrectedJoinAsOf
            return kind(self._match, length, keeps_left=self._keeps_left, wait=wait), left.strategy.trigger
        distance: Any = self._match
        keeps = self._keeps_left, self._keeps_right
        kept = [side.strategy for side, keeps_it in zip((left, right), keeps, strict=True) if keeps_it]
        firing = firing_alone(kept, lateness, scope)
        if firing is Firing.FINAL:
            return JoinWithin(distance, length, keeps), left.strategy.trigger
        fn = CorrectedJoinWithin(distance, length, keeps, firing)
        return fn, kept[0].trigger

    def _output(self, left: Any, right: Any) -> Any:
        key, left_value = typehints.pair_types(left)
        other_key, right_value = typehints.pair_types(right)
        if self._keeps_right:
            left_value = _or_none(left_value)
        if self._keeps_left:
            right_value = _or_none(right_value)
        return typehints.tuple_of(typehints.either([key, other_key]), typehints.tuple_of(left_value, right_value))


def _joined(
    cls: Any, name: str, within: DurationLike | None, between: tuple[DurationLike, DurationLike] | None, **keeps: bool
) -> Any:
    join = cls(within=within, between=between)
    return join._but(_name=name, **keeps)


_BY: Final = (
    "pass by= the name of a field of the right values, such as by='valid_from', or a function of a right value, as in "
    "by=lambda value: value[0]; leave it out if rows hold from their event times on"
)


def _joined_as_of(cls: Any, name: str, by: Any, as_of: AsOf, *, keeps_left: bool = False) -> Any:
    if by is not None and not isinstance(by, str) and not callable(by):
        raise InvalidType(
            f"`by` must be the name of a field or a function, got {by!r}",
            hint=_BY,
        )
    join = cls()
    return join._but(_name=name, _keeps_left=keeps_left, _match=as_of, _by=by)


class _ValidFrom:
    """Returns the time from which a row holds: a field of the value of a pair, or what a function of it returns."""

    def __init__(self, by: str | Callable[[Any], InstantLike]) -> None:
        self.by = by

    def __call__(self, pair: tuple[Any, Any]) -> InstantLike:
        _, value = as_pair(pair, "Join.as_of")
        time: InstantLike = field_getter(self.by, _BY)(value) if isinstance(self.by, str) else self.by(value)
        return time


def _on_left(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    """Mark the value of a pair as one of the left side."""
    key, value = pair if type(pair) is tuple and len(pair) == _TWO else as_pair(pair, "Join")
    return key, (False, value)


def _on_right(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    """Mark the value of a pair as one of the right side."""
    key, value = pair if type(pair) is tuple and len(pair) == _TWO else as_pair(pair, "Join")
    return key, (True, value)


_SIDES: Final = ("left", "right")


def _by_side(record: Dropped) -> Dropped:
    return attrs.evolve(record, input=_SIDES[record.input == 1])


def _without_side(record: Dropped) -> Dropped:
    key, (is_right, value) = record.element
    return attrs.evolve(record, element=(key, value), input=_SIDES[is_right])


class _Combinations:
    """Returns all combinations of a left and a right value of one group."""

    __name__ = "combinations"

    def __init__(self, *, keeps_left: bool, keeps_right: bool) -> None:
        self.keeps_left = keeps_left
        self.keeps_right = keeps_right

    def __call__(self, grouped: _Grouped) -> Iterator[tuple[Any, tuple[Any, Any]]]:
        key, (lefts, rights) = grouped
        if not lefts and not rights:  # a pane with nothing in it
            return
        lefts = lefts or ([None] if self.keeps_right else [])
        rights = rights or ([None] if self.keeps_left else [])
        for left in lefts:
            for right in rights:
                yield key, (left, right)


def _or_none(hint: Any) -> Any:
    return Any if hint is Any else typehints.either([hint, None])


def _check_panes(strategy: WindowingStrategy, label: str) -> None:
    """Raise `InvalidArgument` if partners may be in different discarding panes, so that no pane contains both."""
    if not strategy.accumulates and may_refine(strategy):
        raise InvalidArgument(
            f"{label!r} joins only elements of the same pane, and under a discarding strategy with "
            f"{strategy.trigger!r} and an allowed lateness of {duration_text(strategy.allowed_lateness)} a window "
            "may have several panes, so that partners in different panes would never be joined",
            hint="use .accumulating_and_retracting(), or .accumulating() if combinations may be repeated",
        )
