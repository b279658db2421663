"""Topologies: computations wired by named streams, built into an ordinary pipeline.

Source: the MillWheel paper: "Users specify a directed computation graph and application code for individual nodes".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.functions.parameters import check_plain
from dataflow_model.plan.logical.nodes import MAIN
from dataflow_model.transforms.drawing.svg import Drawing, drawn
from dataflow_model.transforms.elementwise.maps import Map
from dataflow_model.transforms.elementwise.pardo import ParDo
from dataflow_model.transforms.elementwise.reshaping import Flatten
from dataflow_model.transforms.pipelines.pcollection import PBegin, PCollection
from dataflow_model.transforms.pipelines.pipeline import Pipeline
from dataflow_model.transforms.pipelines.ptransform import PTransform
from dataflow_model.transforms.pipelines.windows import Window
from dataflow_model.transforms.topologies.boxes import boxes_and_lines
from dataflow_model.transforms.topologies.checks import in_order, produced_streams
from dataflow_model.transforms.topologies.computing import ByKey, ComputationFn, KeyExtractor, check_computation
from dataflow_model.windowing import GlobalWindows

if TYPE_CHECKING:
    from dataflow_model.plan.logical.runner import PipelineResult, Runner
    from dataflow_model.transforms.topologies.computations import Computation


@attrs.frozen
class Injected:
    """An injector: a source and the stream that it feeds."""

    label: str
    stream: str
    source: PTransform


@attrs.frozen
class Added:
    """A computation, the streams that it subscribes to, each with a key extractor, and those that it produces."""

    label: str
    computation: Computation
    subscribes: Mapping[str, KeyExtractor]
    produces: tuple[str, ...]


@attrs.frozen
class Sunk:
    """A sink, and the stream that it receives."""

    label: str
    stream: str
    sink: PTransform


class Topology:
    """A graph of computations, connected by named streams; the order of the calls that build it does not matter.

    A stream can have any number of producers, which are injectors or computations, and any number of subscribers, each
    with its own key extractor. The graph must not contain cycles.

    Args:
        name: the name of the topology in drawings and messages.

    Raises:
        InvalidArgument: for a name that is already used, or empty.

    Source: MillWheel's topologies.

    Example:
        >>> import dataflow_model as dm
        >>> class Upper(dm.Computation):
        ...     def process_record(self, record):
        ...         shout = record.value.upper()
        ...         self.produce(dm.StreamRecord(record.key, shout, record.timestamp), "shouts")
        >>> topology = dm.Topology("echo")
        >>> topology.inject("words", dm.Create(["to", "be"]))
        >>> topology.add(Upper(), subscribe={"words": lambda word: word[0]}, produces=["shouts"])
        >>> topology.sink("shouts", dm.io.Collect())
        >>> result = topology.run(dm.LocalRunner())
        >>> _ = result.wait_until_finish()
        >>> [record.value for record in result.collected("shouts")]
        [('t', 'TO'), ('b', 'BE')]
    """

    def __init__(self, name: str = "topology") -> None:
        self.name = _named(name, "a topology")
        self.injected: list[Injected] = []
        self.added: list[Added] = []
        self.sunk: list[Sunk] = []

    # ------------------------------------------------------------------------------------------------- building

    def inject(self, stream: str, source: PTransform, *, label: str | None = None) -> None:
        """Bring data into a stream.

        Args:
            stream: the name of the stream; several injectors may feed it.
            source: a source of `dm.io`, `dm.Injector`, `dm.Create`, a `TestStream`, or another beginning of a pipeline.
            label: its name in metrics and checkpoints; by default the source's own label, or `Inject.` and the stream's
                name if it has none.

        Raises:
            InvalidType: for a value that cannot begin a pipeline.
            InvalidArgument: for a label that is taken.
        """
        stream = _named(stream, "a stream")
        _check_kind(source, "pipeline", f"the stream {stream!r} needs a source", "dm.io.ReadParquet(…)")
        self.injected.append(Injected(self._free(label or source._label or f"Inject.{stream}"), stream, source))  # noqa: SLF001 - as `pipeline` does

    def add(
        self,
        computation: Computation,
        *,
        subscribe: Mapping[str, KeyExtractor],
        produces: Iterable[str] = (),
        label: str | None = None,
    ) -> None:
        """Add a computation.

        Args:
            computation: an instance; each worker runs a copy.
            subscribe: the streams that it receives, each with a function that returns the key of a value. `None` keeps
                the key of the computation that produced the record.
            produces: the streams on which it may produce records.
            label: the name under which its state is stored; by default the name of its class.

        Raises:
            InvalidType: for a value that is not a computation, or a key extractor that cannot be called.
            InvalidArgument: for a label that is already used, or if there is no subscription.
        """
        checked = check_computation(computation)
        name = type(checked).__name__
        given: Any = produces
        if isinstance(given, str) or not isinstance(given, Iterable):
            hint = f"pass [{given!r}]" if isinstance(given, str) else "pass produces=['counts', 'late'], for example"
            raise InvalidType(f"`produces` must be a list of streams, got {given!r}", hint=hint)
        _check_subscriptions(subscribe, name)
        streams = tuple(_named(stream, "a stream") for stream in produces)
        if len(set(streams)) < len(streams):
            raise InvalidArgument(
                f"`produces` of {name} names a stream twice: {list(streams)!r}", hint="name each stream once"
            )
        self.added.append(Added(self._free(label or name), checked, dict(subscribe), streams))

    def sink(self, stream: str, sink: PTransform, *, label: str | None = None) -> None:
        """Send a stream to a sink, or to further transforms.

        Records that computations produce arrive there as pairs of key and value; elements of a stream that is only
        injected arrive unchanged.

        Args:
            stream: the name of the stream.
            sink: a sink of `dm.io`, or any transform of one collection.
            label: its name in results and metrics; by default the sink's own label, or the stream's name if it has
                none.

        Raises:
            InvalidType: for a value that cannot be applied to a collection.
            InvalidArgument: for a label that is taken.
        """
        stream = _named(stream, "a stream")
        _check_kind(sink, "collection", f"the stream {stream!r} needs a sink", "dm.io.Collect()")
        self.sunk.append(Sunk(self._free(label or sink._label or stream), stream, sink))  # noqa: SLF001 - as `pipeline` does

    # -------------------------------------------------------------------------------------------------- running

    def pipeline(self, runner: Runner | None = None) -> Pipeline:
        """Return a pipeline of its own; see `build`."""
        pipeline = Pipeline(runner=runner)
        self.build(pipeline)
        return pipeline

    def build(self, pipeline: Pipeline) -> None:
        """Add all parts to a pipeline, in addition to its other transforms.

        Raises:
            PlanError: for a stream that has subscribers but no producer, a stream without keys whose keys a subscriber
                needs, or a cycle; the message shows all streams.
            InvalidArgument: for a label that already exists in the pipeline.
            InvalidType: for a value that is not a pipeline.
        """
        if not isinstance(pipeline, Pipeline):
            raise InvalidType(
                f"a topology is built into a pipeline, got {pipeline!r}", hint="pass dm.Pipeline(runner=…)"
            )
        order = in_order(self)
        keyed = produced_streams(self)
        parts: dict[str, list[PCollection]] = {}
        for injected in self.injected:
            collection = _injected(pipeline, injected)
            if injected.stream in keyed:
                collection = pipeline.apply(Map(_without_key), collection, f"Records.{injected.label}")
            parts.setdefault(injected.stream, []).append(collection)
        streams: dict[str, PCollection] = {}

        def whole(stream: str) -> PCollection:
            if stream not in streams:  # also where one part is all, so that others may be added later
                streams[stream] = pipeline.apply(Flatten(), tuple(parts[stream]), f"Stream.{stream}")
            return streams[stream]

        for added in order:
            inputs = {stream: whole(stream) for stream in added.subscribes}
            pairs = pipeline.apply(ByKey(added.subscribes, keyed), inputs, f"Keys.{added.label}")
            fn = ComputationFn(added.label, added.computation, added.produces)
            tags = [stream for stream in added.produces if stream != MAIN]
            outputs = pipeline.apply(ParDo(fn).with_outputs(*tags), pairs, added.label)
            for stream in added.produces:
                parts.setdefault(stream, []).append(outputs[stream])
        for sunk in self.sunk:
            pipeline.apply(sunk.sink, whole(sunk.stream), sunk.label)

    def run(self, runner: Runner | None = None, *, until: Literal["drained"] | None = None) -> PipelineResult:
        """Build the pipeline, start it and return immediately; see `Pipeline.run`.

        Args:
            runner: the runner that executes it; `LocalRunner()` by default.
            until: `"drained"` ends an unbounded input at its current end, with the watermark at +∞.

        Raises:
            PlanError, UnsupportedOnRunner: if it cannot run.
        """
        return self.pipeline(runner).run(until=until)

    # -------------------------------------------------------------------------------------------------- showing

    @overload
    def draw(self) -> Drawing: ...
    @overload
    def draw(self, form: str) -> str: ...
    def draw(self, form: str = "mermaid") -> str:
        """Return a drawing, which a notebook shows as a picture, and whose text is Mermaid.

        Args:
            form: `"svg"` for only the picture, as the text of an SVG file.

        Raises:
            InvalidArgument: for another form.
            PlanError: for a topology that cannot be built.

        Example:
            >>> import dataflow_model as dm
            >>> topology = dm.Topology("echo")
            >>> topology.inject("words", dm.Create(["to", "be"]))
            >>> topology.sink("words", dm.io.Collect())
            >>> topology.draw()
            flowchart LR
              n0[("Inject.words")]
              n1[/"words"/]
              n0 -- "words" --> n1
        """
        in_order(self)  # what cannot be built is not drawn
        return drawn(form, self.name, *boxes_and_lines(self))

    def __repr__(self) -> str:
        return f"Topology({self.name!r}, computations={[added.label for added in self.added]})"

    def _free(self, label: str) -> str:
        """Return a label after checking that it is not in use."""
        parts: list[Injected | Added | Sunk] = [*self.injected, *self.added, *self.sunk]
        taken = [part.label for part in parts]
        if label in taken:
            raise InvalidArgument(
                f"the topology {self.name!r} already has a part named {label!r}; its parts are "
                f"{', '.join(map(repr, taken))}",
                hint="choose another name with label='…'",
            )
        return _named(label, "a label")


def _check_kind(transform: object, kind: str, requirement: str, example: str) -> None:
    if not isinstance(transform, PTransform) or transform.input_kind not in {kind, "any"}:
        raise InvalidType(f"{requirement}, got {transform!r}", hint=f"pass {example}, for example")


def _check_subscriptions(subscribe: object, name: str) -> None:
    hint = "pass subscribe={'queries': lambda value: value.text}, for example"
    if not isinstance(subscribe, Mapping):
        raise InvalidType(f"`subscribe` of {name} must be a dict by stream, got {subscribe!r}", hint=hint)
    if not subscribe:
        raise InvalidArgument(f"{name} must subscribe to at least one stream, got {subscribe!r}", hint=hint)
    for stream, extractor in subscribe.items():
        _named(stream, "a stream")
        if extractor is not None and not callable(extractor):
            raise InvalidType(
                f"{name} needs a key extractor for {stream!r}, got {extractor!r}",
                hint=f"subscribe={{{stream!r}: lambda value: …}}",
            )
        if extractor is not None:
            check_plain(extractor, f"the key extractor for {stream!r} of {name}")


def _without_key(value: Any) -> tuple[None, Any]:
    return None, value


def _injected(pipeline: Pipeline, injected: Injected) -> PCollection:
    """Apply a source, and move elements that have windows of their own to the global window."""
    collection: PCollection = pipeline.apply(injected.source, PBegin(pipeline), injected.label)
    if not isinstance(collection, PCollection):
        raise InvalidType(
            f"{injected.label!r} returns {collection!r}, but a stream takes one collection",
            hint="write a dm.PTransform whose expand returns one collection and handles the others itself",
        )
    if collection.strategy.merges or not collection.strategy.window_fn.is_global:
        collection = pipeline.apply(Window.into(GlobalWindows()), collection, f"Windows.{injected.label}")
    return collection


def _named(name: object, role: str) -> str:
    if not isinstance(name, str):
        raise InvalidType(f"the name of {role} must be text, got {name!r}", hint="pass a str")
    if not name.strip():
        raise InvalidArgument(f"the name of {role} must not be empty, got {name!r}", hint="use a name such as 'spikes'")
    return name
