"""Window classes of users: windows of equal bounds whose other fields differ are different windows, on every runner."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import cloudpickle
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream, check_window_fn, run_script
from dataflow_model.values import encode_key, encode_window, interval
from tests.support.pipelines import run

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from dataflow_model.values import Window


@attrs.frozen(repr=False)
class PlanWindow(dm.IntervalWindow):
    """An hour of one price plan."""

    plan: str = ""


@attrs.frozen
class HoursByPlan(dm.WindowFn):
    """Windows of an hour, one for each plan: an element is (key, plan)."""

    @property
    def needs_pairs(self) -> bool:
        return True

    def assign(self, event_time: dm.EventTime, element: Any) -> Sequence[Window]:
        [hour] = dm.FixedWindows("1 hour").assign(event_time, element)
        return (PlanWindow(hour.start, hour.end, element[1]),)


class Undecorated(dm.IntervalWindow):
    """Has a field that its inherited `==` and pickling know nothing of."""

    def __init__(self, start: dm.EventTime, end: dm.EventTime, plan: str) -> None:
        super().__init__(start, end)
        object.__setattr__(self, "plan", plan)


@attrs.frozen(repr=False)
class Ignoring(dm.IntervalWindow):
    plan: str = attrs.field(default="", eq=False)


@attrs.frozen(repr=False)
class Unpicklable(dm.IntervalWindow):
    plan: Any = None

    def __reduce__(self) -> Any:
        raise TypeError("holds a lock")


@attrs.frozen
class Making(dm.WindowFn):
    """Makes windows of a class."""

    kind: Any

    def assign(self, event_time: dm.EventTime, element: Any) -> Sequence[Window]:
        [hour] = dm.FixedWindows("1 hour").assign(event_time, element)
        return (self.kind(hour.start, hour.end, "free"),)


def _window(plan: str) -> PlanWindow:
    return PlanWindow(dm.EventTime(0), dm.EventTime(3_600_000_000), plan)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_window_keeps_its_class_and_fields(protocol: int) -> None:
    window = _window("free")
    for again in (
        pickle.loads(pickle.dumps(window, protocol)),
        cloudpickle.loads(cloudpickle.dumps(window, protocol)),
        copy.deepcopy(window),
    ):
        assert type(again) is PlanWindow
        assert again == window
        assert again.plan == "free"
        assert hash(again) == hash(window)
    assert pickle.loads(pickle.dumps(interval(0, 60), protocol)) is interval(0, 60)


def test_windows_are_equal_only_if_class_bounds_and_fields_are_equal() -> None:
    plain = dm.IntervalWindow(dm.EventTime(0), dm.EventTime(3_600_000_000))
    windows = [plain, _window("free"), _window("paid"), _window("")]
    assert len(set(windows)) == len({encode_key(window) for window in windows}) == 4
    assert encode_window(plain) < encode_window(_window("free")) < encode_window(_window("paid"))


def test_windows_of_equal_bounds_fire_in_the_order_of_their_fields_then_of_their_keys() -> None:
    script = TestStream()
    for key, plan in [("b", "paid"), ("a", "paid"), ("b", "free"), ("a", "free"), ("a", "paid")]:
        script = script.add(plan, 60, key=key)
    panes = run_script(script.watermark_to_infinity(), dm.Window.into(HoursByPlan()), dm.Count())
    assert [(pane.window, pane.key, pane.value) for pane in panes] == [
        (_window("free"), "a", 1),
        (_window("free"), "b", 1),
        (_window("paid"), "a", 2),
        (_window("paid"), "b", 1),
    ]


SCHEMA = pa.schema({"key": pa.string(), "plan": pa.string(), "count": pa.int64()})


def _write_counts(runner: Any, folder: pathlib.Path) -> list[tuple[Any, ...]]:
    elements = [("a", "free"), ("a", "paid"), ("b", "free"), ("a", "free")]
    with dm.Pipeline(runner=runner) as p:
        (
            p
            | dm.Create(elements)
            | dm.WithTimestamps(lambda _: 60)
            | dm.Window.into(HoursByPlan())
            | dm.Count.per_key()
            | dm.Map(lambda pair, window: {"key": pair[0], "plan": window.plan, "count": pair[1]})
            | dm.io.WriteParquet(str(folder), schema=SCHEMA, panes=True)
        )
    table = pq.read_table(folder)
    assert len(set(table["window_start"].to_pylist())) == len(set(table["window_end"].to_pylist())) == 1
    return sorted(zip(*(table[name].to_pylist() for name in ("key", "plan", "count")), strict=True))


COUNTS = [("a", "free", 2), ("a", "paid", 1), ("b", "free", 1)]


def test_windows_with_equal_bounds_and_other_fields_are_grouped_separately_in_process(tmp_path: pathlib.Path) -> None:
    assert _write_counts(dm.LocalRunner(), tmp_path / "counts") == COUNTS


def test_windows_with_equal_bounds_and_other_fields_are_grouped_separately_on_spark(
    tmp_path: pathlib.Path, spark: SparkSession
) -> None:
    assert _write_counts(dm.SparkRunner(spark, mode="batch"), tmp_path / "counts") == COUNTS


def test_a_window_function_with_a_valid_window_class_passes_the_check() -> None:
    check_window_fn(HoursByPlan(), [("key", "free"), ("key", "paid")])


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (Undecorated, "must use windows that keep class and fields when they are pickled"),
        (Ignoring, "must use windows whose `==` compares all fields; that of Ignoring ignores plan"),
        (Unpicklable, "must use windows that can be pickled, got .*: TypeError: holds a lock"),
    ],
)
def test_check_window_fn_finds_window_classes_that_do_not_survive_pickling_or_comparison(
    kind: Any, problem: str
) -> None:
    with pytest.raises(AssertionError, match=rf"(?s){problem}.*\nHint: make {kind.__name__} an @attrs\.frozen class"):
        check_window_fn(Making(kind))


# Bounds ---------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Minutes(dm.WindowFn):
    """Minutes by rounding down, which leaves 64 bits at −∞."""

    window: type[Any] = dm.IntervalWindow

    def assign(self, event_time: dm.EventTime, element: Any) -> list[Window]:
        del element
        start = int(event_time) // 60_000_000 * 60_000_000
        return [self.window(dm.EventTime(start), dm.EventTime(start + 60_000_000))]


@attrs.frozen
class Plain:
    """A window that does not hold its bounds within −∞ and +∞."""

    start: dm.EventTime
    end: dm.EventTime

    @property
    def max_timestamp(self) -> dm.EventTime:
        return dm.EventTime(int(self.end) - 1)


def counted(fn: dm.WindowFn, at: dm.EventTime) -> list[Window]:
    def build(p: dm.Pipeline) -> None:
        elements = p | dm.Create([dm.TimestampedValue(("a", 1), at)]) | dm.Window.into(fn)
        _ = elements | dm.Count.per_key() | "out" >> dm.io.Collect()

    return [record.window for record in run(dm.LocalRunner(), build).collected("out")]


@pytest.mark.parametrize("at", [dm.MIN_TIMESTAMP, dm.EventTime(2**63 - 2)])
def test_bounds_of_windows_beyond_infinity_become_infinite(at: dm.EventTime) -> None:
    assert counted(Minutes(), at) == counted(dm.FixedWindows("1 minute"), at)


@pytest.mark.parametrize("at", [dm.MIN_TIMESTAMP, dm.EventTime(2**63 - 2)])
def test_a_window_class_that_leaves_64_bits_is_rejected_with_a_way_out(at: dm.EventTime) -> None:
    with pytest.raises(dm.UserCodeError, match=r"(?s)windows within −∞ and \+∞, got Plain.*\nHint: hold"):
        counted(Minutes(Plain), at)


@attrs.frozen
class FromEachOn(dm.WindowFn):
    """A minute from each element on, in a window class that takes any bounds."""

    def assign(self, event_time: dm.EventTime, element: Any) -> list[Window]:
        del element
        return [Plain(event_time, event_time + dm.duration("1 minute"))]


def test_a_window_class_that_ends_at_minus_infinity_is_rejected_with_a_way_out() -> None:
    with pytest.raises(dm.UserCodeError, match=r"(?s)windows within −∞ and \+∞, got Plain.*\nHint: hold"):
        counted(FromEachOn(), dm.MIN_TIMESTAMP)


@attrs.frozen
class MergingPastTheEnd(dm.FixedWindows):
    """Windows that become one which ends after +∞."""

    is_merging: ClassVar[bool] = True

    def merge(self, windows: Sequence[Window]) -> list[tuple[Sequence[Window], Window]]:
        return [(windows, Plain(windows[0].start, dm.EventTime(2**63)))]


def test_windows_that_merge_into_one_beyond_64_bits_are_rejected_with_a_way_out() -> None:
    expected = r"(?s)must merge into windows within −∞ and \+∞, got Plain.*transform: 'Count.PerKey'.*\nHint: hold"
    with pytest.raises(dm.UserCodeError, match=expected):
        counted(MergingPastTheEnd("1 minute"), dm.EventTime(0))


@pytest.mark.parametrize("micros", [-(2**63) - 1, 2**63])
def test_an_event_time_that_leaves_64_bits_is_rejected(micros: int) -> None:
    with pytest.raises(dm.InvalidArgument, match="must fit into 64 bits of microseconds, got EventTime"):
        dm.TimestampedValue("a", dm.EventTime(micros))
    with pytest.raises(dm.InvalidArgument, match="must fit into 64 bits of microseconds, got EventTime"):
        dm.testing.TestStream().add("a", dm.EventTime(micros))


def test_windows_that_cannot_be_hashed_are_rejected_with_a_way_out() -> None:
    @attrs.frozen
    class ListingPlans(dm.WindowFn):
        def assign(self, event_time: dm.EventTime, element: Any) -> Sequence[Window]:
            [hour] = dm.FixedWindows("1 hour").assign(event_time, element)
            return (PlanWindow(hour.start, hour.end, ["basic"]),)  # type: ignore[arg-type] # the point

    script = TestStream().add(1, 0, key="k").watermark_to_infinity()
    with pytest.raises(dm.UserCodeError, match=r"must assign windows that can be hashed, got .*'list'\n") as raised:
        run_script(script, dm.Window.into(ListingPlans()))
    assert "Hint: make their class @attrs.frozen" in str(raised.value)


class _Minutes(dm.WindowFn):
    """Windows of a minute, for its subclasses to declare wrongly."""

    def assign(self, event_time: dm.EventTime, element: Any) -> Sequence[Window]:
        return dm.FixedWindows("1 minute").assign(event_time, element)


class FromBeam(_Minutes):
    def assign(self, context: Any) -> Sequence[Window]:  # type: ignore[override]
        return _Minutes().assign(context.timestamp, context.element)


class DoesNotSayThatItMerges(_Minutes):
    def merge(self, windows: Sequence[Window]) -> list[tuple[Sequence[Window], Window]]:
        return [(windows, windows[0])]


class SaysByAMethod(DoesNotSayThatItMerges):
    def is_merging(self) -> bool:  # type: ignore[override]
        return True


class OnlySaysThatItMerges(_Minutes):
    is_merging = True


class MergesOne(DoesNotSayThatItMerges):
    is_merging = True

    def merge(self, first: Window, second: Window) -> Any:  # type: ignore[override]
        return first, second


class NoLongerMerges(dm.Sessions):
    is_merging = False


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (
            FromBeam(),
            r"of FromBeam cannot be called with \(event_time, element\): .*\nHint: define assign\(self, event_time",
        ),
        (
            DoesNotSayThatItMerges(),
            r"defines `merge`, which is never called because .*\nHint: set it in the class: is_m",
        ),
        (
            SaysByAMethod(),
            r"`is_merging` of SaysByAMethod must be True or False, got .*\nHint: write it as an attribute",
        ),
        (
            OnlySaysThatItMerges(),
            r"sets `is_merging`, but does not define `merge`\nHint: define merge\(self, windows\)",
        ),
        (
            MergesOne(),
            r"of MergesOne cannot be called with \(windows\): missing .*\nHint: define merge\(self, windows\)",
        ),
    ],
)
def test_an_unusable_window_function_is_rejected_when_it_is_passed(fn: dm.WindowFn, message: str) -> None:
    with pytest.raises((dm.InvalidArgument, dm.InvalidType), match=message):
        dm.Window.into(fn)


def test_a_window_function_may_turn_off_the_merging_that_it_inherits() -> None:
    [one, other] = run_script(
        TestStream().add(1, 0, key="a").add(1, 5, key="a"), dm.Window.into(NoLongerMerges("10 seconds")), dm.Sum()
    )
    assert (one.value, other.value) == (1, 1)
