"""The console script `dataflow-model`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from dataflow_model import __version__
from dataflow_model.errors import DataflowError, InvalidArgument, UnsupportedOnRunner
from dataflow_model.runners.engine.core.build import build_of_core
from dataflow_model.time import format_instant

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: those of the command line by default.

    Returns:
        the exit status: 0 if all went well, 1 if not, and 2 for arguments that make no sense.

    Example:
        >>> main(["demo", "--data", "nowhere.parquet", "--runner", "local"])
        1
    """
    options = _parser().parse_args(arguments)
    try:
        good: bool = options.command(options)
    except DataflowError as error:
        print(f"dataflow-model: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("dataflow-model: stopped", file=sys.stderr)
        return 130
    return 0 if good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dataflow-model",
        description="The Dataflow Model in Python: run the demo, draw figures, upgrade checkpoints, prepare Spark.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}, core {build_of_core().value}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_demo(commands.add_parser("demo", help="run one pipeline on real flights, on every runner"))
    _add_upgrade(commands.add_parser("upgrade", help="carry a stopped run's state over to a changed pipeline"))
    _add_figure(commands.add_parser("figure", help="run and draw a figure of the paper or of the book"))
    _add_prepare_spark(commands.add_parser("prepare-spark", help="let Spark sessions on this machine start faster"))
    return parser


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run one pipeline over the flights of 2013 in process, as a stream in process, as a Spark batch job and as a "
        "Spark stream, compare the results, and draw a picture. The exit status is 1 if the results differ. The "
        "picture needs matplotlib: pip install 'dataflow-model[plot]'."
    )
    runners = ("local", "local-stream", "batch", "streaming")
    parser.add_argument("--runner", choices=runners, help="run only on this runner")
    parser.add_argument("--data", type=Path, metavar="PATH", help="a flights file (default: the one in the package)")
    parser.add_argument(
        "--out", type=Path, default=Path("demo.png"), metavar="PATH", help="file for the picture (default: demo.png)"
    )
    parser.add_argument("--rows", type=_positive, metavar="N", help="use only the first N rows")
    parser.set_defaults(command=_demo)


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return number


def _demo(options: argparse.Namespace) -> bool:
    from dataflow_model.demo import show

    return show(options.data, runner=options.runner, picture=options.out, rows=options.rows)


def _add_upgrade(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Copy the state of a stopped streaming run from its checkpoint OLD to a new checkpoint NEW. Then start the "
        "changed pipeline with checkpoint=NEW: transforms with the same name and definition continue where they "
        "stopped. OLD is not modified."
    )
    parser.add_argument("old", metavar="OLD", help="the checkpoint of the stopped run")
    parser.add_argument("new", metavar="NEW", help="the new checkpoint, a directory that does not exist yet")
    parser.add_argument(
        "--drop", action="append", default=[], metavar="LABEL", help="discard this transform's state; may be repeated"
    )
    parser.add_argument(
        "--watermark",
        action="append",
        default=[],
        type=_label_and_instant,
        metavar="LABEL=INSTANT",
        help="move this source's watermark back, such as rows=2013-01-01T12:00Z; may be repeated",
    )
    parser.add_argument(
        "--trust-checkpoint", action="store_true", help="read OLD even if other users may write to it: it contains code"
    )
    parser.set_defaults(command=_upgrade)


def _label_and_instant(text: str) -> tuple[str, str]:
    """Split the value of an option; a label may contain the sign too."""
    label, sign, instant = text.rpartition("=")
    if not (label and sign and instant):
        raise argparse.ArgumentTypeError(f"expected LABEL=INSTANT, such as rows=2013-01-01T12:00Z, got {text!r}")
    return label, instant


def _upgrade(options: argparse.Namespace) -> bool:
    from dataflow_model.runners.spark.installation import missing_for_spark
    from dataflow_model.runners.upgrading import needs_spark, upgrade

    if needs_spark(options.old) and (missing := missing_for_spark()) is not None:
        raise UnsupportedOnRunner(f"upgrade reads Spark's state: {missing.problem}", hint=missing.hint)
    sys.path.insert(0, str(Path.cwd()))  # what waits in the state may be of classes of the user's
    done = upgrade(
        options.old,
        options.new,
        drop=options.drop,
        watermarks=dict(options.watermark),
        trust_checkpoint=options.trust_checkpoint,
    )
    for label, rows in done.rows.items():
        print(f"{label}: {'starts from the beginning' if label in done.dropped else f'{rows:,} rows read'}")
    for label, keys in done.keys.items():
        waiting = f", {done.waiting[label]:,} elements buffered" if done.waiting[label] else ""
        print(f"{label}: {keys:,} keys{waiting}{'; discarded' if label in done.dropped else ''}")
    for label, to in done.watermarks.items():
        print(f"{label}: the watermark goes back to {format_instant(int(to))}")
    print(
        f"{options.new} continues after micro-batch {done.batch} of {options.old}; start the pipeline with "
        f"checkpoint={options.new!r}"
    )
    return True


def _add_figure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run a figure of the Dataflow Model paper or an example of the book in process, print its panes, and draw "
        "them, which needs matplotlib: pip install 'dataflow-model[plot]'. Without a name, list all figures."
    )
    parser.add_argument(
        "name", nargs="*", metavar="NAME", help="one name or number, such as 6J, figure 14 or 2-10 left"
    )
    parser.add_argument(
        "--out", type=Path, metavar="PATH", help="file for the picture: .png, .svg or .pdf (default: figure-NAME.png)"
    )
    parser.set_defaults(command=_figure, usage_error=parser.error)


def _figure(options: argparse.Namespace) -> bool:
    from dataflow_model.figures import find
    from dataflow_model.figures.command import list_figures, show_figure

    if not options.name:
        list_figures()
        return True
    try:
        figure = find(" ".join(options.name))
    except InvalidArgument as error:
        options.usage_error(str(error))  # which ends the process
        raise
    show_figure(figure, options.out)
    return True


def _add_prepare_spark(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Archive the classes that Spark loads (180 MB in this Python environment, half a minute), so that sessions of "
        "local_session and their first jobs start in about half the time. Does nothing if that was done before; after "
        "an upgrade of Java or PySpark, run it again."
    )
    parser.set_defaults(command=_prepare_spark)


def _prepare_spark(_: argparse.Namespace) -> bool:
    from dataflow_model.runners.spark.class_archive import archive_path, create_archive
    from dataflow_model.runners.spark.installation import missing_for_spark

    if (missing := missing_for_spark()) is not None:
        raise UnsupportedOnRunner(f"prepare-spark runs Spark: {missing.problem}", hint=missing.hint)
    if archive_path().exists():
        print(f"Spark's classes are in {archive_path()} already")
        return True
    print("Archiving the classes that Spark loads, once: half a minute", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="dataflow-model-") as folder:
        demo = [
            sys.executable,
            "-m",
            "dataflow_model",
            "demo",
            "--rows",
            "2000",
            "--out",
            str(Path(folder, "demo.png")),
        ]
        print(f"Spark's classes are in {create_archive(demo)} now")
    return True


if __name__ == "__main__":
    sys.exit(main())
