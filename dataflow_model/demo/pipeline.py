"""The demo's job: departures and mean delay per carrier and hour, cancelled flights per carrier and day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import dataflow_model as dm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIME_ZONE: Final = "America/New_York"
"""The time zone of the three airports: days, and all times that are shown, are in this zone."""
DELAY: Final = dm.duration("1 hour")
"""How far the watermark trails the newest schedule: 4.92 % of departures are then late for their hour."""
LATENESS: Final = dm.duration("24 hours")
"""The longest delay is 21.7 hours, so with this allowed lateness nothing is dropped."""
EARLY_AFTER: Final = dm.duration("30 minutes")
"""How long after the first new departure of an hour an early pane is emitted."""
HOURLY: Final = "per carrier and hour"
CANCELLED: Final = "cancelled per carrier and day"


class Flights(NamedTuple):
    """The outputs of the job.

    Attributes:
        hourly: `(carrier, Row(count, mean))` for each hour of scheduled departure: departures, mean delay in minutes.
        cancelled: `(carrier, count)` for each day in New York.
    """

    hourly: dm.PCollection
    cancelled: dm.PCollection


def flights(p: dm.Pipeline, path: str | Path) -> Flights:
    """Build the job on a pipeline, for any runner.

    Event time is the scheduled departure. The replay clock is the time when the departure became known, so that a
    delayed flight arrives as late as it did in 2013.

    Args:
        p: the pipeline.
        path: the flights, as `data/README.md` describes them.

    Example:
        >>> from dataflow_model.demo import flights_file
        >>> p = dm.Pipeline()
        >>> flights(p, flights_file()).cancelled
        PCollection('cancelled per carrier and day', element_type=...)
    """
    return by_carrier(
        p
        | "flights"
        >> dm.io.ReadParquet(
            path,
            event_time="scheduled_departure",
            processing_time="known_at",
            watermark=dm.BoundedOutOfOrderness(DELAY),
        )
    )


def by_carrier(departures: dm.PCollection) -> Flights:
    """Build the job on a collection of departures, wherever they were read from.

    Args:
        departures: rows with `carrier` and `dep_delay`, at their scheduled time.

    Example:
        >>> p = dm.Pipeline()
        >>> from dataflow_model.demo import flights_file
        >>> read = dm.io.ReadParquet(flights_file(), event_time="scheduled_departure")
        >>> by_carrier(p | read).hourly
        PCollection('per carrier and hour', element_type=...)
    """
    departed, cancelled = departures | "departed or cancelled" >> dm.FlatMap(_departed_or_cancelled).with_outputs(
        "cancelled", main="departed"
    )
    hourly = (
        departed
        | "hours"
        >> dm.Window.into(dm.FixedWindows("1 hour"))
        .trigger(dm.AfterWatermark(early=dm.AfterProcessingTime(EARLY_AFTER), late=dm.AfterCount(1)))
        .allowed_lateness(LATENESS)
        .accumulating()
        | HOURLY >> dm.Together(count=dm.Count(), mean=dm.Mean()).per_key()
    )
    # The default trigger and no lateness: a cancelled flight is known at its scheduled time, so none is late.
    per_day = (
        cancelled | "days" >> dm.Window.into(dm.CalendarWindows.days(1, TIME_ZONE)) | CANCELLED >> dm.Count.per_key()
    )
    return Flights(hourly, per_day)


def _departed_or_cancelled(flight: Any) -> Iterator[Any]:
    """Pair each carrier with a delay; a cancelled flight has none."""
    if flight.dep_delay is None:
        yield dm.TaggedOutput("cancelled", (flight.carrier, None))
    else:
        yield flight.carrier, flight.dep_delay
