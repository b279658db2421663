"""Window: where, when and how, as a chain on one value."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

import attrs

from dataflow_model.arguments import calls_explained, nonnegative_duration
from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.functions.parameters import check_method
from dataflow_model.plan.logical import nodes
from dataflow_model.plan.logical.strategy import (
    DEFAULT_STRATEGY,
    AccumulationMode,
    ClosingBehavior,
    LateData,
    OnTimeBehavior,
    TimestampCombiner,
    WindowingStrategy,
)
from dataflow_model.plan.names.spellings import with_spellings
from dataflow_model.time import Duration, DurationLike, duration_text
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.transforms.pipelines.foreign import converters, is_of_beam
from dataflow_model.transforms.pipelines.options import as_option
from dataflow_model.transforms.pipelines.ptransform import PTransform
from dataflow_model.triggers import AfterCount, AfterProcessingTime, AfterWatermark, Trigger
from dataflow_model.windowing import WindowFn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.plan.functions.typevars import ElementT
    from dataflow_model.transforms.pipelines.pcollection import PCollection

Mode: TypeAlias = Literal[
    "discarding", "accumulating", "clear_always", "clear_by_default", "accumulate_by_default", "accumulate_always"
]
_MODES: Final = ("discarding", "accumulating", "clear_by_default", "accumulate_by_default")
_HOW: Final[Mapping[Any, str]] = {
    (AccumulationMode.CLEAR_ALWAYS, False): "discarding()",
    (AccumulationMode.ACCUMULATE_ALWAYS, False): "accumulating()",
    (AccumulationMode.ACCUMULATE_ALWAYS, True): "accumulating_and_retracting()",
}


@with_spellings
@calls_explained({"windowfn": "pass the window function first: dm.WindowInto(dm.FixedWindows('1 hour'))"})
class WindowInto(PTransform):
    """Set where, when and how the following groupings work.

    `WindowInto(fn)` is the same as `Window.into(fn)`, and its arguments have the same names as the methods of the
    chain. `Window.trigger(…)` changes only the when and how. Each method returns a changed copy. If a method is called
    twice, the last call counts; the order of different methods does not matter, because the parts are checked against
    each other only when the chain is applied or its `strategy` is read. Parts that are not set have their defaults
    after `Window.into`, and are those of the input's strategy after `Window.trigger`.

    Args:
        where: a window function; or a whole `WindowingStrategy`.
        trigger, allowed_lateness, timestamp_combiner: as in the methods of these names.
        accumulation_mode: as in `accumulation`; `AccumulationMode.DISCARDING` and `ACCUMULATING` are Beam's names.

    Raises:
        InvalidType: if `where` is not a window function, or `trigger` is not a trigger.
        InvalidArgument: for a negative lateness, an unknown mode, or a window function of your own whose methods cannot
            be called as the engine calls them, or whose `merge` would never be called.

    Source: Beam's `WindowInto`, which requires a mode with every trigger; here the default is discarding. The papers'
        AssignWindows.

    Example:
        >>> import dataflow_model as dm
        >>> each_hour = dm.WindowInto(
        ...     dm.FixedWindows("1 hour"),
        ...     trigger=dm.AfterWatermark(late=dm.AfterCount(1)),
        ...     accumulation_mode="accumulating",
        ...     allowed_lateness="6 hours",
        ... )
        >>> hourly = (
        ...     dm.Window.into(dm.FixedWindows("1 hour"))
        ...     .trigger(dm.AfterWatermark(late=dm.AfterCount(1)))
        ...     .allowed_lateness("6 hours")
        ...     .accumulating()
        ... )
        >>> hourly.strategy == each_hour.strategy
        True
    """

    input_kind = "collection"

    def __init__(
        self,
        where: WindowFn | WindowingStrategy,
        *,
        trigger: Trigger | None = None,
        accumulation_mode: AccumulationMode | Mode | None = None,
        allowed_lateness: DurationLike | None = None,
        timestamp_combiner: TimestampCombiner | Literal["end_of_window", "earliest", "latest"] | None = None,
    ) -> None:
        self._base: WindowingStrategy | None = _base_of(where)
        self._settings: Mapping[str, Any] = {}
        chain = self
        if trigger is not None:
            chain = chain.trigger(trigger)
        if accumulation_mode is not None:
            chain = chain.accumulation(accumulation_mode)
        if allowed_lateness is not None:
            chain = chain.allowed_lateness(allowed_lateness)
        if timestamp_combiner is not None:
            chain = chain.timestamp_combiner(timestamp_combiner)
        self._settings = chain._settings  # noqa: SLF001 - a copy of this one

    def default_label(self) -> str:
        """Return `Window.into` or `Window.trigger`, whichever began the chain."""
        return "Window.into" if self._base is not None else "Window.trigger"

    def trigger(self, trigger: Trigger, may_lose_data: bool = False) -> Self:  # noqa: FBT001, FBT002 - the model's signature
        """Set when panes are emitted.

        Args:
            trigger: the tree.
            may_lose_data: accept a tree that may finish before its window expires, so that later elements are dropped
                and counted.

        Raises:
            InvalidType: if `trigger` is not a trigger.
        """
        if not isinstance(trigger, Trigger):
            raise InvalidType(
                f"`trigger` must be a trigger, got {trigger!r}", hint="pass dm.AfterWatermark(), for example"
            )
        return self._set(trigger=trigger, may_lose_data=may_lose_data)

    def updating(self, *, early: DurationLike | None = None, late: DurationLike = 0) -> Self:
        """Emit a result early, when its window is complete, and again for late data; each replaces the one before.

        The usual answers to when and how in one: an `AfterWatermark` trigger, the allowed lateness, and accumulating
        panes. `.accumulating_and_retracting()` behind it makes each update retract the result that it replaces.

        Args:
            early: how long after a new element a window that is not complete emits a result; `None` for no early ones.
            late: for how long after the end of a window each late element updates its result; 0 to drop late elements.

        Raises:
            InvalidArgument: for a negative duration, or if neither is given, since nothing would ever be updated.

        Example:
            >>> import dataflow_model as dm
            >>> dm.Window.into(dm.FixedWindows("1 hour")).updating(early="30 minutes", late="1 day").strategy == (
            ...     dm.Window.into(dm.FixedWindows("1 hour"))
            ...     .trigger(dm.AfterWatermark(early=dm.AfterProcessingTime("30 minutes"), late=dm.AfterCount(1)))
            ...     .allowed_lateness("1 day")
            ...     .accumulating()
            ...     .strategy
            ... )
            True
        """
        lateness = nonnegative_duration("late", late, "use 0 to drop all late data")
        if early is None and lateness == Duration(0):
            raise InvalidArgument(
                f"updating() needs `early` or `late`, got early=None and late={late!r}",
                hint="use updating(early='30 minutes', late='1 day'), or leave it out for one result of each window",
            )
        first = None if early is None else AfterProcessingTime(early)
        second = None if lateness == Duration(0) else AfterCount(1)
        trigger = AfterWatermark(early=first, late=second)
        return self.trigger(trigger).allowed_lateness(lateness).accumulating()

    def allowed_lateness(self, lateness: DurationLike) -> Self:
        """Set how far the watermark may be past the end of a window before it expires; 0 unless set.

        Raises:
            InvalidArgument: for a negative duration.
        """
        length = nonnegative_duration("allowed_lateness", lateness, "use 0 to drop all late data")
        return self._set(allowed_lateness=length)

    def on_time(self, behavior: OnTimeBehavior | Literal["fire_always", "fire_if_non_empty"]) -> Self:
        """Set whether a firing when the watermark passes emits an empty pane: by default `"fire_always"`."""
        return self._set(on_time=as_option(OnTimeBehavior, behavior, "on_time"))

    def closing(self, behavior: ClosingBehavior | Literal["fire_always", "fire_if_non_empty"]) -> Self:
        """Set whether an expiring window emits an empty last pane: by default `"fire_if_non_empty"`."""
        return self._set(closing=as_option(ClosingBehavior, behavior, "closing"))

    def late_data(self, policy: LateData | Literal["drop", "duplicate_window"]) -> Self:
        """Set what happens to elements whose window has expired: `"drop"` or `"duplicate_window"`."""
        return self._set(late_data=as_option(LateData, policy, "late_data"))

    def timestamp_combiner(self, combiner: TimestampCombiner | Literal["end_of_window", "earliest", "latest"]) -> Self:
        """Set the event time of panes: `"end_of_window"`, the default, `"earliest"` or `"latest"`."""
        return self._set(timestamp_combiner=as_option(TimestampCombiner, combiner, "timestamp_combiner"))

    def discarding(self) -> Self:
        """Make each pane contain only the elements that have arrived since the previous pane."""
        return self.accumulation(AccumulationMode.CLEAR_ALWAYS)

    def accumulating(self) -> Self:
        """Make each pane contain all elements that have arrived in its window."""
        return self.accumulation(AccumulationMode.ACCUMULATE_ALWAYS)

    def accumulating_and_retracting(self) -> Self:
        """Make each pane contain all elements that have arrived in its window, and retract the previous pane first."""
        return self.accumulation(AccumulationMode.ACCUMULATE_ALWAYS, retracting=True)

    def accumulation(self, mode: AccumulationMode | Mode, *, retracting: bool = False) -> Self:
        """Set how the panes of a window relate to each other.

        Args:
            mode: whether the contents are cleared or kept after a pane. The two `…_BY_DEFAULT` modes follow the
                request of a trigger, if it makes one.
            retracting: whether each new pane is preceded by a retraction of the previous one.

        Raises:
            InvalidArgument: if `retracting` is combined with a clearing mode.
        """
        mode = as_option(AccumulationMode, mode, "accumulation_mode", _MODES)
        if retracting and mode in {AccumulationMode.CLEAR_ALWAYS, AccumulationMode.CLEAR_BY_DEFAULT}:
            raise InvalidArgument(
                f"a retracting strategy must accumulate, got {mode}",
                hint="use AccumulationMode.ACCUMULATE_ALWAYS",
            )
        return self._set(accumulation_mode=mode, retracting=retracting)

    @property
    def strategy(self) -> WindowingStrategy:
        """The strategy that the chain describes, checked; for `Window.trigger` over the default one."""
        return self._over(DEFAULT_STRATEGY)

    def expand(self, pcoll: PCollection[ElementT], /) -> PCollection[ElementT]:
        """Add the node."""
        pipeline = pcoll.pipeline
        strategy = self._over(pcoll.strategy)
        assigns = self._base is not None
        if assigns and strategy.window_fn.needs_pairs:
            typehints.check_pairs(pcoll.element_type, pipeline.scope)
        node = nodes.AssignWindows(label=pipeline.scope, input=pcoll.ref, strategy=strategy, assigns=assigns)
        return pipeline.add_main(node, strategy=strategy, element_type=pcoll.element_type)

    def __repr__(self) -> str:
        settings = dict(self._settings)
        how = settings.pop("accumulation_mode", None), settings.pop("retracting", False)
        loses = ", may_lose_data=True" if settings.pop("may_lose_data", False) else ""
        words = ["Window"] if self._base is None else [f"Window.into({_shown(self._base)})"]
        words += [f"{name}({_shown(value)}{loses if name == 'trigger' else ''})" for name, value in settings.items()]
        words += [] if how[0] is None else [_HOW.get(how, f"accumulation({_shown(how[0])}, retracting={how[1]})")]
        return ".".join(words)

    def _over(self, inherited: WindowingStrategy) -> WindowingStrategy:
        return attrs.evolve(self._base if self._base is not None else inherited, **self._settings)

    def _set(self, **settings: Any) -> Self:
        return self._but(_settings={**self._settings, **settings})


def _shown(value: Any) -> str:
    """Return a setting as code in a chain would write it."""
    if isinstance(value, WindowingStrategy) and value == WindowingStrategy(value.window_fn):
        return repr(value.window_fn)
    if isinstance(value, Duration):
        return repr(duration_text(value))
    return repr(value.value) if isinstance(value, enum.Enum) else repr(value)


class Window:
    """The two ways to begin a windowing chain.

    Example:
        >>> import dataflow_model as dm
        >>> dm.Window.into(dm.Sessions("10 minutes")).strategy.merges
        True
        >>> dm.Window.trigger(dm.Repeatedly(dm.AfterCount(10))).strategy.window_fn
        GlobalWindows()
    """

    def __init__(self, *given: object) -> None:
        raise InvalidType(
            f"Window is not called itself, but was with {given!r}",
            hint="write dm.Window.into(dm.FixedWindows('1 hour'))",
        )

    @staticmethod
    @calls_explained(
        name="Window.into",
        otherwise="use dm.WindowInto(fn, trigger=…), or the methods of the chain: dm.Window.into(fn).trigger(…)",
    )
    def into(where: WindowFn | WindowingStrategy) -> WindowInto:
        """Assign elements to windows, with a new strategy.

        Args:
            where: a window function; or a whole `WindowingStrategy`, which the chain may still change.

        Raises:
            InvalidType: for any other value, such as a duration.
        """
        return WindowInto(where)

    @staticmethod
    def trigger(trigger: Trigger, may_lose_data: bool = False) -> WindowInto:  # noqa: FBT001, FBT002 - as in the chain
        """Keep the windows of the elements, and change only when and how panes are emitted.

        Raises:
            InvalidType: if `trigger` is not a trigger.
        """
        inherited = WindowInto(DEFAULT_STRATEGY)._but(_base=None)  # noqa: SLF001 - the two classes are one
        return inherited.trigger(trigger, may_lose_data=may_lose_data)


def _base_of(where: WindowFn | WindowingStrategy) -> WindowingStrategy:
    if isinstance(where, WindowingStrategy):
        return attrs.evolve(where, merged=False)
    if is_of_beam(where, "WindowFn"):
        where = converters().window_fn(where)
    if not isinstance(where, WindowFn):
        raise InvalidType(
            f"Window.into takes a window function, got {where!r}", hint="pass dm.FixedWindows('1 hour'), for example"
        )
    _check_methods(where)
    return attrs.evolve(DEFAULT_STRATEGY, window_fn=where)


def _check_methods(fn: WindowFn) -> None:
    """Raise for a window function whose methods cannot be called, or whose `merge` would never be called."""
    name = type(fn).__name__
    if not isinstance(fn.is_merging, bool):
        raise InvalidType(
            f"`is_merging` of {name} must be True or False, got {fn.is_merging!r}",
            hint="write it as an attribute of the class, not as a method: is_merging = True",
        )
    defines_merge = type(fn).merge is not WindowFn.merge
    if fn.is_merging and not defines_merge:
        raise InvalidArgument(
            f"{name} sets `is_merging`, but does not define `merge`",
            hint="define merge(self, windows), which yields pairs: the windows to merge, and what they become",
        )
    if defines_merge and not fn.is_merging and not _says_whether_it_merges(type(fn)):
        raise InvalidArgument(
            f"{name} defines `merge`, which is never called because `is_merging` is False",
            hint="set it in the class: is_merging = True",
        )
    check_method(fn, "assign", ("event_time", "element"))
    check_method(fn, "merge", ("windows",))


def _says_whether_it_merges(kind: type[WindowFn]) -> bool:
    """Return whether a class other than the base class sets `is_merging`: a subclass of `Sessions` may turn it off."""
    return any("is_merging" in vars(base) for base in kind.__mro__ if base is not WindowFn)
