"""What LocalRunner combines in columns comes out as it does element by element."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from tests.support.laws.examples import share_of_examples
from tests.support.pipelines import counters, run, seen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_COMBINERS: dict[str, Callable[[], Any]] = {
    "sum": dm.Sum,
    "count": dm.Count,
    "mean": dm.Mean,
    "min": dm.Min,
    "max": dm.Max,
}
_WINDOWS: dict[str, Callable[[], Any]] = {
    "fixed": lambda: dm.FixedWindows(2),
    "sliding": lambda: dm.SlidingWindows(4, 2),
}

_rows = st.tuples(
    st.sampled_from(["a", "b", "aa", None]),
    st.integers(-(2**62), 2**62) | st.integers(-5, 5) | st.none(),
    st.integers(0, 9_000_000),
    st.integers(0, 20),
)


@pytest.mark.parametrize("combiner", _COMBINERS)
@pytest.mark.parametrize("windows", _WINDOWS)
@pytest.mark.parametrize("replay", [False, True])
@share_of_examples(0.2)  # for each of twenty combinations
@given(rows=st.lists(_rows, min_size=1, max_size=30), files=st.integers(1, 2))
def test_lifted_groupings_give_the_same_records_and_counters(
    tmp_path_factory: pytest.TempPathFactory,
    combiner: str,
    windows: str,
    replay: bool,
    rows: list[tuple[Any, ...]],
    files: int,
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    rows = [row if row[1] is not None or combiner == "count" else (row[0], 0, *row[2:]) for row in rows]
    rows.sort(key=lambda row: row[3])
    for number in range(files):
        mine = rows[number::files]
        columns = {name: [row[index] for row in mine] for index, name in enumerate(("key", "value", "at", "tick"))}
        pq.write_table(pa.table(columns, schema=_SCHEMA), folder / f"{number}.parquet")

    def build(p: dm.Pipeline, keys: Any) -> None:
        pairs = p | _read(folder, replay=replay) | "keys" >> keys
        sums = pairs | dm.Window.into(_WINDOWS[windows]()) | "combine" >> _COMBINERS[combiner]().per_key()
        _ = sums | "out" >> dm.io.Collect()
        _ = sums | dm.io.WriteParquet(folder / "out", panes=True)

    def everything(keys: Any) -> tuple[Any, ...]:
        shutil.rmtree(folder / "out", ignore_errors=True)
        result = run(dm.LocalRunner(clock=dm.ProcessingTime(0)), lambda p: build(p, keys))
        files = sorted((folder / "out").rglob("part-*"))
        written = [pq.read_table(file).to_pylist() if file.suffix == ".parquet" else file.read_text() for file in files]
        return seen(result.collected("out")), counters(result), written

    by_element = dm.Map(lambda row: (row.key, row.value))  # of functions nothing is lifted
    assert everything(dm.WithKeys("key", value="value")) == everything(by_element)


_SCHEMA = pa.schema({"key": pa.string(), "value": pa.int64(), "at": pa.int64(), "tick": pa.int64()})


def _read(folder: Path, *, replay: bool) -> Any:
    return dm.io.ReadParquet(
        folder,
        event_time="at",
        processing_time="tick" if replay else None,
        watermark=dm.BoundedOutOfOrderness(1),
    )
