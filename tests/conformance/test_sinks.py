"""What sinks hold after a run: files, tables, functions of bundles, and dead letters."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import dataflow_model as dm
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.hosts import OnHost

SCRIPT = TestStream().add(1, 5, key="a").add(2, 6, key="d").watermark(20).add(4, 7, key="a").watermark(200)
LATE = (
    dm.Window.into(dm.FixedWindows(10)).trigger(dm.AfterWatermark(late=dm.AfterCount(1))).allowed_lateness(100)
).accumulating()
SCHEMA = pa.schema([("key", pa.string()), ("value", pa.int64())])
COMPLETE = {("a", 5), ("d", 2)}


def summed(p: dm.Pipeline) -> Any:
    return p | "script" >> SCRIPT | LATE | "sums" >> dm.Sum.per_key()


def test_files_have_a_row_for_each_pane(writing: OnHost, tmp_path: Path) -> None:
    def build(p: dm.Pipeline) -> None:
        _ = summed(p) | "write" >> dm.io.WriteJson(tmp_path / "out", schema=SCHEMA, panes=True)

    writing.run(build)
    lines = [line for file in (tmp_path / "out").rglob("*.json") for line in file.read_text().splitlines()]
    rows = sorted((row["key"], row["value"], row["pane_timing"], row["pane_index"]) for row in map(json.loads, lines))
    late = [("a", 1, "ON_TIME", 0), ("a", 5, "LATE", 1), ("d", 2, "ON_TIME", 0)]
    assert rows == (late if writing.host.has_clock else [("a", 5, "ON_TIME", 0), ("d", 2, "ON_TIME", 0)])


def test_a_table_has_the_newest_value_of_each_window(writing: OnHost, tmp_path: Path) -> None:
    file = tmp_path / "sums.db"

    def build(p: dm.Pipeline) -> None:
        table = dm.io.WriteTable(
            f"sqlite:///{file}", table="sums", keys=("key", "window_start"), schema=SCHEMA, panes=True
        )
        _ = summed(p) | "write" >> table

    writing.run(build)
    with contextlib.closing(sqlite3.connect(file)) as database:
        assert set(database.execute("SELECT key, value FROM sums")) == COMPLETE


def test_foreach_bundle_passes_each_value_once_with_the_id_of_its_commit(writing: OnHost, tmp_path: Path) -> None:
    folder = tmp_path / "bundles"
    folder.mkdir()

    def keep(values: Any, commit_id: str) -> None:
        (folder / str(commit_id).replace("/", "-")).write_text(json.dumps(list(values)))

    def build(p: dm.Pipeline) -> None:
        _ = summed(p) | "keep" >> dm.io.ForeachBundle(keep)

    writing.run(build)
    values = [tuple(value) for file in folder.iterdir() for value in json.loads(file.read_text())]
    assert set(values) >= COMPLETE
    assert len(values) == len(set(values))


def test_elements_that_fail_are_in_an_output_of_their_own(host: OnHost) -> None:
    def build(p: dm.Pipeline) -> None:
        good, bad = p | "script" >> SCRIPT | "even" >> dm.Map(only_even).with_exception_handling()
        _ = good | "panes" >> dm.io.Collect()
        _ = bad | "reasons" >> dm.Map(lambda letter: (letter.element, letter.reason)) | "bad" >> dm.io.Collect()

    result = host.emits(build, ["d=2", "a=4"], ["d=2", "a=4"])
    assert [record.value for record in result.collected("bad")] == [(("a", 1), "ValueError: 1 is odd")]


def only_even(pair: Any) -> Any:
    if pair[1] % 2:
        raise ValueError(f"{pair[1]} is odd")
    return pair


def test_each_transform_counts_its_elements(writing: OnHost) -> None:
    def build(p: dm.Pipeline) -> None:
        _ = summed(p) | "panes" >> dm.io.Collect()

    metrics = writing.run(build).metrics()
    assert metrics["script"]["elements_out"] == 3
    assert metrics["sums"]["elements_in"] == 3
    assert metrics["panes"]["elements_in"] == (3 if writing.host.has_clock else 2)
