"""How a micro-batch's row ranges are shared out among the tasks that read them, and in which batches they are read."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.sharded.feed.offsets import Offset
from dataflow_model.runners.sharded.stages.stage0 import BYTES_AT_ONCE, ROWS_AT_ONCE, in_large_batches
from dataflow_model.runners.sharded.tasks.bound import bound_plan
from dataflow_model.runners.sharded.tasks.program import Program
from dataflow_model.runners.spark.stages import StreamReader, program_options
from tests.support.inputs import write_rows
from tests.support.laws.examples import share_of_examples

if TYPE_CHECKING:
    from pathlib import Path


def test_many_small_files_share_the_tasks_of_a_micro_batch(tmp_path: Path) -> None:
    for number in range(30):
        write_rows(tmp_path / "rows" / f"{number:02}.parquet", 10 * number, 10 * number + 5)
    p = dm.Pipeline()
    rows = p | dm.io.ReadParquet(tmp_path / "rows", event_time="at") | dm.WithKeys("key", value="n")
    _ = rows | dm.Sum.per_key() | dm.io.Collect()
    program = Program(bound_plan(cut_into_stages(p.plan())), {}, (0, 1, 2), "run")
    settings = {"requests": str(tmp_path), "directory": str(tmp_path), "begin": json.dumps(Offset().to_json())}
    endpoints = program.endpoints().pack()
    reader = StreamReader(
        program_options(program.pack(), endpoints, rows_per_batch="1000", parallelism="3", **settings)
    )
    start = reader.initialOffset()
    works = [part.work for part in reader.partitions(start, reader.latestOffset(start))]
    assert len(works) == 3
    assert [work.leads for work in works] == [True, False, False]
    assert {len(work.parts) for work in works} == {10}
    assert len({part.origin for work in works for part in work.parts}) == 30
    end = reader.latestOffset(reader.latestOffset(start))
    [nothing] = reader.partitions(end, end)
    assert (nothing.work.leads, nothing.work.parts) == (True, ())


SIZES = st.sampled_from([0, 1, 100_000, ROWS_AT_ONCE - 1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1])


@share_of_examples(0.4)
@given(st.lists(st.tuples(SIZES, st.booleans()), max_size=6))
def test_batches_with_the_same_columns_are_joined_in_order_up_to_a_number_of_rows(
    batches: list[tuple[int, bool]],
) -> None:
    given = [
        pa.record_batch({"n" if is_named else "m": pa.array(range(number, number + rows), pa.int32())})
        for number, (rows, is_named) in enumerate(batches)
    ]
    joined = list(in_large_batches(iter(given)))
    for name in ("n", "m"):
        schema = pa.schema({name: pa.int32()})
        before, after = ([batch for batch in some if batch.schema == schema] for some in (given, joined))
        assert pa.Table.from_batches(after, schema).equals(pa.Table.from_batches(before, schema))
    sizes = {batch.num_rows for batch in given}
    assert all(batch.num_rows <= ROWS_AT_ONCE or batch.num_rows in sizes for batch in joined)
    for first, second in itertools.pairwise(joined):
        assert first.schema != second.schema or first.num_rows + second.num_rows > ROWS_AT_ONCE


def test_batches_of_wide_rows_are_joined_up_to_a_number_of_bytes() -> None:
    wide = pa.record_batch({"text": ["x" * (BYTES_AT_ONCE // 4)]})
    assert [batch.num_rows for batch in in_large_batches(iter([wide] * 7))] == [3, 3, 1]
