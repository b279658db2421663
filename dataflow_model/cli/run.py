"""`dataflow-model run`: run a pipeline of the user's, under a supervisor or by hand."""

from __future__ import annotations

import argparse
import contextlib
import functools
import sys
from logging import INFO, Formatter, StreamHandler
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.cli.answer import Answer, WrongUsage, add_command, aligned, length, positive
from dataflow_model.cli.program import check_options, find, pipeline_of
from dataflow_model.cli.stopping import StoppedBySignal, signals_stop
from dataflow_model.errors import LOG, InvalidArgument, InvalidType, UnsupportedOnRunner
from dataflow_model.metrics.prometheus import check_prometheus, serve
from dataflow_model.plan.logical.runner import RunnerState
from dataflow_model.time import format_instant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dataflow_model.cli.answer import Commands
    from dataflow_model.metrics.report import RunReport, TransformReport
    from dataflow_model.plan.logical.runner import PipelineResult, Runner
    from dataflow_model.transforms.pipelines.pipeline import Pipeline

_MICROS: Final = 1_000_000
_PORTS: Final = 1 << 16


def add(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "run",
        _run,
        does="run a pipeline",
        example="dataflow-model run flights:delays --checkpoint checkpoints/delays --port 9464 -- --input data/",
        description="Run the pipeline that the function `delays` in flights.py builds: def delays(p) or def delays(p, "
        "options), which gets the options after `--` as a list of texts. The command ends when the run ends. SIGTERM "
        "or Ctrl-C stops a stream after its current micro-batch, and a second one ends the process at once; with its "
        "checkpoint, a stream resumes exactly where it stopped.",
    )
    parser.set_defaults(takes_rest=True)
    parser.add_argument("pipeline", metavar="MODULE:NAME", help="a function of a pipeline, or a pipeline")
    parser.add_argument("--runner", choices=("local", "spark"), default="local", help="where to run (default: local)")
    parser.add_argument(
        "--mode",
        choices=("batch", "streaming", "microbatch"),
        help="how to run; by default streaming with --checkpoint, and batch without",
    )
    parser.add_argument("--checkpoint", metavar="DIRECTORY", help="the checkpoint of a stream")
    parser.add_argument("--until", choices=("drained",), help="end unbounded inputs at their current end")
    parser.add_argument("--interval", metavar="DURATION", help="the length of a round with --mode microbatch")
    parser.add_argument("--workers", type=positive, metavar="N", help="processes of a local batch run (default: 1)")
    parser.add_argument("--shards", type=positive, metavar="N", help="shards of a new stream on Spark")
    parser.add_argument(
        "--max-rows-per-batch", type=positive, metavar="N", help="rows that a micro-batch reads at most"
    )
    parser.add_argument("--max-state-memory", metavar="SIZE", help="memory for the state of keys, such as 500MB")
    parser.add_argument(
        "--trust-checkpoint", action="store_true", help="use it even if other users may write to it: it contains code"
    )
    parser.add_argument(
        "--master",
        metavar="URL",
        help="with --runner spark: the master, such as spark://host:7077, local[4], or sc://host for Spark Connect; by "
        "default that of spark-submit, or else this machine",
    )
    parser.add_argument(
        "--port", type=_port, metavar="PORT", help="serve /metrics to Prometheus, and /health; 0 takes any free port"
    )
    parser.add_argument(
        "--stalled-after",
        type=length,
        default="5 minutes",
        metavar="DURATION",
        help="with --port: how long a micro-batch may take until /health answers 503 (default: %(default)s)",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="the address for --port (default: %(default)s)"
    )


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) >= _PORTS:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return int(text)


def _run(options: argparse.Namespace) -> Answer:
    if options.port is not None:
        check_prometheus()
    with signals_stop(), _logged():
        try:
            with _pipeline(options) as pipeline:
                return _finish(pipeline, options)
        except StoppedBySignal as stopped:  # before the run had started
            return Answer(_facts("stopped", None, stopped), [f"stopped by {stopped.name}"], stopped.status)


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    """Write the log to standard error in the `with` block, unless logging is set up, as the module may do itself."""
    root = LOG.parent
    handler = StreamHandler(sys.stderr)
    handler.addFilter(lambda _: root is None or not root.handlers)
    handler.setFormatter(Formatter("%(levelname)s %(message)s"))
    level = LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(INFO)
    try:
        yield
    finally:
        LOG.setLevel(level)
        LOG.removeHandler(handler)


@contextlib.contextmanager
def _pipeline(options: argparse.Namespace) -> Iterator[Pipeline]:
    """Build the pipeline with its runner, and stop the Spark session at the end of the `with` block."""
    program = find(options.pipeline)
    check_options(program, options.rest)
    with contextlib.ExitStack() as resources:
        try:
            runner = _local(options) if options.runner == "local" else _on_spark(options, resources)
        except (InvalidArgument, InvalidType) as error:
            raise WrongUsage(str(error)) from error
        yield pipeline_of(program, runner, options.rest)


def _mode(options: argparse.Namespace) -> str:
    """Return the mode, and reject options that do not fit it."""
    mode: str = options.mode or ("streaming" if options.checkpoint else "batch")
    if mode == "batch" and options.checkpoint:
        raise WrongUsage(
            f"--mode batch keeps no checkpoint, got --checkpoint {options.checkpoint}",
            hint="leave out one of the two options",
        )
    if mode == "streaming" and not options.checkpoint:
        raise WrongUsage(
            "--mode streaming needs --checkpoint, got none", hint="add --checkpoint checkpoints/delays, for example"
        )
    return mode


def _local(options: argparse.Namespace) -> Runner:
    from dataflow_model.runners.local import LocalRunner

    others = {"--shards": options.shards, "--master": options.master}
    _check_absent(others, "--runner local", "add --runner spark")
    return LocalRunner(
        mode="microbatch" if _mode(options) == "microbatch" else "streaming",
        interval=options.interval,
        checkpoint=options.checkpoint,
        max_rows_per_batch=options.max_rows_per_batch,
        max_state_memory=options.max_state_memory,
        workers=options.workers or 1,
        trust_checkpoint=options.trust_checkpoint,
    )


def _on_spark(options: argparse.Namespace, resources: contextlib.ExitStack) -> Runner:
    from dataflow_model.runners.spark import SparkRunner
    from dataflow_model.runners.spark.deployment.installation import missing_for_spark
    from dataflow_model.runners.spark.deployment.session import session_at

    _check_absent({"--workers": options.workers}, "--runner spark", "leave it out: Spark has its own workers")
    mode: Any = _mode(options)
    make = functools.partial(
        SparkRunner,
        mode=mode,
        checkpoint=options.checkpoint,
        interval=options.interval,
        shards=options.shards,
        max_rows_per_batch=options.max_rows_per_batch,
        max_state_memory=options.max_state_memory,
        trust_checkpoint=options.trust_checkpoint,
    )
    if (missing := missing_for_spark()) is not None and not (options.master or "").startswith("sc://"):
        raise UnsupportedOnRunner(f"--runner spark runs Spark: {missing.problem}", hint=missing.hint)
    make(None)  # wrong options are rejected before a session is started
    spark = session_at("dataflow-model run", options.master)
    resources.callback(spark.stop)
    return make(spark)


def _check_absent(given: Mapping[str, object], where: str, way_out: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise WrongUsage(f"{name} has no meaning with {where}, got {value!r}", hint=way_out)


def _finish(pipeline: Pipeline, options: argparse.Namespace) -> Answer:
    """Run a pipeline to its end, or until a signal stops it."""
    result = pipeline.run(until=options.until)
    stopped: StoppedBySignal | None = None
    with _served(result, options):
        try:
            state = result.wait_until_finish()
        except StoppedBySignal as error:
            stopped = error
            result.stop()
            state = result.wait_until_finish()
    report = result.report()
    lines = [_end(state, stopped, report), *aligned([_line(transform) for transform in report.transforms.values()])]
    status = 0 if stopped is None or state is not RunnerState.STOPPED else stopped.status
    return Answer(_facts(state.value, report, stopped), lines, status)


@contextlib.contextmanager
def _served(result: PipelineResult, options: argparse.Namespace) -> Iterator[None]:
    """Serve the metrics and the health of a run in the `with` block, if they are asked for."""
    if options.port is None:
        yield
        return
    try:
        server = serve(result, options.port, host=options.host, stalled_after=options.stalled_after)
    except BaseException:
        result.stop()
        raise
    print(f"Metrics and health: http://{options.host}:{server.port}/metrics and /health", file=sys.stderr)
    with server:
        yield


def _end(state: RunnerState, stopped: StoppedBySignal | None, report: RunReport) -> str:
    by = "" if stopped is None else f" by {stopped.name}"
    return f"{state.value}{by} after {report.commits:,} commits"


def _line(transform: TransformReport) -> tuple[str, str, str]:
    watermark = "" if transform.watermark is None else f"watermark {format_instant(int(transform.watermark))}"
    return f"{transform.label}:", f"{transform.elements_in:,} in, {transform.elements_out:,} out", watermark


def _facts(state: str, report: RunReport | None, stopped: StoppedBySignal | None) -> dict[str, Any]:
    transforms = {} if report is None else report.transforms
    return {
        "state": state,
        "signal": None if stopped is None else stopped.name,
        "commits": 0 if report is None else report.commits,
        "notes": [] if report is None else list(report.notes),
        "transforms": {label: _facts_of(transform) for label, transform in transforms.items()},
    }


def _facts_of(transform: TransformReport) -> dict[str, Any]:
    watermark, lag = transform.watermark, transform.watermark_lag
    return {
        "elements_in": transform.elements_in,
        "elements_out": transform.elements_out,
        "panes": dict(transform.panes),
        "dropped": dict(transform.dropped),
        "watermark": None if watermark is None else format_instant(int(watermark)),
        "watermark_lag_seconds": None if lag is None else int(lag) / _MICROS,
        "state_entries": transform.state_entries,
        "state_bytes": transform.state_bytes,
        "user_counters": dict(transform.user.counters),
    }
