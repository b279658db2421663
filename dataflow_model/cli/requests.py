"""`dataflow-model drain` and `dataflow-model signal`: ask a run for something, through its checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflow_model.cli.answer import Answer, add_command, length

if TYPE_CHECKING:
    import argparse

    from dataflow_model.cli.answer import Commands

_MICROS: Final = 1_000_000


def add(commands: Commands) -> None:
    """Add both commands."""
    drain = add_command(
        commands,
        "drain",
        _drain,
        does="end a stream for good, and emit everything that is pending",
        example="dataflow-model drain checkpoints/delays",
        description="Let the stream in CHECKPOINT stop reading, advance its watermark to +∞, emit all pending panes, "
        "and end for good. Waits until that is done. The exit status is 1 if the stream is not running, ends "
        "otherwise, or takes longer than --timeout.",
    )
    drain.add_argument("checkpoint", metavar="CHECKPOINT", help="the directory")
    drain.add_argument("--timeout", type=length, metavar="DURATION", help="how long to wait, such as '5 minutes'")
    drain.add_argument(
        "--no-wait", action="store_true", help="only request it; a stopped stream drains when it is started again"
    )
    signal = add_command(
        commands,
        "signal",
        _signal,
        does="fire the triggers that wait for a signal",
        example="dataflow-model signal checkpoints/delays flush",
        description="Fire AfterSignal(NAME) once in every open window of the stream in CHECKPOINT that waits for it. "
        "The request is durable: a stopped stream takes it when it is started again.",
    )
    signal.add_argument("checkpoint", metavar="CHECKPOINT", help="the directory")
    signal.add_argument("name", metavar="NAME", help="the name of the signal")


def _drain(options: argparse.Namespace) -> Answer:
    from dataflow_model.runners.operating.requesting import drain

    timeout = None if options.timeout is None else int(options.timeout) / _MICROS
    is_drained = drain(options.checkpoint, wait=not options.no_wait, timeout=timeout)
    facts = {"checkpoint": options.checkpoint, "state": "drained" if is_drained else "draining"}
    if is_drained:
        return Answer(facts, [f"{options.checkpoint} is drained"])
    return Answer(facts, [f"{options.checkpoint} is to be drained; the request stays"], 0 if options.no_wait else 1)


def _signal(options: argparse.Namespace) -> Answer:
    from dataflow_model.runners.operating.requesting import signal

    process = signal(options.checkpoint, options.name)
    taken = "when the run is started again" if process is None else f"by the run in {process}"
    return Answer(
        {"checkpoint": options.checkpoint, "signal": options.name, "process": process},
        [f"the signal {options.name!r} is requested, and will be taken {taken}"],
    )
