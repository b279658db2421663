"""Windows behind windows: an element in several windows is several elements, whatever is in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Passing(dm.DoFn):
    """Keeps state that nothing reads."""

    count = dm.CombiningStateSpec(dm.Count())

    def process(self, pair: Any, count: dm.CombiningState[Any, Any]) -> Any:
        count.add(1)
        yield pair


BETWEEN: dict[str, Callable[[dm.Pipeline, Any], Any]] = {
    "nothing": lambda p, elements: elements,
    "Map": lambda p, elements: elements | dm.Map(lambda pair: pair),
    "Map that asks for the window": lambda p, elements: elements | dm.Map(lambda pair, window: pair),
    "side input": lambda p, elements: elements | dm.Map(lambda pair, ones: pair, ones=dm.AsList(p | dm.Create([1]))),
    "stateful DoFn": lambda p, elements: elements | dm.ParDo(Passing()),
    "Reshuffle": lambda p, elements: elements | dm.Reshuffle(),
}


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("of", ["script", "columns"])
def test_an_element_in_two_windows_is_two_elements_for_windows_assigned_after_them(
    tmp_path: Path, between: str, of: str
) -> None:
    with dm.Pipeline() as p:
        if of == "script":
            elements: Any = p | "main" >> TestStream().add(1, 5, key="k").add(1, 7, key="k")
        else:
            pq.write_table(
                pa.table({"key": ["k"] * 2, "n": [1, 1], "at": [5_000_000, 7_000_000]}), tmp_path / "rows.parquet"
            )
            elements = p | dm.io.ReadParquet(tmp_path / "rows.parquet", event_time="at") | dm.WithKeys("key", value="n")
        in_two = elements | "sliding" >> dm.Window.into(dm.SlidingWindows(4, 2))
        again = BETWEEN[between](p, in_two) | "again" >> dm.Window.into(dm.FixedWindows(100))
        _ = again | dm.Count.per_key() | dm.io.Collect()
    assert [record.value for record in p.result.collected("Collect")] == [("k", 4)]
