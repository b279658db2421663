"""Python workers of Spark return the memory that a task has freed."""

from __future__ import annotations

import contextlib
import platform
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from dataflow_model.runners.spark import sink, stages, worker_memory
from dataflow_model.runners.spark.worker_memory import returning_memory

if TYPE_CHECKING:
    from collections.abc import Iterator


@attrs.frozen
class _Task:
    part: int = 0


FREED_MIB = 100
PROGRAM = f"""
import pathlib
from dataflow_model.runners.spark.worker_memory import returning_memory

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


def test_each_kind_of_task_returns_its_memory_once_its_output_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    @contextlib.contextmanager
    def recording() -> Iterator[None]:
        events.append("begins")
        yield
        events.append("returns")

    def output(*_: Any) -> list[Any]:
        events.append("works")
        return []

    task = _Task()
    for module in (stages, sink):
        monkeypatch.setattr(module, "returning_memory", recording)
        monkeypatch.setattr(module, "this_task", lambda _: task)
    monkeypatch.setattr(stages, "counting", output)
    monkeypatch.setattr(stages, "read_work", output)
    monkeypatch.setattr(stages, "run_shard", output)
    monkeypatch.setattr(sink, "write_pending", output)
    unused: Any = None

    reader = object.__new__(stages.StreamReader)
    reader.packed = unused
    assert list(reader.read(stages._Part(0, unused))) == []
    assert (events[0], events[-1]) == ("begins", "returns")
    events.clear()

    stage = stages.KeyedStage(unused, 1, unused, unused)
    frames = stage.run((0,), iter(()))
    next(frames)
    assert events == ["begins", "works"]
    assert list(frames) == []
    assert events == ["begins", "works", "returns"]
    events.clear()

    writer = object.__new__(sink.StreamWriter)
    writer.packed = unused
    writer.write(iter(()))
    assert events == ["begins", "works", "returns"]
