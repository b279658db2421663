"""The whole demo: run, report, compare, draw."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from dataflow_model.demo import report
from dataflow_model.demo.answers import plain_answers
from dataflow_model.demo.running import first_rows, run_local, run_local_stream, spark_runs
from dataflow_model.errors import InvalidArgument, UnsupportedOnRunner
from dataflow_model.runners.spark.deployment.installation import missing_for_spark

if TYPE_CHECKING:
    from dataflow_model.demo.answers import Outcome

RUNNERS: Final = ("local", "local-stream", "batch", "streaming")


def show(
    data: Path | None = None,
    *,
    runner: str | None = None,
    picture: Path | None = None,
    rows: int | None = None,
    console: Console | None = None,
) -> bool:
    """Run the demo.

    Args:
        data: the flights; by default the file that comes with the package.
        runner: one of `RUNNERS`; all of them one after the other by default. `"local"` and `"local-stream"` run in
            process, bounded and as a stream; `"batch"` and `"streaming"` run on Spark.
        picture: the file to draw the picture to; none by default. Needs matplotlib; without it, the demo says how to
            install it, and runs anyway.
        rows: use only this many rows, those that became known first.
        console: where to print; standard output by default.

    Returns:
        whether all results agree, and enough panes are early and late for that to be meaningful.

    Raises:
        InvalidArgument: if `data` is not a Parquet file, the directory of `picture` does not exist, or its format is
            not known.
        UnsupportedOnRunner: if `runner` is one on Spark, and PySpark or Java is missing.
    """
    console = console or Console()
    path = flights_file() if data is None else data
    if not path.is_file():
        raise InvalidArgument(f"there is no flights file {path}", hint="omit --data to use the package's own flights")
    try:
        pq.read_metadata(path)
    except pa.ArrowInvalid as error:
        raise InvalidArgument(
            f"{path} is not a Parquet file of flights: {error}", hint="omit --data to use the package's own flights"
        ) from error
    if picture is not None and not picture.parent.is_dir():
        raise InvalidArgument(
            f"the picture {picture} cannot be written: there is no directory {picture.parent}",
            hint="create it, or choose another file with --out demo.png",
        )
    if picture is not None and _has_matplotlib():
        from dataflow_model.demo.picture import check_format

        check_format(picture)
    if runner in {"batch", "streaming"} and (missing := missing_for_spark()) is not None:
        raise UnsupportedOnRunner(
            f"--runner {runner} runs on Spark: {missing.problem}", hint=f"{missing.hint}, or use --runner local"
        )
    with tempfile.TemporaryDirectory(prefix="dataflow-model-demo-") as folder:
        if rows is not None:
            path = first_rows(path, rows, Path(folder, "flights.parquet"))
        return _show(path, RUNNERS if runner is None else (runner,), picture, console, of_all_rows=rows is None)


def _show(path: Path, runners: tuple[str, ...], picture: Path | None, console: Console, *, of_all_rows: bool) -> bool:
    report.introduce(console, path)
    outcomes: list[Outcome] = []

    def note(outcome: Outcome) -> None:
        report.print_run(console, outcome)
        if not outcomes:
            report.print_refinements(console, outcome)
        outcomes.append(outcome)

    if "local" in runners:
        note(run_local(path))
    if "local-stream" in runners:
        note(run_local_stream(path))
    modes = [mode for mode in runners if not mode.startswith("local")]
    if modes and (missing := missing_for_spark()) is not None:
        console.print(f"Skipped Spark batch and streaming: {missing.problem}.", highlight=False)
        console.print(f"Hint: {missing.hint}, and run this again", highlight=False, markup=False)
    elif modes:
        with spark_runs() as run:
            for mode in modes:
                note(run(mode, path))
    report.print_summary(console, outcomes)
    agree = report.print_checks(console, report.checks(outcomes, plain_answers(path), of_all_rows=of_all_rows))
    if picture is not None:
        _draw(path, outcomes, picture, console)
    return agree


def _draw(path: Path, outcomes: list[Outcome], picture: Path, console: Console) -> None:
    # Only runs with early and late panes can be drawn, which a Spark batch job does not have.
    streamed = [outcome for outcome in outcomes if outcome.name != "Spark batch"]
    if not streamed:
        console.print("No picture: a batch job has no refinements.")
        console.print("Hint: use --runner local, local-stream or streaming")
    elif not _has_matplotlib():
        console.print("No picture: matplotlib is not installed.")
        console.print("Hint: run pip install 'dataflow-model[plot]'", markup=False)
    else:
        from dataflow_model.demo.picture import draw

        draw(path, streamed[-1], picture)
        console.print(f"Picture: {picture}")


def _has_matplotlib() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def flights_file() -> Path:
    """Return the path of the flights of 2013 that come with the package, a Parquet file of 2.2 MB.

    Example:
        >>> flights_file().stat().st_size
        2189964
    """
    return Path(__file__).with_name("flights.parquet")
