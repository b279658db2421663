"""Pipelines whose checkpoints are kept for later versions, and the program that keeps them.

`scripts/java.sh run python -m tests.support.upgrade.kept` writes `tests/upgrade/fixtures/format-N.zip`: the rows,
checkpoints of runs in process that were stopped midway (`history/`, `joined/`, `adaptive/`, each with its stores), and
one of a run on Spark (`spark/`). It is run once for each format, by the first version that writes it. The pipelines
must stay as they are, since the checkpoints belong to them.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import dataflow_model as dm
from dataflow_model.runners.sharded.checkpoint.durable import FORMAT
from dataflow_model.runners.sharded.feed.offsets import Offset
from dataflow_model.runners.spark import local_session
from dataflow_model.testing.proving.micro_batches import MemoryStore
from tests.support.inputs import write_history
from tests.support.micro_batches import Run
from tests.support.settings import REPOSITORY
from tests.support.waiting import wait_for_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import SparkSession

FIXTURES: Final = REPOSITORY / "tests/upgrade/fixtures"
SINKS: Final = {
    "history": ("sums", "columns", "totals", "firsts", "calm", "kept"),
    "joined": ("panes",),
    "adaptive": ("numbers",),
}
CUT: Final = 50
"""How many rows, or steps, a micro-batch reads."""
STEPS: Final = 3
"""How many micro-batches were committed before a run was stopped."""


class Calm(dm.DoFn):
    """Emits the sum of a key's numbers when none has come for a while."""

    total = dm.CombiningStateSpec(dm.Sum())
    quiet = dm.TimerSpec(dm.TimeDomain.EVENT_TIME)

    def process(self, pair: Any, timestamp: Any, total: dm.CombiningState[Any, Any], quiet: dm.Timer) -> None:
        """Add the number and put the timer off."""
        total.add(pair[1])
        quiet.set(timestamp + dm.Duration(micros=12))

    @dm.on_timer(quiet)
    def emit(self, key: Any, total: dm.CombiningState[Any, Any]) -> Iterable[Any]:
        """Emit the sum."""
        yield key, total.read()
        total.clear()


def history(rows: Path) -> Callable[[dm.Pipeline], None]:
    """Return a pipeline with cells, columns, sessions, a chain of groupings, duplicates, state and kept outputs."""

    def build(p: dm.Pipeline) -> None:
        read = p | "rows" >> dm.io.ReadParquet(
            rows, event_time="at", processing_time="seen", watermark=dm.BoundedOutOfOrderness("4 microseconds")
        )
        pairs = read | "pairs" >> dm.Map(lambda row: (row.key, row.n))
        early = dm.AfterWatermark(early=dm.AfterCount(3), late=dm.AfterCount(1))
        twenty = dm.Window.into(dm.FixedWindows("20 microseconds"))
        accumulating = twenty.trigger(early).allowed_lateness("30 microseconds").accumulating()
        sums = pairs | "windows" >> accumulating | "sum" >> dm.Sum.per_key()
        _ = sums | "sums" >> dm.io.Collect()
        columns = read | "columns of pairs" >> dm.WithKeys("key", value="n")
        means = columns | "plain windows" >> twenty.allowed_lateness("30 microseconds") | "mean" >> dm.Mean.per_key()
        _ = means | "columns" >> dm.io.Collect()
        sessions = dm.Window.into(dm.Sessions("6 microseconds")).trigger(early).allowed_lateness("50 microseconds")
        counts = pairs | "sessions" >> sessions.accumulating_and_retracting() | "count" >> dm.Count.per_key()
        lengths = counts | "lengths" >> dm.Map(lambda pair: (pair[1], 1)).retractable("memoised")
        wide = dm.Window.into(dm.FixedWindows("60 microseconds")).trigger(early).allowed_lateness("90 microseconds")
        totals = lengths | "wide" >> wide.accumulating_and_retracting() | "total" >> dm.Sum.per_key()
        _ = totals | "totals" >> dm.io.Collect()
        firsts = pairs | "deduplicate" >> dm.Deduplicate(lambda pair: pair[1] % 7, horizon="40 microseconds")
        _ = firsts | "firsts" >> dm.io.Collect()
        _ = pairs | "calm down" >> dm.ParDo(Calm()) | "calm" >> dm.io.Collect()
        _ = lengths | "kept" >> dm.io.Collect()

    return build


def joined(_rows: Path) -> Callable[[dm.Pipeline], None]:
    """Return a pipeline with a side input that changes while it runs."""

    def build(p: dm.Pipeline) -> None:
        tens = dm.Window.into(dm.FixedWindows(10))
        main, side = dm.testing.TestStream(), dm.testing.TestStream()
        for number in range(80):
            main = main.processing_time(number).add(number, number, key="ab"[number % 2]).watermark(number - 2)
            side = side.processing_time(number).add(1, number, key="xyz"[number % 3]).watermark(number - 4)
        sums = p | "side" >> side | "side windows" >> tens | "sums" >> dm.Sum.per_key()
        elements = p | "main" >> main | "main windows" >> tens
        looked = elements | "look" >> dm.Map(lambda pair, side: (pair[0], (pair[1], sorted(side))), dm.AsIter(sums))
        _ = looked | "lists" >> dm.GroupByKey() | "panes" >> dm.io.Collect()

    return build


def adaptive(rows: Path) -> Callable[[dm.Pipeline], None]:
    """Return a pipeline whose watermark is learned; its panes do not depend on how well."""

    def build(p: dm.Pipeline) -> None:
        watermark = dm.AdaptiveLateness(0.1)
        read = p | dm.io.ReadParquet(rows, event_time="at", processing_time="seen", watermark=watermark)
        numbers = read | "pairs" >> dm.Map(lambda row: (row.key, row.n)) | "sum" >> dm.Sum.per_key()
        _ = numbers | "numbers" >> dm.io.Collect()

    return build


PIPELINES: Final = {"history": history, "joined": joined, "adaptive": adaptive}


def unpack(format_number: int, folder: Path) -> None:
    """Unpack what a version with a format has kept.

    Spark writes the absolute paths of its state's schemas into a checkpoint, so they are replaced.
    """
    shutil.unpack_archive(FIXTURES / f"format-{format_number}.zip", folder)
    for metadata in (folder / "spark" / "spark" / "state").glob("*/_metadata/v2/[0-9]*"):
        content = re.sub(r'file:[^"]*(?=/spark/spark/state/)', f"file:{folder}", metadata.read_text())
        metadata.write_text(content)
        metadata.with_name(f".{metadata.name}.crc").unlink(missing_ok=True)


def write_rows(folder: Path) -> None:
    """Write rows that come out of order, some of them late, several at one tick."""
    chance = random.Random(7)
    for file in ("a", "b"):
        rows = [
            (max(0, number - chance.choice([0, 0, 1, 3, 9, 40])), number // 3, chance.choice("abcdefg"), number)
            for number in range(160)
        ]
        write_history(folder / f"{file}.parquet", rows)


def keep(run: Run) -> None:
    """Write what a run in process has in memory beside its checkpoint."""
    for (depth, shard), store in run.stores.items():
        folder = run.folder / "stores" / f"{depth}-{shard}"
        folder.mkdir(parents=True)
        assert store.head is not None
        (folder / "head").write_bytes(store.head)
        for (sequence, part), payload in store.parts.items():
            (folder / f"{sequence}-{part}").write_bytes(payload)
    (run.folder / "offset.json").write_text(json.dumps(run.offset.to_json()))


def kept(folder: Path, build: Any) -> Run:
    """Return the run that `keep` has written, as another process goes on with it."""
    run = Run(build, folder, CUT)
    run.offset = Offset.of_json(json.loads((folder / "offset.json").read_text()))
    for (depth, shard), store in run.stores.items():
        stored = _store(folder / "stores" / f"{depth}-{shard}")
        store.head, store.parts = stored.head, stored.parts
    return run


def _store(folder: Path) -> MemoryStore:
    parts = {path.name: path.read_bytes() for path in folder.iterdir()}
    head = parts.pop("head")
    return MemoryStore(head, {(int(name.split("-")[0]), int(name.split("-")[1])): part for name, part in parts.items()})


def start(spark: SparkSession, folder: Path) -> Any:
    """Start the run on Spark, or go on with it."""
    checkpoint = str(folder / "spark")
    runner = dm.SparkRunner(spark, mode="streaming", checkpoint=checkpoint, shards=2, max_rows_per_batch=CUT)
    p = dm.Pipeline(runner=runner)
    history(folder / "rows")(p)
    return p.run()


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def main() -> None:
    """Write the checkpoints of this version's format."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "rows")
        for title, pipeline in PIPELINES.items():
            keep(Run(pipeline(folder / "rows"), folder / title, CUT).steps(STEPS))
        result = start(local_session("kept", log=str(folder / "log")), folder)
        wait_for_batch(result, STEPS - 1)
        result.stop()
        (folder / "log").unlink()
        FIXTURES.mkdir(exist_ok=True)
        shutil.make_archive(str(FIXTURES / f"format-{FORMAT}"), "zip", folder)
    sys.stdout.write(f"wrote format {FORMAT}\n")


if __name__ == "__main__":
    main()
