"""Programs of Beam's on our runners: in process, with two workers, and as a batch job on Spark.

    scripts/java.sh run python -m benchmarks.beam_hosts --rows 1000000

prints the seconds that each takes, of the second run in a process, so that neither the start of Spark nor the import of
Beam counts, and fails if two runners give different answers.
"""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

import dataflow_model as dm
from benchmarks.beam_programs import PROGRAMS
from benchmarks.data import Events
from benchmarks.session import open_session
from dataflow_model.beam import LocalRunner, SparkRunner

if TYPE_CHECKING:
    from collections.abc import Callable

_PROGRAMS: Final = ("windowed_sum", "sessions")
"""Those that make their elements themselves, and have few results."""


def _text(result: Any) -> str:
    return json.dumps(result, default=str, sort_keys=True)


def _run(program: str, rows: int, runner: Any) -> tuple[float, list[str]]:
    """Return how long a run takes, and its results in order."""
    with tempfile.TemporaryDirectory() as folder:
        events = Events(rows, rows, string_keys=False, keys=1, arrivals=False, folder=Path(folder))
        pipeline = beam.Pipeline(runner=runner, options=PipelineOptions([]))
        results = PROGRAMS[program](pipeline, events) | "text" >> beam.Map(_text)
        _ = results | dm.beam.Write(dm.io.WriteText(folder))
        begun = time.perf_counter()
        pipeline.run().wait_until_finish()
        seconds = time.perf_counter() - begun
        return seconds, sorted(line for file in Path(folder).glob("*.txt") for line in file.read_text().splitlines())


def main() -> int:
    """Measure, and return 1 if answers differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="how many elements there are")
    rows = parser.parse_args().rows
    logging.getLogger().setLevel(logging.CRITICAL)
    session = open_session(2)
    runners: dict[str, Callable[[], Any]] = {
        "LocalRunner": LocalRunner,
        "two workers": lambda: LocalRunner(workers=2),
        "Spark batch": lambda: SparkRunner(session),
    }
    differ = False
    for program in _PROGRAMS:
        answers: dict[str, list[str]] = {}
        alone = 0.0
        for name, runner in runners.items():
            _run(program, 1_000, runner())
            seconds, answers[name] = _run(program, rows, runner())
            alone = alone or seconds
            print(f"{program}, {rows:,} elements, {name}: {seconds:.2f} s, {seconds / alone:.2f}", flush=True)
        if not answers["LocalRunner"] or len({tuple(lines) for lines in answers.values()}) > 1:
            print(f"{program}: the answers differ: { ({name: len(lines) for name, lines in answers.items()}) }")
            differ = True
    return differ


if __name__ == "__main__":
    sys.exit(main())
