"""Transforms that get another label: they keep their state, their position and their output."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.cli import main
from dataflow_model.errors import SupersededRun
from dataflow_model.plan.checks.all_checks import check_sinks
from dataflow_model.plan.endpoints.sinks import Fence
from tests.support.micro_batches import Run
from tests.support.pipelines import difference, run, seen
from tests.support.runners.local_streams import ROWS, Stepped, put_rows
from tests.support.upgrade.pipelines import PIPELINES, Build, branched, pairs, plain, sums

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COLUMNS = pa.schema({"key": pa.string(), "value": pa.int64()})


@attrs.frozen
class _Scope(dm.PTransform):
    build: Build

    def expand(self, pvalue: Any) -> None:
        self.build(pvalue.pipeline)


def within(scope: str, build: Build) -> Build:
    """Return what builds a pipeline within a composite transform."""

    def scoped(p: dm.Pipeline) -> None:
        _ = p | scope >> _Scope(build)

    return scoped


def counted(metrics: dict[str, dict[str, Any]]) -> dict[tuple[str, str], Any]:
    """Return what does not depend on how the input was cut into micro-batches, as the look-ups of ids do."""
    return {
        (label, name): count
        for label, counts in metrics.items()
        for name, count in counts.items()
        if not name.startswith("bloom")
    }


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("shards", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_pipeline_whose_labels_all_change_emits_the_same_panes_wherever_it_is_upgraded(
    pipeline: Callable[[Path], Build], shards: int, rows: Path, tmp_path: Path
) -> None:
    build = pipeline(rows)
    before, after = within("one", build), within("other", build)
    expected = seen(run(dm.LocalRunner(), after).collected("other/panes"))
    whole = Run(after, tmp_path / "whole", rows=10_000).finish().metrics()
    old, cuts = Run(before, tmp_path / "old", rows=100), 0
    while not old.steps(1).offset.last:
        new = old.upgraded(after, shards, rename={"one": "other"}).finish()
        assert not difference(expected, seen(new.collected("other/panes"))), cuts
        assert counted(new.metrics()) == counted(whole)
        cuts += 1
    assert cuts >= 2


def test_two_transforms_can_exchange_their_labels(rows: Path, tmp_path: Path) -> None:
    def build(first: str, second: str) -> Build:
        def built(p: dm.Pipeline) -> None:
            windows = pairs(p, rows) | dm.Window.into(dm.FixedWindows("20 microseconds"))
            _ = windows | first >> dm.Sum.per_key() | f"{first} panes" >> dm.io.Collect()
            _ = windows | second >> dm.Count.per_key() | f"{second} panes" >> dm.io.Collect()

        return built

    after = build("b", "a")
    expected = run(dm.LocalRunner(), after)
    old = Run(build("a", "b"), tmp_path / "old", rows=61).steps(4)
    exchanged = {"a": "b", "b": "a", "a panes": "b panes", "b panes": "a panes"}
    new = old.upgraded(after, 2, rename=exchanged).finish()
    for panes in ("a panes", "b panes"):
        assert not difference(seen(expected.collected(panes)), seen(new.collected(panes)))


def renamed_source(rows: Path) -> Build:
    def build(p: dm.Pipeline) -> None:
        _ = sums(pairs(p, rows, "flights")) | "panes" >> dm.io.Collect()

    return build


def test_a_renamed_source_continues_where_it_was(rows: Path, tmp_path: Path) -> None:
    expected = seen(run(dm.LocalRunner(), plain(rows)).collected("panes"))
    old = Run(plain(rows), tmp_path / "old", rows=61).steps(4)
    new = old.upgraded(renamed_source(rows), 2, rename={"rows": "flights"})
    assert new.offset.of_source("flights").rows_read == 244
    assert not difference(expected, seen(new.finish().collected("panes")))
    assert new.metrics()["flights"]["elements_out"] == 480


@pytest.mark.parametrize(
    ("rename", "message"),
    [
        ({"sum": "totals"}, r"`rename` must name transforms of the old pipeline, got 'sum'\nHint: .*'sums'"),
        (
            {"sums": "counts"},
            "'sums' cannot be renamed to 'counts': 'counts' is the label of another transform of the old",
        ),
        (
            {"sums": "x", "counts": "x"},
            "'counts' cannot be renamed to 'x': 'sums' and 'counts' would both be called 'x'",
        ),
        ({"sums": ""}, "the new label of 'sums' must be a text, got ''"),
    ],
)
def test_labels_that_do_not_exist_or_would_be_ambiguous_are_rejected(
    rename: dict[str, str], message: str, rows: Path, tmp_path: Path
) -> None:
    Stepped(branched(rows, "sums", "counts"), tmp_path / "old", rows=61).steps(2)
    with pytest.raises(dm.InvalidArgument, match=message):
        dm.upgrade(tmp_path / "old", tmp_path / "new", rename=rename)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("rename", ["sums", [("sums", "totals")], {"sums": 1}])
def test_renames_that_are_no_mapping_of_texts_are_rejected(rename: Any, rows: Path, tmp_path: Path) -> None:
    Stepped(plain(rows), tmp_path / "old", rows=61).steps(2)
    with pytest.raises(dm.InvalidType, match="`rename` must map old labels to new ones, got "):
        dm.upgrade(tmp_path / "old", tmp_path / "new", rename=rename)


def test_a_new_label_that_the_pipeline_does_not_have_is_rejected_when_it_starts(rows: Path, tmp_path: Path) -> None:
    old = Run(plain(rows), tmp_path / "old", rows=61).steps(2)
    with pytest.raises(
        dm.CheckpointMismatch, match="has new labels that this pipeline does not have: 'sums' to 'totals'"
    ):
        old.upgraded(plain(rows), 2, rename={"sums": "totals"})


def test_an_error_after_a_rename_names_the_command_that_renames_and_drops(rows: Path, tmp_path: Path) -> None:
    old = Run(branched(rows, "sums", "counts"), tmp_path / "old", rows=61).steps(4)
    with pytest.raises(dm.CheckpointMismatch, match=r"--rename rows=flights --drop counts$"):
        old.upgraded(renamed_source(rows), 2, rename={"rows": "flights"})


def test_the_command_renames_and_says_so(rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    Stepped(plain(rows), tmp_path / "old", rows=61).steps(4)
    assert (
        main(["upgrade", old, new, "--rename", "rows=flights", "--rename", "rows pairs=flights pairs", "--json"]) == 0
    )
    facts = json.loads(capsys.readouterr().out)
    assert facts["renamed"] == {"rows": "flights", "rows pairs": "flights pairs"}
    assert facts["rows"] == {"flights": 244}
    expected = seen(run(dm.LocalRunner(), plain(rows)).collected("panes"))
    stream = Stepped(renamed_source(rows), tmp_path / "new", rows=61)
    stream.steps()
    assert not difference(expected, seen(stream.collected("panes")))


@pytest.mark.parametrize("options", [["sums"], ["sums=a=b"], ["sums=a", "sums=b"]])
def test_the_command_rejects_renames_that_it_cannot_read(
    options: list[str], rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [word for option in options for word in ("--rename", option)]
    with pytest.raises(SystemExit):
        main(["upgrade", str(tmp_path / "old"), str(tmp_path / "new"), *flags])
    assert "sums" in capsys.readouterr().err


class Event(NamedTuple):
    at: int
    n: int


def test_a_renamed_source_that_cannot_be_read_again_keeps_the_rows_that_wait_in_the_checkpoint(tmp_path: Path) -> None:
    queue = list(range(20))

    def events(cursor: Any, limit: int) -> tuple[list[Event], int]:
        taken, queue[:limit] = queue[:limit], []  # the service forgets what it has handed out
        return [Event(n, n) for n in taken], (cursor or 0) + len(taken)

    def build(label: str) -> Build:
        def built(p: dm.Pipeline) -> None:
            _ = p | label >> dm.io.source(event_time="at", limit=10)(events)() | "panes" >> dm.io.Collect()

        return built

    Stepped(build("one"), tmp_path / "old", rows=4).steps(1)
    assert len(queue) == 10
    dm.upgrade(tmp_path / "old", tmp_path / "new", rename={"one": "other"})
    new = Stepped(build("other"), tmp_path / "new", rows=4, until="drained")
    new.steps()
    assert sorted(record.value.n for record in new.collected("panes")) == list(range(20))


def test_a_restart_with_another_label_names_the_option_that_keeps_the_state(rows: Path, tmp_path: Path) -> None:
    old = Run(plain(rows), tmp_path / "old", rows=61).steps(2)
    with pytest.raises(
        dm.CheckpointMismatch,
        match=r"(?s)--drop discards the state of 'rows': .*, or pass --rename rows=flights instead if only the label",
    ):
        old.restarted(renamed_source(rows))


# Sinks ---------------------------------------------------------------------------------------------------------------


def writing(folder: Path, label: str, sink: Callable[[Path], Any], source: str = "rows") -> Build:
    def build(p: dm.Pipeline) -> None:
        rows = p | source >> dm.io.ReadParquet(folder / "rows", event_time="at", follow=True, schema=ROWS)
        totals = rows | dm.WithKeys("key", value="n") | dm.Window.into(dm.FixedWindows(10)) | "sums" >> dm.Sum.per_key()
        _ = totals | label >> sink(folder)
        check_sinks(p.plan(), streaming=True)  # as a runner does, which creates the table

    return build


def to_table(folder: Path) -> Any:
    return dm.io.WriteTable(f"sqlite:///{folder / 'sums.db'}", table="sums", keys=("key", "value"), schema=COLUMNS)


def table_rows(folder: Path) -> list[tuple[str, int]]:
    connection = sqlite3.connect(folder / "sums.db")
    try:
        return sorted(connection.execute("SELECT key, value FROM sums"))
    finally:
        connection.close()


def file_rows(folder: Path) -> list[tuple[str, int]]:
    lines = [json.loads(line) for path in (folder / "out").glob("*.json") for line in path.read_text().splitlines()]
    return sorted((line["key"], line["value"]) for line in lines)


@pytest.mark.parametrize(
    ("sink", "rows_in"),
    [
        (to_table, table_rows),
        (lambda folder: dm.io.WriteJson(folder / "out", schema=COLUMNS), file_rows),
        (lambda folder: dm.io.WriteJson(folder / "out"), file_rows),  # whose columns the first rows decide
    ],
    ids=["table", "files", "files with columns of the first rows"],
)
def test_a_renamed_sink_adds_to_its_output_without_losing_or_repeating_rows(
    sink: Callable[[Path], Any], rows_in: Callable[[Path], list[tuple[str, int]]], tmp_path: Path
) -> None:
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (12, "b", 2), (25, "c", 3)])
    Stepped(writing(tmp_path, "old", sink), tmp_path / "1").steps()
    assert rows_in(tmp_path) == [("a", 1), ("b", 2)]
    dm.upgrade(tmp_path / "1", tmp_path / "2", rename={"old": "new"})
    put_rows(tmp_path / "rows", "2", [(35, "d", 4)])
    Stepped(writing(tmp_path, "new", sink), tmp_path / "2").steps()
    assert rows_in(tmp_path) == [("a", 1), ("b", 2), ("c", 3)]
    dm.upgrade(tmp_path / "2", tmp_path / "3", rename={"new": "newer"})
    put_rows(tmp_path / "rows", "3", [(45, "e", 5)])
    Stepped(writing(tmp_path, "newer", sink), tmp_path / "3").steps()
    Stepped(writing(tmp_path, "newer", sink), tmp_path / "3").steps()  # a restart keeps what it has noted
    assert rows_in(tmp_path) == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]


def test_a_renamed_table_still_rejects_the_run_under_its_old_label(tmp_path: Path) -> None:
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (12, "b", 2)])
    Stepped(writing(tmp_path, "old", to_table), tmp_path / "1").steps()
    dm.upgrade(tmp_path / "1", tmp_path / "2", rename={"old": "new"})
    put_rows(tmp_path / "rows", "2", [(25, "c", 3)])
    with Stepped(writing(tmp_path, "old", to_table), tmp_path / "1").opened() as superseded:
        Stepped(writing(tmp_path, "new", to_table), tmp_path / "2").steps()
        with pytest.raises(SupersededRun):
            superseded.step()
    assert table_rows(tmp_path) == [("a", 1), ("b", 2)]


def test_a_new_sink_with_the_label_that_another_had_notes_its_commits_apart(tmp_path: Path) -> None:
    def both(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at", follow=True, schema=ROWS)
        totals = rows | dm.WithKeys("key", value="n") | dm.Window.into(dm.FixedWindows(10)) | "sums" >> dm.Sum.per_key()
        _ = totals | "new" >> to_table(tmp_path)
        _ = totals | "old" >> dm.io.WriteTable(
            f"sqlite:///{tmp_path / 'sums.db'}", table="others", keys=("key", "value"), schema=COLUMNS
        )
        check_sinks(p.plan(), streaming=True)

    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (12, "b", 2)])
    Stepped(writing(tmp_path, "old", to_table), tmp_path / "1").steps()
    dm.upgrade(tmp_path / "1", tmp_path / "2", rename={"old": "new"})
    put_rows(tmp_path / "rows", "2", [(25, "c", 3)])
    Stepped(both, tmp_path / "2").steps()
    record = json.loads((tmp_path / "2" / "dataflow" / "run.json").read_text())
    assert record["marks"] == {"new": "old", "old": f"old{record['edition']}"}
    assert table_rows(tmp_path) == [("a", 1), ("b", 2)]


def test_a_renamed_topic_keeps_its_transactional_id() -> None:
    pytest.importorskip("confluent_kafka")
    from dataflow_model.io.topics.sink import KafkaSink
    from dataflow_model.io.topics.transactions import transactions_of

    renamed = KafkaSink(topic="sums", servers="nowhere:9092", label="new")
    fence = Fence("7c1f", 1, marks=(("new", "old"),))
    assert transactions_of(renamed.fenced(fence), fence).name == "dataflow_model-7c1f-old"


# Static side inputs ---------------------------------------------------------------------------------------------------


def test_a_static_side_input_keeps_its_values_under_another_label(tmp_path: Path) -> None:
    calls: list[str] = []

    def build(scope: str) -> Build:
        def built(p: dm.Pipeline) -> None:
            def noted(value: int) -> int:
                calls.append(scope)
                return value

            rates = p | "rates" >> dm.Create([1]) | "drawn" >> dm.Map(noted)
            rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at", follow=True, schema=ROWS)
            priced = rows | "priced" >> dm.Map(lambda row, rate: (row.key, row.n * rate), dm.AsSingleton(rates))
            _ = priced | "panes" >> dm.io.Collect()

        return within(scope, built)

    put_rows(tmp_path / "rows", "1", [(1, "a", 1)])
    Stepped(build("one"), tmp_path / "1").steps()
    dm.upgrade(tmp_path / "1", tmp_path / "2", rename={"one": "other"})
    put_rows(tmp_path / "rows", "2", [(2, "a", 2)])
    stream = Stepped(build("other"), tmp_path / "2")
    stream.steps()
    assert [record.value for record in stream.collected("other/panes")] == [("a", 1), ("a", 2)]
    assert calls == ["one"]
