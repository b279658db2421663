"""Panes that take back those before them, also through several groupings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dataflow_model as dm
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.hosts import OnHost

EACH = dm.Repeatedly(dm.AfterCount(1))
TENS = dm.Window.into(dm.FixedWindows(10)).trigger(EACH).allowed_lateness(100)


def by_size(pair: Any) -> Any:
    return "large" if pair[1] > 2 else "small", pair[1]


def test_a_retracting_pane_retracts_the_pane_before_it(host: OnHost) -> None:
    script = TestStream().add(1, 5, key="a").add(2, 6, key="d").watermark(20).add(4, 7, key="a")

    def build(p: dm.Pipeline) -> None:
        sums = p | "script" >> script | TENS.accumulating_and_retracting() | "sums" >> dm.Sum.per_key()
        _ = sums | "panes" >> dm.io.Collect()

    result = host.run(build)
    net: dict[Any, int] = {}
    for record in result.collected("panes"):
        net[record.value] = net.get(record.value, 0) + (-1 if record.is_retraction else 1)
    assert {value: count for value, count in net.items() if count} == {("a", 5): 1, ("d", 2): 1}
    if host.host.has_clock:
        retracted = [record.value for record in result.collected("panes") if record.is_retraction]
        assert retracted == [("a", 1)]


def test_a_refined_sum_moves_from_its_old_group_to_its_new_one_downstream(clocked: OnHost) -> None:
    script = TestStream().add(1, 5, key="a").add(2, 6, key="d").watermark(10).add(4, 7, key="a")

    def build(p: dm.Pipeline) -> None:
        sums = p | "script" >> script | TENS.accumulating_and_retracting() | "sums" >> dm.Sum.per_key()
        sized = sums | "sizes" >> dm.Map(by_size)
        again = dm.Window.trigger(EACH).accumulating_and_retracting()
        _ = sized | "again" >> again | "totals" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()

    standing: list[Any] = []
    for record in clocked.run(build).collected("panes"):
        if record.is_retraction:
            standing.remove(record.value)
        else:
            standing.append(record.value)
    assert sorted(standing) == [("large", 5), ("small", 2)]


def test_merging_sessions_retract_the_panes_that_they_had_emitted(clocked: OnHost) -> None:
    script = TestStream().add(1, 0, key="a").add(2, 10, key="a").add(4, 5, key="a")

    def build(p: dm.Pipeline) -> None:
        sessions = dm.Window.into(dm.Sessions(6)).trigger(EACH).on_time("fire_if_non_empty")
        sums = p | "script" >> script | sessions.accumulating_and_retracting() | "sums" >> dm.Sum.per_key()
        _ = sums | "panes" >> dm.io.Collect()

    records = clocked.run(build).collected("panes")
    signed = sorted((record.value[1], record.is_retraction) for record in records)
    assert signed == [(1, False), (1, True), (2, False), (2, True), (7, False)]
    ends = [int(record.window.end) // 1_000_000 for record in records if record.value[1] == 7]
    assert ends == [16]


def test_a_memoised_function_retracts_the_outputs_that_it_returned(clocked: OnHost) -> None:
    script = TestStream().add(1, 5, key="a").add(4, 7, key="a")

    def build(p: dm.Pipeline) -> None:
        sums = p | "script" >> script | TENS.accumulating_and_retracting() | "sums" >> dm.Sum.per_key()
        _ = sums | "sizes" >> dm.Map(by_size).retractable("memoised") | "panes" >> dm.io.Collect()

    records = clocked.run(build).collected("panes")
    assert [(record.value, record.is_retraction) for record in records if not record.pane.is_last][:3] == [
        (("small", 1), False),
        (("small", 1), True),
        (("large", 5), False),
    ]


class Unpaid(dm.DoFn):
    """Each order as unpaid, until it is paid or its minute is over."""

    retracts = True
    late_data_horizon = dm.duration("1 hour")
    unpaid = dm.ValueStateSpec[Any](default=None)
    reminder = dm.TimerSpec(dm.TimeDomain.EVENT_TIME)

    def process(self, pair: Any, timestamp: dm.EventTime, unpaid: Any, reminder: dm.Timer) -> Iterator[Any]:
        key, amount = pair
        if amount > 0:
            unpaid.write((amount, timestamp))
            reminder.set_after("10 seconds")
            yield key, amount
        else:
            yield from self._taken_back(key, unpaid)

    @dm.on_timer(reminder)
    def remind(self, key: Any, unpaid: Any) -> Iterator[Any]:
        if unpaid.read() is not None:
            yield dm.TaggedOutput("reminded", key)

    def on_window_expiry(self, key: Any, unpaid: Any) -> Iterator[Any]:
        yield from self._taken_back(key, unpaid)

    def _taken_back(self, key: Any, unpaid: Any) -> Iterator[Any]:
        if unpaid.read() is not None:
            amount, at = unpaid.read()
            yield dm.TimestampedValue(dm.Retract((key, amount)), at)
        unpaid.clear()


def test_what_a_stateful_function_takes_back_is_gone_from_every_grouping_behind_it(host: OnHost) -> None:
    script = TestStream().add(5, 1, key="a").add(6, 2, key="b").add(7, 3, key="c").watermark(4)
    script = script.add(0, 8, key="b").watermark(30).add(0, 40, key="c").watermark(50).add(9, 70, key="d")

    def build(p: dm.Pipeline) -> None:
        minutes = p | "script" >> script | "minutes" >> dm.Window.into(dm.FixedWindows("1 minute"))
        unpaid, reminded = minutes | "unpaid" >> dm.ParDo(Unpaid()).with_outputs("reminded")
        _ = unpaid | "unpaid orders" >> dm.io.Collect()
        _ = reminded | "reminders" >> dm.io.Collect()
        each = dm.Window.into(dm.FixedWindows(5)).trigger(EACH).accumulating_and_retracting()
        amounts = unpaid | "each" >> each | "one key" >> dm.Map(lambda pair: ("all", pair[1]))
        _ = amounts | "amounts" >> dm.Sum.per_key() | "sums" >> dm.io.Collect()
        _ = amounts | "greatest" >> dm.Max.per_key() | "maxima" >> dm.io.Collect()

    result = host.run(build)
    records = result.collected("unpaid orders")
    assert sorted((record.value, record.is_retraction) for record in records) == [
        (order, is_retraction) for order in (("a", 5), ("b", 6), ("c", 7), ("d", 9)) for is_retraction in (False, True)
    ]
    assert all(
        other.event_time == record.event_time for record in records for other in records if other.value == record.value
    )
    assert sorted(record.value for record in result.collected("reminders")) == ["a", "c", "d"]
    net: dict[Any, int] = {}
    for record in result.collected("sums"):
        net[record.window] = net.get(record.window, 0) + (-1 if record.is_retraction else 1) * record.value[1]
    assert not any(net.values())
    assert sum(-1 if record.is_retraction else 1 for record in result.collected("maxima")) == 0
    if host.host.has_clock:
        amounts = [record.value[1] for record in result.collected("sums") if not record.is_retraction]
        assert amounts[:3] == [5, 11, 18]


def test_an_element_that_is_joined_late_is_taken_back_as_one_without_a_partner(host: OnHost) -> None:
    orders = TestStream().add("book", 10, key="o1").add("pen", 11, key="o2").watermark(40)
    payments = TestStream().watermark(12).watermark(40).add(20, 12, key="o1")
    late = dm.Window.into(dm.GlobalWindows()).trigger(EACH).allowed_lateness(100).accumulating_and_retracting()

    def build(p: dm.Pipeline) -> None:
        sides = [
            p | name >> script | f"{name} late" >> late for name, script in (("orders", orders), ("payments", payments))
        ]
        joined = tuple(sides) | "joined" >> dm.Join.left(within=5)
        _ = joined | "pairs" >> dm.io.Collect()
        unpaid = joined | "unpaid" >> dm.Filter(lambda pair: pair[1][1] is None)
        _ = unpaid | "number" >> dm.Count.globally() | "numbers" >> dm.io.Collect()

    result = host.run(build)
    net: dict[Any, int] = {}
    for record in result.collected("pairs"):
        net[record.value] = net.get(record.value, 0) + (-1 if record.is_retraction else 1)
    assert {pair for pair, count in net.items() if count == 1} == {("o1", ("book", 20)), ("o2", ("pen", None))}
    assert set(net.values()) <= {0, 1}
    numbers = [record.value for record in result.collected("numbers") if not record.is_retraction]
    assert numbers[-1] == 1
    if host.host.has_clock:
        assert numbers == [1, 2, 1]
