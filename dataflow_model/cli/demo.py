"""`dataflow-model demo`: one pipeline on real flights, on every runner."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dataflow_model.cli.answer import Answer, add_command, positive

if TYPE_CHECKING:
    import argparse

    from dataflow_model.cli.answer import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "demo",
        _demo,
        does="run one pipeline on real flights, on every runner",
        example="dataflow-model demo --runner local",
        description="Run one pipeline over the flights of 2013 in process, as a stream in process, as a Spark batch "
        "job and as a Spark stream, compare the results, and draw a picture. The exit status is 1 if the results "
        "differ. The picture needs matplotlib: pip install 'dataflow-model[plot]'. With --kafka, a stream in process "
        "reads flights from a topic and writes panes to another, which a consumer shows; this needs a small broker: "
        "pip install 'dataflow-model[demo]'.",
    )
    runners = ("local", "local-stream", "batch", "streaming")
    parser.add_argument("--runner", choices=runners, help="run only on this runner")
    parser.add_argument("--data", type=Path, metavar="PATH", help="a flights file (default: the one in the package)")
    parser.add_argument(
        "--out", type=Path, default=Path("demo.png"), metavar="PATH", help="file for the picture (default: demo.png)"
    )
    parser.add_argument("--rows", type=positive, metavar="N", help="use only the first N rows")
    parser.add_argument(
        "--kafka", action="store_true", help="instead, stream flights from topic to topic on a small broker"
    )
    parser.add_argument("--rate", type=positive, default=500, metavar="N", help="flights a second, with --kafka")


def _demo(options: argparse.Namespace) -> Answer:
    from dataflow_model.demo import flights_file, show

    if options.kafka:
        from rich.console import Console

        from dataflow_model.demo.topics import show_topics

        counts = show_topics(options.data or flights_file(), options.rows or 5_000, options.rate, Console())
        return Answer({"counts_agree": counts}, status=0 if counts else 1)
    agree = show(options.data, runner=options.runner, picture=options.out, rows=options.rows)
    picture = str(options.out) if options.out.exists() else None
    return Answer({"results_agree": agree, "picture": picture}, status=0 if agree else 1)
