"""The command as a whole: its parser, and how a command ends."""

from __future__ import annotations

import contextlib
import json
import sys
import traceback
from typing import TYPE_CHECKING, Final

from dataflow_model import __version__
from dataflow_model.cli import demo, doctor, figure, inspecting, prepare_spark, requests, run, upgrade
from dataflow_model.cli.answer import Parser, WrongUsage
from dataflow_model.errors import DataflowError
from dataflow_model.runners.engine.core.build import build_of_core

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from dataflow_model.cli.answer import Answer

_FAILED: Final = 1
_INTERRUPTED: Final = 130
_HINT: Final = "\nHint: "


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: those of the command line by default.

    Returns:
        the exit status: 0 if all went well, 1 if not, and 2 for arguments that make no sense; 143 or 130 if SIGTERM or
        Ctrl-C has stopped it.

    Example:
        >>> main(["demo", "--data", "nowhere.parquet", "--runner", "local"])
        1
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    index = given.index("--") if "--" in given else len(given)
    options = _parser().parse_args(given[:index])
    options.rest = given[index + 1 :]
    if options.rest and not options.takes_rest:
        options.usage_error(f"`--` and options after it are for `run` and `upgrade`, got {' '.join(options.rest)!r}")
    try:
        with contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext():
            answer: Answer = options.command(options)
    except KeyboardInterrupt:
        print("dataflow-model: stopped", file=sys.stderr)
        return _INTERRUPTED
    except Exception as error:  # noqa: BLE001 - with `--json`, every error is an answer
        return _failed(error, options)
    if options.json:
        print(json.dumps(answer.facts))
    else:
        for line in answer.lines:
            print(line)
    return answer.status


def _failed(error: Exception, options: argparse.Namespace) -> int:
    """Print an error: ours as its message, any other with its traceback; one of usage ends the process."""
    if options.json:
        message, _, hint = str(error).partition(_HINT)
        print(json.dumps({"error": {"type": type(error).__name__, "message": message, "hint": hint or None}}))
    if isinstance(error, WrongUsage):
        options.usage_error(str(error))
    elif isinstance(error, DataflowError) or (isinstance(error, ModuleNotFoundError) and _HINT in str(error)):
        print(f"dataflow-model: {error}", file=sys.stderr)
    else:
        traceback.print_exception(error)
    return _FAILED


def _parser() -> Parser:
    parser = Parser(
        prog="dataflow-model",
        description="Run pipelines, look at them and after them, and try the demo and the figures of the papers.",
        epilog="Each command has its own help: dataflow-model run --help. Each takes --json, and then prints one JSON "
        "object on standard output. The exit status is 0 if all went well, 1 if not, 2 for arguments that make no "
        "sense, and 143 or 130 if SIGTERM or Ctrl-C has stopped the command.",
    )
    parser.example = "dataflow-model run flights:delays --checkpoint checkpoints/delays"
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}, core {build_of_core().value}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (run, inspecting, requests, upgrade, doctor, demo, figure, prepare_spark):
        module.add(commands)
    return parser
