"""The nodes of a plan: a closed set, so that every runner can say what it does with each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from dataflow_model.plan.combine import CombineFn, GroupFn
from dataflow_model.plan.declaration import Declaration, declaration_of
from dataflow_model.plan.parameters import metadata_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dataflow_model.plan.dofn import DoFn
    from dataflow_model.plan.sinks import Sink
    from dataflow_model.plan.sources import Source
    from dataflow_model.plan.strategy import WindowingStrategy
    from dataflow_model.time import Duration, EventTime

__all__ = [
    "MAIN",
    "AssignTimestamps",
    "AssignWindows",
    "Deduplicate",
    "Flatten",
    "GroupByKeyAndWindow",
    "Node",
    "ParDo",
    "Read",
    "Ref",
    "Reshuffle",
    "SideInput",
    "ToPairs",
    "Write",
]

MAIN: Final = "main"


@attrs.frozen
class Ref:
    """One output of one node: the node's full label and the output's tag."""

    label: str
    tag: str = MAIN


@attrs.frozen(eq=False)
class SideInput:
    """A collection that a ParDo sees whole, window by window.

    Attributes:
        ref: the collection.
        view: `"singleton"`, `"iter"` or `"dict"`.
        default: what `AsSingleton` gives for an empty window; `...` means an error.
    """

    ref: Ref
    view: str
    default: Any = ...


@attrs.frozen(kw_only=True, eq=False)
class Read:
    """Bring data in; the papers' injector."""

    label: str
    source: Source
    dead_letters: str | None = None
    """The tag of the output for rows that cannot be read, or `None` when such a row stops the run."""

    @property
    def inputs(self) -> tuple[Ref, ...]:
        """A source reads no collection."""
        return ()


@attrs.frozen(kw_only=True, eq=False)
class ParDo:
    """Run a DoFn over each element.

    Attributes:
        tags: the tagged outputs beside the main one.
        dead_letters: the tag that takes elements for which the DoFn raised, or `None`.
        args, kwargs: further arguments, `SideInput`s among them.
        retractable: whether it may run on retractions, or keeps its outputs for them; what the DoFn says by default.
        late_data_horizon: how far before its input's an output's event time may lie; what the DoFn says by default.
    """

    label: str
    input: Ref
    fn: DoFn
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = attrs.field(factory=dict)
    tags: tuple[str, ...] = ()
    dead_letters: str | None = None
    retractable: bool | Literal["memoised"] = attrs.Factory(lambda node: node.fn.retractable, takes_self=True)
    late_data_horizon: Duration | None = attrs.Factory(lambda node: node.fn.late_data_horizon, takes_self=True)

    @property
    def side_inputs(self) -> tuple[SideInput, ...]:
        """The side inputs among the arguments."""
        return tuple(value for value in (*self.args, *self.kwargs.values()) if isinstance(value, SideInput))

    @property
    def inputs(self) -> tuple[Ref, ...]:
        """The main input, then the side inputs."""
        return (self.input, *(side.ref for side in self.side_inputs))

    @property
    def told(self) -> dict[str, str]:
        """What the user's function asks to be told, by the names of its parameters."""
        given = tuple(self.kwargs)
        specs = self.declaration.specs
        return metadata_of(self.fn.user_function(), given=given, positional=len(self.args), specs=specs)

    @property
    def metadata(self) -> tuple[str, ...]:
        """What the user's function asks to be told."""
        return tuple(dict.fromkeys(self.told.values()))

    @property
    def declaration(self) -> Declaration:
        """The states and timers that the DoFn's class declares."""
        return declaration_of(type(self.fn))

    @property
    def is_stateful(self) -> bool:
        """Whether it works by key and window, on a shard of its own."""
        return self.declaration.is_stateful


@attrs.frozen(kw_only=True, eq=False)
class ToPairs:
    """Turn rows into pairs by field names: what `WithKeys("carrier", value="delay")` says, columnwise where possible.

    Attributes:
        key: the field, or fields (then the key is a tuple).
        value: the field, or `None` for the whole row.
    """

    label: str
    input: Ref
    key: str | tuple[str, ...]
    value: str | None

    @property
    def inputs(self) -> tuple[Ref, ...]:
        """The rows."""
        return (self.input,)


@attrs.frozen(kw_only=True, eq=False)
class AssignTimestamps:
    """Give each element the event time that `fn` names, at most `late_data_horizon` before its old one."""

    label: str
    input: Ref
    fn: Callable[..., EventTime]
    late_data_horizon: Duration | None = None

    @property
    def inputs(self) -> tuple[Ref, ...]:
        """The elements."""
        return (self.input,)


@attrs.frozen(kw_only=True, eq=False)
class AssignWindows:
    """Place elements in windows, or only set when and how (`assigns` false: `Window.trigger(…)` without `into`)."""

    label: str
    input: Ref
    strategy: WindowingStrategy
    assigns: bool = True

    @property
    def inputs(self) -> tuple[Ref, ...]:
        """The elements."""
        return (self.input,)


@attrs.frozen(kw_only=True, eq=False)
class GroupByKeyAndWindow:
    """Group pairs by key and window, and combine; the papers' node of the same name.

    Attributes:
        strategy: the strategy of its input, resolved at construction.
        combine: `GroupFn()` where the elements are kept.
    """

    label: str
    input: Ref
    strategy: WindowingStrategy
    combine: CombineFn[Any, Any, Any] = attrs.field(factory=GroupFn)

    @property
    def inputs(self) -> tuple[Ref, ...]:
        """The pairs."""
        return (self.input,)


@attrs.frozen(kw_only=True, eq=False)
class Flatten:
    """Put collections together."""

    label: str
    inputs: tuple[Ref, ...]


@attrs.frozen(kw_only=True, eq=False)
class Reshuffle:
    """Spread elements over the shards anew, and cut fusion; changes no element."""

    label: str
    input: Ref

    @property
    def inputs(self) -> tuple[Ref, ...]:
        """The elements."""
        return (self.input,)


@attrs.frozen(kw_only=True, eq=False)
class Deduplicate:
    """Pass the first element of each id: takes pairs of id and element, and gives the elements.

    Attributes:
        horizon: how long an id is kept behind its element's event time.
    """

    label: str
    input: Ref
    horizon: Duration

    @property
    def inputs(self) -> tuple[Ref, ...]:
        """The pairs."""
        return (self.input,)


@attrs.frozen(kw_only=True, eq=False)
class Write:
    """Send a collection out."""

    label: str
    input: Ref
    sink: Sink

    @property
    def inputs(self) -> tuple[Ref, ...]:
        """What is written."""
        return (self.input,)


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
