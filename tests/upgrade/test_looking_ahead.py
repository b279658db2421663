"""What an upgrade says about a pipeline before anything is written."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.cli import main
from tests.support.folders import content
from tests.support.runners.local_streams import Stepped
from tests.support.upgrade.pipelines import branched, pairs, plain, stateful

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.upgrade.pipelines import Build


def pipeline(build: Build) -> dm.Pipeline:
    p = dm.Pipeline()
    build(p)
    return p


@pytest.fixture
def old(rows: Path, tmp_path: Path) -> Path:
    Stepped(branched(rows, "sums", "counts"), tmp_path / "old", rows=61).steps(4)
    return tmp_path / "old"


def summing(rows: Path, *, lateness: str = "60 microseconds", label: str = "sums") -> Build:
    """Return what builds the sums alone, with another lateness and label."""

    def build(p: dm.Pipeline) -> None:
        trigger = dm.AfterWatermark(early=dm.AfterCount(3), late=dm.AfterCount(1))
        windows = dm.Window.into(dm.FixedWindows("20 microseconds")).trigger(trigger).accumulating()
        strategy = windows.allowed_lateness(lateness)
        _ = pairs(p, rows) | "windows" >> strategy | label >> dm.Sum.per_key() | "panes" >> dm.io.Collect()

    return build


def created(rows: Path, *values: int) -> Build:
    """Return what builds sums of rows and of elements of the program."""

    def build(p: dm.Pipeline) -> None:
        few = p | "few" >> dm.Create([dm.TimestampedValue(("h", value), 10_000) for value in values])
        together = (pairs(p, rows), few) | "all" >> dm.Flatten()
        _ = together | dm.WindowInto(dm.FixedWindows("20 microseconds")) | dm.Sum.per_key() | "panes" >> dm.io.Collect()

    return build


def test_other_elements_of_the_program_are_noticed(rows: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    Stepped(created(rows, 1, 2), old, rows=61).steps(4)
    same, other = pipeline(created(rows, 1, 2)), pipeline(created(rows, 1, 7))
    assert {fate.outcome.value for fate in dm.upgrade(old, pipeline=same).fates} == {"kept"}
    fates = {fate.label: fate for fate in dm.upgrade(old, pipeline=other).fates}
    assert fates["few"].outcome.value == "needs --drop"
    assert fates["few"].change.startswith("has other elements, which would not be read")
    with pytest.raises(dm.CheckpointMismatch, match=r"(?s)'few' has other elements.*--drop few"):
        dm.upgrade(old, tmp_path / "new", pipeline=other)
    dm.upgrade(old, tmp_path / "new")
    with pytest.raises(dm.CheckpointMismatch, match=r"(?s)'few' has other elements.*--drop few"):
        Stepped(created(rows, 1, 7), tmp_path / "new", rows=61).steps(1)
    dm.upgrade(old, tmp_path / "dropped", pipeline=other, drop=["few"])


def test_it_says_what_becomes_of_each_transform_and_writes_nothing(old: Path, rows: Path) -> None:
    before = content(old.parent)
    looked = dm.upgrade(old, pipeline=pipeline(summing(rows, label="totals")), rename={"sums": "totals"})
    assert content(old.parent) == before
    fates = {fate.label: fate for fate in looked.fates}
    assert {label: fate.outcome.value for label, fate in fates.items()} == {
        "rows": "kept",
        "totals": "kept, changed",
        "counts": "needs --drop",
    }
    assert fates["rows"].rows == 244
    assert fates["totals"].former == "sums"
    assert fates["totals"].change == "lateness 60 microseconds, was 30 microseconds"
    counts = fates["counts"]
    assert "is gone; it was: grouping of" in counts.change
    assert 0 < counts.keys <= counts.windows <= counts.pending <= counts.elements
    assert looked.command.endswith("--rename sums=totals --drop counts")


def test_the_counts_of_what_would_be_lost_are_those_of_the_open_windows(tmp_path: Path) -> None:
    script = dm.testing.TestStream()
    script = script.add(1, 1, key="a").add(2, 2, key="a").add(3, 12, key="b")
    script = script.watermark(5).watermark(6).watermark(7)

    def build(p: dm.Pipeline) -> None:
        windows = dm.Window.into(dm.FixedWindows(10)).trigger(dm.Repeatedly(dm.AfterCount(2))).accumulating()
        _ = p | "script" >> script | windows | "lists" >> dm.GroupByKey() | "panes" >> dm.io.Collect()

    def without(p: dm.Pipeline) -> None:
        _ = p | "script" >> script | "panes" >> dm.io.Collect()

    Stepped(build, tmp_path / "old", rows=5).steps(1)
    looked = dm.upgrade(tmp_path / "old", pipeline=pipeline(without))
    [lists] = [fate for fate in looked.fates if fate.label == "lists"]
    assert (lists.keys, lists.windows, lists.elements, lists.pending) == (2, 2, 3, 1)
    assert lists.holds.endswith("2 open windows with 3 elements, 1 of them in no pane yet")


def test_state_that_would_be_lost_is_rejected_before_anything_is_written(old: Path, rows: Path, tmp_path: Path) -> None:
    with pytest.raises(
        dm.CheckpointMismatch, match=r"'counts' is gone.*lost: .* open windows with .* elements"
    ) as raised:
        dm.upgrade(old, tmp_path / "new", pipeline=pipeline(plain(rows)))
    first, *_, last = str(raised.value).splitlines()
    assert first == f"this pipeline would lose state of the run in {str(old)!r}:"
    assert last.split() == ["dataflow-model", "upgrade", str(old), str(tmp_path / "new"), "--drop", "counts"]
    assert not list(tmp_path.glob("*new*"))
    done = dm.upgrade(old, tmp_path / "new", pipeline=pipeline(plain(rows)), drop=["counts"])
    assert {fate.label: fate.outcome.value for fate in done.fates}["counts"] == "dropped"
    Stepped(plain(rows), tmp_path / "new", rows=61).steps()


def test_a_pipeline_that_cannot_go_on_from_there_is_rejected_too(old: Path, rows: Path, tmp_path: Path) -> None:
    with pytest.raises(dm.CheckpointMismatch, match=r"^the upgrade of .* has new labels .*: 'sums' to 'totals'"):
        dm.upgrade(old, pipeline=pipeline(plain(rows)), rename={"sums": "totals"})


def test_a_new_transform_and_one_without_state_lose_nothing(rows: Path, tmp_path: Path) -> None:
    Stepped(stateful(rows), tmp_path / "old", rows=61).steps(3)
    looked = dm.upgrade(tmp_path / "old", pipeline=pipeline(plain(rows)), drop=["quiet", "counts"])
    assert {fate.label: fate.outcome.value for fate in looked.fates} == {
        "rows": "kept",
        "quiet": "dropped",
        "counts": "dropped",
        "sums": "new",
    }
    assert not looked.command


@pytest.mark.parametrize("arguments", [{}, {"new": None}])
def test_an_upgrade_to_nowhere_without_a_pipeline_is_rejected(arguments: dict[str, Any], old: Path) -> None:
    with pytest.raises(dm.InvalidArgument, match="needs the directory of the new checkpoint, or the pipeline"):
        dm.upgrade(old, **arguments)


def test_what_is_no_pipeline_is_rejected(old: Path) -> None:
    wrong: Any = plain
    with pytest.raises(dm.InvalidType, match="`pipeline` must be a pipeline, got <function"):
        dm.upgrade(old, pipeline=wrong)


@pytest.fixture
def module(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with a pipeline, as users write it."""
    (tmp_path / "own_jobs.py").write_text(
        "from pathlib import Path\n"
        "from tests.upgrade.test_looking_ahead import plain, summing\n"
        f"def sums(p): plain(Path({str(rows)!r}))(p)\n"
        f"def later(p, options): summing(Path({str(rows)!r}), lateness=options[0])(p)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_jobs", raising=False)
    return "own_jobs"


def test_the_command_says_what_would_be_lost_and_fails(
    old: Path, module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["upgrade", str(old), "--pipeline", f"{module}:sums"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:3]] == ["rows", "sums", "counts"]
    assert [line for line in lines if line.startswith("counts:") and "needs --drop" in line and "open windows" in line]
    assert [line for line in lines if line.startswith("rows:") and "244 rows read" in line]
    assert "nothing was copied" in lines[-2]
    assert lines[-1].endswith("--drop counts")


def test_the_command_copies_what_it_has_shown(
    old: Path, module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "upgrade",
        str(old),
        str(tmp_path / "new"),
        "--pipeline",
        f"{module}:later",
        "--json",
        "--drop",
        "counts",
    ]
    assert main([*command, "--", "90 microseconds"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert not facts["would_lose_state"]
    fates = {fate["label"]: fate for fate in facts["transforms"]}
    assert fates["sums"]["outcome"] == "kept, changed"
    assert fates["sums"]["change"] == "lateness 90 microseconds, was 30 microseconds"
    assert fates["sums"]["windows"] >= fates["sums"]["keys"] > 0
    assert (tmp_path / "new").exists()


def test_the_command_needs_a_new_checkpoint_or_a_pipeline(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["upgrade", str(old)])
    assert "NEW or --pipeline is missing" in capsys.readouterr().err
