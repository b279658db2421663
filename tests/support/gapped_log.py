"""A log whose positions have gaps and begin anywhere, as a source."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa

import dataflow_model as dm
from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.endpoints.origins import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from dataflow_model.plan.watermarks.estimators import Arrival, WatermarkEstimator

__all__ = ["GappedLog", "append"]

_COLUMNS = pa.schema({"at": pa.int64(), "position": pa.int64()})


def append(folder: Path, origin: str, positions: Sequence[int], end: int) -> None:
    """Add rows to an origin, and set where its next row may be."""
    folder.mkdir(exist_ok=True)
    path = folder / origin
    before = json.loads(path.read_text())["positions"] if path.exists() else []
    path.write_text(json.dumps({"positions": [*before, *positions], "end": end}))


@attrs.frozen(kw_only=True)
class GappedLog(ColumnSource):
    """A folder with a file for each origin: the positions of its rows, and where it ends."""

    folder: Path
    is_bounded: bool = True
    event_time: str | Arrival | None = "at"
    watermark: WatermarkEstimator = attrs.field(factory=lambda: dm.BoundedOutOfOrderness("1 second"))
    shift: int = 0
    """What is added to positions, for a source that is wrong."""

    @property
    def position_column(self) -> str:
        """The column of positions."""
        return "position"

    def origins(self) -> list[Origin]:
        """Return the files."""
        found = {path.name: json.loads(path.read_text()) for path in sorted(self.folder.iterdir())}
        return [
            Origin(name, log["end"] - log["positions"][0], (1,), first=log["positions"][0])
            for name, log in found.items()
        ]

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Yield rows, two at a time."""
        positions = json.loads((self.folder / origin).read_text())["positions"]
        assert stop is not None
        chosen = [position for position in positions if start <= position < stop]
        for low in range(0, len(chosen), 2):
            some = chosen[low : low + 2]
            yield pa.RecordBatch.from_pydict(
                {"at": some, "position": [position + self.shift for position in some]}, schema=_COLUMNS
            )

    def schema(self) -> pa.Schema:
        """Return the columns."""
        return _COLUMNS
