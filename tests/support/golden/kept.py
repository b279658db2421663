"""The digests that are kept of each pipeline, and how a run is compared with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from tests.support.golden.drawing import drawn
from tests.support.golden.hosts import HOSTS
from tests.support.golden.outcomes import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.support.golden.outcomes import Outcome

__all__ = ["DIGESTS", "Digests", "difference", "digests_of", "kept", "write"]

DIGESTS: Final = Path(__file__).with_name("digests.txt")
"""A line for each pipeline: its number, and the digests of what was drawn, of panes, of drops and of metrics."""


@attrs.frozen
class Digests:
    """The digests of a pipeline.

    Attributes:
        drawn: of what was drawn, which tells a changed pipeline from a changed answer.
        panes, drops, metrics: of each part of its outcome.
    """

    drawn: str
    panes: str
    drops: str
    metrics: str


def kept() -> dict[int, Digests]:
    """Return the digests of the file, by number."""
    lines = DIGESTS.read_text(encoding="utf-8").splitlines()
    return {int(number): Digests(*digests) for number, *digests in map(str.split, lines)}


def write(digests: Mapping[int, Digests]) -> None:
    """Write the file."""
    lines = [" ".join([f"{number:04}", *attrs.astuple(it)]) for number, it in sorted(digests.items())]
    DIGESTS.write_text("\n".join([*lines, ""]), encoding="utf-8")


def digests_of(number: int, outcome: Outcome) -> Digests:
    """Return the digests of an outcome of the pipeline of a number."""
    parts = outcome.panes, outcome.drops, outcome.metrics
    return Digests(digest([drawn(number).described()]), *map(digest, parts))


def difference(
    numbers: Iterable[int], host_name: str = "in process", expected: Mapping[int, Digests] | None = None
) -> str:
    """Return which pipelines differ on a host from what is kept, each with its plan; `""` if all are the same."""
    host, expected = HOSTS[host_name], kept() if expected is None else expected
    problems = []
    for number in numbers:
        outcome = host.outcome(number)
        if outcome is None:
            continue
        actual, wanted = digests_of(number, outcome), expected[number]
        names = ["panes", "drops", "metrics"] if host.counts else ["panes", "drops"]
        differing = [name for name in names if getattr(actual, name) != getattr(wanted, name)]
        if differing:
            problems.append(_problem(number, host_name, differing, is_same=actual.drawn == wanted.drawn))
    return "\n\n".join(problems)


def _problem(number: int, host: str, differing: list[str], *, is_same: bool) -> str:
    why = (
        f"differ; `python -m tests.support.golden show {number} --host {host!r}` shows them"
        if is_same
        else "differ, and another pipeline is drawn than the one whose digests are kept"
    )
    return f"{' and '.join(differing)} of pipeline {number} on {host!r} {why}\n{drawn(number).described()}"
