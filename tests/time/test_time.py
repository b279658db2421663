"""Instants and durations: arithmetic that saturates, and the forms in which users write them."""

from __future__ import annotations

import copy
import datetime
import decimal
import fractions
import itertools
import math
import operator
import pickle
import re
from typing import Any

import numpy as np
import pandas as pd
import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.vendor.pretty import pretty

import dataflow_model as dm
from dataflow_model.errors import DataflowError, InvalidArgument, InvalidType
from dataflow_model.time import (
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    Duration,
    EventTime,
    ProcessingTime,
    duration,
    duration_text,
    event_time,
    format_instant,
    processing_time,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
FINITE = st.integers(-(2**63) + 1, 2**63 - 2)


@given(FINITE, INT64)
def test_a_sum_of_times_is_exact_or_infinite(time: int, length: int) -> None:
    assert int(EventTime(time) + Duration(micros=length)) == max(-(2**63), min(time + length, 2**63 - 1))


@given(FINITE, INT64)
def test_a_difference_of_times_is_exact_or_infinite(time: int, length: int) -> None:
    assert int(EventTime(time) - Duration(micros=length)) == max(-(2**63), min(time - length, 2**63 - 1))


@given(INT64)
def test_infinite_instants_stay_infinite(length: int) -> None:
    for infinity in (MIN_TIMESTAMP, MAX_TIMESTAMP):
        assert infinity + Duration(micros=length) == infinity
        assert infinity - Duration(micros=length) == infinity


@given(FINITE, FINITE)
def test_the_difference_of_two_instants_is_a_duration(left: int, right: int) -> None:
    difference = EventTime(left) - EventTime(right)
    assert type(difference) is Duration
    assert int(difference) == max(-(2**63), min(left - right, 2**63 - 1))


def test_sums_keep_the_time_domain() -> None:
    assert type(EventTime(1) + Duration(micros=1)) is EventTime
    assert type(ProcessingTime(1) - Duration(micros=1)) is ProcessingTime
    assert type(Duration(micros=1) + EventTime(1)) is EventTime
    assert type(Duration(micros=1) + Duration(micros=1)) is Duration
    assert type(Duration(micros=1) - Duration(micros=1)) is Duration
    assert type(3 * Duration(micros=1)) is Duration
    assert type(sum([Duration(micros=1), Duration(micros=2)])) is Duration
    assert type(-Duration(micros=1)) is Duration


NUMBERS = [
    5,
    0,
    True,
    np.int64(5),
    np.uint8(5),
    np.float64(5),
    np.bool_(True),
    5.0,
    fractions.Fraction(5),
    np.array([5]),
]
KINDS = [EventTime(5), ProcessingTime(5), Duration(micros=5)]
OPERATIONS = [operator.add, operator.sub, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("value", KINDS, ids=repr)
@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: type(number).__name__)
def test_a_bare_number_is_refused_to_the_right_of_a_time(value: Any, number: Any, operation: Any) -> None:
    if (
        operation in (operator.add, operator.sub)
        and type(number) is int
        and number == 0
        and isinstance(value, Duration)
    ):
        assert operation(value, number) == value  # the sum of nothing, which is 0
        return
    with pytest.raises(
        InvalidType, match=r"(?s)a bare number do not mix.*got .*\nHint: write dm\.\w+\(.*for seconds or"
    ):
        operation(value, number)


@pytest.mark.parametrize("operation", [operator.mod, operator.floordiv, divmod])
@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: type(number).__name__)
def test_an_instant_is_not_divided_by_a_bare_number(number: Any, operation: Any) -> None:
    for instant in (EventTime(90_000_001), ProcessingTime(90_000_001)):
        with pytest.raises(InvalidType, match=r"(?s)a bare number do not mix.*write dm\.duration\("):
            operation(instant, number)
        with pytest.raises(TypeError):
            operation(instant, [number])
        for other in (EventTime(1), ProcessingTime(1)):
            with pytest.raises(InvalidType, match="an instant is divided by a duration"):
                operation(instant, other)
        if not isinstance(number, bool | fractions.Fraction) and type(number) is not float:  # which Python asks first
            with pytest.raises(InvalidType, match="nothing can be divided by an instant"):
                operation(number, instant)


def test_every_instant_is_true_even_the_epoch_and_a_zero_duration_is_false() -> None:
    assert EventTime(0)
    assert ProcessingTime(0)
    assert not Duration(0)


def test_an_instant_is_divided_by_a_duration() -> None:
    for instant in (EventTime(90_000_001), ProcessingTime(90_000_001)):
        parts = divmod(instant, Duration(micros=60_000_000))
        assert parts == (1, Duration(micros=30_000_001))
        assert type(parts[1]) is Duration


HOUR = datetime.timedelta(hours=1)
NEW_YEAR = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("other", [HOUR, pendulum.duration(hours=1), NEW_YEAR, "1 hour"], ids=repr)
@pytest.mark.parametrize("value", KINDS, ids=repr)
def test_a_datetime_or_text_is_refused_in_arithmetic_with_the_function_that_converts_it(
    value: Any, other: Any, operation: Any
) -> None:
    for left, right in ((value, other), (other, value)):
        with pytest.raises(InvalidType, match=r"(?s)do not mix, got .*\nHint: convert it first: dm\.[a-z_]+\(.*\)$"):
            operation(left, right)


@pytest.mark.parametrize(
    ("value", "operation", "other", "hint"),
    [
        (EventTime(5), operator.add, HOUR, "dm.duration(datetime.timedelta(seconds=3600))"),
        (EventTime(5), operator.sub, NEW_YEAR, "dm.event_time(datetime.datetime(2024, 1, 1"),
        (ProcessingTime(5), operator.sub, NEW_YEAR, "dm.processing_time(datetime.datetime(2024, 1, 1"),
        (Duration(micros=5), operator.add, NEW_YEAR, "dm.event_time(datetime.datetime(2024, 1, 1"),
        (EventTime(5), operator.add, "1 hour", "dm.duration('1 hour')"),
        (EventTime(5), operator.lt, "2024-01-01T00:00Z", "dm.event_time('2024-01-01T00:00Z')"),
        (Duration(micros=5), operator.gt, "1 hour", "dm.duration('1 hour')"),
    ],
)
def test_the_hint_names_the_function_for_what_is_needed(value: Any, operation: Any, other: Any, hint: str) -> None:
    with pytest.raises(InvalidType, match=re.escape(f"Hint: convert it first: {hint}")):
        operation(value, other)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("value", KINDS, ids=repr)
@pytest.mark.parametrize(
    "number",
    [number for number in NUMBERS if not isinstance(number, bool | fractions.Fraction) and type(number) is not float],
    ids=lambda number: type(number).__name__,
)
def test_a_bare_number_is_refused_to_the_left_of_a_time(value: Any, number: Any, operation: Any) -> None:
    if (
        operation in (operator.add, operator.sub)
        and type(number) is int
        and number == 0
        and isinstance(value, Duration)
    ):
        assert operation(number, value) == operation(Duration(0), value)  # as sum() begins
        return
    with pytest.raises(InvalidType, match="a bare number do not mix"):
        operation(number, value)


def test_the_hint_for_a_bare_number_is_a_duration_or_an_instant() -> None:
    later: Any = EventTime(0)
    with pytest.raises(
        InvalidType, match=r"write dm\.duration\(5\) for seconds or dm\.Duration\(micros=5\) for microseconds"
    ):
        later + 5
    with pytest.raises(InvalidType, match=r"write dm\.event_time\(5\) for seconds or dm\.EventTime\(5\) for microsec"):
        _ = later < 5


@pytest.mark.parametrize("operation", [operator.sub, operator.lt, operator.le, operator.gt, operator.ge])
def test_the_two_domains_of_time_do_not_mix(operation: Any) -> None:
    for left, right in itertools.permutations([EventTime(5), ProcessingTime(5)]):
        with pytest.raises(InvalidType, match="cannot be compared or subtracted"):
            operation(left, right)


def test_two_instants_cannot_be_added() -> None:
    instant: Any = EventTime(5)
    for other in (EventTime(5), ProcessingTime(5)):
        with pytest.raises(InvalidType, match="two instants cannot be added"):
            instant + other


@pytest.mark.parametrize("value", KINDS, ids=repr)
def test_a_time_still_equals_its_number_of_microseconds(value: Any) -> None:
    for number in (5, 5.0, np.int64(5), np.float64(5)):
        assert value == number
        assert number == value
        assert not operator.ne(value, number)
        assert hash(value) == hash(number)
    assert value != 6
    assert np.int64(6) != value
    assert value != "5"


def test_durations_can_be_summed_scaled_and_made_positive() -> None:
    assert sum([Duration(micros=2), Duration(micros=3)]) == Duration(micros=5)
    twice: Any = np.int64(2)
    for scaled in (
        Duration(micros=5) * 2,
        2 * Duration(micros=5),
        twice * Duration(micros=5),
        Duration(micros=5) * twice,
    ):
        assert type(scaled) is Duration
        assert scaled == Duration(micros=10)
    assert Duration(micros=5) * 0.5 == Duration(micros=2)
    assert type(abs(Duration(micros=-5))) is Duration
    assert abs(Duration(micros=-5)) == Duration(micros=5)


def in_micros(number: int) -> Duration:
    return Duration(micros=number)


KINDS_OF_TIMES: list[Any] = [EventTime, ProcessingTime, in_micros]


@given(INT64, INT64)
def test_times_of_one_kind_are_ordered_as_their_numbers(left: int, right: int) -> None:
    for kind in KINDS_OF_TIMES:
        times: Any = kind(left), kind(right)
        for operation in OPERATIONS[2:]:
            assert operation(*times) == operation(left, right)


def test_pretty_printers_show_a_time_like_its_repr() -> None:
    assert pretty(Duration(micros=90_000_000)) == "Duration(90s)"
    assert pretty(EventTime(0)) == "EventTime(1970-01-01T00:00:00Z)"


def test_an_instant_cannot_be_subtracted_from_a_duration() -> None:
    with pytest.raises(InvalidType, match="an instant cannot be subtracted from a duration"):
        _ = Duration(micros=1) - EventTime(1)  # type: ignore[operator] # the point


@pytest.mark.parametrize("value", [EventTime(5), ProcessingTime(-5), Duration(micros=7), MAX_TIMESTAMP])
def test_pickling_keeps_value_and_type(value: int) -> None:
    copy = pickle.loads(pickle.dumps(value))
    assert copy == value
    assert type(copy) is type(value)


@pytest.mark.parametrize(
    ("written", "micros"),
    [
        ("90 seconds", 90_000_000),
        ("1 hour 30 minutes", 5_400_000_000),
        ("1 hour, 30 min", 5_400_000_000),
        ("1h30min", 5_400_000_000),
        ("250 ms", 250_000),
        ("5 us", 5),
        ("5 µs", 5),
        ("5 \N{GREEK SMALL LETTER MU}s", 5),
        (np.int64(90), 90_000_000),
        (np.float64(0.5), 500_000),
        ("2 days", 172_800_000_000),
        ("1 WEEK", 604_800_000_000),
        ("-5 s", -5_000_000),
        ("0.1 s", 100_000),
        ("9007199254740993 us", 9_007_199_254_740_993),  # no float between text and microseconds
        (90, 90_000_000),
        (0.5, 500_000),
        (float("inf"), 2**63 - 1),
        (float("-inf"), -(2**63)),
        (datetime.timedelta.max, 2**63 - 1),
        (datetime.timedelta.min, -(2**63)),
        (Duration(micros=3), 3),
        (datetime.timedelta(seconds=3, microseconds=1), 3_000_001),
        (datetime.timedelta(microseconds=-1), -1),
        (pendulum.duration(minutes=5), 300_000_000),
        (pendulum.duration(minutes=-5, microseconds=-1), -300_000_001),
        (pendulum.datetime(2013, 1, 2) - pendulum.datetime(2013, 1, 1), 86_400_000_000),
        ("1000000000 days", 2**63 - 1),
    ],
)
def test_a_duration_may_be_written_in_many_ways(written: Any, micros: int) -> None:
    assert duration(written) == Duration(micros=micros)
    assert type(duration(written)) is Duration


@pytest.mark.parametrize("written", ["1 month", "2 years"])
def test_lengths_of_the_calendar_are_refused_with_its_windows(written: str) -> None:
    with pytest.raises(InvalidArgument, match=r"is not a duration\nHint: .* dm\.CalendarWindows\.months\(\) and"):
        duration(written)


@pytest.mark.parametrize("other", ["ab", Duration(micros=3), None, [1]])
def test_only_numbers_scale_a_duration(other: Any) -> None:
    for factors in ((Duration(micros=2), other), (other, Duration(micros=2))):
        with pytest.raises(TypeError, match=r"a duration is scaled by a number|unsupported operand"):
            operator.mul(*factors)


@pytest.mark.parametrize("written", ["", "  ", "5", "five seconds", "5 parsecs", "1 hour and 2", "1 m", "seconds"])
def test_text_that_is_not_a_duration_is_refused_with_a_way_out(written: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a duration\nHint: "):
        duration(written)


@pytest.mark.parametrize("written", [None, True, [5], EventTime(5), ProcessingTime(5)])
def test_a_value_of_another_type_is_refused_as_a_duration(written: Any) -> None:
    with pytest.raises(InvalidType, match=r"(?s)a duration must be .* got .*Hint: "):
        duration(written)


def test_nan_is_refused_as_a_time() -> None:
    for parse in (duration, event_time, processing_time):
        with pytest.raises(InvalidArgument, match="got nan"):
            parse(float("nan"))


@given(st.integers(0, 2**63 - 1))
def test_the_text_of_a_duration_reads_back(micros: int) -> None:
    assert duration(duration_text(micros)) == Duration(micros=micros)


@pytest.mark.parametrize(
    ("written", "micros"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("2013-01-01T05:00-05:00", 1_357_034_400_000_000),
        ("+inf", 2**63 - 1),
        ("-inf", -(2**63)),
        (1.5, 1_500_000),
        (datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC), 1_000_000),
        (datetime.datetime(1970, 1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))), 0),
        (pendulum.datetime(2013, 1, 1, 5, tz="America/New_York"), 1_357_034_400_000_000),
        (pendulum.datetime(1, 1, 1, 0, 0, 0, 1), -62_135_596_799_999_999),
    ],
)
def test_an_instant_may_be_written_in_many_ways(written: Any, micros: int) -> None:
    assert event_time(written) == EventTime(micros)
    assert processing_time(written) == ProcessingTime(micros)


def test_a_missing_time_of_pandas_is_refused_as_missing() -> None:
    missing: Any = pd.NaT
    with pytest.raises(InvalidArgument, match=r"a time must not be missing, got NaT\nHint: filter"):
        event_time(missing)


@pytest.mark.parametrize("written", ["2013-01-01", "2013-01-01T05:00", datetime.datetime(2013, 1, 1)])  # noqa: DTZ001
def test_an_instant_without_a_zone_is_refused_with_a_way_out(written: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"an instant needs a time zone, got .*\nHint: add"):
        event_time(written)


@pytest.mark.parametrize("written", [1_700_000_000_000, 1.7e12, 1e30, 1_700_000_000_000_000, -253_402_300_800])
def test_milliseconds_and_microseconds_are_not_taken_as_seconds(written: float) -> None:
    for parse in (event_time, processing_time):
        with pytest.raises(
            InvalidArgument, match=r"in seconds since the epoch must be .*got .*\nHint: divide milliseconds"
        ):
            parse(written)
    assert event_time(253_402_300_799).to_datetime().year == 9999


@pytest.mark.parametrize("instant", [MIN_TIMESTAMP, MAX_TIMESTAMP, event_time(-2e11), processing_time(-1e11)])
def test_an_instant_that_no_datetime_can_hold_names_the_elements_without_event_times(instant: Any) -> None:
    with pytest.raises(OverflowError, match=r"in the years 1 to 9999, got .*\nHint: elements without event times"):
        instant.to_datetime()
    with pytest.raises(OverflowError, match="in the years 1 to 9999"):
        f"{instant:%H}"


def test_instants_are_formatted_as_datetimes_are() -> None:
    instant = event_time("2013-01-01T05:00:26-05:00")
    assert f"{instant:%d %H:%M:%S}" == f"{instant.to_datetime():%d %H:%M:%S}" == "01 10:00:26"
    assert f"{processing_time(0):%Y}" == "1970"
    assert f"{instant}" == repr(instant)


@pytest.mark.parametrize("written", ["", "noon", "P1D", "12:00", "2013-13-01T00:00Z"])
def test_text_that_is_not_an_instant_is_refused_with_a_way_out(written: str) -> None:
    with pytest.raises(InvalidArgument, match="is not an instant\nHint: "):
        event_time(written)


@pytest.mark.parametrize("written", [None, True, datetime.date(2013, 1, 1), Duration(micros=5)])
def test_a_value_of_another_type_is_refused_as_an_instant(written: Any) -> None:
    with pytest.raises(InvalidType, match="an instant must be"):
        event_time(written)


def test_the_time_domains_do_not_mix() -> None:
    with pytest.raises(InvalidType, match="expected an event time"):
        event_time(ProcessingTime(0))
    with pytest.raises(InvalidType, match="expected a processing time"):
        processing_time(EventTime(0))


def test_errors_have_builtin_exceptions_and_our_root_as_bases() -> None:
    assert issubclass(InvalidArgument, ValueError)
    assert issubclass(InvalidArgument, DataflowError)
    assert issubclass(InvalidType, TypeError)


@given(st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
def test_a_formatted_instant_reads_back(micros: int) -> None:
    assert event_time(format_instant(micros)) == EventTime(micros)


def test_instants_beyond_the_calendar_still_have_a_text() -> None:
    assert format_instant(2**62) == f"{2**62}us"
    assert repr(MAX_TIMESTAMP) == "EventTime(+inf)"
    assert repr(MIN_TIMESTAMP) == "EventTime(-inf)"


@pytest.mark.parametrize("far", [2**63, -(2**63) - 1, 2**70])
def test_a_time_of_more_than_64_bits_is_refused_where_it_is_used(far: int) -> None:
    readers: list[tuple[Any, Any]] = [
        (event_time, EventTime),
        (processing_time, ProcessingTime),
        (duration, in_micros),
    ]
    for read, kind in readers:
        with pytest.raises(InvalidArgument, match=r"must fit into 64 bits of microseconds, got \w+\("):
            read(kind(far))
        for micros in (2**63 - 1, -(2**63)):
            assert int(read(kind(micros))) == micros
    assert repr(EventTime(far)) == f"EventTime({far}us)"


def test_an_event_time_or_window_beyond_64_bits_is_reported_as_an_error_of_its_function() -> None:
    def later(element: str) -> dm.TimestampedValue[str]:
        return dm.TimestampedValue(element, EventTime(2**63))

    p = dm.Pipeline()
    _ = p | dm.Create(["a"]) | "later" >> dm.Map(later) | dm.io.Collect()
    with pytest.raises(dm.UserCodeError, match=r"(?s)64 bits of microseconds.*transform: 'later'.*element: 'a'"):
        p.run().wait_until_finish()
    assert dm.IntervalWindow(0, EventTime(2**63)) == dm.IntervalWindow(0, dm.MAX_TIMESTAMP)  # bounds saturate


def test_the_text_of_a_duration_is_exact_whatever_the_precision_of_decimals() -> None:
    with decimal.localcontext(prec=3):
        assert duration("1234.5 seconds") == Duration(micros=1_234_500_000)


def test_a_number_of_seconds_beyond_all_floats_of_microseconds_is_infinite() -> None:
    assert int(duration(1e305)) == 2**63 - 1
    assert int(duration(-1e305)) == -(2**63)


def test_scaling_a_duration_rounds_to_a_microsecond_as_a_timedelta_does() -> None:
    assert Duration(micros=100) * 0.29 == Duration(micros=29)  # 28.999999999999996
    assert Duration(micros=100) * 0.29 == duration(datetime.timedelta(microseconds=100) * 0.29)
    two_thirds: Any = fractions.Fraction(2, 3)
    assert Duration(micros=-1) * two_thirds == Duration(micros=-1)


def test_a_duration_is_not_scaled_to_nan() -> None:
    several: tuple[Any, ...] = (math.nan, np.float64("nan"))
    for times in several:
        with pytest.raises(InvalidArgument, match="cannot be scaled to NaN, got Duration"):
            _ = duration(1) * times
    assert duration(10**400) == Duration(micros=2**63 - 1)


@pytest.mark.parametrize("unit", ["ns", "us", "s", "M"])
def test_a_timedelta_of_numpy_is_not_taken_for_a_number_of_seconds(unit: Any) -> None:
    """It is a `numbers.Integral`, and its `int` is a count of its own unit."""
    given: Any = np.timedelta64(60, unit)
    for read in (event_time, processing_time):
        with pytest.raises(dm.InvalidType, match=r"got np\.timedelta64\(60,'\w+'\) of type timedelta64"):
            read(given)
    with pytest.raises(dm.InvalidType, match="a duration is scaled by a number"):
        _ = duration(1) * given


@pytest.mark.parametrize("given", ["1 hour", "5", 1.5, None, datetime.timedelta(seconds=1)])
def test_a_duration_of_microseconds_accepts_only_whole_numbers(given: Any) -> None:
    problem = f"Duration takes a whole number of microseconds, got {given!r}\nHint: write dm.duration({given!r})"
    with pytest.raises(dm.InvalidType, match=f"^{re.escape(problem)}"):
        dm.Duration(micros=given)
    with pytest.raises(dm.InvalidType, match=f"^{re.escape(problem)}"):
        dm.Duration(given)


@pytest.mark.parametrize("given", [60, -1, True, np.int64(60)])
def test_a_bare_number_is_refused_as_a_duration(given: Any) -> None:
    number = int(given)
    with pytest.raises(dm.InvalidType, match=r"a duration needs a unit, got Duration\(.*\)") as raised:
        dm.Duration(given)
    hint = f"Hint: write dm.duration({number}) for seconds or dm.Duration(micros={number}) for microseconds"
    assert str(raised.value).endswith(hint)


def test_a_duration_of_seconds_as_in_beam_is_refused_with_what_reads_them() -> None:
    with pytest.raises(
        dm.InvalidType, match=r"Duration has no argument 'seconds'\nHint: write dm\.duration\('5 seconds'"
    ):
        dm.Duration(seconds=5)  # type: ignore[arg-type]


def test_only_a_zero_duration_needs_no_unit() -> None:
    assert dm.Duration() == dm.Duration(0) == dm.Duration(micros=0) == dm.Duration(dm.duration(0))


def test_a_duration_is_restored_from_its_number() -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(dm.duration(60), protocol)) == dm.duration(60)
    assert copy.deepcopy(dm.duration(60)) == copy.copy(dm.duration(60)) == dm.duration(60)


@pytest.mark.parametrize("given", [7, np.int64(7), np.uint8(7), dm.Duration(micros=7)])
def test_a_duration_accepts_whole_numbers_of_any_type(given: Any) -> None:
    assert dm.Duration(micros=given) == dm.Duration(micros=7)
    assert pickle.loads(pickle.dumps(dm.Duration(micros=given))) == dm.Duration(micros=7)


@pytest.mark.parametrize(
    ("written", "micros"),
    [
        (np.datetime64("1970-01-02"), 86_400_000_000),
        (np.datetime64("1970-02"), 31 * 86_400_000_000),
        (np.datetime64("1969", "Y"), -365 * 86_400_000_000),
        (np.datetime64("1970-01-01T00:00:01.5"), 1_500_000),
        (np.datetime64(1_999, "ns"), 1),
        (np.datetime64(-1, "ns"), -1),
        (np.datetime64(2**62, "s"), 2**63 - 1),
        (np.datetime64(3, ("s", 25)), 75_000_000),
        (pd.Timestamp("1970-01-01T01:00:01+01:00"), 1_000_000),
    ],
)
def test_an_instant_of_numpy_is_in_utc_and_one_of_pandas_has_its_zone(written: Any, micros: int) -> None:
    assert event_time(written) == EventTime(micros)
    assert processing_time(written) == ProcessingTime(micros)


@pytest.mark.parametrize(
    ("written", "micros"),
    [
        (np.timedelta64(90, "m"), 5_400_000_000),
        (np.timedelta64(-1, "W"), -604_800_000_000),
        (np.timedelta64(1_999, "ns"), 1),
        (np.timedelta64(2**62, "D"), 2**63 - 1),
        (pd.Timedelta("1.5s"), 1_500_000),
    ],
)
def test_a_duration_may_be_of_numpy_or_pandas(written: Any, micros: int) -> None:
    assert int(duration(written)) == micros


@pytest.mark.parametrize("written", [np.timedelta64(5), np.timedelta64(5, "M"), np.timedelta64(5, "Y")])
def test_a_duration_of_numpy_without_a_fixed_length_is_refused(written: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"a length of time needs a unit .*, got np\.timedelta64\(5.*\nHint: use"):
        duration(written)


@pytest.mark.parametrize("missing", [np.datetime64("NaT"), pd.NaT])
def test_a_missing_instant_of_numpy_or_pandas_is_refused(missing: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"a time must not be missing, got .*NaT.*\nHint: filter"):
        event_time(missing)


@pytest.mark.parametrize("missing", [np.timedelta64("NaT"), pd.NaT])
def test_a_missing_duration_of_numpy_or_pandas_is_refused(missing: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"a time must not be missing, got .*NaT.*\nHint: filter"):
        duration(missing)


def test_a_numpy_duration_is_refused_as_an_instant_and_the_other_way_round() -> None:
    with pytest.raises(InvalidType, match="an instant must be"):
        event_time(np.timedelta64(5, "s"))  # type: ignore[arg-type] # the point
    with pytest.raises(InvalidType, match="a duration must be"):
        duration(np.datetime64(5, "s"))  # type: ignore[arg-type] # the point


@pytest.mark.parametrize(
    ("left", "operation", "right", "needed"),
    [
        (EventTime(5), operator.sub, np.datetime64(5, "s"), "event_time"),
        (np.datetime64(5, "s"), operator.sub, EventTime(5), "event_time"),
        (EventTime(5), operator.lt, np.datetime64(5, "s"), "event_time"),
        (ProcessingTime(5), operator.lt, np.datetime64(5, "s"), "processing_time"),
        (EventTime(5), operator.add, np.timedelta64(5, "s"), "duration"),
        (np.timedelta64(5, "s"), operator.add, EventTime(5), "duration"),
        (duration(5), operator.gt, np.timedelta64(5, "s"), "duration"),
    ],
)
def test_a_time_of_numpy_in_an_expression_is_refused_with_what_converts_it(
    left: Any, operation: Any, right: Any, needed: str
) -> None:
    with pytest.raises(InvalidType, match=rf"do not mix, got .*\nHint: convert it first: dm\.{needed}\(np\."):
        operation(left, right)


@pytest.mark.parametrize("time", [event_time(60), processing_time(60), duration(60), event_time(-60)])
@pytest.mark.parametrize("kind", [int, float, np.float64, np.int32])
def test_a_number_that_would_equal_a_time_in_seconds_is_refused(time: Any, kind: Any) -> None:
    number = kind(int(time) / 1_000_000)
    for compare in (operator.eq, operator.ne):
        with pytest.raises(InvalidType, match=r"do not mix, since a number has no unit, got .*\nHint: write dm\."):
            compare(time, number)
    if kind is int:
        with pytest.raises(InvalidType, match="do not mix"):
            _ = number == time


@pytest.mark.parametrize("other", [59, 61, 60_000_001, 0, 0.5, float("nan"), float("inf"), True, None, "60", (60,)])
def test_a_time_is_unequal_to_any_value_that_is_not_a_time(other: Any) -> None:
    for time in (event_time(60), processing_time(60), duration(60), MAX_TIMESTAMP):
        assert not time == other  # noqa: SIM201 - each operator is tested
        assert time != other


def test_zero_equals_zero_in_every_unit() -> None:
    for time in (event_time(0), processing_time(0), duration(0)):
        assert time == 0
        assert not time != 0  # noqa: SIM202 - each operator is tested


def test_times_are_distinguished_from_numbers_in_sets_and_dicts() -> None:
    assert event_time(60) not in {60, 61}
    assert {60: "a", event_time(60): "b"}[event_time(60)] == "b"
