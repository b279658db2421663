"""Outputs of dropped elements in streams that are restarted, and in streams that were carried over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import dataflow_model as dm
from dataflow_model.runners.engine.machines.columnar import ColumnarMachine
from tests.support.runners.local_streams import ROWS, Stepped, put_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from dataflow_model.runners.engine.lanes.bundle import Bundle


def sums(folder: Path, *, takes: bool) -> Callable[[dm.Pipeline], None]:
    """Return what builds sums of windows of ten seconds, with or without an output of what they drop."""

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(folder / "rows", event_time="at", follow=True, schema=ROWS)
        pairs = rows | dm.WithKeys("key", value="n") | dm.Window.into(dm.FixedWindows(10))
        transform: Any = dm.Sum.per_key()
        if takes:
            totals, dropped = pairs | "sums" >> transform.with_dropped_output()
            lost = dropped | dm.Map(lambda record: {"key": record.element[0], "n": record.element[1]})
            _ = lost | "lost" >> dm.io.WriteJson(folder / "lost")
        else:
            totals = pairs | "sums" >> transform
        _ = totals | "panes" >> dm.io.Collect()

    return build


def lost(folder: Path) -> list[int]:
    files = (folder / "lost").glob("*.json*")
    return sorted(json.loads(line)["n"] for path in files for line in path.read_text().splitlines())


def test_a_restarted_stream_returns_each_dropped_element_once(tmp_path: Path) -> None:
    build = sums(tmp_path, takes=True)
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (100, "a", 2)])
    Stepped(build, tmp_path / "state").steps()
    put_rows(tmp_path / "rows", "2", [(2, "a", 3), (3, "b", 4)])
    Stepped(build, tmp_path / "state").steps()
    assert lost(tmp_path) == [3, 4]
    put_rows(tmp_path / "rows", "3", [(4, "a", 5)])
    Stepped(build, tmp_path / "state").steps()
    assert lost(tmp_path) == [3, 4, 5]


def test_an_upgrade_can_add_a_dropped_output_to_a_grouping_in_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folded: list[int] = []
    fold = ColumnarMachine.fold

    def counting(machine: ColumnarMachine, inbox: Bundle) -> None:
        folded.append(len(inbox))
        fold(machine, inbox)

    monkeypatch.setattr(ColumnarMachine, "fold", counting)
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (100, "a", 2)])
    Stepped(sums(tmp_path, takes=False), tmp_path / "old").steps()
    dm.upgrade(tmp_path / "old", tmp_path / "new")
    put_rows(tmp_path / "rows", "2", [(2, "a", 3), (104, "a", 4), (200, "a", 5)])
    new = Stepped(sums(tmp_path, takes=True), tmp_path / "new")
    new.steps()
    assert sum(folded) == 3, "its state is still in columns, so it runs as it did"
    assert lost(tmp_path) == [3]
    assert ("a", 6) in [record.value for record in new.collected("panes")]
