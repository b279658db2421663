"""What the demo shows of the year: the worst day, and the hour of that day with the most late panes."""

from __future__ import annotations

import datetime
from collections import Counter
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import attrs

from dataflow_model.demo.answers import Group, by_group, fold
from dataflow_model.demo.pipeline import TIME_ZONE
from dataflow_model.micros import EPOCH
from dataflow_model.values import PaneTiming

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.plan.columns.records import Record

ZONE: Final = ZoneInfo(TIME_ZONE)
_ENOUGH: Final = 300
"""The least number of departures of the day in the picture."""
_MOST_PANES: Final = 9
"""The greatest number of panes of a window that can be distinguished in the picture."""


@attrs.frozen
class Shown:
    """A window and its panes.

    Attributes:
        group: the carrier and the window.
        panes: its panes, in the order in which they were emitted.
    """

    group: Group
    panes: tuple[Record, ...]


def local(micros: int) -> datetime.datetime:
    """Return an instant as local time in New York.

    Example:
        >>> local(1_362_747_600_000_000).isoformat()
        '2013-03-08T08:00:00-05:00'
    """
    return (EPOCH + datetime.timedelta(microseconds=micros)).astimezone(ZONE)


def worst_day(hourly: Iterable[Record]) -> datetime.date | None:
    """Return the day, in New York, whose departures had the greatest mean delay; `None` without departures."""
    departures: Counter[datetime.date] = Counter()
    minutes: Counter[datetime.date] = Counter()
    for (_, start, _), answer in fold(hourly).items():
        day = local(start).date()
        departures[day] += answer.count
        minutes[day] += round(answer.count * (answer.mean or 0))
    busy = [day for day, count in departures.items() if count >= _ENOUGH] or list(departures)
    return max(busy, key=lambda day: (minutes[day] / departures[day], day), default=None)


def choose(hourly: Iterable[Record], day: datetime.date) -> list[Shown]:
    """Return the day's windows, the most instructive one first.

    Windows with panes of all three timings are first, then those whose panes can be distinguished in a picture, then
    those with the most late panes.
    """
    groups = by_group(record for record in hourly if local(int(record.window.start)).date() == day)
    shown = [Shown(group, tuple(panes)) for group, panes in groups.items()]
    return sorted(shown, key=_worth, reverse=True)


def _worth(shown: Shown) -> tuple[int, int, int, Group]:
    timings = [pane.pane.timing for pane in shown.panes]
    late = timings.count(PaneTiming.LATE)
    crowded = len(timings) > _MOST_PANES
    return len(set(timings)), -crowded, late, shown.group
