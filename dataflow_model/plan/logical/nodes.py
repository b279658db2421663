"""The nodes of a plan: a closed set, so that every runner can declare what it does with each."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from dataflow_model.plan.functions.combine import CombineFn, GroupFn
from dataflow_model.plan.functions.declaration import Declaration, declaration_of
from dataflow_model.plan.functions.parameters import metadata_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import pyarrow as pa

    from dataflow_model.plan.endpoints.sinks import Sink
    from dataflow_model.plan.endpoints.sources import Source
    from dataflow_model.plan.functions.dofn import DoFn
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.time import Duration, EventTime

MAIN: Final = "main"


@attrs.frozen
class Ref:
    """One output of one node: the node's full label and the output's tag."""

    label: str
    tag: str = MAIN


@attrs.frozen(eq=False)
class SideInput:
    """A collection that a ParDo reads as a whole, window by window.

    Attributes:
        ref: the collection.
        view: `"singleton"`, `"iter"` or `"dict"`.
        default: the value of `AsSingleton` for an empty window; with `...` that is an error.
        shares_windows: whether a main element sees the window that equals its own; otherwise it sees the one that
            contains the last instant of its own.
    """

    ref: Ref
    view: str
    default: Any = ...
    shares_windows: bool = False


@attrs.frozen
class Retracting:
    """What may take back what it has emitted: a retracting grouping, or a stateful function that retracts.

    Attributes:
        label: its label.
        allowed_lateness: how late its retractions may be.
    """

    label: str
    allowed_lateness: Duration


@attrs.frozen(kw_only=True, eq=False)
class Read:
    """Read a source; the papers' injector.

    Attributes:
        dead_letters: the tag of the output for rows that cannot be read, or `None` if such a row stops the run.
        tags: the tags of the outputs besides the main one; only what was kept of another transform has some.
        retracting: by tag, what emits the retractions that an output may contain; only such outputs contain any.
    """

    label: str
    source: Source
    dead_letters: str | None = None
    tags: tuple[str, ...] = ()
    retracting: Mapping[str, Retracting] = attrs.field(factory=dict)

    @property
    def inputs(self) -> tuple[Ref, ...]:
        """A source reads no collection."""
        return ()


@attrs.frozen(kw_only=True, eq=False)
class ParDo:
    """Run a DoFn over each element.

    Attributes:
        tags: the tags of the outputs besides the main one.
        dead_letters: the tag of the output for elements for which the DoFn raised an error, or `None`.
        rescued: the classes of exceptions for which an element goes there; any other one stops the run.
        args, kwargs: further arguments, including `SideInput`s.
        retractable: whether the DoFn may run on retractions, or its outputs are kept for them; by default the DoFn's.
        late_data_horizon: how far an output's event time may be before its input's; by default the DoFn's.
        columns: the columns that a function on columns is given; `None` if it takes those that its input has, or none.
        dropped: the tag of the output for elements that are dropped, or `None` if they are only counted.
    """

    label: str
    input: Ref
    fn: DoFn
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = attrs.field(factory=dict)
    tags: tuple[str, ...] = ()
    dead_letters: str | None = None
    rescued: tuple[type[Exception], ...] = (Exception,)
    retractable: bool | Literal["memoised"] = attrs.Factory(lambda node: node.fn.retractable, takes_self=True)
    late_data_horizon: Duration | None = attrs.Factory(lambda node: node.fn.late_data_horizon, takes_self=True)
    columns: pa.Schema | None = None
    dropped: str | None = None

    def rescues(self, error: BaseException) -> bool:
        """Return whether an element for which the DoFn raised this error becomes a dead letter."""
        return self.dead_letters is not None and isinstance(error, self.rescued)

    @property
    def side_inputs(self) -> tuple[SideInput, ...]:
        """The side inputs among the arguments."""
        return tuple(value for value in (*self.args, *self.kwargs.values()) if isinstance(value, SideInput))

    @property
    def inputs(self) -> tuple[Ref, ...]:
        """The main input, then the side inputs."""
        return (self.input, *(side.ref for side in self.side_inputs))

    def has_side_among(self, changing: Collection[SideInput]) -> bool:
        """Return whether one of the side inputs is among those that change while the pipeline runs."""
        return any(side in changing for side in self.side_inputs)

    @functools.cached_property
    def parameters(self) -> dict[str, str]:
        """The metadata that the user's function requests, by the names of its parameters."""
        names = tuple(self.kwargs)
        specs = self.declaration.specs
        return metadata_of(self.fn.user_function(), given=names, positional=len(self.args), specs=specs)

    @property
    def metadata(self) -> tuple[str, ...]:
        """The metadata that the user's function requests."""
        return tuple(dict.fromkeys(self.parameters.values()))

    @property
    def declaration(self) -> Declaration:
        """The states and timers that the DoFn's class declares."""
        return declaration_of(type(self.fn))

    @property
    def is_stateful(self) -> bool:
        """Whether the DoFn works by key and window, in a keyed stage."""
        return self.declaration.is_stateful

    @property
    def retracts(self) -> bool:
        """Whether the DoFn takes back what it has emitted; only a stateful one may."""
        return self.declaration.retracts


@attrs.frozen(kw_only=True, eq=False)
class _OnOneInput:
    """The base of the nodes that read one collection."""

    label: str
    input: Ref

    @property
    def inputs(self) -> tuple[Ref, ...]:
        """The collection, as the only one."""
        return (self.input,)


@attrs.frozen(kw_only=True, eq=False)
class ToPairs(_OnOneInput):
    """Turn rows into pairs by field names, as `WithKeys("carrier", value="delay")` does, on columns if possible.

    Attributes:
        key: the field, or several fields (then the key is a tuple).
        value: the field, or `None` for the whole row.
    """

    key: str | tuple[str, ...]
    value: str | None


@attrs.frozen(kw_only=True, eq=False)
class AssignTimestamps(_OnOneInput):
    """Give each element the event time that `fn` returns, at most `late_data_horizon` before its old one."""

    fn: Callable[..., EventTime]
    late_data_horizon: Duration | None = None


@attrs.frozen(kw_only=True, eq=False)
class AssignWindows(_OnOneInput):
    """Assign elements to windows, or with `assigns=False` only set trigger and modes (`Window.trigger(…)` alone)."""

    strategy: WindowingStrategy
    assigns: bool = True


@attrs.frozen(eq=False)
class FanOut:
    """How a grouping that combines the parts of each key is split in two.

    Attributes:
        parts: the label of the grouping that combines the elements of each part.
        combine: the combiner of the elements.
    """

    parts: str
    combine: CombineFn[Any, Any, Any]


@attrs.frozen(kw_only=True, eq=False)
class GroupByKeyAndWindow(_OnOneInput):
    """Group pairs by key and window, and combine; the papers' node of the same name.

    Attributes:
        strategy: the strategy of its input, resolved at construction.
        combine: the combiner; `GroupFn()` if the elements are kept.
        fan_out: in the second stage of a fan-out, what the first stage does; `None` elsewhere.
        has_one_key: whether all pairs are known to have the same key.
        dropped: the tag of the output for elements that are dropped, or `None` if they are only counted.
    """

    strategy: WindowingStrategy
    combine: CombineFn[Any, Any, Any] = attrs.field(factory=GroupFn)
    fan_out: FanOut | None = None
    has_one_key: bool = False
    dropped: str | None = None


@attrs.frozen(kw_only=True, eq=False)
class Flatten:
    """Merge collections into one."""

    label: str
    inputs: tuple[Ref, ...]


@attrs.frozen(kw_only=True, eq=False)
class Reshuffle(_OnOneInput):
    """Redistribute elements over the shards, which also ends fusion; changes no element."""


@attrs.frozen(kw_only=True, eq=False)
class Deduplicate(_OnOneInput):
    """Keep the first element with each id; the input is pairs of id and element, the output elements.

    Attributes:
        horizon: how long an id is kept after its element's event time.
        dropped: the tag of the output for elements that are dropped, or `None` if they are only counted.
    """

    horizon: Duration
    dropped: str | None = None


@attrs.frozen(kw_only=True, eq=False)
class Write(_OnOneInput):
    """Write a collection to a sink."""

    sink: Sink


Node: TypeAlias = (
    Read
    | ParDo
    | ToPairs
    | AssignTimestamps
    | AssignWindows
    | GroupByKeyAndWindow
    | Flatten
    | Reshuffle
    | Deduplicate
    | Write
)
