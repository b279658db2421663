"""Write the digests of all drawn pipelines: `python -m tests.support.golden`; or compare with them, or show one."""

from __future__ import annotations

import argparse
import sys

from tests.support.golden.drawing import COUNT, drawn
from tests.support.golden.hosts import HOSTS
from tests.support.golden.kept import DIGESTS, difference, digests_of, write


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code: 1 if something differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.golden", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("write", help="write the digests of all pipelines, run in process; what no command does too")
    check = commands.add_parser("check", help="compare pipelines with what is kept")
    check.add_argument("--first", type=int, default=0)
    check.add_argument("--last", type=int, default=COUNT - 1)
    check.add_argument("--step", type=int, default=1)
    show = commands.add_parser("show", help="show what is drawn, and all that its run shows")
    show.add_argument("number", type=int)
    for command in (check, show):
        command.add_argument("--host", choices=HOSTS, default="in process", help="where the pipelines are run")
    given = parser.parse_args(arguments)
    match given.command:
        case "check":
            problems = difference(range(given.first, given.last + 1, given.step), given.host)
            _say(problems or "all the same")
            return 1 if problems else 0
        case "show":
            _show(given.number, given.host)
        case _:
            _write()
    return 0


def _write() -> None:
    host = HOSTS["in process"]
    outcomes = {number: host.outcome(number) for number in range(COUNT)}
    write({number: digests_of(number, outcome) for number, outcome in outcomes.items() if outcome is not None})
    _say(f"{len(outcomes)} pipelines: {DIGESTS}")


def _show(number: int, host: str) -> None:
    _say(drawn(number).described())
    outcome = HOSTS[host].outcome(number)
    for line in [] if outcome is None else [*outcome.panes, *outcome.metrics]:
        _say(line)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
