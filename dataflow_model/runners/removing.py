"""Remove output that will not be published; a failure to remove it must not hide the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.errors import LOG
from dataflow_model.runners.engine.user_code import exits_reported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["remove_all"]


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
