"""The contents of the picture of a day: its departures, and the watermark over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dataflow_model.demo.choice import ZONE
from dataflow_model.demo.pipeline import DELAY

if TYPE_CHECKING:
    import datetime
    from pathlib import Path

    from numpy.typing import NDArray

HOUR: Final = 3_600_000_000


@attrs.frozen(eq=False)
class Scene:
    """A day's departures and the watermark, all times in microseconds.

    Attributes:
        event_times, known, carriers: of each departure.
        behind: whether the watermark had passed the departure's own schedule when it became known.
        late: whether it had passed the end of its hour.
        ticks, watermarks: the values of the clock, and the watermark from each of them on.
    """

    event_times: NDArray[np.int64]
    known: NDArray[np.int64]
    carriers: NDArray[np.str_]
    behind: NDArray[np.bool_]
    late: NDArray[np.bool_]
    ticks: NDArray[np.int64]
    watermarks: NDArray[np.int64]

    def of(self, carrier: str, start: int, end: int) -> NDArray[np.bool_]:
        """Return which departures are one carrier's in `[start, end)`."""
        inside = (self.event_times >= start) & (self.event_times < end)
        chosen: NDArray[np.bool_] = np.logical_and(inside, self.carriers == carrier)
        return chosen


def scene_of(path: Path, day: datetime.date) -> Scene:
    """Read the departures that were scheduled on a day in New York.

    The watermark is computed again from the data, by the rule of `BoundedOutOfOrderness`: the newest scheduled time
    minus the delay, effective when its tick is complete.
    """
    table = pq.read_table(path, columns=["scheduled_departure", "known_at", "carrier", "dep_delay"])
    event_times = table["scheduled_departure"].cast(pa.int64()).to_numpy()
    known = table["known_at"].cast(pa.int64()).to_numpy()
    newest = np.maximum.accumulate(event_times)
    ticks, firsts = np.unique(known, return_index=True)
    after = newest[np.append(firsts[1:], len(known)) - 1] - int(DELAY)
    before = np.concatenate([[np.iinfo(np.int64).min], after[:-1]])[np.searchsorted(ticks, known)]
    moments = table["scheduled_departure"].to_pandas().dt.tz_convert(ZONE)
    rows = (moments.dt.date == day).to_numpy() & table["dep_delay"].is_valid().to_numpy()
    shown = slice(*np.searchsorted(ticks, [event_times[rows].min() - 3 * HOUR, known[rows].max() + 3 * HOUR]))
    return Scene(
        event_times[rows],
        known[rows],
        table["carrier"].to_numpy().astype(np.str_)[rows],
        (event_times < before)[rows],
        (event_times // HOUR * HOUR + HOUR <= before)[rows],
        ticks[shown],
        after[shown],
    )
