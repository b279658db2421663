"""What the flights cost on executors of one core each: `python -m benchmarks.cost_on_cluster`.

It prints the table that `docs/clusters/index.md` quotes: processor time, bytes shuffled and tasks of a batch job and
of a stream with 1, 2 and 4 executors, which are processes of their own (Spark's `local-cluster`), and the Python calls
per row of the same pipeline in process. Processor time says how much work a run is, on any machine. Elapsed time says
little where executors share cores.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import psutil
import pyarrow.parquet as pq

import dataflow_model as dm
from dataflow_model.demo import flights, flights_file
from dataflow_model.runners.spark.deployment.worker_python import quick_python

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

__all__ = ["Cost", "Used", "calls_per_row", "costs_table", "measured", "used_by"]

EXECUTORS: Final = (1, 2, 4)
MODES: Final = ("batch", "streaming")
ROWS: Final = 200_000
MICRO_BATCHES: Final = 4
_MEMORY: Final = 640
"""MiB of each executor."""
_SETTLED: Final = 1.0
"""Seconds after which Spark has counted the tasks of a run that has ended."""
_BACKEND: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@attrs.frozen
class Used:
    """What processes and tasks have used so far.

    Attributes:
        driver: processor time of the program and of the driver's JVM, in seconds.
        executors: processor time of all executors with their Python workers, in seconds.
        shuffled: the bytes that tasks have written for other tasks.
        tasks: the number of tasks that have ended.
    """

    driver: float = 0.0
    executors: float = 0.0
    shuffled: int = 0
    tasks: int = 0

    def since(self, before: Used) -> Used:
        """Return what was used after an earlier moment.

        Example:
            >>> Used(3.0, 8.0, 700, 9).since(Used(1.0, 2.0, 300, 4))
            Used(driver=2.0, executors=6.0, shuffled=400, tasks=5)
        """
        return Used(
            self.driver - before.driver,
            self.executors - before.executors,
            self.shuffled - before.shuffled,
            self.tasks - before.tasks,
        )


@attrs.frozen
class Cost:
    """What a run has cost.

    Attributes:
        mode: `batch` or `streaming`.
        cores: the number of executors, of one core each.
        rows: the number of rows.
        used: what was used during the run.
        elapsed: the time from `run()` to its end, in seconds.
    """

    mode: str
    cores: int
    rows: int
    used: Used
    elapsed: float


def measured(folder: Path, rows: int, cores: int, modes: Sequence[str] = MODES) -> Iterator[Cost]:
    """Yield what a run of each mode costs on a number of executors, after a small one in the same session.

    Args:
        folder: where to write files.
        rows: the number of flights.
        cores: the number of executors and of shards.
        modes: `batch`, `streaming`, or both.
    """
    path, few = folder / "flights.parquet", folder / "few.parquet"
    table = pq.read_table(flights_file())
    pq.write_table(table.slice(0, rows), path)
    pq.write_table(table.slice(0, rows // 20), few)
    spark = _session(cores)
    try:
        for mode in modes:
            _run(_runner(spark, mode, rows, folder), few)
            before, start = used_by(spark), time.perf_counter()
            _run(_runner(spark, mode, rows, folder), path)
            elapsed = time.perf_counter() - start
            yield Cost(mode, cores, rows, used_by(spark).since(before), elapsed)
    finally:
        spark.stop()


def _session(cores: int) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = quick_python(sys.executable)  # a busy machine starts it within Spark's ten seconds
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": f"{_MEMORY}m",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.streaming.stateStore.providerClass": provider,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder: Any = SparkSession.builder.master(f"local-cluster[{cores},1,{_MEMORY}]").appName("flights")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session: SparkSession = builder.getOrCreate()
    return session


def _runner(spark: SparkSession, mode: str, rows: int, folder: Path) -> dm.SparkRunner:
    if mode == "batch":
        return dm.SparkRunner(spark)
    checkpoint = tempfile.mkdtemp(prefix="checkpoint-", dir=folder)
    return dm.SparkRunner(spark, mode="streaming", checkpoint=checkpoint, max_rows_per_batch=rows // MICRO_BATCHES)


def _run(runner: Any, path: Path) -> None:
    p = dm.Pipeline(runner=runner)
    _ = flights(p, path).hourly | "panes" >> dm.io.ForeachBundle(len)
    p.run(until="drained").wait_until_finish()


def used_by(spark: SparkSession) -> Used:
    """Return what this program, its driver and its executors have used so far."""
    program = psutil.Process()
    everything = {process.pid: process for process in (program, *program.children(recursive=True))}
    backends = [process for process in everything.values() if _BACKEND in _command(process)]
    executors = {process.pid for backend in backends for process in (backend, *backend.children(recursive=True))}
    of_executors = sum(_processor(everything[pid]) for pid in executors if pid in everything)
    of_driver = sum(_processor(process) for pid, process in everything.items() if pid not in executors)
    time.sleep(_SETTLED)
    context: Any = spark.sparkContext
    listed = context._jsc.sc().statusStore().executorList(False)  # noqa: SLF001 - Python has no way to ask for it
    found = [listed.apply(number) for number in range(listed.size())]
    shuffled = sum(executor.totalShuffleWrite() for executor in found)
    return Used(of_driver, of_executors, shuffled, sum(executor.completedTasks() for executor in found))


def _command(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):  # it has ended
        return process.cmdline()
    return []


def _processor(process: psutil.Process) -> float:
    """Return the processor time of a process and of its children that have ended, in seconds."""
    with contextlib.suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


def calls_per_row(path: Path, folder: Path, rows: int) -> dict[str, float]:
    """Return how many Python functions are called for each row in process, by the mode.

    The same pipeline runs on a part of the rows and on twice as many, and the additional calls are divided by the
    additional rows. So what a run calls whatever its input is left out, and so is the compiled core, which calls no
    Python function but those of the user.

    Args:
        path: the file of the flights.
        folder: where to write files.
        rows: the number of rows of the smaller part.
    """
    table = pq.read_table(path)
    parts = {count: folder / f"{count}.parquet" for count in (rows, 2 * rows)}
    for count, part in parts.items():
        pq.write_table(table.slice(0, count), part)

    def counted(mode: str, count: int) -> int:
        checkpoint = None if mode == "batch" else str(folder / f"checkpoint-{count}")
        runner = dm.LocalRunner(checkpoint=checkpoint)
        return calls_of(lambda: _run(runner, parts[count]))

    _run(dm.LocalRunner(), parts[rows])  # imports what is imported late
    return {mode: (counted(mode, 2 * rows) - counted(mode, rows)) / rows for mode in MODES}


def calls_of(run: Callable[[], None]) -> int:
    """Return how many Python functions are called while another one runs, in all threads that it starts.

    Example:
        >>> calls_of(lambda: [abs(number) for number in range(9)].sort())
        2
    """
    calls = itertools.count()

    def count(_: Any, event: str, __: Any) -> None:
        if event == "call":
            next(calls)

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return next(calls)


def costs_table(costs: Iterable[Cost]) -> Iterator[str]:
    """Yield the table of what runs have cost, in Markdown, line by line."""
    yield (
        "| mode | executors | driver, s | executors, s | executors, µs per row | tasks | shuffled, bytes per row "
        "| elapsed, s |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for cost in costs:
        used = cost.used
        cells = [f"{used.driver:.1f}", f"{used.executors:.1f}", f"{used.executors / cost.rows * 1e6:.1f}"]
        cells += [f"{used.tasks:,}", f"{used.shuffled / cost.rows:.1f}", f"{cost.elapsed:.1f}"]
        yield f"| {cost.mode} | {cost.cores} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, row by row."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS, help="the number of flights (default: %(default)s)")
    parser.add_argument("--executors", type=int, nargs="*", default=list(EXECUTORS), help="default: %(default)s")
    parser.add_argument("--modes", nargs="*", choices=MODES, default=list(MODES), help="default: %(default)s")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        runs = (measured(folder, options.rows, cores, options.modes) for cores in options.executors)
        for line in costs_table(itertools.chain.from_iterable(runs)):
            print(line, flush=True)
        for mode, calls in calls_per_row(flights_file(), folder, options.rows // 4).items():
            print(f"\nPython calls per row in process, {mode}: {calls:.2f}", flush=True)


if __name__ == "__main__":
    main()
