"""Fused element-wise transforms: those between a producer and the groupings and sinks that it feeds."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from typing import TYPE_CHECKING, Any, Final, assert_never

import attrs
import numpy as np

from dataflow_model.metrics.collecting import count_emitted, count_received, enter
from dataflow_model.plan.checks.record_ids import RECORD_ID
from dataflow_model.plan.functions.dofn import (
    AsyncMapFn,
    DoFn,
    FilterFn,
    FlatMapFn,
    MapFn,
    SplitFn,
    TimestampedValue,
)
from dataflow_model.plan.functions.windowed import BundleFn, InputColumns
from dataflow_model.plan.logical.graph import outputs_of
from dataflow_model.plan.logical.nodes import (
    MAIN,
    AssignTimestamps,
    AssignWindows,
    Deduplicate,
    Flatten,
    GroupByKeyAndWindow,
    Node,
    ParDo,
    Read,
    Ref,
    Reshuffle,
    SideInput,
    ToPairs,
    Write,
)
from dataflow_model.plan.logical.retracted import retracted_collections
from dataflow_model.plan.logical.stages import side_cut
from dataflow_model.runners.engine.elementwise.answers import answer, read_ahead
from dataflow_model.runners.engine.elementwise.assigning import with_pairs, with_timestamps, with_windows
from dataflow_model.runners.engine.elementwise.flow_functions import (
    LIST_HINT,
    MARKED,
    add_outputs,
    filter_flow,
    flat_map_flow,
    map_flow,
)
from dataflow_model.runners.engine.elementwise.flows import Flow, Outputs
from dataflow_model.runners.engine.elementwise.vectorized import run_on_columns
from dataflow_model.runners.engine.functions.lifetimes import Lifetime, tear_down_all
from dataflow_model.runners.engine.functions.user_code import FINISH_HINT, dead_letter, life_cycle, listed, user_error
from dataflow_model.runners.engine.lanes.bundle import Bundle, all_joined, updates_of
from dataflow_model.runners.engine.lanes.chunk import PlacedBundle
from dataflow_model.runners.engine.lanes.lanes import Lane, taken
from dataflow_model.runners.engine.lanes.order import numbered_by_cause
from dataflow_model.runners.engine.lanes.record_ids import record_hashes, record_ids
from dataflow_model.runners.engine.lanes.value_lanes import Pairs, columns_of, in_columns, split
from dataflow_model.time import EventTime, ProcessingTime
from dataflow_model.values import Window, checked_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.runners.engine.elementwise.answers import Begun
    from dataflow_model.values import PaneInfo

_Metadata = tuple[int, int, tuple[Window, ...], "PaneInfo | None", tuple[Any, ...]]
"""The place of an element's cause, its event time, its windows, its pane if it has its own, and its record id."""
_AROUND: Final = ("start_bundle", "finish_bundle")
"""The methods that are called at the beginning and the end of a bundle."""


class Fragment:
    """Runs the element-wise transforms after one producer.

    Args:
        plan: the whole plan.
        producer: the label of the source or keyed node that feeds the fragment.
        cuts: the labels of the nodes at which a flow ends, because a later stage or a sink receives it.
        side_values: the value of each static side input, as a function of the window.
        skip: the labels of nodes to leave out, because they are run elsewhere.
    """

    def __init__(
        self,
        plan: Plan,
        producer: str,
        cuts: frozenset[str],
        side_values: Mapping[SideInput, Callable[[Window], Any]] | None = None,
        skip: Collection[str] = (),
    ) -> None:
        self._plan = plan
        self._producer = producer
        self._cuts = cuts
        self._side_values = side_values or {}
        self._skip = skip
        self._lifetimes: dict[str, Lifetime] = {}
        self._record_id: tuple[Any, ...] = ()
        self._root = Bundle()
        self._of_root = _Lists(self._root)

    def run(self, bundle: Bundle, tag: str = MAIN) -> dict[str, Bundle]:
        """Run a bundle through the transforms; return the elements that arrive at each cut, in order of cause.

        If a function emits at the ends of bundles and its input may be retracted, each element is a bundle of its own:
        what the function emits for a retraction is then what it has emitted for the value that is retracted.
        """
        if not self._retracts_at_ends or len(bundle) <= 1:
            return {cut: self._gather(flow) for cut, flow in self._arrived(bundle, tag).items()}
        elements = bundle.plain()
        arrived: dict[str, list[Bundle]] = {}
        for row in range(len(elements)):
            for cut, flow in self._arrived(elements.sliced(row, row + 1), tag).items():
                arrived.setdefault(cut, []).append(self._gather(flow))
        return {cut: all_joined(bundles) for cut, bundles in arrived.items()}

    def run_placed(self, placed: PlacedBundle, tag: str) -> dict[str, PlacedBundle]:
        """Run elements of several instants through; return the elements that arrive at each cut, in order of cause.

        They are a single bundle, unless a function is called at the ends of bundles: then each instant is a bundle.
        """
        arrived: dict[str, PlacedBundle] = {}
        if not self._sees_bundles:
            for cut, flow in self._arrived(placed.bundle, tag).items():
                arrived[cut] = PlacedBundle(self._gather(flow), _picked(placed.indices, flow.causes))
            return arrived
        for index, bundle in placed.runs():
            for cut, output in self.run(bundle, tag).items():
                arrived.setdefault(cut, PlacedBundle()).add(index, output)
        return arrived

    def run_alone(self, label: str, bundle: Bundle) -> dict[str, Bundle]:
        """Run one ParDo on its elements; return its outputs by tag, in order of cause."""
        node = self._plan[label]
        assert isinstance(node, ParDo)  # noqa: S101 - callers have it from a join with side inputs
        self._root, self._of_root = bundle, _Lists(bundle)
        enter(label)
        return {tag: self._gather(output) for tag, output in self._par_do(node, Flow.of(bundle)).items()}

    def tear_down(self) -> None:
        """Tear down the DoFns."""
        tear_down_all(self._lifetimes.values())
        self._lifetimes.clear()

    @property
    def labels(self) -> list[str]:
        """The labels of the transforms."""
        return [node.label for node in self._nodes]

    @functools.cached_property
    def _nodes(self) -> list[Node]:
        """The transforms, each after those before it."""
        nodes: dict[str, Node] = {}
        refs = deque(outputs_of(self._plan[self._producer]))
        while refs:
            for node in self._consumers(refs.popleft()):
                if node.label not in self._cuts and node.label not in nodes:
                    nodes[node.label] = node
                    refs += outputs_of(node)
        return list(nodes.values())

    @functools.cached_property
    def _sees_bundles(self) -> bool:
        """Whether a function of the fragment is called at the beginning or the end of a bundle."""
        functions = [node.fn for node in self._nodes if isinstance(node, ParDo)]
        return any(_overrides(fn, name) for fn in functions for name in _AROUND)

    @functools.cached_property
    def _retracts_at_ends(self) -> bool:
        """Whether a function of the fragment emits at the ends of bundles, of which elements may be retracted."""
        emitting = [node for node in self._nodes if isinstance(node, ParDo) and _overrides(node.fn, _AROUND[1])]
        if not emitting:
            return False
        retracted = retracted_collections(self._plan)
        return any(node.input in retracted for node in emitting)

    def _consumers(self, ref: Ref) -> list[Node]:
        return [node for node in self._plan.consumers(ref) if node.label not in self._skip]

    def _arrived(self, bundle: Bundle, tag: str) -> dict[str, Flow]:
        """Run a bundle through the transforms; return the elements that arrive at each cut, in order of cause."""
        self._root, self._of_root = bundle, _Lists(bundle)
        arrived: dict[str, list[Flow]] = {}
        pending = self._steps(Ref(self._producer, tag), Flow.of(bundle))
        while pending:  # depth first, without recursion: a chain of transforms may be longer than Python's stack
            node, ref, flow = pending.pop()
            if node.label in self._cuts:
                for cut in _cuts_of(node, ref):
                    if cut in self._cuts:
                        arrived.setdefault(cut, []).append(flow)
                continue
            count_received(node.label, 0 if isinstance(node, ParDo) and ref != node.input else len(flow.values))
            outputs = self._apply(node, ref, flow)
            for output in outputs.values():
                count_emitted(node.label, len(output.values))
            for output_tag, output in reversed(outputs.items()):
                pending += self._steps(Ref(node.label, output_tag), output)
        return {cut: flows[0] if len(flows) == 1 else self._by_cause(flows) for cut, flows in arrived.items()}

    def _by_cause(self, flows: Sequence[Flow]) -> Flow:
        """Return the elements of several flows in order of cause; see `Flow.by_cause`."""
        if any(flow.panes is not None for flow in flows):
            flows = [attrs.evolve(flow, panes=self._panes_of(flow)) for flow in flows]
        return Flow.by_cause(flows)

    def _panes_of(self, flow: Flow) -> Sequence[PaneInfo]:
        return _picked(self._root.panes, flow.causes) if flow.panes is None else flow.panes

    def _steps(self, ref: Ref, flow: Flow) -> list[tuple[Node, Ref, Flow]]:
        """Return the transforms that take an output, with it, the first one last."""
        return [(node, ref, flow) for node in reversed(self._consumers(ref))]

    def _apply(self, node: Node, ref: Ref, flow: Flow) -> dict[str, Flow]:
        """Run one transform on the elements of one of its inputs; return its outputs by tag."""
        match node:
            case Flatten():
                return {MAIN: flow}
            case ParDo():
                return self._par_do(node, flow) if ref == node.input else {}
            case ToPairs():
                return {MAIN: with_pairs(node, flow)}
            case AssignTimestamps():
                return {MAIN: with_timestamps(node, flow)}
            case AssignWindows():
                return {MAIN: with_windows(node, flow)}
            case GroupByKeyAndWindow() | Reshuffle() | Deduplicate() | Write() | Read():
                raise AssertionError(f"{node.label!r} is neither an element-wise transform nor a cut")
            case _:
                assert_never(node)

    def _gather(self, flow: Flow) -> Bundle:
        """Return the elements that have arrived, numbered within each cause."""
        root = self._root
        causes = flow.causes
        return Bundle(
            _own(flow.values),
            _own(flow.times),
            _own(flow.windows),
            _own(self._panes_of(flow)),
            numbered_by_cause(root.orders, causes),
            _picked(root.produced, causes),
            updates_of(root.updates, causes),
        )

    def _par_do(self, node: ParDo, flow: Flow) -> dict[str, Flow]:
        if not len(flow.values):
            return {}
        if node.label not in self._lifetimes:
            lifetime = Lifetime(node.label, node.fn)
            lifetime.set_up()
            self._lifetimes[node.label] = lifetime
        if node.fn.takes_batches and not (node.fn.takes_elements and columns_of(flow.values) is None):
            return self._on_columns(node, flow)
        if isinstance(node.fn, SplitFn):
            return {MAIN: self._split(node.fn, node.label, flow)}
        if isinstance(node.fn, BundleFn):
            return self._run_bundle(node, node.fn, flow)
        bare = not (node.parameters or node.args or node.kwargs or node.dead_letters)
        if bare and type(node.fn) is FlatMapFn:
            return flat_map_flow(node, flow)
        plain = bare and not node.tags
        if plain and isinstance(node.fn, MapFn):
            return {MAIN: map_flow(node, flow)}
        if plain and isinstance(node.fn, FilterFn):
            return {MAIN: filter_flow(node, flow)}
        return self._par_do_each(node, flow)

    def _split(self, fn: SplitFn, label: str, flow: Flow) -> Flow:
        pairs = in_columns(flow.values)
        if not isinstance(pairs, Pairs):
            checked_pairs(pairs, label)
        hashes_of = functools.partial(record_hashes, self._plan, self._producer, self._root, flow.causes)
        coded_keys = pairs.keys_and_codes if isinstance(pairs, Pairs) and pairs.keys_are_alike() else None
        parts: list[int] = []
        try:
            given = fn.parts(pairs, flow.times, hashes_of, coded_keys)
            if not isinstance(given, np.ndarray):
                parts.extend(given)
        except BaseException as error:
            raise user_error(error, label, pairs[len(parts)]) from error
        in_parts = split(pairs, given if isinstance(given, np.ndarray) else parts)
        return flow.with_all_values(in_parts)

    def _run_bundle(self, node: ParDo, fn: BundleFn, flow: Flow) -> dict[str, Flow]:
        """Call a function whose outputs have event times, windows and panes of their own."""
        if node.side_inputs:
            _, flow = flow.apart()
        elements = InputColumns(flow.values, flow.times, flow.windows, self._panes_of(flow))
        sides = [self._side_values[side] for side in node.side_inputs]
        with life_cycle(node.label, "run"):
            outputs = fn.run(elements, sides)
        causes = flow.causes
        return {
            tag: Flow(
                given.values,
                given.rows if isinstance(causes, range) else taken(causes, given.rows),
                given.times,
                given.windows,
                given.panes,
            )
            for tag, given in outputs.items()
        }

    def _on_columns(self, node: ParDo, flow: Flow) -> dict[str, Flow]:
        with life_cycle(node.label, "start_bundle"):
            node.fn.start_bundle()
        ran = run_on_columns(node, flow.values)
        answered = flow if ran.rows is None else flow.taken(ran.rows)
        outputs = {MAIN: answered.with_all_values(ran.values)}
        if node.dead_letters is not None:
            letters = flow.taken([row for row, _ in ran.failed])
            letters.values = [
                dead_letter(error, node.label, value)
                for value, (_, error) in zip(letters.values, ran.failed, strict=True)
            ]
            outputs[node.dead_letters] = letters
        return self._finish_bundle(node, flow, outputs)

    def _par_do_each(self, node: ParDo, flow: Flow) -> dict[str, Flow]:
        """Call the user's function for each element; for each of its windows, where it sees the window."""
        parameters = node.parameters
        outputs = {tag: Outputs() for tag in (MAIN, *node.tags, *([node.dead_letters] if node.dead_letters else []))}
        with life_cycle(node.label, "start_bundle"):
            node.fn.start_bundle()
        windowed = "window" in parameters.values() or bool(node.side_inputs)
        rows, seen = flow.apart() if windowed else (range(len(flow.values)), flow)
        ids: Iterable[tuple[Any, ...]] = itertools.repeat(())
        if RECORD_ID in parameters.values():
            ids = taken(list(record_ids(self._plan, self._producer, self._root, flow.causes)), rows)
        process = node.fn.process
        values, causes = outputs[MAIN].values, outputs[MAIN].rows
        panes: Iterable[PaneInfo | None] = itertools.repeat(None) if seen.panes is None else seen.panes
        metadata = zip(seen.causes, seen.times, seen.windows, panes, ids, strict=False)
        bare = not (parameters or node.args or node.kwargs)
        times: list[int] | None = None
        calls = self._calls(node, node.fn, seen, metadata) if isinstance(node.fn, AsyncMapFn) else None
        for row, value in enumerate(seen.values):
            try:
                if calls is not None:
                    given: Any = [answer(next(calls))]
                else:
                    given = process(value) if bare else self._call(node, value, *next(metadata))
                results = listed(given, node.label, LIST_HINT)
                if len(results) == 1 and type(results[0]) not in MARKED:
                    values.append(results[0])
                    causes.append(row)
                elif MARKED.isdisjoint(map(type, results)):
                    values += results
                    causes += itertools.repeat(row, len(results))
                else:
                    times = list(seen.times) if times is None else times
                    add_outputs(node, outputs, results, row, times[row])
            except BaseException as error:
                if node.dead_letters is None or not node.rescues(error):
                    raise user_error(error, node.label, value) from error
                outputs[node.dead_letters].add(dead_letter(error, node.label, value), row)
        return self._finish_bundle(node, flow, {tag: output.flow(seen) for tag, output in outputs.items()})

    def _finish_bundle(self, node: ParDo, flow: Flow, outputs: dict[str, Flow]) -> dict[str, Flow]:
        """End the bundle `flow`, and return its outputs with those that the function emits at the end."""
        with life_cycle(node.label, "finish_bundle"):
            finished = listed(node.fn.finish_bundle(), node.label, FINISH_HINT)
        if not finished:
            return outputs
        at_end = {tag: Outputs() for tag in outputs}
        for result in finished:
            # A plain value gets the order and time of the bundle's last element. One with an event time of its own may
            # go back as far as the bundle's first element, because the watermark is held at least until there.
            time = min(flow.times) if isinstance(result, TimestampedValue) else flow.times[-1]
            add_outputs(node, at_end, [result], len(flow.values) - 1, time)
        return {tag: Flow.by_cause([output, at_end[tag].flow(flow)]) for tag, output in outputs.items()}

    def _calls(self, node: ParDo, fn: AsyncMapFn, seen: Flow, metadata: Iterable[_Metadata]) -> Iterator[Begun]:
        """Return the calls for all elements, of which some have begun before the first is waited for."""
        asked = (self._begun(node, fn, value, given) for value, given in zip(seen.values, metadata, strict=False))
        return read_ahead(asked, fn.concurrency)

    def _begun(self, node: ParDo, fn: AsyncMapFn, value: Any, metadata: _Metadata) -> Begun:
        try:
            args, kwargs = self._arguments(node, value, *metadata)
        except BaseException as error:  # noqa: BLE001 - raised where the answer is waited for
            return error
        return fn.begin(value, *args, **kwargs)

    def _call(self, node: ParDo, value: Any, *metadata: Any) -> Any:
        """Call the user's function for one element, with all that it asks for."""
        args, kwargs = self._arguments(node, value, *metadata)
        return node.fn.process(value, *args, **kwargs)

    def _arguments(
        self,
        node: ParDo,
        value: Any,
        cause: int,
        time: int,
        windows: tuple[Window, ...],
        pane: PaneInfo | None,
        record_id: tuple[Any, ...],
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return what the user's function gets besides the element."""
        self._record_id = record_id
        kwargs: dict[str, Any] = {}
        for name, parameter in node.parameters.items():
            kwargs[name] = self._metadata(parameter, value, cause, time, windows, pane)
        for name, given in node.kwargs.items():
            kwargs[name] = self._argument(given, windows)
        return [self._argument(given, windows) for given in node.args], kwargs

    def _metadata(
        self, name: str, value: Any, cause: int, time: int, windows: tuple[Window, ...], pane: PaneInfo | None
    ) -> Any:
        match name:
            case "timestamp":
                return EventTime(time)
            case "window":
                return windows[0]
            case "pane":
                return self._of_root.panes[cause] if pane is None else pane
            case "key":
                return value[0]
            case "trigger":
                return (self._of_root.panes[cause] if pane is None else pane).trigger
            case "production_time":
                return ProcessingTime(self._of_root.produced[cause])
            case "watermark_percentile":
                return self._root.percentiles[cause]
            case "record_id":
                return self._record_id
            case "is_retraction":
                return cause in self._of_root.retractions
            case _:
                raise AssertionError(f"the parameter {name!r} should have been rejected at construction")

    def _argument(self, given: Any, windows: tuple[Window, ...]) -> Any:
        return self._side_values[given](windows[0]) if isinstance(given, SideInput) else given


class _Lists:
    """What functions ask for of the elements of a bundle, in lists, which are made when they are first needed.

    Args:
        bundle: the bundle.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle

    @functools.cached_property
    def panes(self) -> list[PaneInfo]:
        """The panes."""
        return list(self._bundle.panes)

    @functools.cached_property
    def produced(self) -> list[int]:
        """When the elements were produced."""
        return list(self._bundle.produced)

    @functools.cached_property
    def retractions(self) -> frozenset[int]:
        """The indices of the retractions."""
        return self._bundle.retractions()


def _overrides(fn: DoFn, name: str) -> bool:
    return getattr(type(fn), name) is not getattr(DoFn, name)


def _cuts_of(node: Node, ref: Ref) -> list[str]:
    """Return the cuts at which a keyed node or sink receives a collection: its main input, a side input, or both."""
    if not isinstance(node, ParDo):
        return [node.label]
    sides = [side_cut(node.label, number) for number, side in enumerate(node.side_inputs) if side.ref == ref]
    return [node.label, *sides] if ref == node.input else sides


def _own(items: Sequence[Any]) -> Sequence[Any]:
    """Return a column that may be appended to: a list that is not shared."""
    return items if isinstance(items, Lane) else list(items)


def _picked(items: Sequence[Any], causes: Sequence[int]) -> Sequence[Any]:
    """Return for each element the item of its cause."""
    return _own(items) if isinstance(causes, range) else taken(items, causes)
