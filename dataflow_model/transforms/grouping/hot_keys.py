"""Hot keys: combining in two stages, first over the parts of each key, then over each key."""

from __future__ import annotations

import contextlib
import pickle
import zlib
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from dataflow_model.errors import InvalidArgument, InvalidType, KeyEncodingError
from dataflow_model.plan.checks.record_ids import has_record_ids
from dataflow_model.plan.functions.combine import CombineFn, WrappingFn, output_of
from dataflow_model.plan.functions.dofn import SplitFn
from dataflow_model.plan.functions.parameters import check_plain
from dataflow_model.plan.logical import nodes
from dataflow_model.plan.logical.retracted import retracted_collections
from dataflow_model.plan.logical.strategy import AccumulationMode, ClosingBehavior, OnTimeBehavior, TimestampCombiner
from dataflow_model.transforms.elementwise.dropped import restored
from dataflow_model.transforms.elementwise.maps import Map
from dataflow_model.transforms.grouping.element_bytes import element_bytes
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.transforms.pipelines.output_tags import with_further
from dataflow_model.transforms.pipelines.ptransform import PTransform
from dataflow_model.triggers import AfterAny, Repeatedly, TimeDomain
from dataflow_model.triggers.delays import Deadline
from dataflow_model.values.pickles import dump, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.logical.dropped import Dropped
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.transforms.pipelines.pcollection import PCollection
    from dataflow_model.triggers import TriggerContext

_PICKLE_PROTOCOL: Final = 5
_MOST_PARTS: Final = 1 << 32
"""The number of different hashes of records, so more parts would stay empty."""


def checked_fanout(fanout: Any, *, may_be_function: bool = True) -> Any:
    """Return a number of parts, or a function from a key to one.

    Raises:
        InvalidType: for anything else.
        InvalidArgument: for a number below 1 or above 2³².
    """
    if may_be_function and callable(fanout) and not isinstance(fanout, type):
        check_plain(fanout, "`fanout`")
        return fanout
    if type(fanout) is not int:
        kinds = "an int or a function from a key to an int" if may_be_function else "an int"
        raise InvalidType(f"`fanout` must be {kinds}, got {fanout!r}", hint="use 16 for 16 parts, for example")
    if not 1 <= fanout <= _MOST_PARTS:
        raise InvalidArgument(
            f"`fanout` must be at least 1 and at most {_MOST_PARTS:,}, got {fanout!r}",
            hint="use 16 for 16 parts, for example",
        )
    return fanout


def combine_in_parts(
    pcoll: PCollection,
    combine: CombineFn[Any, Any, Any],
    fanout: Any,
    output_type: Any,
    *,
    has_one_key: bool,
    dropped: str | None,
) -> Any:
    """Combine the values of each part of a key into an accumulator, and then the accumulators of each key.

    Args:
        pcoll: a collection of pairs.
        combine: the combiner.
        fanout: the number of parts of a key, or a function from a key to that.
        output_type: the type of the combiner's outputs.
        has_one_key: whether all pairs have the same key.
        dropped: the tag of the output for elements that are dropped, or `None` if they are only counted.

    Raises:
        InvalidArgument: if the trigger may finish before its window expires, which it would do in each part separately,
            or if late elements, which must not move the event time of a pane, would do so.
    """
    pipeline, strategy = pcoll.pipeline, pcoll.strategy
    if strategy.trigger.may_finish(allowed_lateness=strategy.allowed_lateness):
        raise InvalidArgument(
            f"{pipeline.scope!r} combines in parts, but {strategy.trigger!r} may finish before its window expires, "
            "which it would do in each part separately",
            hint="wrap the trigger in dm.Repeatedly(…), or leave the fan-out out",
        )
    plan = pipeline.plan()
    takes_back = pcoll.ref in retracted_collections(plan) and strategy.accumulates
    stamped = strategy.timestamp_combiner
    at_the_end = TimestampCombiner.END_OF_WINDOW
    harmless = {at_the_end} if strategy.merges else {at_the_end, TimestampCombiner.EARLIEST}
    if stamped not in harmless and not takes_back:
        # A part of late elements only is stamped with the end of its window, which is not late for the second stage.
        raise InvalidArgument(
            f"{pipeline.scope!r} combines in parts, but `timestamp_combiner` is {stamped.value!r}, which leaves out "
            "late elements, and a part may have no others",
            hint="use .timestamp_combiner('end_of_window'), or leave the fan-out out",
        )
    key, value = typehints.pair_types(pcoll.element_type)
    part = typehints.tuple_of(key, int)
    split = HashedParts(fanout, by_record=has_record_ids(plan, pcoll.ref))
    partial, total = _two_stages(combine, takes_back=takes_back)
    merging = attrs.evolve(strategy.after_grouping(pipeline.scope), merged=strategy.merged)
    parts = _Stage(
        partial, _of_parts(strategy, takes_back=takes_back), merging, typehints.tuple_of(part, Any), dropped=dropped
    )
    fan_out = nodes.FanOut(f"{pipeline.scope}/Parts", combine)
    whole = typehints.tuple_of(key, output_type)
    after = strategy.after_grouping(pipeline.scope)
    totals = _Stage(total, merging, after, whole, fan_out=fan_out, has_one_key=has_one_key)
    accumulators: Any = pcoll | "Split" >> _Split(split, typehints.tuple_of(part, value)) | "Parts" >> parts
    records: Any = None
    if dropped is not None:
        accumulators, records = accumulators
    joined = typehints.tuple_of(key, Any)
    combined = accumulators | "Join" >> Map(_without_part).with_output_types(joined) | "Total" >> totals
    return combined if records is None else (combined, restored(records, _whole))


def _two_stages(
    combine: CombineFn[Any, Any, Any], *, takes_back: bool
) -> tuple[CombineFn[Any, Any, Any], CombineFn[Any, Any, Any]]:
    """Return the combiner of the parts' elements and that of their accumulators."""
    form = combine.kernel_form()
    if form is not None and form.row is None and not any(kernel.divides for kernel in form.kernels):
        return combine, Merging(combine) if form.kernels[0].reduction is None else combine
    return Partial(combine, copies=takes_back), Merging(combine, copies=takes_back)


def _of_parts(strategy: WindowingStrategy, *, takes_back: bool) -> WindowingStrategy:
    """Return the strategy of the first stage, whose panes add up to what the second stage should contain."""
    mode = AccumulationMode.ACCUMULATE_ALWAYS if takes_back else AccumulationMode.CLEAR_ALWAYS
    # The session of another part may expire in the second stage, unless this part's elements join it in time.
    trigger = Repeatedly(AfterAny(strategy.trigger, WhenReached())) if strategy.merges else strategy.trigger
    stamped = strategy.timestamp_combiner
    if takes_back:  # at the event time of an element, a retraction may be late
        stamped = TimestampCombiner.END_OF_WINDOW
    elif strategy.merges and stamped is TimestampCombiner.END_OF_WINDOW:
        # A bounded job on Spark has a watermark for each key, which follows the parts: a session of one part must not
        # end before that of another which overlaps it has arrived. The second stage stamps its panes anew.
        stamped = TimestampCombiner.EARLIEST
    return attrs.evolve(
        strategy,
        trigger=trigger,
        accumulation_mode=mode,
        retracting=takes_back,
        timestamp_combiner=stamped,
        on_time=OnTimeBehavior.FIRE_IF_NON_EMPTY,
        closing=ClosingBehavior.FIRE_IF_NON_EMPTY,
    )


@attrs.frozen(repr=False)
class _Wrapping(WrappingFn[Any, Any, Any]):
    """A combiner with the accumulators of another one.

    Attributes:
        combine: the other combiner.
        copies: whether accumulators change after they have been emitted, so that pickled copies are emitted.
    """

    combine: CombineFn[Any, Any, Any]
    copies: bool = False

    def wrapped(self) -> Sequence[CombineFn[Any, Any, Any]]:
        return (self.combine,)

    @property
    def create_accumulator(self) -> Callable[[], Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The method of the other combiner itself, which saves a call for each part."""
        return self.combine.create_accumulator

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        return self.combine.merge_accumulators(accumulators)

    def title(self) -> str:
        return f"{type(self).__name__}({self.combine.title()})"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.combine!r})"


@attrs.frozen(repr=False)
class Partial(_Wrapping):
    """A combiner whose output is its accumulator."""

    @property
    def add_input(self) -> Callable[[Any, Any], Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The method of the other combiner itself, which saves a call for each element."""
        return self.combine.add_input

    def extract_output(self, accumulator: Any) -> Any:
        """Return the accumulator, or a copy."""
        return dump(accumulator) if self.copies else accumulator

    def subtract_input(self, accumulator: Any, element: Any) -> Any:
        """Subtract an input."""
        return self.combine.subtract_input(accumulator, element)

    @property
    def can_subtract(self) -> bool:
        """Whether the combiner can."""
        return self.combine.can_subtract


@attrs.frozen(repr=False)
class Merging(_Wrapping):
    """A combiner whose inputs are accumulators that `Partial` emits."""

    def add_input(self, accumulator: Any, element: Any) -> Any:
        """Merge one more accumulator."""
        return self.combine.merge_accumulators([accumulator, load(element) if self.copies else element])

    def extract_output(self, accumulator: Any) -> Any:
        """Return the combiner's output."""
        return output_of(self.combine, accumulator)


@attrs.frozen
class WhenReached(Deadline):
    """Fire when the watermark reaches the earliest new element: immediately, if that is behind the watermark."""

    @property
    def _domain(self) -> TimeDomain:
        return TimeDomain.EVENT_TIME

    def on_element(self, context: TriggerContext) -> None:
        """Wait for the element, if it is earlier than the others."""
        pending = context.get_timer("")
        if pending is None or int(context.event_time) < int(pending):
            self._wait_until(context, int(context.event_time))

    def describe(self) -> str:
        """Describe when it fires."""
        return "when the watermark reaches the earliest new element"


class _Split(PTransform):
    """Assigns each element to a part of its key.

    Args:
        fn: the function.
        pairs: the type of its output.
    """

    input_kind = "collection"

    def __init__(self, fn: HashedParts, pairs: Any) -> None:
        self._fn = fn
        self._pairs = pairs

    def expand(self, pcoll: PCollection) -> PCollection[Any]:
        """Add the node."""
        pipeline = pcoll.pipeline
        node = nodes.ParDo(label=pipeline.scope, input=pcoll.ref, fn=self._fn)
        return pipeline.add_main(node, strategy=pcoll.strategy, element_type=self._pairs)


class _Stage(PTransform):
    """A grouping under a strategy of its own.

    Args:
        combine: the combiner.
        strategy: the strategy of the grouping.
        after: the strategy of its output.
        pairs: the type of its output.
        options: further attributes of the node.
    """

    input_kind = "collection"

    def __init__(
        self,
        combine: CombineFn[Any, Any, Any],
        strategy: WindowingStrategy,
        after: WindowingStrategy,
        pairs: Any,
        **options: Any,
    ) -> None:
        self._combine = combine
        self._strategy = strategy
        self._after = after
        self._pairs = pairs
        self._options = options

    def expand(self, pcoll: PCollection) -> PCollection[Any]:
        """Add the node."""
        pipeline = pcoll.pipeline
        node = nodes.GroupByKeyAndWindow(
            label=pipeline.scope,
            input=pcoll.ref,
            strategy=self._strategy,
            combine=self._combine,
            **self._options,
        )
        outputs = pipeline.add(node, strategy=self._after, element_types={nodes.MAIN: self._pairs})
        result: PCollection[Any] = with_further(
            outputs[nodes.MAIN], [outputs[tag] for tag in filter(None, [node.dropped])]
        )
        return result


@attrs.frozen(eq=False)
class HashedParts(SplitFn):
    """Spreads the pairs of each key evenly over its parts.

    Attributes:
        fanout: the number of parts of a key, or a function from a key to it.
        by_record: whether the part follows from the record's position in its source. Otherwise it follows from the
            value and its event time, which a retraction repeats.
    """

    fanout: int | Callable[[Any], int]
    by_record: bool

    def title(self) -> str:
        """Return what explanations say about it."""
        number = f"{self.fanout} parts" if isinstance(self.fanout, int) else "its parts"
        return f"each pair to one of {number} of its key"

    def parts(
        self,
        pairs: Sequence[Any],
        times: Sequence[int],
        record_hashes: Callable[[], NDArray[np.int64]],
        coded_keys: Callable[[], tuple[Sequence[Any], NDArray[np.int64]]] | None,
    ) -> Iterable[int] | NDArray[np.int64]:
        """Return the part of each pair; the function is called once per key if equal keys are known to the caller."""
        hashes = record_hashes() if self.by_record else _value_hashes(pairs, times)
        if isinstance(self.fanout, int):
            return hashes % self.fanout
        if coded_keys is not None:
            keys, codes = coded_keys()
            with contextlib.suppress(Exception):  # which is raised again below, for the first pair with the key
                return hashes % np.array([self._fanout_of(key) for key in keys], np.int64)[codes]
        return (hashed % self._fanout_of(pair[0]) for pair, hashed in zip(pairs, hashes.tolist(), strict=True))

    def _fanout_of(self, key: Any) -> int:
        assert callable(self.fanout)  # noqa: S101 - the caller has looked
        fanout = self.fanout(key)
        if not isinstance(fanout, int):
            raise InvalidType(
                f"`fanout` must return an int, got {fanout!r} for the key {key!r}",
                hint="return 16 for 16 parts, and 1 for a key that is not to be split",
            )
        return max(fanout, 1)


def _value_hashes(pairs: Sequence[Any], times: Sequence[int]) -> NDArray[np.int64]:
    """Return a hash in `[0, 2**32)` of each value and its event time."""
    encoded = (_bytes_of((int(time), pair[1])) for pair, time in zip(pairs, times, strict=True))
    return np.fromiter(map(zlib.crc32, encoded), np.int64, len(pairs))


def _bytes_of(element: Any) -> bytes:
    try:
        return element_bytes(element)
    except KeyEncodingError:
        return pickle.dumps(element, protocol=_PICKLE_PROTOCOL)


def _whole(record: Dropped) -> Dropped:
    return attrs.evolve(record, element=_without_part(record.element))


def _without_part(pair: Any) -> tuple[Any, Any]:
    (key, _), accumulator = pair
    return key, accumulator
