"""Programs of Beam's on a runner: ours, or one of Beam's own by its name, since `DirectRunner` means several."""

# Beam may not be installed.
# pyright: reportMissingImports=false

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from scripts import prism

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.data import Events

__all__ = ["FN_API", "OURS", "PRISM", "is_there", "run"]

OURS: Final = "ours"
FN_API: Final = "FnApiRunner"
PRISM: Final = "Prism"


def is_there(runner: str) -> bool:
    """Return whether a runner can be used here: Prism has to be built first."""
    return runner != PRISM or prism.built() is not None


def run(program: str, runner: str, events: Events, out: Path) -> None:
    """Run a program, and write its results to a folder, as Parquet.

    Args:
        program: its name in `benchmarks.beam_programs`.
        runner: the name of the runner.
        events: what it reads, or how many elements it makes.
        out: the folder, which is made.
    """
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    from benchmarks.beam_programs import PROGRAMS, Kept, taken

    logging.getLogger().setLevel(logging.CRITICAL)
    out.mkdir(parents=True)
    made, options = _runner(runner)
    pipeline = beam.Pipeline(runner=made, options=PipelineOptions(["--allow_unsafe_triggers", *options]))
    _ = PROGRAMS[program](pipeline, events) | "kept" >> beam.ParDo(Kept(str(out)))
    pipeline.run().wait_until_finish()
    _write(taken(str(out)), out)


def _runner(name: str) -> tuple[Any, list[str]]:
    """Return a runner, and the options that it needs."""
    if name == OURS:
        from dataflow_model.beam import LocalRunner

        return LocalRunner(), []
    if name == FN_API:
        from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

        return FnApiRunner(), []
    from apache_beam.runners.portability.prism_runner import PrismRunner

    return PrismRunner(), [f"--prism_location={prism.built()}", "--environment_type=LOOPBACK"]


def _write(lines: list[str], out: Path) -> None:
    """Write results as one column of text or, if they are rows of panes, as their columns."""
    has_panes = bool(lines) and "pane_index" in lines[0]
    table = pa.Table.from_pylist(list(map(json.loads, lines))) if has_panes else pa.table({"value": pa.array(lines)})
    pq.write_table(table, out / "answer.parquet")
