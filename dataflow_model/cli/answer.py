"""What a command answers, for people and for programs, and how commands are added to the parser."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.arguments import positive_duration
from dataflow_model.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dataflow_model.time import Duration


class WrongUsage(InvalidArgument):
    """Arguments that make no sense; the command prints its usage, and its exit status is 2."""


@attrs.frozen
class Answer:
    """The answer of a command.

    Attributes:
        facts: what `--json` prints, as one object.
        lines: what is printed otherwise.
        status: the exit status.
    """

    facts: Mapping[str, Any]
    lines: Sequence[str] = ()
    status: int = 0


class Parser(argparse.ArgumentParser):
    """A parser whose help begins with an example.

    Attributes:
        example: one or several command lines.
    """

    example = ""

    def format_help(self) -> str:
        """Return the help."""
        lines = "".join(f"  $ {line}\n" for line in self.example.splitlines())
        return f"Example:\n{lines}\n{super().format_help()}"


if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Parser]  # noqa: SLF001 - argparse has no other name for it
else:
    Commands = Any


def add_command(
    commands: Commands,
    name: str,
    command: Callable[[argparse.Namespace], Answer],
    *,
    does: str,
    example: str,
    description: str,
) -> Parser:
    """Add a command, and return its parser.

    Args:
        commands: the commands so far.
        name: its name.
        command: what runs it.
        does: what it does, in the list of commands.
        example: one or several command lines, with which its help begins.
        description: the text of its help.
    """
    parser = commands.add_parser(name, help=does, description=description)
    parser.example = example
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.set_defaults(command=command, takes_rest=False, usage_error=parser.error)
    return parser


def import_from_here() -> None:
    """Let the modules in the current directory be imported, as `python -m` does: those of the user's classes."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def positive(text: str) -> int:
    """Return the number of an option.

    Raises:
        argparse.ArgumentTypeError: if it is not a whole number of at least 1.

    Example:
        >>> positive("12")
        12
    """
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return number


def natural(text: str) -> int:
    """Return the number of an option, which may be 0; see `positive`."""
    return 0 if text == "0" else positive(text)


def length(text: str) -> Duration:
    """Return the duration of an option.

    Raises:
        argparse.ArgumentTypeError: if it is none, or not positive.

    Example:
        >>> length("5 minutes")
        Duration(300s)
    """
    try:
        return positive_duration("DURATION", text, "write '5 minutes', for example")
    except InvalidArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def aligned(rows: Sequence[Sequence[str]], *, indent: str = "  ") -> list[str]:
    """Return rows of cells as lines whose columns are aligned.

    Example:
        >>> aligned([("sums", "3 keys"), ("counts", "12 keys")])
        ['  sums    3 keys', '  counts  12 keys']
    """
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
