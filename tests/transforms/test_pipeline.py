"""Pipelines: labels, scopes, what may be applied to what, and leaving the block."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
import dataflow_model.io
from dataflow_model.transforms.pipelines.ptransform import written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def labels(p: dm.Pipeline) -> list[str]:
    return [node.label for node in p.plan().nodes]


class Twice(dm.PTransform):
    def expand(self, pcoll: Any) -> Any:
        return pcoll | dm.Map(lambda x: 2 * x) | "keep" >> dm.Filter(lambda x: x > 2)


class RecordingRunner:
    def __init__(self) -> None:
        self.until: list[str | None] = []
        self.waited = 0

    def run(self, plan: Any, *, until: str | None = None) -> Any:
        self.until.append(until)
        return self

    def wait_until_finish(self, timeout: float | None = None) -> Any:
        self.waited += 1


def test_labels_of_composites_nest() -> None:
    p = dm.Pipeline()
    _ = p | dm.Create([1]) | "outer" >> Twice()
    assert labels(p) == ["Create", "outer/Map", "outer/keep"]


def test_an_automatic_label_is_the_name_of_the_transform() -> None:
    p = dm.Pipeline()
    _ = p | dm.Create([("a", 1)]) | dm.Sum.per_key() | dm.Values() | Twice()
    assert labels(p) == ["Create", "Sum.PerKey", "Values", "Twice/Map", "Twice/keep"]


def test_a_label_cannot_be_used_twice_in_its_scope() -> None:
    numbers = dm.Pipeline() | dm.Create([1]) | dm.Map(str)
    with pytest.raises(dm.InvalidArgument, match=r"the label 'Map\(int\)' is already used(.|\n)*Hint: .*another name"):
        _ = numbers | dm.Map(int) | dm.Map(int)


class Widest(dm.Max):
    """A combiner of the user's own."""


@pytest.mark.parametrize(
    ("transform", "how"),
    [
        (dm.Map(str), "dm.Map"),
        (dm.Sum.per_key(), "dm.Sum.per_key"),
        (dm.Count.per_element(), "dm.Count.per_element"),
        (dm.CombinePerKey(sum), "dm.CombinePerKey"),
        (dm.Window.into(dm.FixedWindows(1)), "dm.Window.into"),
        (dm.Distinct.per_key(), "dm.Distinct.per_key"),
        (dm.Join.full(), "dm.Join.full"),
        (dm.io.Collect(), "dm.io.Collect"),
        (dm.io.WriteJson("somewhere"), "dm.io.WriteJson"),
        (Twice(), "Twice"),
        (Widest.per_key(), "Widest.per_key"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_hint_shows_a_transform_as_users_write_it(transform: dm.PTransform, how: str) -> None:
    assert written(transform) == f"{how}(…)"
    assert not how.startswith("dm.") or attrgetter(how.removeprefix("dm."))(dm) is not None


def test_the_error_for_a_repeated_label_shows_how_to_set_one_and_how_to_rerun_a_cell() -> None:
    p = dm.Pipeline()
    pairs = p | dm.Create([("a", 1)])
    _ = pairs | dm.Sum.per_key()
    with pytest.raises(dm.InvalidArgument) as raised:
        _ = pairs | dm.Sum.per_key()
    assert '"another name" >> dm.Sum.per_key(…)' in str(raised.value)
    assert "in a notebook, create the pipeline in the same cell" in str(raised.value)


def test_the_same_label_may_be_used_in_two_scopes() -> None:
    p = dm.Pipeline()
    numbers = p | dm.Create([1])
    _ = numbers | "a" >> Twice()
    _ = numbers | "b" >> Twice()
    assert labels(p)[1:] == ["a/Map", "a/keep", "b/Map", "b/keep"]


def test_labelling_does_not_change_the_transform() -> None:
    doubling = dm.Map(lambda x: 2 * x)
    assert ("twice" >> doubling).label == "twice"
    assert doubling.label == "Map"


@pytest.mark.parametrize("label", ["", "  "])
def test_an_empty_label_is_refused(label: str) -> None:
    with pytest.raises(dm.InvalidArgument, match="must not be empty"):
        _ = label >> dm.Map(str)


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (dm.Sum(), "dm.Sum.per_key"),
        (dm.Sum, "dm.Sum.per_key"),
        (dm.GroupByKey, r"call it: dm.GroupByKey"),
        (dm.Sum.per_key, r"call it: Sum\.per_key\(…\)"),
        (dm.Top(3).globally, r"call it: Top\.globally"),
        (dm.Join.left, r"call it: Join\.left"),
        (dm.Window.into, r"call it: Window\.into"),
        (dm.FixedWindows("1 hour"), "dm.Window.into"),
        (dm.AfterCount(1), "dm.Window.trigger"),
        (len, r"dm.Map\(len\)"),
        (dm.DoFn(), "dm.ParDo"),
        (3, "another transform"),
    ],
)
def test_a_value_that_is_not_a_transform_is_refused_with_a_suggestion(wrong: object, hint: str) -> None:
    with pytest.raises(dm.InvalidType, match=rf"`\|` applies only transforms(.|\n)*Hint: .*{hint}"):
        _ = dm.Pipeline() | dm.Create([1]) | wrong  # type: ignore[operator]


@pytest.mark.parametrize(
    ("use", "action"),
    [
        (list, r"iterated over or unpacked"),
        (len, r"counted by len\(\)"),
        (lambda numbers: numbers[0], r"indexed by 0"),
        (lambda numbers: numbers[:2], r"indexed by slice\(None, 2, None\)"),
        (lambda numbers: 1 in numbers, r"searched for 1"),
        (bool, r"used as a truth value"),
        (dm.Create, r"iterated over or unpacked"),
    ],
)
def test_a_collection_has_no_elements_before_the_pipeline_runs(use: Callable[[Any], object], action: str) -> None:
    numbers = dm.Pipeline() | "numbers" >> dm.Create([1, 2])
    message = (
        rf"^PCollection\('numbers', element_type=int\) .* cannot be {action}\nHint: use \.show\(\) or \.head\(10\)"
    )
    with pytest.raises(dm.InvalidType, match=message):
        use(numbers)


class Misspelt(dm.DoFn):
    """A DoFn whose function has the wrong name."""

    def proces(self, element: int) -> list[int]:
        return [element]


def test_a_dofn_without_process_is_rejected_when_it_is_applied() -> None:
    with pytest.raises(dm.InvalidArgument, match=r"must define `process`; the methods of Misspelt are \['proces'\]"):
        dm.ParDo(Misspelt())
    with pytest.raises(
        dm.InvalidArgument, match=r"`process`; DoFn has no method of its own\nHint: define process\(self, element\)"
    ):
        dm.ParDo(dm.DoFn())


def test_a_dofn_may_set_process_on_the_object() -> None:
    fn: Any = dm.DoFn()
    fn.process = lambda element: [element, element]
    assert (dm.Pipeline() | dm.Create([1]) | dm.ParDo(fn)).head() == [1, 1]


def test_a_transform_over_collections_is_refused_at_the_beginning() -> None:
    with pytest.raises(dm.InvalidType, match="'Map' must be applied to a collection, got the pipeline itself"):
        _ = dm.Pipeline() | dm.Map(str)  # type: ignore[operator]


def test_applying_a_source_to_a_collection_is_refused() -> None:
    with pytest.raises(dm.InvalidType, match="'more' must be applied to a pipeline"):
        _ = dm.Pipeline() | dm.Create([1]) | "more" >> dm.Create([2])  # type: ignore[operator]


def test_a_tuple_of_collections_is_refused_if_one_is_expected() -> None:
    p = dm.Pipeline()
    with pytest.raises(dm.InvalidType, match="'Map' takes one collection"):
        _ = (p | "a" >> dm.Create([1]), p | "b" >> dm.Create([2])) | dm.Map(str)


@pytest.mark.parametrize("several", [[1, 2], (), {}, "text", {1, 2}])
def test_applying_a_transform_to_plain_values_is_refused(several: Any) -> None:
    with pytest.raises(dm.InvalidType, match="must be applied to a collection or a tuple or dict of collections"):
        _ = several | dm.Flatten()


def test_combining_collections_of_two_pipelines_is_refused() -> None:
    first, second = dm.Pipeline() | dm.Create([1]), dm.Pipeline() | dm.Create([2])
    with pytest.raises(dm.InvalidArgument, match="belongs to another pipeline"):
        _ = (first, second) | dm.Flatten()
    with pytest.raises(dm.InvalidArgument, match="belongs to another pipeline"):
        _ = first | dm.Map(lambda x, y: x + y, dm.AsSingleton(second))


def test_a_transform_that_fails_in_expand_does_not_change_the_pipeline() -> None:
    class Half(dm.PTransform):
        def expand(self, pcoll: Any) -> Any:
            return pcoll | dm.Map(str) | dm.GroupByKey()

    p = dm.Pipeline()
    numbers = p | dm.Create([1])
    with pytest.raises(dm.InvalidType):
        _ = numbers | Half()
    assert labels(p) == ["Create"]
    _ = numbers | "Half" >> Twice()
    assert labels(p) == ["Create", "Half/Map", "Half/keep"]


def test_a_user_transform_needs_no_init_and_may_be_frozen() -> None:
    import attrs

    @attrs.frozen
    class Add(dm.PTransform):
        amount: int

        def expand(self, pcoll: Any) -> Any:
            return pcoll | dm.Map(lambda x: x + self.amount)

    p = dm.Pipeline()
    added = p | dm.Create([1]) | ("add 2" >> Add(2)).with_output_types(int)
    assert labels(p) == ["Create", "add 2/Map"]
    assert added.element_type is int


def test_leaving_the_block_of_a_pipeline_runs_it_and_waits() -> None:
    runner = RecordingRunner()
    with dm.Pipeline(runner=runner) as p:
        _ = p | dm.Create([1])
    assert (runner.until, runner.waited) == ([None], 1)
    result: Any = p.result
    assert result is runner


def test_an_exception_inside_of_the_block_prevents_the_run() -> None:
    runner = RecordingRunner()
    with pytest.raises(ZeroDivisionError), dm.Pipeline(runner=runner):
        _ = 1 / 0
    assert runner.until == []


def test_run_returns_immediately() -> None:
    runner = RecordingRunner()
    p = dm.Pipeline(runner=runner)
    _ = p | dm.Create([1])
    p.run(until="drained")
    assert (runner.until, runner.waited) == (["drained"], 0)
    with pytest.raises(dm.InvalidArgument, match="`until` must be None or 'drained', got 'dry'"):
        p.run(until="dry")  # type: ignore[arg-type] # the point


def test_a_runner_that_is_given_to_run_is_rejected_with_its_place() -> None:
    with pytest.raises(dm.InvalidArgument, match=r"got LocalRunner(.|\n)*Hint: pass the runner to the pipeline"):
        dm.Pipeline().run(dm.LocalRunner())  # type: ignore[arg-type] # the point


def test_a_runner_must_be_an_instance_of_one() -> None:
    with pytest.raises(dm.InvalidType, match=r"Hint: write RecordingRunner\(…\)"):
        dm.Pipeline(runner=RecordingRunner)  # type: ignore[arg-type] # the point
    with pytest.raises(dm.InvalidType, match="`runner` must be a runner, got 'local'"):
        dm.Pipeline(runner="local")  # type: ignore[arg-type] # the point


def test_the_policy_for_late_data_may_be_text() -> None:
    assert dm.Pipeline(late_data="duplicate_window").plan().late_data is dm.LateData.DUPLICATE_WINDOW
    with pytest.raises(dm.InvalidArgument, match="`late_data` must be 'drop' or 'duplicate_window', got 'keep'"):
        dm.Pipeline(late_data="keep")  # type: ignore[arg-type] # the point


def test_every_name_in_all_exists() -> None:
    lazy_on_spark = {"SparkRunner"}
    assert [name for name in dm.__all__ if name not in lazy_on_spark and not hasattr(dm, name)] == []


# Labels that nobody chose --------------------------------------------------------------------------------------------


def automatic(*transforms: dm.PTransform) -> list[str]:
    p = dm.Pipeline()
    numbers = p | dm.Create([("a", 1)])
    for transform in transforms:
        _ = numbers | transform
    return labels(p)[1:]


def test_a_second_use_without_a_label_is_labelled_by_its_code() -> None:
    assert automatic(dm.Map(lambda x: x), dm.Map(lambda x: (x, 1)), dm.Map(str)) == [
        "Map", "Map(lambda x: (x, 1))", "Map(str)",
    ]  # fmt: skip
    assert automatic(dm.ParDo(list), dm.ParDo(Halves()), dm.ParDo(sorted))[1:] == [
        "ParDo(Halves)",
        "ParDo(sorted)",
    ]
    assert automatic(dm.WithKeys(str), dm.WithKeys("a", value="b")) == ["WithKeys/Map", "WithKeys(a: b)"]
    assert automatic(dm.CombinePerKey(sum), dm.CombinePerKey(dm.Top(2)))[1] == "CombinePerKey(Top)"
    assert automatic(dm.CombinePerKey(all), dm.CombinePerKey(math.prod))[1] == "CombinePerKey(prod)"
    assert automatic(dm.MapTuple(lambda k, v: k), dm.MapTuple(lambda k, v: v))[1] == "MapTuple(lambda k, v: v)"


class Halves(dm.DoFn):
    """A DoFn of the user's own."""

    def process(self, element: float) -> Iterator[float]:
        yield element / 2


def test_two_lambdas_on_one_line_or_nested_ones_have_different_labels() -> None:
    first, second = dm.Map(lambda x: x + 1), dm.Map(lambda x: x + 2)
    assert [first.label_by_code(), second.label_by_code()] == ["Map(lambda x: x + 1)", "Map(lambda x: x + 2)"]
    outer: Any = lambda x: lambda x: -x  # noqa: E731 - a lambda in a lambda
    assert dm.Map(outer).label_by_code() == "Map(lambda x: lambda x: -x)"
    assert dm.Map(outer(0)).label_by_code() == "Map(lambda x: -x)"


def test_layout_comments_and_line_numbers_do_not_change_the_label_of_a_lambda() -> None:
    spread = dm.Map(
        lambda x: (  # what for
            x   +   1
        )
    )  # fmt: skip
    assert spread.label_by_code() == dm.Map(lambda x: x + 1).label_by_code()


def test_a_long_lambda_is_cut_short_with_a_digest_of_the_whole() -> None:
    label = dm.Map(lambda x: {"first": x, "second": x, "third": x, "fourth": x, "fifth": 1}).label_by_code()
    other_label = dm.Map(lambda x: {"first": x, "second": x, "third": x, "fourth": x, "fifth": 2}).label_by_code()
    assert label != other_label
    assert label.startswith("Map(lambda x: {'first': x, ")
    assert len(label) <= len("Map()") + 60


def test_a_lambda_without_source_is_labelled_by_its_compiled_code() -> None:
    code = "import dataflow_model as dm; print(dm.Map(lambda x: x in {'a', 'b', 'c', 'd'}).label_by_code())"
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(seen) == 1
    assert seen.pop().startswith(b"Map(lambda ")


def test_a_repeated_transform_with_the_same_code_or_without_code_needs_a_label() -> None:
    with pytest.raises(dm.InvalidArgument, match=r"the label 'Map\(str\)' is already used"):
        automatic(dm.Map(str), dm.Map(str), dm.Map(str))
    with pytest.raises(dm.InvalidArgument, match="the label 'GroupByKey' is already used"):
        automatic(dm.GroupByKey(), dm.GroupByKey())
    with pytest.raises(dm.InvalidArgument, match="the label 'mine' is already used"):
        automatic("mine" >> dm.Map(str), "mine" >> dm.Map(len))
