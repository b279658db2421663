"""What a source of Kafka does when a request to its brokers is never answered."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import dataflow_model as dm
from dataflow_model.io.topics import offsets
from dataflow_model.io.topics.client import KeptAdmin

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest


class Silent:
    """A client that never answers, such as one that was dropped."""

    def list_offsets(self, asked: Iterable[Any], **_: Any) -> dict[Any, Future[Any]]:
        return {partition: Future() for partition in asked}


def test_a_report_does_not_wait_for_brokers_that_never_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "kept_admin", lambda *_: KeptAdmin(Silent(), []))  # type: ignore[arg-type]
    monkeypatch.setattr(offsets, "_SECONDS", 0.01)
    monkeypatch.setattr(offsets, "_SOON", 0.01)
    p = dm.Pipeline()
    _ = p | "in" >> dm.io.ReadKafka("silent", bootstrap_servers="localhost:1")
    source: Any = p.plan()["in"]
    assert offsets.levels_of(source.source.as_columns, {"silent/0": 3}) == {}
