"""The command in a process of its own, with a pipeline of the test's."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from tests.support.settings import REPOSITORY
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["FLOW", "put", "started", "until_committed", "until_said"]

FLOW: Final = '''\
import pathlib
import sys
import time

import dataflow_model as dm

here = pathlib.Path(__file__).parent


def held(pair):
    """Wait in a micro-batch with the key "b" until the test lets it go on."""
    if pair[0] == "b":
        print("b has arrived", file=sys.stderr, flush=True)
        while not (here / "go").exists():
            time.sleep(0.01)
    return pair


def sums(p):
    rows = p | "rows" >> dm.io.ReadCsv(here / "in" / "*.csv", event_time="at", follow=True)
    pairs = rows | "pairs" >> dm.WithKeys("key", value="n") | "held" >> dm.Map(held)
    trigger = dm.Repeatedly(dm.AfterAny(dm.AfterWatermark(), dm.AfterSignal("flush")))
    windows = pairs | "days" >> dm.Window.into(dm.FixedWindows("1 day")).trigger(trigger).accumulating()
    windows | "sums" >> dm.Sum.per_key() | "kept" >> dm.io.Collect()


def listed(p, options):
    p | dm.Create(options) | "written" >> dm.io.WriteText(here / "out")
'''
"""`flow.py`: a stream over the files in `in`, and a bounded pipeline over its options."""


def put(folder: Path, name: str, *rows: str) -> None:
    """Write the module, if it is not there, and a file of rows, which appears whole."""
    (folder / "in").mkdir(exist_ok=True)
    if not (folder / "flow.py").exists():
        (folder / "flow.py").write_text(FLOW)
    part = folder / f"{name}.part"
    part.write_text("".join(f"{row}\n" for row in ("at,key,n", *rows)))
    part.rename(folder / "in" / f"{name}.csv")


@contextlib.contextmanager
def started(folder: Path, *arguments: str, prefix: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
    """Start the command in a folder; it is killed if the test fails in the `with` block.

    Args:
        folder: the current directory of the command.
        arguments: those of the command.
        prefix: a program that runs it.
    """
    with subprocess.Popen(
        [*prefix, sys.executable, "-m", "dataflow_model", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def until_said(process: subprocess.Popen[str], pattern: str) -> str:
    """Read standard error until a line matches, and return the match."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if match := re.search(pattern, line):
            return match[0]
    raise AssertionError(f"no {pattern!r} in:\n{''.join(lines)}{process.wait(PATIENCE)}")


def until_committed(process: subprocess.Popen[str], checkpoint: Path) -> None:
    """Wait until a stream that has just been started has committed once."""
    until_said(process, "starts, with ")
    while not (checkpoint / "dataflow" / "publishing.json").exists():
        assert process.poll() is None
