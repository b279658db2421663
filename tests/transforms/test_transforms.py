"""The transforms, by the nodes that they make."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import dataflow_model as dm
from dataflow_model.plan.logical import nodes
from dataflow_model.testing import TestStream


class Sort(dm.DoFn):
    def process(self, element: Any, limit: int, timestamp: dm.EventTime) -> Any:
        yield dm.TaggedOutput("large", element) if element > limit else element


def nothing_taken() -> int:
    return 1


class Backward(dm.DoFn):
    late_data_horizon: Any = "1 hour"

    def process(self, element: object) -> list[object]:
        return [element]


def created(*values: Any) -> tuple[dm.Pipeline, Any]:
    p = dm.Pipeline()
    return p, p | dm.Create(values)


@pytest.mark.parametrize("index", [2, -1, "first", None])
def test_a_partition_that_does_not_exist_is_reported_with_a_way_out(index: Any) -> None:
    with (
        pytest.raises(dm.UserCodeError, match=r"must be a whole number in \[0, 2\), got (.|\n)*Hint: .*zlib\.crc32"),
        dm.Pipeline() as p,
    ):
        _ = p | dm.Create([1]) | dm.Partition(lambda element, n: index, 2)


def test_a_function_of_partition_that_takes_no_number_is_rejected_when_it_is_applied() -> None:
    _, numbers = created(1)
    wrong: Any = lambda x: x % 2  # noqa: E731 - the message names it
    with pytest.raises(
        dm.InvalidArgument,
        match=r"<lambda>\(x\) cannot be called with an element, 2: too many.*\nHint: .*lambda x, n: …",
    ):
        _ = numbers | dm.Partition(wrong, 2)


def test_par_do_has_outputs_by_tag_attribute_and_order() -> None:
    p, numbers = created(1, 2)
    out = numbers | dm.ParDo(Sort(), 1).with_outputs("large", main="small")
    assert out.keys() == ("small", "large")
    assert out.small is out["small"] is out[0]
    assert out.large.ref == nodes.Ref("ParDo", "large")
    small, large = out
    assert (small, large) == (out.small, out.large)
    node: Any = p.plan()["ParDo"]
    assert (node.tags, node.args, node.metadata) == (("large",), (1,), ("timestamp",))
    with pytest.raises(dm.InvalidArgument, match="there is no output 'middle'"):
        out["middle"]
    with pytest.raises(AttributeError, match=r"there is no output 'middle'; .*\nHint: .* name the tag in with_outputs"):
        _ = out.middle


def test_tagged_outputs_can_be_flattened() -> None:
    p, numbers = created(1, 2)
    both = numbers | dm.ParDo(Sort(), 1).with_outputs("large") | dm.Flatten()
    assert p.plan()["Flatten"].inputs == (nodes.Ref("ParDo"), nodes.Ref("ParDo", "large"))
    assert both.ref == nodes.Ref("Flatten")


def test_with_exception_handling_returns_results_and_dead_letters() -> None:
    p, numbers = created(1, 2)
    out, dead = numbers | dm.ParDo(Sort(), 1).with_outputs("large").with_exception_handling()
    assert out.large.ref.tag == "large"
    assert dead.ref == nodes.Ref("ParDo", "dead_letters")
    node: Any = p.plan()["ParDo"]
    assert node.dead_letters == "dead_letters"


@pytest.mark.parametrize("tags", [("a", "a"), ("main",)])
def test_each_output_needs_a_tag_of_its_own(tags: tuple[str, ...]) -> None:
    with pytest.raises(dm.InvalidArgument, match="each output needs a different tag"):
        dm.ParDo(Sort(), 1).with_outputs(*tags)


def test_the_dead_letters_need_a_tag_of_their_own() -> None:
    with pytest.raises(dm.InvalidArgument, match=r"dead letters.* need a tag that no other output has"):
        dm.ParDo(Sort(), 1).with_outputs("bad").with_exception_handling("bad")
    _, numbers = created(1)
    with pytest.raises(dm.InvalidArgument, match=r"dead letters.* need a tag that no other output has"):
        _ = numbers | dm.ParDo(Sort(), 1).with_exception_handling("bad").with_outputs("bad")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: dm.Map(lambda x, y: x), r"an unknown parameter 'y'"),
        (lambda: dm.Map(lambda k, v: k), r"'v'\nHint: pass v=… .*; for pairs, use dm.MapTuple, whose function takes"),
        (lambda: dm.FlatMap(lambda k, v: k), r"'v'\nHint: .*; for pairs, use dm.FlatMapTuple, whose function takes"),
        (lambda: dm.Filter(lambda k, v: k), r"'v'\nHint: .*; for pairs, .* dm.Filter\(lambda pair: pair\[1\] > 0\)"),
        (lambda: dm.Map(nothing_taken), "cannot be called with an element"),  # type: ignore[arg-type]
        (lambda: dm.Map(lambda x: x, 1), "cannot be called with an element"),  # type: ignore[arg-type]
        (lambda: dm.Map(lambda x: x, y=1), "cannot be called with an element"),  # type: ignore[arg-type]
        (lambda: dm.Map(3), "Map takes a function, got 3"),  # type: ignore[call-overload]
        (lambda: dm.ParDo(Sort), r"ParDo takes an instance of DoFn, got the class Sort\nHint: write Sort\(…\)"),  # type: ignore[arg-type]
        (lambda: dm.Partition(lambda x, n: 0, 0), "`n` must be an int of at least 1, got 0"),
        (lambda: dm.WithKeys(3), "`key` must be a function, a field's name or a tuple of names, got 3"),  # type: ignore[call-overload]
        (lambda: dm.WithKeys(len, value="x"), "`value` can be used only if `key` is a field's name"),  # type: ignore[call-overload]
        (lambda: dm.Create("text"), "Create takes an iterable of values, got the text"),
        (lambda: dm.Create(3), "Create takes an iterable of values, got 3"),  # type: ignore[call-overload]
        (lambda: dm.CombinePerKey(3), "CombinePerKey takes a CombineFn or an associative function, got 3"),  # type: ignore[call-overload]
        (lambda: dm.WithTimestamps(len, late_data_horizon=-1), "`late_data_horizon` must not be negative"),
        (lambda: dm.ParDo(Backward()), "`late_data_horizon` of Backward must be a Duration, got '1 hour'"),
        (lambda: dm.AsIter([1]), "a side input must be a collection"),  # type: ignore[arg-type]
        (lambda: dm.Top(0), "`n` must be at least 1, got 0"),
        (dm.Together, "needs at least one combiner"),
        (
            lambda: dm.CombinePerKey(dm.Top),
            r"the class Top, which cannot be instantiated without (.|\n)*Hint: .*Top\(…\)",
        ),
        (lambda: dm.Map(str).with_outputs(3), "a tag must be text, got \\(3,\\)"),  # type: ignore[arg-type]
        (lambda: dm.GroupIntoBatches("x"), "`size` must be an int, got 'x'"),  # type: ignore[arg-type]
        (lambda: (created(1)[1] | dm.Map(str).with_outputs("x"))[2], r"no output 2; the outputs are \['main', 'x'\]"),
    ],
)
def test_wrong_arguments_of_transforms_are_refused_at_construction(make: Any, problem: str) -> None:
    with pytest.raises((dm.InvalidArgument, dm.InvalidType), match=problem):
        make()


async def fetch(value: Any) -> Any:
    return value


async def fetch_parts(value: Any) -> Any:
    yield value


fetched: Any = fetch
fetched_parts: Any = fetch_parts


class Fetches:
    async def __call__(self, value: Any) -> Any:
        return value


class OpensLater(dm.DoFn[Any, Any]):
    async def setup(self) -> None:  # type: ignore[override]
        raise AssertionError("nothing awaits it")

    def process(self, element: Any) -> Any:
        yield element


class AddsLater(dm.CombineFn[Any, Any, Any]):
    def create_accumulator(self) -> Any:
        return 0

    async def add_input(self, accumulator: Any, element: Any) -> Any:
        return accumulator + element

    def merge_accumulators(self, accumulators: Any) -> Any:
        return sum(accumulators)

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator


class RecordsLater(dm.Computation):
    async def process_record(self, record: Any) -> None:  # type: ignore[override]
        raise AssertionError("nothing awaits it")


class Records(dm.Computation):
    def process_record(self, record: Any) -> None:
        raise AssertionError("nothing runs it")


@pytest.mark.parametrize(
    "make",
    [
        *(
            lambda kind=kind: kind(fetched)
            for kind in (dm.Map, dm.FlatMap, dm.Filter, dm.MapTuple, dm.ParDo, dm.WithKeys, dm.WithTimestamps)
        ),
        *(lambda kind=kind: kind(fetched) for kind in (dm.GroupBy, dm.CombineGlobally, dm.io.ForeachBundle)),
        lambda: dm.Map(Fetches()),
        lambda: dm.Map(functools.partial(fetched)),
        lambda: dm.FlatMap(fetched_parts),
        lambda: dm.Partition(fetched, 2),
        lambda: dm.Deduplicate(fetched, horizon=60),
        lambda: dm.Top(1, key=fetched),
        lambda: dm.CombinePerKey(fetched, 3),
        lambda: dm.CombinePerKey(AddsLater()),
        lambda: dm.CombinePerKey(sum).with_hot_key_fanout(fetched),
        lambda: dm.AfterPunctuation(fetched),
        lambda: dm.Explicit(fetched),
        lambda: dm.testing.assert_that(created(1)[1], fetched),
        lambda: dm.Topology().add(RecordsLater(), subscribe={"q": str}),
        lambda: dm.Topology().add(Records(), subscribe={"q": fetched}),
        lambda: dm.ParDo(OpensLater()),
    ],
)
def test_async_functions_are_refused_since_nothing_awaits_them(make: Any) -> None:
    with pytest.raises(dm.InvalidType, match=r"the async function .*, whose result nothing would await"):
        make()


def yielding(*parts: Any) -> Any:
    yield parts


class Yields:
    def __call__(self, value: Any) -> Any:
        yield value


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda: dm.Map(yielding), "use dm.FlatMap, "),
        (lambda: dm.Map(Yields()), "use dm.FlatMap, "),
        (lambda: dm.Map(functools.partial(yielding, 1)), "use dm.FlatMap, "),
        (lambda: dm.Map(yielding, vectorized=True), "use `return`"),
        (lambda: dm.MapTuple(yielding), "use dm.FlatMapTuple, "),
        (lambda: dm.Filter(yielding), "use `return`"),
    ],
)
def test_generator_functions_are_refused_if_one_value_is_expected(make: Any, hint: str) -> None:
    with pytest.raises(dm.InvalidType, match=rf"got the generator function .*\nHint: {hint}"):
        make()


class CalledLater:
    def __init__(self, value: Any) -> None:
        self.value = value

    async def __call__(self) -> Any:
        return self.value


def test_a_class_whose_instances_are_awaitable_is_not_taken_for_an_async_function() -> None:
    _ = dm.Map(CalledLater)


@pytest.mark.parametrize("transform", [dm.MapTuple, dm.FlatMapTuple])
def test_functions_of_the_parts_of_an_element_receive_metadata_requested_by_a_default(transform: Any) -> None:
    def seen(
        key: str, value: int, by: int, at: Any = dm.DoFn.TimestampParam, *, where: Any = dm.DoFn.WindowParam
    ) -> Any:
        found = key, value * by, at, where
        return found if transform is dm.MapTuple else [found]

    with dm.Pipeline() as p:
        pairs = p | dm.Create([dm.TimestampedValue(("k", 3), 5)]) | dm.WindowInto(dm.FixedWindows(10))
        _ = pairs | transform(seen, 7) | "out" >> dm.io.Collect()
    assert [record.value for record in p.result.collected("out")] == [
        ("k", 21, dm.event_time(5), dm.IntervalWindow(dm.event_time(0), dm.event_time(10)))
    ]


def test_a_part_of_an_element_at_the_position_of_metadata_is_refused() -> None:
    _, triples = created(("k", 3, 4))
    with pytest.raises(dm.InvalidType, match=r"parts of elements of .*: multiple values for argument 'at'"):
        _ = triples | dm.MapTuple(lambda key, value, at=dm.DoFn.TimestampParam: at)


class Rest(dm.DoFn):
    def process(self, element: Any, where: Any = dm.DoFn.WindowParam, *rest: Any) -> Any:
        yield where, rest


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (dm.WithKeys, "WithKeys"),
        (dm.GroupBy, "GroupBy"),
        (dm.WithTimestamps, "WithTimestamps"),
        (dm.CombinePerKey, "CombinePerKey"),
        (lambda fn: dm.CombineGlobally(fn, by=1), "CombineGlobally"),
        (lambda fn: dm.Top(1, key=fn), "`key`"),
        (dm.io.ForeachBundle, "ForeachBundle"),
    ],
)
def test_requests_for_metadata_are_refused_in_functions_that_cannot_receive_it(make: Any, problem: str) -> None:
    with pytest.raises(dm.InvalidType, match=f"{problem} calls its function without metadata, got <lambda>"):
        make(lambda element, window=dm.DoFn.WindowParam, by=2: element)


def test_parts_of_an_element_are_not_confused_with_reserved_parameters() -> None:
    with dm.Pipeline() as p:
        pairs = p | dm.Create([dm.TimestampedValue(("k", 3), 5)])
        mapped = pairs | dm.MapTuple(
            lambda k, v, args=dm.DoFn.TimestampParam, kwargs=dm.DoFn.KeyParam: (v, args, kwargs)
        )
        _ = mapped | "out" >> dm.io.Collect()
    assert [record.value for record in p.result.collected("out")] == [(3, dm.event_time(5), "k")]


@pytest.mark.parametrize("make", [dm.WithKeys, dm.GroupBy, dm.WithTimestamps])
def test_functions_of_an_element_with_unfilled_parameters_are_refused(make: Any) -> None:
    with pytest.raises(dm.InvalidType, match=r"calls its function with an element only(.|\n)*can take metadata"):
        make(lambda element, window: element)
    with pytest.raises(
        dm.InvalidType, match=r"calls its function with an element only(.|\n)*a function of one argument"
    ):
        make(pow)

    def inject(fn: Any) -> Any:
        @functools.wraps(fn)
        def of_element(element: Any) -> Any:
            return fn(element, {"a": 1})

        return of_element

    @inject
    def looked_up(element: Any, numbers: Any) -> Any:
        return numbers[element]

    make(looked_up)

    def logged(fn: Any) -> Any:
        @functools.wraps(fn)
        def passes_on(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        return passes_on

    for wrapped in (logged, functools.cache):
        with pytest.raises(dm.InvalidType, match="calls its function with an element only"):
            make(wrapped(lambda element, other: element))


def test_positional_arguments_never_fill_parameters_of_metadata() -> None:
    with pytest.raises(dm.InvalidArgument, match=r"arguments by position \(2\), which would take the places"):
        dm.ParDo(Rest(), 1, 2)


def test_a_tag_inside_of_a_timestamp_is_refused_with_the_way_out() -> None:
    with pytest.raises(dm.InvalidType, match=r"write TaggedOutput\('late', TimestampedValue\(value, "):
        dm.TimestampedValue(dm.TaggedOutput("late", 1), 5)


def test_a_composite_that_returns_nothing_is_named_as_the_cause() -> None:
    class Forgets(dm.PTransform):
        def expand(self, pcoll: Any) -> Any:
            _ = pcoll | dm.Map(str)

    _, numbers = created(1)
    with pytest.raises(dm.InvalidType, match=r"'Count.Globally' must .*, got None\nHint: return the collect"):
        _ = numbers | Forgets() | dm.Count.globally()


def test_the_repr_of_a_view_shows_its_collection() -> None:
    _, numbers = created(1)
    assert repr(dm.AsSingleton(numbers)) == f"AsSingleton({numbers!r})"


def test_the_percentile_of_the_watermark_is_not_available_directly_after_a_source() -> None:
    p, numbers = created(1)
    _ = numbers | "ask" >> dm.Map(lambda x, watermark_percentile: (x, watermark_percentile)) | dm.io.Collect()
    with pytest.raises(dm.PlanError, match=r"'ask' asks for 'watermark_percentile', but runs after 'Create'"):
        p.run()


class Asking(dm.DoFn):
    """A function with state that asks for the percentile."""

    seen = dm.BagStateSpec()

    def process(self, element: Any, seen: dm.BagState[Any], watermark_percentile: float | None) -> Any:
        yield element, watermark_percentile


def test_a_stateful_function_that_asks_for_the_percentile_is_refused_with_the_right_position() -> None:
    p = dm.Pipeline()
    _ = p | dm.Create([("a", 1)]) | dm.Reshuffle() | "keep" >> dm.ParDo(Asking()) | dm.io.Collect()
    with pytest.raises(
        dm.PlanError,
        match=r"'keep' asks for 'watermark_percentile', which functions with state.*\n"
        r"Hint: ask for it in a dm\.Map between the last grouping or dm\.Reshuffle\(\) and this function",
    ):
        p.run()


def test_a_function_can_receive_the_percentile_of_the_watermark_at_which_its_element_was_emitted() -> None:
    script = TestStream().watermark(10).watermark(30, percentile=50).watermark(60, percentile=10)
    script = script.bundle([(name, at) for name, at in (("a", 70), ("b", 40), ("c", 20), ("d", 5))])
    with dm.Pipeline() as p:
        ask = dm.Map(lambda name, watermark_percentile: (name, watermark_percentile))
        _ = p | script | dm.Reshuffle() | ask | dm.io.Collect()
    assert p.result is not None
    values = [record.value for record in p.result.collected("Collect")]
    assert values == [("a", 1.0), ("b", 25.0), ("c", 75.0), ("d", None)]


def test_a_function_can_receive_the_trigger_and_the_time_that_produced_its_element() -> None:
    with dm.Pipeline(runner=dm.LocalRunner(clock=0.000007)) as p:
        early = dm.Window.into(dm.FixedWindows(60)).trigger(dm.Repeatedly(dm.AfterCount(1)))
        sums = p | dm.Create([("a", 1), ("a", 2)]) | early.accumulating_and_retracting() | dm.Sum.per_key()
        causes = lambda pair, trigger, production_time, is_retraction: (  # noqa: E731 - its parameters are the case
            pair[1],
            trigger,
            int(production_time),
            is_retraction,
        )
        _ = sums | dm.Map(causes) | dm.io.Collect()
    assert p.result is not None
    seen = [record.value for record in p.result.collected("Collect")]
    each = "Repeatedly(AfterCount(1))"
    assert seen == [(1, each, 7, False), (1, each, 7, True), (3, each, 7, False)]


def test_side_inputs_are_passed_as_arguments() -> None:
    p, numbers = created(1, 2)
    factor = p | "factor" >> dm.Create([10])
    names = p | "names" >> dm.Create([(1, "one")])
    _ = numbers | dm.Map(lambda x, f, names: (x * f, names), dm.AsSingleton(factor, default=1), names=dm.AsDict(names))
    node: Any = p.plan()["Map"]
    (first,), second = node.args, node.kwargs["names"]
    assert (first.ref, first.view, first.default) == (nodes.Ref("factor"), "singleton", 1)
    assert (second.ref, second.view) == (nodes.Ref("names"), "dict")
    assert node.inputs == (nodes.Ref("Create"), nodes.Ref("factor"), nodes.Ref("names"))


def test_a_collection_as_an_argument_without_a_view_is_refused() -> None:
    p, numbers = created(1)
    other = p | "other" >> dm.Create([10])
    with pytest.raises(dm.InvalidType, match=r"as an argument, without a view of it\nHint: wrap it in dm.AsSingleton"):
        _ = numbers | dm.Map(lambda x, y: x, other)


def test_as_dict_refuses_elements_that_are_not_pairs() -> None:
    _, numbers = created(1)
    with pytest.raises(dm.InvalidType, match="takes pairs"):
        dm.AsDict(numbers)


def test_field_names_create_a_node_that_runners_read_by_column() -> None:
    p, rows = created({"carrier": "UA", "delay": 1})
    _ = rows | dm.WithKeys(("carrier",), value="delay")
    node = p.plan()["WithKeys"]
    assert isinstance(node, nodes.ToPairs)
    assert (node.key, node.value) == (("carrier",), "delay")


def test_create_accepts_event_times_and_dicts() -> None:
    p = dm.Pipeline()
    _ = p | "timed" >> dm.Create([dm.TimestampedValue("x", 60), "y"])
    _ = p | "dict" >> dm.Create({"a": 1})
    timed: Any = p.plan()["timed"]
    assert timed.source.elements == ("x", "y")
    assert timed.source.event_times == (dm.event_time(60), dm.MIN_TIMESTAMP)
    plain: Any = p.plan()["dict"]
    assert (plain.source.elements, plain.source.event_times) == ((("a", 1),), None)


def test_a_collection_flattened_with_itself_is_read_through_a_copy() -> None:
    p, numbers = created(1)
    _ = (numbers, numbers) | dm.Flatten()
    assert p.plan()["Flatten"].inputs == (nodes.Ref("Create"), nodes.Ref("Flatten/input 2"))


def test_a_grouping_uses_the_windowing_strategy_of_its_input() -> None:
    p, pairs = created(("a", 1))
    windowed = pairs | dm.Window.into(dm.FixedWindows("1 hour")).accumulating()
    _ = windowed | dm.Map(lambda x: x) | dm.CombinePerKey(max)
    node: Any = p.plan()["CombinePerKey"]
    assert node.strategy == windowed.strategy
    assert node.combine == dm.Max()
