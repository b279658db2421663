"""A bounded job of a topology gives what a punctual stream does: Spark's tasks, run here one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bounded_jobs import run_as_job
from tests.support.computations import scribe
from tests.support.computations.counting import counting, values_of
from tests.support.inputs import write_rows
from tests.support.micro_batches import Streamed
from tests.support.pipelines import difference, seen

if TYPE_CHECKING:
    from pathlib import Path


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 4)), min_size=1, max_size=40))
def test_a_bounded_job_produces_what_a_stream_without_late_records_produces(
    tmp_path_factory: Any, rows: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    at, columns = 0, {"at": list[int](), "key": list[int](), "n": list[int]()}
    for gap, key in rows:
        at += gap
        for name, value in (("at", at), ("key", key), ("n", len(columns["at"]))):
            columns[name].append(value)
    pq.write_table(pa.table({**columns, "seen": columns["at"]}), folder / "a.parquet")
    topology = counting(folder)
    expected = scribe.run(topology)
    actual = run_as_job(topology.build)
    for sink in ("counts", "busiest"):
        assert values_of(actual, sink) == values_of(expected, sink)


@pytest.mark.parametrize("most", [17, 1_000])
def test_a_stream_in_micro_batches_and_a_bounded_job_produce_what_a_run_in_process_produces(
    tmp_path: Path, most: int
) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, 120)
    topology = counting(tmp_path / "rows")
    expected = scribe.run(topology)
    stream = Streamed(topology.build, tmp_path, most).finish()
    bounded = run_as_job(topology.build)
    for sink in ("counts", "busiest"):
        assert len(expected.collected(sink)) > 10
        assert not difference(seen(expected.collected(sink)), seen(stream.collected(sink)))
        assert values_of(bounded, sink) == values_of(expected, sink)
