"""A source that notes its calls, fails as often as a test wants, and notes what has been committed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa

import dataflow_model as dm
from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.endpoints.origins import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from dataflow_model.plan.endpoints.origins import OriginPosition
    from dataflow_model.plan.watermarks.estimators import Arrival, WatermarkEstimator
    from dataflow_model.time import DurationLike

__all__ = ["Counting"]

_COLUMNS = pa.schema({"at": pa.int64(), "n": pa.int64()})


@attrs.frozen(kw_only=True)
class Counting(ColumnSource):
    """The numbers from 0 on, of which the file `there` in a folder says how many there are.

    Attributes:
        folder: where it notes its calls: a line for each in the file of the method's name.
        outages: by method, how many of its first calls fail.
    """

    folder: Path
    outages: dict[str, int] = attrs.field(factory=dict)
    is_bounded: bool = False
    event_time: str | Arrival | None = "at"
    watermark: WatermarkEstimator = attrs.field(factory=lambda: dm.BoundedOutOfOrderness("1 second"))
    poll_interval: DurationLike | None = "1 minute"
    retry_for: DurationLike = "1 minute"

    def have(self, rows: int) -> None:
        """Set how many rows there are."""
        (self.folder / "there").write_text(str(rows))

    def calls(self, method: str) -> list[str]:
        """Return a line for each call of a method."""
        path = self.folder / method
        return path.read_text().splitlines() if path.exists() else []

    def _note(self, method: str, line: str = "") -> None:
        number = len(self.calls(method))
        with (self.folder / method).open("a") as file:
            file.write(f"{line}\n")
        if number < self.outages.get(method, 0):
            raise ConnectionError("no route to host")

    def origins(self) -> list[Origin]:
        """Return the only origin."""
        self._note("origins")
        return [Origin("numbers", int((self.folder / "there").read_text()))]

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Yield rows, one at a time, and fail behind the first one."""
        assert stop is not None or self.is_bounded
        stop = int((self.folder / "there").read_text()) if stop is None else stop
        for number in range(start, stop):
            yield pa.RecordBatch.from_pydict({"at": [number], "n": [number]}, schema=_COLUMNS)
            self._note("read", f"{origin} {number}")

    def committed(self, origins: Mapping[str, OriginPosition]) -> None:
        """Note the positions."""
        self._note("committed", json.dumps({name: [origin.position, origin.end] for name, origin in origins.items()}))

    def schema(self) -> pa.Schema:
        """Return the columns."""
        return _COLUMNS
