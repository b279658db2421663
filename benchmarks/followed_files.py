"""What a followed folder costs a stream: by the files that were swept, and by those that are there.

Run `python -m benchmarks.followed_files`; `docs/speed.md` quotes what it prints. It needs neither Spark nor Java: it
calls what the streaming runner calls in each micro-batch, on a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

import dataflow_model as dm
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.sharded.tasks.bound import bound_plan
from dataflow_model.runners.sharded.tasks.program import Program
from dataflow_model.runners.sharded.tasks.shard_state import ShardState
from dataflow_model.runners.sharded.tasks.task import Task
from dataflow_model.testing.proving.micro_batches import MicroBatches, Schedule
from dataflow_model.values.pickles import dump

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Cost", "present", "swept", "table"]

FILES: Final = (200, 2_000, 5_000, 10_000)
FEW: Final = 2
"""Files at which a poll is measured too, to compare with many; they are not swept."""
_AT_ONCE: Final = 10
_SHARD: Final = 0
_POLLS: Final = 9


@attrs.frozen
class Cost:
    """What a micro-batch costs at some point.

    Attributes:
        files: how many files were swept until then, or are there.
        offset: bytes of an offset as Spark logs it.
        state: bytes of what a shard keeps beside its keys, which each micro-batch writes.
        poll: milliseconds in which the driver decides what a micro-batch reads, when nothing is new: the least of
            nine, since what else a machine does only adds to it.
        arrival: likewise, when one new file has appeared.
    """

    files: int
    offset: int
    state: int
    poll: float
    arrival: float


def _stream(folder: Path) -> MicroBatches:
    """Return a sum per window over a followed folder under a replay clock, one micro-batch at a time."""
    p = dm.Pipeline()
    schema = pa.schema({"at": pa.int64()})
    rows = p | dm.io.ReadParquet(
        str(folder), event_time="at", processing_time="at", follow=True, schema=schema, watermark_origin="file"
    )
    pairs = rows | dm.Map(lambda row: ("k", row.at)) | dm.Window.into(dm.FixedWindows("1 second"))
    _ = pairs | dm.Sum.per_key() | dm.io.Collect()
    return MicroBatches(Program(bound_plan(cut_into_stages(p.plan())), {}, (_SHARD,), "run"), Schedule())


def _cost(stream: MicroBatches, files: int, folder: Path) -> Cost:
    state = ShardState.open(Task(stream.program, stream.cache), 1, _SHARD, stream.stores[1, _SHARD])
    idle = min(_poll(stream) for _ in range(_POLLS))
    arrivals = []
    for number in range(files, files + _POLLS):
        file = _write(folder, number)
        arrivals.append(_poll(stream))
        file.unlink()
    return Cost(files, len(json.dumps(stream.offset.to_json())), len(dump(state.meta)), idle, min(arrivals))


def _poll(stream: MicroBatches) -> float:
    start = time.perf_counter()
    stream.end_of_next(stream.feed(0))
    return (time.perf_counter() - start) * 1_000


def swept(counts: Sequence[int], folder: Path) -> Iterator[Cost]:
    """Yield the cost after so many files were read and removed; ten are there at a time."""
    stream = _stream(folder)
    there: list[Path] = []
    for number in range(0, max(counts), _AT_ONCE):
        for file in there:
            file.unlink()
        there = [_write(folder, number + place) for place in range(_AT_ONCE)]
        stream.step()
        if number + _AT_ONCE in counts:
            yield _cost(stream, number + _AT_ONCE, folder)


def present(counts: Sequence[int], folder: Path) -> Iterator[Cost]:
    """Yield the cost while so many files are there that have all been read."""
    stream = _stream(folder)
    written = 0
    for count in counts:
        for number in range(written, count):
            _write(folder, number)
        written = count
        stream.step()
        yield _cost(stream, count, folder)


def _write(folder: Path, number: int) -> Path:
    part = folder / "_part"
    pq.write_table(pa.table({"at": [number * 1_000_000, number * 1_000_000 + 500_000]}), part)
    return part.rename(folder / f"events-{number:08d}.parquet")


def table(counts: Sequence[int] = FILES) -> Iterator[str]:
    """Yield the table in Markdown, line by line."""
    yield "| files | | offset, bytes | state, bytes | poll, ms | with a new file, ms |"
    yield "|---:|---|---:|---:|---:|---:|"
    for what, measure, sizes in (("swept", swept, counts), ("present", present, (FEW, *counts))):
        with tempfile.TemporaryDirectory() as folder:
            for cost in measure(sizes, Path(folder)):
                numbers = f"{cost.offset:,} | {cost.state:,} | {cost.poll:.1f} | {cost.arrival:.1f}"
                yield f"| {cost.files:,} | {what} | {numbers} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "files",
        nargs="*",
        type=int,
        default=list(FILES),
        help="numbers of files, in multiples of ten (default: %(default)s)",
    )
    for line in table(parser.parse_args().files):
        print(line, flush=True)


if __name__ == "__main__":
    main()
