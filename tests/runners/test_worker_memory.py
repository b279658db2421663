"""Python workers of Spark return the memory that a task has freed."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import dataflow_model as dm
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.sharded.feed.offsets import Offset
from dataflow_model.runners.sharded.tasks.bound import bound_plan
from dataflow_model.runners.sharded.tasks.program import Program
from dataflow_model.runners.spark.deployment import worker_memory
from dataflow_model.runners.spark.deployment.worker_memory import returning_memory
from dataflow_model.runners.spark.sink import StreamWriter
from dataflow_model.runners.spark.stages import KeyedStage, StreamReader, program_options
from tests.support.inputs import write_rows

if TYPE_CHECKING:
    from pathlib import Path

FREED_MIB = 100
PROGRAM = f"""
import pathlib
from dataflow_model.runners.spark.deployment.worker_memory import returning_memory

def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

before = resident()
with returning_memory():
    blocks = [b"x" * (64 << 10) for _ in range({FREED_MIB} << 4)]
    last = b"x" * (64 << 10)  # above the others, so that the C library cannot shrink its heap
    held = resident() - before
    del blocks
    kept = resident() - before
print(held, kept, resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no malloc_trim")
def test_memory_that_was_freed_in_the_block_is_returned_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    held, kept, returned = map(int, done.stdout.split())
    assert held >= FREED_MIB - 10
    assert kept >= FREED_MIB - 10
    assert returned < FREED_MIB / 4


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_memory, "_trim", lambda: None)
    with returning_memory():
        pass


def test_each_kind_of_task_returns_its_memory_once_its_output_was_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned: list[int] = []
    monkeypatch.setattr(worker_memory, "_trim", lambda: returned.append)
    write_rows(tmp_path / "rows" / "1.parquet", 0, 5)
    p = dm.Pipeline()
    pairs = p | dm.io.ReadParquet(tmp_path / "rows", event_time="at") | dm.WithKeys("key", value="n")
    _ = pairs | dm.Sum.per_key() | dm.io.Collect()
    program = Program(bound_plan(cut_into_stages(p.plan())), {}, (0,), "run")
    packed = program.pack()
    settings = {"requests": str(tmp_path), "directory": str(tmp_path), "begin": json.dumps(Offset().to_json())}
    options = program_options(packed, program.endpoints().pack(), rows_per_batch="10", parallelism="1", **settings)

    reader = StreamReader(options)
    start = reader.initialOffset()
    [part] = reader.partitions(start, reader.latestOffset(start))
    batches = reader.read(part)
    assert next(batches).num_rows > 0
    assert not returned
    assert list(batches) == []
    assert len(returned) == 1

    frames = KeyedStage(packed, 1, SimpleNamespace(get=lambda: None), None).run((0,), iter(()))
    assert next(frames).empty
    assert len(returned) == 1
    assert list(frames) == []
    assert len(returned) == 2

    StreamWriter(options).write(iter(()))
    assert len(returned) == 3
