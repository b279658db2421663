"""Deadlines by either clock: delays after the first element of a turn, and times aligned to the clock or a calendar."""

from __future__ import annotations

import datetime
import zoneinfo
from typing import Any

import attrs
import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.triggers import local_times
from tests.support.triggers.playing import Play, deadlines, fires_at, merged

EVENT = dm.TimeDomain.EVENT_TIME
NEW_YORK = "America/New_York"

# Delays in event time.


def test_a_delay_in_event_time_counts_from_the_event_time_of_the_first_element() -> None:
    assert fires_at(dm.AfterEventTime(3), "w 1, e 1@4, e 2@2, w 6, w 7, w 8") == ["w 7"]


def test_an_older_element_that_arrives_later_does_not_move_a_delay_in_event_time() -> None:
    assert deadlines(dm.AfterEventTime(3), "e 1@4, e 2@0, w 20") == [7]


def test_a_delay_that_is_over_when_its_element_arrives_fires_right_after_it() -> None:
    assert fires_at(dm.Repeatedly(dm.AfterEventTime(3)), "w 7, e 1@4, e 2@3, e 3@5, w 8") == ["e 1@4", "e 2@3", "w 8"]


def test_a_delay_after_an_element_at_minus_infinity_is_over_as_the_element_arrives() -> None:
    @attrs.frozen(repr=False, init=False)
    class Own(dm.AfterEventTime):
        """A trigger of the user's, which has the same callbacks."""

    for trigger in (dm.AfterEventTime(60), Own(60)):
        with dm.Pipeline() as p:
            pairs = p | dm.Create([("a", 1), ("a", 2)])
            repeated = dm.Window.into(dm.GlobalWindows()).trigger(dm.Repeatedly(trigger)).discarding()
            _ = pairs | repeated | dm.Sum.per_key() | "panes" >> dm.io.Collect()
        assert [record.value for record in p.result.collected("panes")] == [("a", 1), ("a", 2)]


def test_a_repeated_delay_in_event_time_restarts_with_the_first_element_of_its_turn() -> None:
    assert deadlines(dm.Repeatedly(dm.AfterEventTime(3)), "e 1@0, w 4, e 2@6, e 3@5, w 20") == [3, 9]


def test_a_delay_in_event_time_ignores_the_clock() -> None:
    assert fires_at(dm.AfterEventTime(3), "e 1@0, p 100") == []


def test_the_time_limit_of_until_may_be_in_event_time() -> None:
    both = dm.RepeatUntil(dm.AfterProcessingTime(5), dm.AfterEventTime(20))
    assert fires_at(both, "e 1@0, p 6, e 2@1, p 12, w 19, e 3@2, w 20, p 99") == ["p 6", "p 12", "w 20"]


@pytest.mark.parametrize("kind", [dm.AfterEventTime, dm.AfterProcessingTime])
def test_a_negative_delay_is_refused(kind: Any) -> None:
    with pytest.raises(dm.InvalidArgument, match="must not be negative"):
        kind(-1)


def test_delays_in_event_time_keep_the_earliest_deadline_of_windows_that_merge() -> None:
    whole = merged(dm.AfterEventTime(3), [((0, 10), "e 1@5"), ((8, 20), "e 2@9")])
    assert whole.play("e 3@1, w 7, w 8, w 12") == ["w 8"]


def test_a_delay_that_has_fired_in_every_source_stays_finished() -> None:
    whole = merged(dm.AfterEventTime(3), [((0, 10), "e 1@0, w 4"), ((8, 20), "e 2@0, w 4")])
    assert whole.finished
    whole = merged(dm.AfterEventTime(3), [((0, 10), "e 1@0, w 4"), ((8, 20), "e 2@9, w 4")])
    assert whole.play("w 11, w 12") == ["w 12"]


# Periods.


def test_a_period_fires_at_the_next_multiple_after_the_first_element() -> None:
    assert deadlines(dm.Repeatedly(dm.AtPeriod(10)), "p 3, e 1@1, p 7, e 2@1, p 11, e 3@1, p 31") == [10, 20]


def test_an_element_at_a_multiple_is_in_the_pane_of_that_multiple() -> None:
    play = Play(dm.Repeatedly(dm.AtPeriod(10)))
    assert play.play("p 10, e 1@1, p 10.000001, e 2@1, p 25") == ["p 10.000001", "p 25"]
    assert play.deadlines == [10, 20]


def test_a_reference_shifts_the_multiples_of_a_period_and_may_be_in_the_future() -> None:
    assert deadlines(dm.AtPeriod(10, reference=1234), "p 3, e 1@1, p 99") == [4]


def test_a_pane_of_a_sibling_does_not_move_a_period() -> None:
    either = dm.AfterAny(dm.Repeatedly(dm.Always()), dm.Repeatedly(dm.AtPeriod(10)))
    assert deadlines(either, "p 3, e 1@1, p 5, e 2@1, p 99") == [None, None, 10]


def test_a_period_in_event_time_waits_for_the_watermark() -> None:
    aligned = dm.Repeatedly(dm.AtPeriod(4, domain=EVENT))
    assert fires_at(aligned, "e 1@5, p 99, w 7, w 8, e 2@9, w 11, w 13") == ["w 8", "w 13"]


def test_a_period_in_event_time_that_has_passed_fires_right_after_the_element() -> None:
    assert fires_at(dm.Repeatedly(dm.AtPeriod(4, domain=EVENT)), "w 8, e 1@5, e 2@8, e 3@9, w 12") == [
        "e 1@5",
        "e 2@8",
        "w 12",
    ]


def test_periods_keep_the_earliest_deadline_of_windows_that_merge() -> None:
    aligned = dm.AtPeriod(10, domain=EVENT)
    whole = merged(aligned, [((0, 10), "e 1@15"), ((8, 20), "e 2@5")])
    assert whole.play("e 3@30, w 9, w 10") == ["w 10"]


def seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()


def daily(first: str) -> float:
    """Return when a trigger at eight in New York fires for an element that is seen at some time."""
    following = deadlines(
        dm.AtPeriod("1 day", reference="1970-01-01T08:00", timezone=NEW_YORK), f"p {seconds(first)}, e 1@1, p 9e9"
    )
    assert following[0] is not None
    return following[0]


@pytest.mark.parametrize(
    ("first", "fires"),
    [
        ("2013-03-09T12:00Z", "2013-03-09T13:00Z"),  # 8 am, five hours behind UTC
        ("2013-03-09T13:00Z", "2013-03-09T13:00Z"),
        ("2013-03-09T13:00:00.000001Z", "2013-03-10T12:00Z"),  # the clocks have gone forward in between
        ("2013-11-02T13:00Z", "2013-11-03T13:00Z"),  # and back
        ("1950-06-01T00:00Z", "1950-06-01T12:00Z"),  # before the reference
    ],
)
def test_daily_at_eight_stays_at_eight_when_the_clocks_change(first: str, fires: str) -> None:
    assert local_times.next_time(
        round(seconds(first) * 1e6), local_times.instant("1970-01-01T08:00", NEW_YORK), dm.duration("1 day"), NEW_YORK
    ) == round(seconds(fires) * 1e6)
    if not first.startswith("1950"):
        assert daily(first) == seconds(fires)


def test_without_a_zone_a_period_of_a_day_has_24_hours_of_utc() -> None:
    at = seconds("2013-03-10T09:00Z")
    assert deadlines(dm.AtPeriod("1 day", reference="1970-01-01T08:00"), f"p {at}, e 1@1, p 9e9") == [
        seconds("2013-03-11T08:00Z")
    ]


def after(text: str, period: str, reference: str, zone: str = NEW_YORK) -> str:
    """Return the next time of a calendar's period, as it shows there."""
    at = round(seconds(text) * 1e6)
    following = local_times.next_time(at, local_times.instant(reference, zone), local_times.period(period), zone)
    return pendulum.from_timestamp(following // 1_000_000, tz=zone).isoformat()


def test_a_period_at_a_skipped_local_time_fires_later_by_the_length_of_the_gap() -> None:
    assert after("2013-03-10T05:00Z", "1 day", "1970-01-01T02:30") == "2013-03-10T03:30:00-04:00"
    assert after("2013-03-10T08:00Z", "1 day", "1970-01-01T02:30") == "2013-03-11T02:30:00-04:00"


def test_a_period_at_a_repeated_local_time_fires_only_the_first_time() -> None:
    assert after("2013-11-03T04:30Z", "1 day", "1970-01-01T01:30") == "2013-11-03T01:30:00-04:00"
    assert after("2013-11-03T05:45Z", "1 day", "1970-01-01T01:30") == "2013-11-04T01:30:00-05:00"


def test_periods_of_months_follow_the_calendar_and_the_31st_becomes_the_last_day_of_shorter_ones() -> None:
    assert after("2013-02-01T00:00Z", "1 month", "2013-01-31T09:00") == "2013-02-28T09:00:00-05:00"
    assert after("2013-03-01T00:00Z", "1 month", "2013-01-31T09:00") == "2013-03-31T09:00:00-04:00"
    assert after("2013-03-01T00:00Z", "3 months", "2013-01-01T00:00") == "2013-04-01T00:00:00-04:00"
    assert after("2013-03-01T00:00Z", "1 year", "2012-02-29T00:00", "UTC") == "2014-02-28T00:00:00+00:00"


def test_a_zone_does_not_change_periods_of_hours() -> None:
    plain, zoned = dm.AtPeriod("6 hours", reference=0), dm.AtPeriod("6 hours", reference=0, timezone=NEW_YORK)
    text = f"p {seconds('2013-03-10T05:00Z')}, e 1@1, p 9e9"
    assert deadlines(plain, text) == deadlines(zoned, text) == [seconds("2013-03-10T06:00Z")]


def test_a_period_has_no_further_time_after_the_last_year_of_the_calendar() -> None:
    never = local_times.next_time(2**62, 0, dm.duration("1 day"), NEW_YORK)
    assert never == dm.MAX_TIMESTAMP


ZONES = st.sampled_from(["UTC", NEW_YORK, "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu", "Africa/Casablanca"])
PERIODS = st.sampled_from(["1 day", "2 days", "1 week", "1 month", "5 months", "1 year", "90 minutes", "7 hours"])
MICROS = st.integers(-(2**51), 2**52)


@given(MICROS, MICROS, PERIODS, ZONES)
def test_the_next_time_of_a_period_is_the_earliest_one_that_is_not_before_the_given_one(
    at: int, reference: int, period: str, zone: str
) -> None:
    length = local_times.period(period)
    following = local_times.next_time(at, reference, length, zone)
    assert following >= at
    assert local_times.next_time(following, reference, length, zone) == following
    between = (at + following) // 2
    assert local_times.next_time(between, reference, length, zone) == following


@given(MICROS, MICROS, PERIODS, ZONES)
def test_calendar_periods_have_the_local_time_of_the_reference_unless_it_is_skipped(
    at: int, reference: int, period: str, zone: str
) -> None:
    length = local_times.period(period)
    if not isinstance(length, local_times.Months) and length % dm.duration("1 day"):
        return
    following = local_times.next_time(at, reference, length, zone)
    known, epoch = zoneinfo.ZoneInfo(zone), datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    shown, wanted = (
        (epoch + datetime.timedelta(microseconds=micros)).astimezone(known) for micros in (following, reference)
    )
    if shown.time() != wanted.time():
        # It was skipped: it is what the offset before the change makes of the wanted time.
        meant = [
            datetime.datetime.combine(shown.date() - datetime.timedelta(days=days), wanted.time(), known)
            for days in (0, 1)
        ]
        assert shown.astimezone(datetime.UTC) in [time.replace(fold=0).astimezone(datetime.UTC) for time in meant]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: dm.AtPeriod(0), "`period` must be positive, got 0"),
        (
            lambda: dm.AtPeriod("1 month"),
            "a period in months needs a time zone, since months differ in length, got '1 month'",
        ),
        (lambda: dm.AtPeriod("1 day", timezone="Mars/Olympus"), "`timezone` must be the name of a zone"),
        (lambda: dm.AtPeriod("1 day", timezone=5), "`timezone` must be the name of a zone"),  # type: ignore[arg-type]
        (lambda: dm.AtPeriod("1 day", domain="event"), "`domain` must be a TimeDomain"),  # type: ignore[arg-type]
        (lambda: dm.AtPeriod("1 day", reference=dm.event_time(0)), "`reference` must be a time of the domain"),
        (lambda: dm.AtPeriod("1 day", reference="+inf"), "`reference` must be in the years 1 to 9999"),
        (lambda: dm.AtPeriod("1 day", reference="soon"), "'soon' is not an instant"),
        (
            lambda: dm.AtPeriod("6 hours", reference="2013-11-03T01:30", timezone=NEW_YORK),
            (
                "`reference` must say which time it is, got '2013-11-03T01:30:00', which occurs twice in "
                "America/New_York\nHint: pass '2013-11-03T01:30:00-04:00' for the earlier time, or "
                "'2013-11-03T01:30:00-05:00' for the later one"
            ),
        ),
        (
            lambda: dm.AtPeriod("1 day", reference="2013-03-10T02:30", timezone=NEW_YORK),
            (
                "`reference` must be a time that exists, got '2013-03-10T02:30:00', which the clocks in "
                "America/New_York skip\nHint: pass the time of another day, such as '1970-01-01T02:30:00'"
            ),
        ),
        (lambda: dm.AtPeriod(pendulum.duration(months=1, hours=1), timezone="UTC"), "must be in months, or in days"),
    ],
)
def test_wrong_periods_are_refused(make: Any, problem: str) -> None:
    with pytest.raises((dm.InvalidArgument, dm.InvalidType), match=problem):
        make()


def test_a_reference_may_be_given_in_every_form() -> None:
    eight = dm.AtPeriod("1 day", reference="2013-01-01T08:00", timezone=NEW_YORK)
    assert eight == dm.AtPeriod("1 day", reference="2013-01-01T13:00Z", timezone=NEW_YORK)
    assert eight == dm.AtPeriod("1 day", reference=pendulum.datetime(2013, 1, 1, 13), timezone=NEW_YORK)
    naive = datetime.datetime(2013, 1, 1, 8)  # noqa: DTZ001 - local time in the trigger's zone
    assert eight == dm.AtPeriod(datetime.timedelta(days=1), reference=naive, timezone=NEW_YORK)
    assert dm.AtPeriod(pendulum.duration(months=14), timezone="UTC") == dm.AtPeriod("14 months", timezone="UTC")


def test_the_repr_of_an_ambiguous_reference_can_be_passed_again() -> None:
    earlier = dm.AtPeriod("6 hours", reference="2013-11-03T01:30-04:00", timezone=NEW_YORK)
    later = dm.AtPeriod("6 hours", reference="2013-11-03T01:30-05:00", timezone=NEW_YORK)
    assert [int(trigger.reference) // 60_000_000 % 1440 for trigger in (earlier, later)] == [330, 390]
    for trigger in (earlier, later):
        assert eval(repr(trigger), {"AtPeriod": dm.AtPeriod}) == trigger  # noqa: S307
    folded = datetime.datetime(2013, 11, 3, 1, 30, fold=1)  # noqa: DTZ001 - local time in the trigger's zone
    assert later == dm.AtPeriod("6 hours", reference=folded, timezone=NEW_YORK)


def test_the_default_reference_occurs_once_in_every_zone() -> None:
    for zone in zoneinfo.available_timezones() - {"localtime", "Factory"}:
        assert repr(dm.AtPeriod("1 day", timezone=zone)) == f"AtPeriod('1 day', timezone={zone!r})"


@pytest.mark.parametrize("period", ["1 day", "7 days", "1 month"])
@pytest.mark.parametrize("timezone", ["UTC", "America/New_York"])
def test_a_calendar_period_has_a_first_time_for_a_clock_at_minus_infinity(period: str, timezone: str) -> None:
    """As it does in a bounded job."""
    length = local_times.period(period)
    first = local_times.next_time(int(dm.MIN_TIMESTAMP), 0, length, timezone)
    assert int(dm.MIN_TIMESTAMP) < first < 0
    assert local_times.next_time(first, 0, length, timezone) == first
