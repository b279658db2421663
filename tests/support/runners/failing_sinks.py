"""Sinks that fail where a test says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.plan.endpoints.sinks import Sink, SinkWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FailingSink"]


@attrs.frozen
class FailingSink(Sink):
    """Takes records, and raises an error at each of some steps: write, close, commit, `abort a writer` or abort."""

    fails: tuple[str, ...]

    def reach(self, step: str) -> None:
        if step in self.fails:
            raise OSError(28, f"no space left to {step}")

    def check(self) -> None: ...

    def open(self, commit_id: str, task_id: str) -> SinkWriter:
        del commit_id, task_id
        return _Writer(self)

    def commit(self, commit_id: str, messages: Sequence[bytes]) -> None:
        self.reach("commit")

    def abort(self, commit_id: str, messages: Sequence[bytes]) -> None:
        self.reach("abort")


@attrs.frozen
class _Writer(SinkWriter):
    sink: FailingSink

    def write(self, records: Sequence[Any]) -> None:
        self.sink.reach("write")

    def close(self) -> bytes:
        self.sink.reach("close")
        return b""

    def abort(self) -> None:
        self.sink.reach("abort a writer")
