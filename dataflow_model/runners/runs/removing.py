"""Remove what is not needed any more: output that will not be published, and the records of commits.

A failure to remove it must not hide how the run has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.errors import LOG
from dataflow_model.runners.engine.functions.user_code import exits_reported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dataflow_model.plan.logical.nodes import Write


def remove_all(steps: Iterable[tuple[str, Callable[[], None]]]) -> None:
    """Call the functions that remove the output of each sink; an error is logged, and the rest are still called.

    Args:
        steps: the label of a sink, and a function.
    """
    for label, remove in steps:
        try:
            with exits_reported(label):
                remove()
        except Exception:  # noqa: BLE001 - a sink of the user's may raise anything
            LOG.exception("output of %r that was not published could not be removed", label)


def forget_commit(sinks: Iterable[Write], commit_id: str) -> None:
    """Let sinks forget the commit of a bounded run, which is published; an error is logged."""
    for node in sinks:
        try:
            node.sink.forget(commit_id)
        except Exception:  # noqa: BLE001 - likewise
            LOG.warning("%r could not forget the commit %s, which is published", node.label, commit_id, exc_info=True)
