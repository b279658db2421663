"""Beam's operations of one stage, run in the process of the engine: the only module that imports Beam's workers.

Elements go in and out as Beam's windowed values, which are not encoded. What Beam's workers ask a runner for, side
inputs and state, is answered with objects too.
"""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import contextlib
import functools
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import attrs
from apache_beam import pvalue
from apache_beam.internal import pickler
from apache_beam.metrics.execution import MetricsContainer
from apache_beam.options.value_provider import RuntimeValueProvider
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.runners import common
from apache_beam.runners.worker import bundle_processor, operation_specs, operations, statesampler
from apache_beam.transforms import core, sideinputs
from apache_beam.utils import counters, proto_utils
from apache_beam.utils.windowed_value import create

from dataflow_model.runners.beam.functions.assigning import WINDOW_INTO, assigner_of
from dataflow_model.runners.beam.functions.counted import note
from dataflow_model.runners.beam.functions.kernels import COMBINE_EARLY, combiner_of, reduced
from dataflow_model.runners.beam.functions.side_windows import remember

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dataflow_model.runners.beam.functions.hooks import Uncommitted
    from dataflow_model.runners.beam.functions.kernels import Reduced

_MICROSECONDS: Final = 1_000_000
_LONGEST_PAUSE: Final = 10_000
"""How long a function that asks for a delay is left alone at most, in microseconds: it should not keep a core busy."""
_MOST_RESULTS: Final = 1_000_000
"""How many partial results of one bundle are kept."""
_REMEMBERED: Final = 1 << 12
"""For how many windows it is remembered where their results are."""
_KEEP_NO_ARGUMENTS: Final = "disable_global_windowed_args_caching"
_PAR_DO: Final[str] = common_urns.primitives.PAR_DO.urn


@attrs.frozen
class StageSpec:
    """What a stage consists of: functions that run one after the other on the elements of a bundle.

    Attributes:
        label: its label in the plan.
        descriptor: the transforms by name, with their collections and coders, as Beam's workers get them.
        input: the id of the collection that it reads.
        outputs: the ids of the collections that are read behind it.
        sides: its side inputs, each by the name of a transform and a tag.
        stateful: the name of the transform that has state or timers, which reads the input; `None` without any.
    """

    label: str
    descriptor: bytes = attrs.field(repr=False)
    input: str
    outputs: tuple[str, ...]
    sides: tuple[tuple[str, str], ...] = ()
    stateful: str | None = None


class SideReader:
    """Answers what Beam's workers ask about side inputs: a `CachingStateHandler` that encodes nothing.

    Attributes:
        look_ups: for each side input, a function from the window of a main element to the elements of the side input.
        window: that window, which is ours.
        key_coders: the coders of the keys of side inputs that are looked up by key.
    """

    def __init__(self) -> None:
        self.look_ups: dict[tuple[str, str], Callable[[Any], list[Any]]] = {}
        self.window: Any = None
        self.key_coders: dict[tuple[str, str], Any] = {}
        self._by_key: dict[tuple[str, str, bytes], tuple[Any, dict[bytes, tuple[Any, list[Any]]]]] = {}

    def blocking_get(self, state_key: Any, coder: Any) -> Any:
        """Return the elements of a side input, or those with a key."""
        del coder  # nothing is encoded
        kind = state_key.WhichOneof("type")
        asked = getattr(state_key, kind)
        elements = self.look_ups[asked.transform_id, asked.side_input_id](self.window)
        if kind == "iterable_side_input":
            return elements
        by_key = self._grouped((asked.transform_id, asked.side_input_id), asked.window, elements)
        return by_key.get(asked.key, (None, []))[1]

    def _grouped(
        self, side: tuple[str, str], window: bytes, pairs: list[tuple[Any, Any]]
    ) -> dict[bytes, tuple[Any, list[Any]]]:
        known = self._by_key.get((*side, window))
        if known is None or known[0] is not pairs:
            encode = self.key_coders[side].encode_nested
            by_key: dict[bytes, tuple[Any, list[Any]]] = {}
            for key, value in pairs:
                by_key.setdefault(encode(key), (key, []))[1].append(value)
            known = self._by_key[(*side, window)] = pairs, by_key
        return known[1]


class _WindowInto(operations.Operation):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Assigns windows; as Beam's does, it processes an element once for each window that it was in.

    Args:
        assign: returns the windows for an event time.
        more: what operations of Beam's are made with.
    """

    def __init__(self, assign: Callable[[int], tuple[Any, ...]], *more: Any) -> None:
        super().__init__(*more)
        self._assign = assign

    def setup(self, data_sampler: Any = None) -> None:
        """Set it up."""
        super().setup(data_sampler)
        [receiver] = self.receivers
        self._receive = receiver.receive

    def process(self, o: Any) -> None:
        """Pass an element on, in its windows; it has no pane any more."""
        micros = o.timestamp_micros
        windows = self._assign(micros)
        for _ in o.windows:
            self._receive(create(o.value, micros, list(windows)))  # which functions may see, and change


class _CombineEarly(operations.Operation):  # type: ignore[misc]
    """Combines the elements of a bundle by key and windows; as with Beam's, the results are at the ends of windows.

    Args:
        reduced: how they are combined.
        more: what operations of Beam's are made with.
    """

    def __init__(self, reduced: Reduced, *more: Any) -> None:
        super().__init__(*more)
        self._first, self._add = reduced.first, reduced.add
        self._empty()

    def process(self, o: Any) -> None:
        """Combine an element with the others of its key and windows."""
        windows = o.windows
        which = id(windows[0]) if len(windows) == 1 else tuple(map(id, windows))
        known = self._known.get(which)
        results = self._enter(which, windows) if known is None else known[1]
        key, value = o.value
        if key in results:
            results[key] = self._add(results[key], value)
            return
        if self._count == _MOST_RESULTS:
            self._pass_on()
            results = self._enter(which, windows)
        results[key] = self._first(value)
        self._count += 1

    def finish(self) -> None:
        """Pass the results on."""
        self._pass_on()
        super().finish()

    def _pass_on(self) -> None:
        [receiver] = self.receivers
        for windows, results in self._by_windows.items():
            if not windows:
                continue
            end = min(window.max_timestamp().micros for window in windows)  # so that it is late for none of them
            for pair in results.items():
                receiver.receive(create(pair, end, windows))
        self._empty()

    def _empty(self) -> None:
        self._by_windows: dict[tuple[Any, ...], dict[Any, Any]] = {}
        self._known: dict[Any, tuple[tuple[Any, ...], dict[Any, Any]]] = {}
        """By the ids of windows: these, so that no others get their ids, and the results in them."""
        self._count = 0

    def _enter(self, which: Any, windows: Any) -> dict[Any, Any]:
        """Return the results in windows with other ids than those before; most elements share the windows of others."""
        if len(self._known) == _REMEMBERED:
            self._known.clear()
        results = self._by_windows.setdefault(tuple(windows), {})
        self._known[which] = tuple(windows), results
        return results


class Operations:
    """Beam's operations of one stage.

    Args:
        spec: the stage.
        states: creates what answers for state and timers, which a stateful stage needs.
        uncommitted: keeps what is to be called when a bundle is committed; `None` if its end commits it.

    Attributes:
        sides: answers for side inputs.
        buffers: the outputs so far, by the id of the collection.
        input_coder, output_coders: Beam's coders of windowed elements.
        receive: processes an element.
    """

    def __init__(
        self, spec: StageSpec, states: Callable[[], Any] | None = None, uncommitted: Uncommitted | None = None
    ) -> None:
        self._spec, self._uncommitted = spec, uncommitted
        self.sides = SideReader()
        self._counters = counters.CounterFactory()
        self._sampler = statesampler.StateSampler(spec.label, self._counters)
        self._descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(spec.descriptor)
        remember(self._descriptor, spec.sides)
        self._factory = bundle_processor.BeamTransformFactory(
            frozenset(), self._descriptor, None, self._counters, self._sampler, self.sides, None
        )
        self._states = states
        self.buffers: dict[str, list[Any]] = {pcoll: [] for pcoll in spec.outputs}
        self._sinks: list[Any] = []
        self._operations: dict[str, Any] = {}
        self._providers: dict[str, Any] = {}
        """The restriction providers of splittable functions, as far as they were needed."""
        self._readers = self._find_readers()
        first = [self._operation(name) for name in self._readers[spec.input]]
        for name in self._descriptor.transforms:
            self._operation(name)
        if spec.input in self.buffers:
            first.append(self._sink(spec.input))
        self._in_order = list(self._operations.values())  # each after those that it feeds
        with self._arguments_kept():
            for operation in (*self._sinks, *self._in_order):
                operation.setup()
        self.input_coder = self._factory.get_windowed_coder(spec.input)
        self.output_coders = {pcoll: self._factory.get_windowed_coder(pcoll) for pcoll in spec.outputs}
        for transform, tag in spec.sides:
            coder = self._factory.get_windowed_coder(self._descriptor.transforms[transform].inputs[tag])
            if coder.wrapped_value_coder.is_kv_coder():
                self.sides.key_coders[transform, tag] = coder.wrapped_value_coder.key_coder()
        self._source = operations.ConsumerSet.create(self._counters, "input", 0, first, self.input_coder, None, None)
        self.receive: Callable[[Any], None] = self._source.receive
        self._context: Any = None
        self._totals: dict[str, MetricsContainer] = {name: MetricsContainer(name) for name in self._operations}

    def begin(self) -> None:
        """Begin a bundle."""
        statesampler.set_current_tracker(self._sampler)
        self._context = bundle_processor.ExecutionContext(instruction_id=self._spec.label)
        for operation in self._in_order:
            operation.execution_context = self._context
            operation.start()

    def finish(self) -> None:
        """End the bundle, and process what splittable functions have deferred, until nothing is left."""
        self._finish()
        while deferred := self._context.delayed_applications:
            delays = [0 if each.deferred_timestamp is None else each.deferred_timestamp.micros for _, each in deferred]
            time.sleep(max(0, min(*delays, _LONGEST_PAUSE)) / _MICROSECONDS)
            self.begin()
            for operation, application in deferred:
                operation.process(application.residual_value)
            self._finish()

    def take_deferred(self) -> list[Any]:
        """Return what splittable functions have deferred since the last call or the beginning of the bundle."""
        deferred = [application for _, application in self._context.delayed_applications]
        self._context.delayed_applications.clear()
        return deferred

    def truncated(self, element: Any) -> Any:
        """Return an element of the splittable function that reads the input with a restriction that ends.

        `None` if nothing is left of it.
        """
        (value, (restriction, state)), _ = element.value
        [name] = self._readers[self._spec.input]
        if name not in self._providers:
            spec = self._descriptor.transforms[name].spec
            payload = proto_utils.parse_Bytes(spec.payload, beam_runner_api_pb2.ParDoPayload)
            self._providers[name] = common.DoFnSignature(function_of(payload)).get_restriction_provider()
        provider = self._providers[name]
        truncated = provider.truncate(value, restriction)
        if truncated is None:
            return None
        return element.with_value(((value, (truncated, state)), provider.restriction_size(value, truncated)))

    def _finish(self) -> None:
        self._source.flush()
        for operation in reversed(self._in_order):
            operation.finish()
        functions = [each for each in self._in_order if isinstance(each, operations.DoOperation)]
        with contextlib.nullcontext() if self._uncommitted is None else self._uncommitted.keeping():
            for operation in functions:
                if operation.needs_finalization():
                    operation.finalize_bundle()
        for name, operation in self._operations.items():
            self._note(name, operation.metrics_container)  # combiners have one too
            if isinstance(operation, operations.DoOperation):
                operation.reset()

    def _note(self, name: str, container: Any) -> None:
        """Add what a function has counted in a bundle to the tally of the task, and to what is counted here."""
        note(self._spec.label, name, container)
        total = self._totals[name]
        for key, cell in container.metrics.items():
            total.metrics[key] = total.get_metric_cell(key).combine(cell)
        container.metrics.clear()

    def fire(self, family: str, timer: Any) -> None:
        """Run the function of a timer of the stateful transform."""
        self._operations[str(self._spec.stateful)].process_timer(family, timer)

    def monitoring_infos(self) -> list[Any]:
        """Return what has been counted in this process, in Beam's form, up to the last bundle that has ended."""
        infos: dict[Any, Any] = {}
        for name, operation in self._operations.items():
            infos.update(operation.monitoring_infos(name, dict(self._descriptor.transforms[name].outputs)))
        for name, total in list(self._totals.items()):
            infos.update(total.to_runner_api_monitoring_infos(name))
        return list(infos.values())

    def tear_down(self) -> None:
        """Tear down the functions."""
        for operation in self._in_order:
            operation.teardown()

    @contextlib.contextmanager
    def _arguments_kept(self) -> Iterator[None]:
        """Let Beam keep the value of a side input in the global window for a whole run only if no side input changes.

        Beam looks at an experiment of its own when a function is set up.
        """
        transforms, pcolls = self._descriptor.transforms, self._descriptor.pcollections
        sides = [pcolls[transforms[name].inputs[tag]] for name, tag in self._spec.sides]
        before = RuntimeValueProvider.experiments
        if any(side.is_bounded == beam_runner_api_pb2.IsBounded.UNBOUNDED for side in sides):
            RuntimeValueProvider.experiments = {*before, _KEEP_NO_ARGUMENTS}
        try:
            yield
        finally:
            RuntimeValueProvider.experiments = before

    def _find_readers(self) -> Mapping[str, list[str]]:
        """Return the transforms that read each collection, apart from those that read it as a side input."""
        readers: dict[str, list[str]] = defaultdict(list)
        for name, transform in self._descriptor.transforms.items():
            for tag, pcoll in transform.inputs.items():
                if (name, tag) not in self._spec.sides:
                    readers[pcoll].append(name)
        return readers

    def _operation(self, name: str) -> Any:
        """Return the operation of a transform, after those of the transforms that read its outputs."""
        if name not in self._operations:
            transform = self._descriptor.transforms[name]
            receivers: dict[str, list[Any]] = {}
            for tag, pcoll in transform.outputs.items():
                receivers[tag] = [self._operation(reader) for reader in self._readers[pcoll]]
                if pcoll in self.buffers:
                    receivers[tag].append(self._sink(pcoll))
            make = self._factory.create_operation
            if name == self._spec.stateful:
                make = self._stateful
            elif transform.spec.urn in {WINDOW_INTO, COMBINE_EARLY}:
                make = self._own
            self._operations[name] = make(name, receivers)
        return self._operations[name]

    def _sink(self, pcoll: str) -> Any:
        """Return the operation that keeps the elements of an output."""
        spec = operation_specs.WorkerInMemoryWrite(
            output_buffer=self.buffers[pcoll], write_windowed_values=True, input=None, output_coders=[]
        )
        sink = operations.InMemoryWriteOperation(common.NameContext("sink"), spec, self._counters, self._sampler)
        self._sinks.append(sink)
        return sink

    def _own(self, name: str, receivers: Mapping[str, list[Any]]) -> Any:
        """Return the operation of a transform that one of this package replaces."""
        transform, factory = self._descriptor.transforms[name], self._factory
        further = (
            common.NameContext(transform.unique_name, name),
            operation_specs.WorkerFlatten(None, [factory.get_only_output_coder(transform)]),
            self._counters,
            self._sampler,
        )
        if transform.spec.urn == COMBINE_EARLY:
            combined = reduced(combiner_of(transform, factory.context))
            assert combined is not None  # noqa: S101 - others keep Beam's combiner
            operation: Any = _CombineEarly(combined, *further)
        else:
            strategy = proto_utils.parse_Bytes(transform.spec.payload, beam_runner_api_pb2.WindowingStrategy)
            assign = assigner_of(core.Windowing.from_runner_api(strategy, factory.context).windowfn)
            assert assign is not None  # noqa: S101 - others keep Beam's operation
            operation = _WindowInto(assign, *further)
        return factory.augment_oldstyle_op(operation, transform.unique_name, receivers)

    def _stateful(self, name: str, receivers: Mapping[str, list[Any]]) -> Any:
        """Return the operation of the stateful transform, whose state and timers are the engine's."""
        transform, factory = self._descriptor.transforms[name], self._factory
        payload = proto_utils.parse_Bytes(transform.spec.payload, beam_runner_api_pb2.ParDoPayload)
        input_coders = factory.get_input_coders(transform)
        sides = sorted(payload.side_inputs.items(), key=lambda side: sideinputs.get_sideinput_index(side[0]))
        side_maps = [
            bundle_processor.StateBackedSideInputMap(
                self.sides, name, tag, pvalue.SideInputData.from_runner_api(side, factory.context), input_coders[tag]
            )
            for tag, side in sides
        ]
        fn = core.DoFnInfo.from_runner_api(payload.do_fn, factory.context).serialized_dofn_data()
        data = pickler.loads(fn)
        if not data[-1]:  # its windowing
            strategy = self._descriptor.pcollections[self._spec.input].windowing_strategy_id
            fn = pickler.dumps((*data[:-1], factory.context.windowing_strategies.get_by_id(strategy)))
        tags = list(transform.outputs)
        output_coders = factory.get_output_coders(transform)
        spec = operation_specs.WorkerDoFn(
            serialized_fn=fn,
            output_tags=tags,
            input=None,
            side_inputs=None,
            output_coders=[output_coders[tag] for tag in tags],
        )
        assert self._states is not None  # noqa: S101 - whoever runs a stateful stage has state
        operation = operations.DoOperation(
            common.NameContext(transform.unique_name, name),
            spec,
            self._counters,
            self._sampler,
            side_maps,
            self._states(),
        )
        return factory.augment_oldstyle_op(operation, transform.unique_name, receivers, tags)


class Counting:
    """Counts what a combiner counts that no operation of Beam's calls.

    Args:
        label: the label of the grouping.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._container = MetricsContainer(label)
        self._sampler = statesampler.StateSampler(label, counters.CounterFactory())
        self._sampler.scoped_state(label, "combine", metrics_container=self._container).__enter__()

    def begin(self) -> None:
        """Count here what Beam's functions count in this thread, until others begin."""
        statesampler.set_current_tracker(self._sampler)

    def end(self) -> None:
        """Add what has been counted to the tally of the task."""
        if self._container.metrics:
            note(self._label, self._label, self._container)
            self._container.metrics.clear()


def function_of(payload: Any) -> Any:
    """Return the `DoFn` of a user's, given Beam's description of what runs it, a `ParDoPayload`."""
    return pickler.loads(core.DoFnInfo.from_runner_api(payload.do_fn, None).serialized_dofn_data())[0]


def finalized_in(spec: StageSpec) -> list[str]:
    """Return the names of the functions of a stage that ask to be called when a bundle is committed."""
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(spec.descriptor)
    process = common_urns.sdf_components.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS.urn
    return [
        name
        for name, transform in sorted(descriptor.transforms.items())
        if transform.spec.urn in {_PAR_DO, process}
        and proto_utils.parse_Bytes(transform.spec.payload, beam_runner_api_pb2.ParDoPayload).requests_finalization
    ]


def never_ends(fn: Any) -> bool:
    """Return whether a splittable function declares that the work on one element may never end.

    Example:
        >>> from apache_beam.transforms.periodicsequence import ImpulseSeqGenDoFn
        >>> never_ends(ImpulseSeqGenDoFn()), never_ends(core.CallableWrapperDoFn(str))
        (True, False)
    """
    return bool(common.DoFnSignature(fn).is_unbounded_per_element())


@functools.cache
def known_urns() -> frozenset[str]:
    """Return the kinds of transforms that Beam's Python workers can run."""
    return frozenset(bundle_processor.BeamTransformFactory._known_urns)  # noqa: SLF001 - there is no other list


def key_coder(coder: Any) -> Any:
    """Return the coder of the keys of pairs, given the coder of the pairs."""
    if type(coder).__name__ == "LengthPrefixCoder":
        coder = coder.value_coder()
    return coder.key_coder() if coder.is_kv_coder() else core.coders.FastPrimitivesCoder()


def is_urn_of_functions(urn: str) -> bool:
    """Return whether a transform of this kind runs a `DoFn`.

    Example:
        >>> is_urn_of_functions("beam:transform:pardo:v1"), is_urn_of_functions("beam:transform:flatten:v1")
        (True, False)
    """
    parts = common_urns.sdf_components
    return urn in {
        _PAR_DO,
        parts.PAIR_WITH_RESTRICTION.urn,
        parts.SPLIT_AND_SIZE_RESTRICTIONS.urn,
        parts.TRUNCATE_SIZED_RESTRICTION.urn,
        parts.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS.urn,
    }
