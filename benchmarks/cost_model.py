"""A cost model of a micro-batch: what each file, element, cell, pane and stage costs, fitted to measurements.

Run `python -m benchmarks.cost_model`; `docs/speed.md` quotes what it prints. It needs neither Spark nor Java, unless
`--spark` asks for the micro-batches of Spark streaming. The micro-batches of a stream in process are measured one
factor at a time, a linear model is fitted to them, and what it predicts is compared with micro-batches that it was not
fitted to. `benchmarks.cost_of_shards` measures what grows with the number of shards.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dataflow_model as dm
from benchmarks.cost_of_shards import SHARDS, growth, shards_table
from benchmarks.cost_of_shards import measured as measured_shards
from benchmarks.fitting import fit
from dataflow_model.runners.engine.core.build import CoreBuild, build_of_core
from dataflow_model.runners.engine.functions.garbage import collecting_rarely
from dataflow_model.runners.local.streaming import Options, opened_stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from benchmarks.cost_on_spark import SparkCost
    from benchmarks.fitting import Model
    from dataflow_model.runners.local.stream import LocalStream

__all__ = [
    "FITTED",
    "HELD_OUT",
    "MicroBatch",
    "Sample",
    "costs_table",
    "measured",
    "opened",
    "prediction_table",
    "rate_table",
    "sustained",
    "write_input",
]

PREDICTED_PARTS: Final = (1_000, 100_000)
"""The elements of a core in predicted micro-batches of two stages: ten of each cell, with an early pane for them."""
PREDICTED_CORES: Final = (1, 2, 10, 100, 1_000)
RATE: Final = 1_000_000
"""Elements per second of a stream whose micro-batches are predicted."""
TASKS_PER_SHARD: Final = 3
"""A task that reads, and one for each of two stages; the last one also writes."""

_MOST_ROWS: Final = 1_000_000
_QUIET: Final = 1_000_000_000
"""An early trigger that waits for so many elements never fires."""
_ROUNDS: Final = 4
_REPEATS: Final = 8
_WARM: Final = 2
_WINDOW: Final = "1 day"
_SCHEMA: Final = pa.schema({"key": pa.int64(), "n": pa.int64(), "at": pa.timestamp("us", "UTC")})
_SUMS: Final = pa.schema({"key": pa.int64(), "value": pa.int64()})


@attrs.frozen
class MicroBatch:
    """A micro-batch to measure: sums per key, and sums of these sums in each further stage.

    Attributes:
        elements: the number of elements that it reads, which are spread evenly over files and keys.
        cells: the number of keys that it changes, each in one window.
        files: the number of files that contain the elements.
        stages: the number of keyed stages.
        per_pane: an early pane is emitted for each so many elements of a cell.
    """

    elements: int
    cells: int
    files: int = 1
    stages: int = 1
    per_pane: int = _QUIET

    def factors(self) -> dict[str, float]:
        """Return how often each cost occurs.

        Each pane of a stage is an element of the next one, which emits one pane of each cell that it changes.

        Example:
            >>> MicroBatch(1_000, 100, stages=2, per_pane=5).factors()["element"]
            1200
        """
        first = self.elements // self.cells // self.per_pane * self.cells
        panes = [first, *[min(first, self.cells)] * (self.stages - 1)]
        elements = [self.elements, *panes[:-1]]
        return {
            "micro-batch": 1,
            "file read": self.files,
            "file written": 1 if panes[-1] else 0,
            "further stage": self.stages - 1,
            "element": sum(elements),
            "changed cell": self.cells * sum(count > 0 for count in elements),
            "pane": sum(panes),
        }


@attrs.frozen
class Sample:
    """The mean time of a micro-batch, in seconds.

    Attributes:
        micro_batch: what was measured.
        processor: the processor time of the process.
        elapsed: the time from the start of the micro-batch to its published output.
    """

    micro_batch: MicroBatch
    processor: float
    elapsed: float


FITTED: Final = (
    MicroBatch(30, 30),
    MicroBatch(1_000, 30),
    MicroBatch(1_000, 1_000),
    MicroBatch(10_000, 1_000),
    MicroBatch(10_000, 10_000),
    MicroBatch(100_000, 1_000),
    MicroBatch(100_000, 10_000),
    MicroBatch(1_000, 1_000, files=10),
    MicroBatch(1_000, 1_000, files=100),
    MicroBatch(30, 30, stages=2),
    MicroBatch(30, 30, stages=3),
    MicroBatch(10_000, 1_000, stages=3),
    MicroBatch(1_000, 1_000, per_pane=1),
    MicroBatch(30, 30, per_pane=1),
    MicroBatch(10_000, 1_000, per_pane=1),
    MicroBatch(100_000, 1_000, per_pane=1),
    MicroBatch(10_000, 10_000, per_pane=1),
    MicroBatch(1_000, 1_000, stages=2, per_pane=1),
    MicroBatch(10_000, 1_000, stages=2, per_pane=1),
    MicroBatch(10_000, 10_000, stages=3, per_pane=1),
)
HELD_OUT: Final = (
    MicroBatch(3_000, 300, files=3),
    MicroBatch(5_000, 500, files=5, stages=2, per_pane=1),
    MicroBatch(20_000, 2_000, stages=2, per_pane=10),
    MicroBatch(50_000, 5_000, files=20, per_pane=10),
)


def measured(micro_batches: Sequence[MicroBatch], rounds: int = _ROUNDS, repeats: int = _REPEATS) -> list[Sample]:
    """Return the mean time of each micro-batch, in order.

    In each round, each kind of micro-batch runs several times on a new stream. So a slow moment of the machine does not
    fall on one of them alone.
    """
    times = [[_measure(micro_batch, repeats) for micro_batch in micro_batches] for _ in range(rounds)]
    means = np.mean(times, axis=0).tolist()
    return [Sample(micro_batch, *mean) for micro_batch, mean in zip(micro_batches, means, strict=True)]


def _measure(micro_batch: MicroBatch, repeats: int) -> tuple[float, float]:
    """Return the mean processor time and elapsed time; means contain what the state log merges now and then."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with opened(micro_batch, folder) as stream, collecting_rarely():
            spent = []
            for number in range(_WARM + repeats):
                write_input(micro_batch, folder, number)
                processor, elapsed = time.process_time(), time.perf_counter()
                assert stream.step(), "there are new files"
                spent.append((time.process_time() - processor, time.perf_counter() - elapsed))
    processor, elapsed = np.mean(spent[_WARM:], axis=0).tolist()
    return processor, elapsed


def opened(micro_batch: MicroBatch, folder: Path) -> AbstractContextManager[LocalStream]:
    """Open the stream that runs a micro-batch, in a new folder."""
    (folder / "in").mkdir()
    p = dm.Pipeline()
    rows = p | dm.io.ReadParquet(
        folder / "in", event_time="at", follow=True, schema=_SCHEMA, watermark=dm.BoundedOutOfOrderness(_WINDOW)
    )
    early = dm.AfterWatermark(early=dm.AfterCount(micro_batch.per_pane))
    windows = dm.Window.into(dm.FixedWindows(_WINDOW)).trigger(early).discarding()
    sums = rows | dm.WithKeys("key", value="n") | windows
    for stage in range(micro_batch.stages):
        sums = sums | f"sums {stage}" >> dm.Sum.per_key()
    _ = sums | dm.io.WriteParquet(folder / "out", schema=_SUMS)
    options = Options(str(folder / "checkpoint"), None, _MOST_ROWS, dm.Duration(micros=1_000_000))
    return opened_stream(p.plan(), options)


def write_input(micro_batch: MicroBatch, folder: Path, number: int) -> None:
    """Write the input of a micro-batch."""
    keys = np.arange(micro_batch.elements) % micro_batch.cells
    for part, keys_of_file in enumerate(np.array_split(keys, micro_batch.files)):
        rows = len(keys_of_file)
        times = pa.array(np.full(rows, 1_000_000), pa.timestamp("us", "UTC"))
        table = pa.table([pa.array(keys_of_file), pa.array(np.ones(rows, np.int64)), times], schema=_SCHEMA)
        pq.write_table(table, folder / "in" / f"{number:04}-{part:04}.parquet")


def costs_table(models: Sequence[Model]) -> Iterator[str]:
    """Yield the table of the costs, of processor time and of elapsed time, in Markdown, line by line."""
    yield "| for each | processor time, µs | elapsed time, µs |"
    yield "|---|---:|---:|"
    for name in models[0].costs:
        costs = [(model.costs[name] * 1e6, model.errors[name] * 1e6) for model in models]
        digits = 0 if max(cost for cost, _ in costs) > 100 else 2
        yield f"| {name} | {' | '.join(f'{cost:,.{digits}f} ± {error:,.{digits}f}' for cost, error in costs)} |"
    yield f"| *R²* | {' | '.join(f'{model.r_squared:.3f}' for model in models)} |"
    yield f"| *largest relative residual* | {' | '.join(f'{model.worst:.0%}' for model in models)} |"


def held_out_table(samples: Sequence[Sample], processor: Model, elapsed: Model) -> Iterator[str]:
    """Yield the table of micro-batches that no model was fitted to, in Markdown, line by line."""
    yield "| elements | cells | files | stages | panes | processor, ms | predicted | elapsed, ms | predicted |"
    yield "|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for sample in samples:
        what = sample.micro_batch
        sizes = (what.elements, what.cells, what.files, what.stages, what.factors()["pane"])
        times = (sample.processor, processor.predict(what.factors()), sample.elapsed, elapsed.predict(what.factors()))
        cells = [*(f"{size:,.0f}" for size in sizes), *(f"{seconds * 1e3:,.1f}" for seconds in times)]
        yield f"| {' | '.join(cells)} |"


def prediction_table(model: Model, driver: float, core: float, spark: SparkCost | None = None) -> Iterator[str]:
    """Yield what the model predicts for micro-batches on many cores, in Markdown, line by line.

    Args:
        model: the model of one shard.
        driver: what a further shard costs the driver, in seconds.
        core: what a further shard costs each core, in seconds.
        spark: what Spark takes in addition.
    """
    yield "| elements of a core | cores | driver, ms | each core, ms | its elements, ms | all, ms | elements per s |"
    yield "|---:|---:|---:|---:|---:|---:|---:|"
    for part, cores in itertools.product(PREDICTED_PARTS, PREDICTED_CORES):
        times = _predicted(model, driver, core, part, cores, spark)
        total = sum(times)
        cells = [*(f"{seconds * 1e3:,.0f}" for seconds in (*times, total)), f"{part * cores / total:,.0f}"]
        yield f"| {part:,} | {cores:,} | {' | '.join(cells)} |"
    yield ""
    for elements in (1_000_000, 10_000_000):
        totals = {n: sum(_predicted(model, driver, core, elements / n, n, spark)) for n in range(1, 1_001)}
        best = min(totals, key=totals.__getitem__)
        yield f"{elements:,} elements take the least time on {best:,} cores: {totals[best] * 1e3:,.0f} ms."


def _predicted(
    model: Model, driver: float, core: float, elements: float, cores: int, spark: SparkCost | None
) -> tuple[float, float, float]:
    """Return what the driver takes, what each core takes whatever its elements, and what its elements take."""
    of_spark = 0.0 if spark is None else spark.fixed + spark.task * TASKS_PER_SHARD * (cores - 1)
    cells = elements / 10
    whole = sum(model.costs[name] for name in ("micro-batch", "file read", "file written", "further stage"))
    own = {"element": elements + cells, "changed cell": 2 * cells, "pane": 2 * cells}
    return of_spark + driver * (cores - 1), whole + core * (cores - 1), model.predict(own)


def sustained(
    model: Model, driver: float, core: float, cores: int, rate: float, spark: SparkCost | None = None
) -> float:
    """Return how long a micro-batch takes in the long run, in seconds, if each reads what arrives during the last one.

    Args:
        model: the model of one shard.
        driver: what a further shard costs the driver, in seconds.
        core: what a further shard costs each core, in seconds.
        cores: the number of cores, each with a shard.
        rate: the elements per second that arrive.
        spark: what Spark takes in addition.

    Returns:
        The time; infinity if the cores cannot keep up.
    """
    *whatever, second = _predicted(model, driver, core, rate / cores, cores, spark)  # what arrives in one second
    return sum(whatever) / (1 - second) if second < 1 else float("inf")


def rate_table(
    model: Model, driver: float, core: float, spark: SparkCost | None = None, rate: float = RATE
) -> Iterator[str]:
    """Yield the micro-batches that the model predicts for a rate of elements, in Markdown, line by line."""
    yield "| cores | micro-batch, s | median latency, s | elements of a micro-batch |"
    yield "|---:|---:|---:|---:|"
    for cores in PREDICTED_CORES:
        seconds = sustained(model, driver, core, cores, rate, spark)
        late = [f"{seconds:.1f}", f"{1.5 * seconds:.1f}", f"{seconds * rate:,.0f}"]
        yield f"| {cores:,} | {' | '.join(late if seconds < float('inf') else ['falls behind', '', ''])} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="rounds of measurements (default: %(default)s)")
    parser.add_argument(
        "--shards", type=int, nargs="*", default=list(SHARDS), help="numbers of shards (default: %(default)s)"
    )
    parser.add_argument("--spark", action="store_true", help="measure Spark streaming too, which needs Java")
    arguments = parser.parse_args()
    if (build := build_of_core()) is not CoreBuild.COMPILED:
        print(f"These are not the costs of the compiled core, which is {build.value}.", file=sys.stderr)
    samples = measured((*FITTED, *HELD_OUT), arguments.rounds)
    fitted, held_out = samples[: len(FITTED)], samples[len(FITTED) :]
    factors = [sample.micro_batch.factors() for sample in fitted]
    processor = fit(factors, [sample.processor for sample in fitted])
    elapsed = fit(factors, [sample.elapsed for sample in fitted])
    _print(costs_table((processor, elapsed)))
    _print(held_out_table(held_out, processor, elapsed))
    costs = [measured_shards(shards) for shards in arguments.shards]
    _print(shards_table(costs))
    driver, core = growth(costs)
    print(f"A further shard costs the driver {driver * 1e3:.2f} ms, and each core {core * 1e3:.2f} ms.\n")
    _print(prediction_table(processor, driver, core))
    if arguments.spark:
        from benchmarks.cost_on_spark import measured_on_spark, spark_table

        spark, shards = measured_on_spark()
        _print(spark_table(spark, shards))
        _print(prediction_table(processor, driver, core, spark))
        _print(rate_table(processor, driver, core, spark))


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print(line, flush=True)
    print()


if __name__ == "__main__":
    main()
