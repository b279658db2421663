"""A sink that takes every row and keeps none: what Spark's `noop` is to a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from dataflow_model.plan.endpoints.sinks import Sink, SinkWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.columns.records import Record

__all__ = ["Discard"]


class _Counter(SinkWriter):
    def __init__(self) -> None:
        self._rows = 0

    def write(self, records: Sequence[Record]) -> None:
        self._rows += len(records)

    def close(self) -> bytes:
        return b"%d" % self._rows

    def abort(self) -> None:
        self._rows = 0


@attrs.frozen
class Discard(Sink):
    """Counts the records on the workers, as a user's own sink would see them, and drops them."""

    def check(self) -> None:
        """Accept everything."""

    def open(self, commit_id: str, task_id: str) -> SinkWriter:
        """Begin to count."""
        del commit_id, task_id
        return _Counter()

    def commit(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Publish nothing."""

    def abort(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Remove nothing."""
