"""Counts of faults told at the end of a run of the tests, wherever each was counted: a plugin of pytest."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tests.support.faults.tally import Count, Tally

__all__ = ["COUNTS"]

COUNTS = pytest.StashKey[Tally]()
"""Where the configuration of pytest holds them."""
_SENT = "faults"


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count."""
    config.stash[COUNTS] = Tally()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the counts to the process that tells them, if that is another."""
    sent: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if sent is not None:
        sent[_SENT] = {kind: attrs.asdict(count) for kind, count in session.config.stash[COUNTS].counts.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a process of pytest-xdist has counted; one that has died has sent nothing."""
    counts = getattr(node, "workeroutput", {}).get(_SENT, {})
    node.config.stash[COUNTS].add({kind: Count(**count) for kind, count in counts.items()})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tell what was counted."""
    counted = config.stash[COUNTS]
    if counted.counts:
        terminalreporter.section("faults")
        for line in counted.table():
            terminalreporter.write_line(line)
