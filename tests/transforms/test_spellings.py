"""Spellings of other systems raise an error with a hint of ours."""

from __future__ import annotations

import re
import traceback
from typing import Any

import pytest

import dataflow_model as dm
from dataflow_model.errors import InvalidType
from dataflow_model.plan.names.spellings import SPELLINGS

CLASSES: dict[str, Any] = {
    "Combiner": dm.Mean, "Count": dm.Count, "Distinct": dm.Distinct, "DoFn": dm.DoFn(), "GroupBy": dm.GroupBy("key"),
    "Join": dm.Join, "Latest": dm.Latest, "PTransform": dm.CombineGlobally(sum), "Sample": dm.Sample, "Top": dm.Top,
    "TestStream": dm.testing.TestStream(), "WindowInto": dm.Window.into(dm.FixedWindows(10)),
    "dataflow_model": dm, "dataflow_model.io": dm.io, "dataflow_model.testing": dm.testing,
    "PCollection": dm.Pipeline() | dm.Create([1]), "GroupIntoBatches": dm.GroupIntoBatches, "_Spec": dm.BagStateSpec(),
    "EventTime": dm.event_time(0), "ProcessingTime": dm.ProcessingTime, "Duration": dm.duration(0),
    "CombineFn": dm.CombineFn, "Pipeline": dm.Pipeline(),
    "ValueState": dm.ValueState, "BagState": dm.BagState, "CombiningState": dm.CombiningState,
}  # fmt: skip


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, names in SPELLINGS.items() for name in names])
def test_a_name_of_another_system_raises_an_attribute_error_with_our_name(owner: str, name: str) -> None:
    assert not hasattr(CLASSES[owner], name)
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'\nHint: \w"):
        getattr(CLASSES[owner], name)


def test_hints_on_per_key_and_globally_name_the_class() -> None:
    with pytest.raises(AttributeError, match=r"'Mean' has no attribute 'PerKey'\nHint: write Mean\.per_key\(…\)"):
        getattr(dm.Mean, "PerKey")  # noqa: B009 - type checkers see that it is missing
    with pytest.raises(AttributeError, match=r"Hint: write dm\.Count\.per_element\(\)"):
        getattr(dm.Count, "PerElement")  # noqa: B009
    with pytest.raises(AttributeError, match=r"Hint: use … \| dm\.GroupByKey\(\)"):
        getattr(dm.Pipeline() | dm.Create([("a", 1)]), "groupByKey")  # noqa: B009


class ReadsTheSpec(dm.DoFn):
    count = dm.ValueStateSpec(default=0)

    def process(self, pair: Any) -> Any:
        yield self.count.read()  # type: ignore[attr-defined]


def test_a_spec_used_as_its_handle_names_the_parameter_that_is_missing() -> None:
    expected = (
        r"(?s)'ValueStateSpec' has no attribute 'read'.*\nHint: use the handle: a parameter with the name of the attri"
    )
    with pytest.raises(dm.UserCodeError, match=expected), dm.Pipeline() as p:
        _ = p | dm.Create([("a", 1)]) | dm.ParDo(ReadsTheSpec())


def test_python_adds_no_suggestion_of_its_own_to_a_hint() -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(dm.Count, "PerElement")  # noqa: B009
    assert raised.value.name is None, "from the name, Python would suggest another one behind the hint"
    assert traceback.format_exception_only(raised.value)[-1].endswith("Hint: write dm.Count.per_element()\n")


def test_a_name_that_no_system_has_raises_the_usual_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'PCollection' has no attribute 'nothing'$"):
        getattr(dm.Pipeline() | dm.Create([1]), "nothing")  # noqa: B009
    with pytest.raises(AttributeError, match=r"'dataflow_model' has no attribute 'Mep'$") as raised:
        getattr(dm, "Mep")  # noqa: B009
    assert (raised.value.name, raised.value.obj) == ("Mep", dm)  # with which Python suggests similar names


def test_calling_window_itself_is_refused_with_window_into() -> None:
    with pytest.raises(
        InvalidType, match=r"Window is not called itself, but was with .*\nHint: write dm\.Window\.into"
    ):
        dm.Window(dm.FixedWindows(10))


def test_names_of_io_and_testing_are_missing_from_the_package_with_where_they_are() -> None:
    for room in (dm.io, dm.testing):
        for name in room.__all__:
            with pytest.raises(AttributeError, match=rf"\nHint: use dm\.{room.__name__.partition('.')[2]}\.{name}"):
                getattr(dm, name)


def test_no_existing_name_is_in_the_table_of_hints() -> None:
    assert not set(dm.__all__) & set(SPELLINGS["dataflow_model"])


def test_each_hint_starts_with_what_to_do() -> None:
    for names in SPELLINGS.values():
        for name, hint in names.items():
            verbs = "use|write|leave|there|give|set|annotate|read|look|put|build|call|pass"
            others = "the|triggers|windows|elements|a|its"
            assert re.match(rf"({verbs}|{others}) ", hint), name


def test_beams_names_of_timestamp_combiners_are_aliases_of_ours() -> None:
    assert dm.TimestampCombiner["OUTPUT_AT_EARLIEST"] is dm.TimestampCombiner.EARLIEST
    assert dm.TimestampCombiner["OUTPUT_AT_LATEST"] is dm.TimestampCombiner.LATEST
    assert dm.TimestampCombiner["OUTPUT_AT_EOW"] is dm.TimestampCombiner.END_OF_WINDOW


@pytest.mark.parametrize(
    ("kind", "arguments", "written"),
    [
        (dm.ValueStateSpec, ("n",), "n = dm.ValueStateSpec(default=…)"),
        (dm.ValueStateSpec, (False,), "state = dm.ValueStateSpec(default=…)"),
        (dm.BagStateSpec, ("b", None), "b = dm.BagStateSpec()"),
        (dm.SetStateSpec, ("s",), "s = dm.SetStateSpec()"),
        (dm.MapStateSpec, ("m",), "m = dm.MapStateSpec()"),
        (dm.CombiningStateSpec, ("c", sum), "c = dm.CombiningStateSpec(dm.Sum())"),
        (dm.TimerSpec, ("t", dm.TimeDomain.WATERMARK), "t = dm.TimerSpec(dm.TimeDomain.EVENT_TIME)"),
        (dm.TimerSpec, ("t", dm.TimeDomain.REAL_TIME), "t = dm.TimerSpec(dm.TimeDomain.PROCESSING_TIME)"),
        (dm.TimerSpec, ("t", None), "t = dm.TimerSpec(dm.TimeDomain.EVENT_TIME)"),
    ],
)
def test_a_state_spec_refuses_a_name_and_a_coder(kind: Any, arguments: tuple[Any, ...], written: str) -> None:
    given = f"{kind.__name__}({', '.join(map(repr, arguments))})"
    message = f"takes neither a name nor a coder, got {given}\nHint: the attribute that holds a spec is its name, and "
    with pytest.raises(InvalidType, match=rf"{re.escape(message)}.*: write {re.escape(written)}$"):
        kind(*arguments)


@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        ("max_buffering_duration_secs", "use max_age=…, a number of seconds"),
        ("batch_size", "use size=…"),
        ("max_size", "use size=…, max_bytes=… or max_age=…"),
    ],
)
def test_group_into_batches_refuses_arguments_of_beam_with_its_own(argument: str, hint: str) -> None:
    wrong: Any = {argument: 5}
    with pytest.raises(InvalidType, match=rf"GroupIntoBatches has no argument '{argument}'\nHint: {hint}"):
        dm.GroupIntoBatches(5, **wrong)


def test_beams_names_of_time_domains_are_aliases_of_ours() -> None:
    assert dm.TimeDomain["WATERMARK"] is dm.TimeDomain.EVENT_TIME
    assert dm.TimeDomain["REAL_TIME"] is dm.TimeDomain.PROCESSING_TIME


def test_a_function_without_a_module_is_refused_as_a_transform() -> None:
    function: Any = lambda x: x  # noqa: E731 - the hint names it
    function.__module__ = None  # as where `eval` made it
    with pytest.raises(InvalidType, match=r"`\|` applies only transforms, .*\nHint: wrap it: dm\.Map\(<lambda>\)"):
        _ = dm.Pipeline() | dm.Create([1]) | function


@pytest.mark.parametrize(
    ("function", "hint"),
    [(sum, r"dm\.Sum\(\)$"), (max, r"dm\.Max\(\)$"), (sorted, r"dm\.Sum\(\), for example, or an inst")],
)
def test_a_function_as_the_combiner_of_a_state_is_refused_with_the_matching_combiner(function: Any, hint: str) -> None:
    with pytest.raises(InvalidType, match=rf"`combine` must be a CombineFn, got .*\nHint: pass {hint}"):
        dm.CombiningStateSpec(function)
