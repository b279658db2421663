"""`metrics()` and `report()` count the elements of every transform, whether it keeps state or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dataflow_model as dm
from tests.support.hosts import on_hosts, runner_on

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"key": ["a", "b"] * 5, "value": range(10), "at": pa.array(range(10), pa.timestamp("us", "UTC"))})


@on_hosts("local", "workers", "process", slow=("batch", "streaming"))
@pytest.mark.parametrize("keys", [dm.WithKeys("key", value="value"), dm.WithKeys(lambda row: row.key)])
def test_every_transform_counts_its_elements(
    host: str, keys: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with dm.Pipeline(runner=runner_on(host, request, tmp_path)) as p:
        pairs = p | dm.io.ReadTable(ROWS, event_time=None) | keys | "same" >> dm.Map(lambda pair: pair)
        kept = pairs | "some" >> dm.Filter(lambda pair: pair[0] == "a") | "timed" >> dm.WithTimestamps(lambda _: 5)
        windows = kept | "windows" >> dm.WindowInto(dm.FixedWindows(10)) | "keys" >> dm.Keys()
        _ = windows | "each" >> dm.Count.per_element() | "out" >> dm.io.Collect()
    counted = p.result.metrics()
    sizes = {label: (counts.get("elements_in"), counts.get("elements_out")) for label, counts in counted.items()}
    keying = next(label for label in sizes if label.startswith("WithKeys"))
    assert sizes[keying] == sizes["same"] == (10, 10)
    assert sizes["some"] == (10, 5)
    assert sizes["timed"] == sizes["windows"] == sizes["keys"] == (5, 5)
    assert [label for label, counts in counted.items() if not counts] == []
    reported = p.result.report().transforms
    assert {label: (reported[label].elements_in, reported[label].elements_out) for label in ("same", keying)} == {
        "same": (10, 10),
        keying: (10, 10),
    }


@on_hosts("local", "workers", "process", slow=("batch", "streaming"))
@pytest.mark.parametrize("event_time", [None, "at"])
def test_transforms_whose_rows_a_lifted_grouping_reads_directly_count_them(
    host: str, event_time: str | None, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with dm.Pipeline(runner=runner_on(host, request, tmp_path)) as p:
        pairs = p | dm.io.ReadTable(ROWS, event_time=event_time) | "pairs" >> dm.WithKeys("key", value="value")
        windows = pairs | "windows" >> dm.WindowInto(dm.FixedWindows(10))
        _ = windows | dm.Sum.per_key() | "sums" >> dm.io.Collect()
        _ = windows | dm.Max.per_key() | "most" >> dm.io.Collect()
    counted = p.result.metrics()
    assert counted["pairs"] == counted["windows"] == {"elements_in": 10, "elements_out": 10}
