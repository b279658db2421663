"""Joins: combine the elements of two collections by key, and by window or by distance in event time."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final, Generic, Never, overload

import attrs

from dataflow_model.arguments import EXTRA, calls_explained, factory
from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.functions.typevars import KeyT, TypeVar, ValueT
from dataflow_model.plan.logical.refinements import may_refine
from dataflow_model.plan.names.spellings import with_spellings
from dataflow_model.time import Duration, duration_text
from dataflow_model.transforms.elementwise.dropped import restored
from dataflow_model.transforms.elementwise.maps import FlatMap, Map
from dataflow_model.transforms.elementwise.pardo import ParDo
from dataflow_model.transforms.elementwise.reshaping import Flatten
from dataflow_model.transforms.joining.cogroup import CoGroupByKey
from dataflow_model.transforms.joining.interval_joins import CorrectedJoinWithin, Distance, JoinWithin
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.transforms.pipelines.inputs import common_strategy
from dataflow_model.transforms.pipelines.output_tags import check_dropped
from dataflow_model.transforms.pipelines.pcollection import PCollection
from dataflow_model.transforms.pipelines.ptransform import PTransform
from dataflow_model.transforms.pipelines.windows import Window
from dataflow_model.triggers import AfterCount, AfterWatermark, Always, DefaultTrigger, Repeatedly
from dataflow_model.values import as_pair
from dataflow_model.windowing import GlobalWindows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dataflow_model.plan.logical.dropped import Dropped
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.time import DurationLike
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
    `Join.inner()`.

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
        self._distance = Distance.of(within, between)

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
        distance = "" if self._distance is None else f", {self._distance!r}"
        return f"<Join {self.label!r}{distance}>"

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
        if self._distance is not None:
            return self._by_distance(left, right, self._distance, output)
        _check_panes(common_strategy(sides, left.pipeline.scope), left.pipeline.scope)
        combine = _Combinations(keeps_left=self._keeps_left, keeps_right=self._keeps_right)
        combinations = FlatMap(combine).with_output_types(output)
        if self._dropped is None:
            return (left, right) | CoGroupByKey() | combinations
        grouped, records = (left, right) | CoGroupByKey().with_dropped_output(self._dropped)
        return grouped | combinations, restored(records, _by_side)

    def _by_distance(self, left: PCollection, right: PCollection, distance: Distance, output: Any) -> Any:
        """Flatten both sides, and join them in the state of each key."""
        lateness = max(left.strategy.allowed_lateness, right.strategy.allowed_lateness)
        keeps = self._keeps_left, self._keeps_right
        kept = [side.strategy for side, keeps_it in zip((left, right), keeps, strict=True) if keeps_it]
        firing = _firing_alone(kept, lateness, left.pipeline.scope)
        windows = Window.into(GlobalWindows())
        fn = JoinWithin(distance, int(lateness), keeps)
        if firing is not _Firing.FINAL:  # groupings behind it are corrected under the same trigger, and for as long
            windows = windows.trigger(kept[0].trigger).accumulating_and_retracting().allowed_lateness(lateness)
            fn = CorrectedJoinWithin(distance, int(lateness), keeps, at_once=firing is _Firing.AT_ONCE)
        sides = []
        for name, member, is_right in (("left", left, False), ("right", right, True)):
            typehints.check_pairs(member.element_type, f"{member.pipeline.scope}/{name}")
            everywhere = member | f"{name} windows" >> windows
            sides.append(everywhere | name >> Map(_Side(is_right=is_right)).with_output_types(tuple[Any, Any]))
        together = tuple(sides) | "together" >> Flatten()
        partners = ParDo(fn).with_output_types(output)
        if self._dropped is None:
            return together | "partners" >> partners
        joined, records = together | "partners" >> partners.with_dropped_output(self._dropped)
        return joined, restored(records, _without_side)

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


class _Side:
    """Marks the value of a pair with its side."""

    def __init__(self, *, is_right: bool) -> None:
        self.is_right = is_right

    def __call__(self, pair: tuple[Any, Any]) -> tuple[Any, tuple[bool, Any]]:
        key, value = as_pair(pair, "Join")
        return key, (self.is_right, value)


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


class _Firing(enum.Enum):
    """When an element is emitted without a partner."""

    AT_ONCE = "at once"
    ON_TIME = "on time"
    FINAL = "final"


def _firing_alone(kept: Sequence[WindowingStrategy], lateness: Duration, label: str) -> _Firing:
    """Return when elements without a partner are emitted.

    Args:
        kept: the strategies of the sides that keep their elements.
        lateness: how late an element may be.
        label: the join, for errors.

    Raises:
        InvalidArgument: for a trigger that fires early but not at each element, or whose panes are not taken back, and
            for sides that do not agree.
    """
    firings = [_firing_of_side(strategy, lateness, label) for strategy in kept]
    if len(set(firings)) > 1:
        raise InvalidArgument(
            f"{label!r} emits elements of its left side without a partner {firings[0].value}, and those of its right "
            f"side {firings[1].value}: it takes back the elements of both sides or of none",
            hint="use the same trigger and mode on both sides",
        )
    return firings[0] if firings else _Firing.FINAL


def _firing_of_side(strategy: WindowingStrategy, lateness: Duration, label: str) -> _Firing:
    trigger = strategy.trigger
    is_early = trigger.may_fire(allowed_lateness=Duration(0))
    if not strategy.retracting:
        if not is_early:
            return _Firing.FINAL
        raise InvalidArgument(
            f"under {trigger!r}, {label!r} would emit an element before its partner, and could not take that back: its "
            "sides do not retract",
            hint="use .accumulating_and_retracting() on both sides, or dm.Window.trigger(dm.AfterWatermark()) so that "
            "an element is emitted without a partner only when none can arrive",
        )
    if is_early and _fires_at_each(trigger):
        return _Firing.AT_ONCE
    if not is_early and _fires_on_time(trigger):
        return _Firing.ON_TIME if lateness > Duration(0) else _Firing.FINAL
    raise InvalidArgument(
        f"{label!r} emits an element without a partner at once, on time, or when it is final, but its sides are "
        f"triggered by {trigger!r}",
        hint="use dm.Window.trigger(dm.Always()) or dm.Window.trigger(dm.DefaultTrigger()) on both sides",
    )


def _fires_at_each(trigger: Trigger | None) -> bool:
    """Return whether a trigger fires at each element."""
    match trigger:
        case Always() | AfterCount(n=1):
            return True
        case Repeatedly():
            return _fires_at_each(trigger.trigger)
        case AfterWatermark():
            return _fires_at_each(trigger.early) and (trigger.late is None or _fires_at_each(trigger.late))
        case _:
            return False


def _fires_on_time(trigger: Trigger) -> bool:
    """Return whether a trigger fires when the watermark passes the end of a window, and at each late element."""
    match trigger:
        case DefaultTrigger():
            return True
        case AfterWatermark():
            waits_for_all = trigger.percentile == AfterWatermark().percentile
            return waits_for_all and trigger.early is None and (trigger.late is None or _fires_at_each(trigger.late))
        case _:
            return False


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
