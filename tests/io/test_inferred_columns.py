"""What a source has inferred is shown by `explain()` and logged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dataflow_model as dm

if TYPE_CHECKING:
    from pathlib import Path

CSV = "at,code,n\n2013-01-01 05:00,007,1\n"


def explained(read: Any) -> str:
    p = dm.Pipeline()
    _ = p | "rows" >> read | dm.io.Collect()
    return p.explain()


def test_explain_shows_the_columns_that_were_inferred_and_the_zone(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    text = explained(dm.io.ReadCsv(tmp_path, event_time="at"))
    assert (
        "columns inferred: at timestamp[us], code string, n int64; times without an offset in 'at' are UTC as "
        "event times"
    ) in text
    text = explained(dm.io.ReadCsv(tmp_path, event_time="at", zone="Europe/Berlin"))
    assert "at timestamp[us, tz=UTC], code string, n int64; times without an offset are in Europe/Berlin" in text
    schema = pa.schema({"at": pa.timestamp("us"), "code": pa.string(), "n": pa.int64()})
    assert "columns inferred" not in explained(dm.io.ReadCsv(tmp_path, event_time="at", schema=schema))


def test_explain_does_not_show_all_of_very_many_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",".join(f"c{n}" for n in range(1_000)) + "\n" + ",".join(["1"] * 1_000) + "\n")
    assert "c49 int64 and 950 more" in explained(dm.io.ReadCsv(tmp_path, event_time=None))


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_what_was_inferred_is_logged_once(tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a").write_text("n\n1\n" if kind == "csv" else '{"n": 1}\n')
    read = {"csv": dm.io.ReadCsv, "json": dm.io.ReadJson}[kind]
    with caplog.at_level(logging.INFO, "dataflow_model"), dm.Pipeline() as p:
        _ = p | read(tmp_path, event_time=None) | dm.io.Collect()
    assert [record.getMessage() for record in caplog.records if "inferred" in record.getMessage()] == [
        f"{kind.upper()} files in {tmp_path}: columns inferred: n int64"
    ]
