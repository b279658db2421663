"""How a micro-batch's row ranges are shared out among the tasks that read them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import dataflow_model as dm
from dataflow_model.plan.stages import cut_into_stages
from dataflow_model.runners.sharded.bound import bound_plan
from dataflow_model.runners.sharded.feed.offsets import begin
from dataflow_model.runners.sharded.program import Program
from dataflow_model.runners.spark.stages import StreamReader, program_options
from tests.support.inputs import write_rows

if TYPE_CHECKING:
    from pathlib import Path


def test_many_small_files_share_the_tasks_of_a_micro_batch(tmp_path: Path) -> None:
    for number in range(30):
        write_rows(tmp_path / "rows" / f"{number:02}.parquet", 10 * number, 10 * number + 5)
    p = dm.Pipeline()
    rows = p | dm.io.ReadParquet(tmp_path / "rows", event_time="at") | dm.WithKeys("key", value="n")
    _ = rows | dm.Sum.per_key() | dm.io.Collect()
    packed = Program(bound_plan(cut_into_stages(p.plan())), {}, (0, 1, 2), "run").pack()
    places = {"requests": str(tmp_path), "directory": str(tmp_path), "begin": json.dumps(begin())}
    reader = StreamReader(program_options(packed, rows_per_batch="1000", parallelism="3", **places))
    start = reader.initialOffset()
    works = [part.work for part in reader.partitions(start, reader.latestOffset(start))]
    assert len(works) == 3
    assert [work.leads for work in works] == [True, False, False]
    assert {len(work.parts) for work in works} == {10}
    assert len({part.origin for work in works for part in work.parts}) == 30
    end = reader.latestOffset(reader.latestOffset(start))
    [nothing] = reader.partitions(end, end)
    assert (nothing.work.leads, nothing.work.parts) == (True, ())
