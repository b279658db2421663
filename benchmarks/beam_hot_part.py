"""A pipeline of Beam's whose hot part is rewritten step by step, as `docs/beam_both_ways.md` shows it.

    python -m benchmarks.beam_hot_part --rows 300000

prints the processor seconds of each step, and fails if two steps have different answers. Each step is a process of its
own, and reads the same file of Parquet.
"""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms import window

import dataflow_model as dm

_CARRIERS: Final = 50
_MINUTE: Final = 60


def timed(row: Any) -> Any:
    """Return a row's pair at its time."""
    return window.TimestampedValue((row["carrier"], row["delay"]), row["second"])


def pair(row: Any) -> tuple[str, int]:
    """Return a row's carrier and delay."""
    return row.carrier, row.delay


def rows_of(p: Any, path: str) -> Any:
    """Read the file with event times by this package, in a pipeline of Beam's."""
    return p | dm.beam.Read(dm.io.ReadParquet(path, event_time="time"))


def beams(path: str, runner: Any) -> dict[str, int]:
    """All of it is Beam's."""
    pipeline = beam.Pipeline(runner=runner)
    pairs = pipeline | beam.io.ReadFromParquet(path) | beam.Map(timed)
    sums = pairs | beam.WindowInto(window.FixedWindows(_MINUTE)) | beam.CombinePerKey(sum)
    return written(pipeline, sums, path)


def read_by_ours(path: str, runner: Any) -> dict[str, int]:
    """The file is read by this package."""
    pipeline = beam.Pipeline(runner=runner)
    pairs = rows_of(pipeline, path) | beam.Map(pair)
    sums = pairs | beam.WindowInto(window.FixedWindows(_MINUTE)) | beam.CombinePerKey(sum)
    return written(pipeline, sums, path)


def summed_by_ours(path: str, runner: Any) -> dict[str, int]:
    """Everything between reading and writing is this package's too."""
    pipeline = beam.Pipeline(runner=runner)
    windowed = (
        rows_of(pipeline, path) | dm.beam.Native(dm.Map(pair)) | dm.beam.Native(dm.WindowInto(dm.FixedWindows(_MINUTE)))
    )
    return written(pipeline, windowed | dm.beam.Native(dm.Sum.per_key()), path)


def written(pipeline: Any, sums: Any, path: str) -> dict[str, int]:
    """Run a pipeline, and return the sums of all windows by carrier."""
    out = Path(path).with_suffix(".out")
    _ = sums | beam.MapTuple(lambda key, value: f"{key} {value}") | beam.io.WriteToText(str(out))
    pipeline.run().wait_until_finish()
    return totals(line for part in out.parent.glob(f"{out.name}*") for line in part.read_text().splitlines())


def all_ours(path: str, runner: Any) -> dict[str, int]:
    """The whole pipeline is this package's."""
    del runner
    out = Path(path).with_suffix(".out")
    with dm.Pipeline() as p:
        pairs = p | dm.io.ReadParquet(path, event_time="time") | dm.Map(pair)
        sums = pairs | dm.WindowInto(dm.FixedWindows(_MINUTE)) | dm.Sum.per_key()
        _ = sums | dm.MapTuple(lambda key, value: f"{key} {value}") | dm.io.WriteText(str(out))
    return totals(line for part in out.glob("part-*") for line in part.read_text().splitlines())


def totals(lines: Any) -> dict[str, int]:
    """Return the sum of each carrier over all windows."""
    sums: dict[str, int] = {}
    for line in lines:
        carrier, total = line.split()
        sums[carrier] = sums.get(carrier, 0) + int(total)
    return dict(sorted(sums.items()))


STEPS: Final = {
    "Beam, on its FnApiRunner": (beams, FnApiRunner),
    "Beam, on LocalRunner": (beams, dm.beam.LocalRunner),
    "read by dm.beam.Read": (read_by_ours, dm.beam.LocalRunner),
    "and the hot part in dm.beam.Native": (summed_by_ours, dm.beam.LocalRunner),
    "a pipeline of this package": (all_ours, lambda: None),
}


def write_rows(path: Path, rows: int) -> None:
    """Write a file of rows, of which 100 are in each second."""
    seconds = [number // 100 for number in range(rows)]
    columns = {
        "carrier": [f"C{number % _CARRIERS}" for number in range(rows)],
        "delay": [number % 97 for number in range(rows)],
        "second": seconds,
        "time": pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(columns), path)


def main() -> None:
    """Run the steps, each in a process of its own, or one of them in this one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--step", choices=STEPS)
    parser.add_argument("--path")
    given = parser.parse_args()
    if given.step is not None:
        step, runner = STEPS[given.step]
        begun = time.process_time()
        answer = step(given.path, runner())
        print(json.dumps({"seconds": time.process_time() - begun, "answer": answer}))
        return
    expected: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(STEPS):
            path = Path(folder, str(number), "rows.parquet")
            path.parent.mkdir()
            write_rows(path, given.rows)
            command = [sys.executable, "-m", "benchmarks.beam_hot_part", "--step", name, "--path", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            result = json.loads(done.stdout.splitlines()[-1])
            expected = expected or result["answer"]
            if result["answer"] != expected:
                sys.exit(f"{name!r} has another answer: {result['answer']} instead of {expected}")
            print(f"{name:36} {result['seconds']:6.2f} s of processor time")


if __name__ == "__main__":
    main()
