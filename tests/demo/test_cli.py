"""The console script, on a slice of the flights."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dataflow_model.cli import main
from dataflow_model.demo import tour as demo
from dataflow_model.demo.picture import _spread
from dataflow_model.runners.spark.deployment import installation

if TYPE_CHECKING:
    from pathlib import Path

PNG = b"\x89PNG\r\n\x1a\n"


def test_the_local_demo_prints_its_table_and_draws_its_picture(
    some_flights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "demo.png"
    assert main(["demo", "--runner", "local", "--data", str(some_flights), "--out", str(picture)]) == 0
    printed = capsys.readouterr().out
    for words in ("4,000 flights", "ON_TIME", "LATE", "windows", "dropped", "rows per second", "All results agree."):
        assert words in printed
    assert picture.read_bytes().startswith(PNG)


def test_the_option_rows_reads_only_the_first_rows(
    some_flights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["demo", "--runner", "local", "--data", str(some_flights), "--out", str(tmp_path / "a.png")]
    assert main([*arguments, "--rows", "2500"]) == 0
    assert "2,500 flights" in capsys.readouterr().out


def test_missing_data_are_reported_with_the_way_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--runner", "local", "--data", str(tmp_path / "none.parquet")]) == 1
    printed = capsys.readouterr().err
    assert "none.parquet" in printed
    assert "Hint: omit --data" in printed


def test_the_picture_is_an_svg_if_its_name_ends_in_svg(some_flights: Path, tmp_path: Path) -> None:
    picture = tmp_path / "demo.svg"
    assert main(["demo", "--runner", "local", "--data", str(some_flights), "--out", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"<?xml")


def test_data_that_are_not_a_parquet_file_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "flights.csv"
    data.write_text("carrier,delay\nUA,4\n")
    assert main(["demo", "--runner", "local", "--data", str(data)]) == 1
    printed = capsys.readouterr().err
    assert "flights.csv is not a Parquet file of flights" in printed
    assert "Hint: omit --data" in printed


def test_a_demo_of_a_few_rows_passes_although_it_has_few_late_panes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--runner", "local", "--rows", "50", "--out", str(tmp_path / "a.png")]) == 0
    printed = capsys.readouterr().out
    assert "All results agree." in printed
    assert "of the panes are early" not in printed


def test_a_picture_in_a_missing_directory_is_refused_before_anything_runs(
    some_flights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["demo", "--runner", "local", "--data", str(some_flights), "--out", str(tmp_path / "none" / "a.png")]
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    assert not out
    assert f"there is no directory {tmp_path / 'none'}\nHint: create it" in err


@pytest.mark.parametrize("name", ["a.unknown", "a"])
def test_a_picture_of_an_unknown_format_is_refused_before_anything_runs(
    name: str, some_flights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["demo", "--runner", "local", "--data", str(some_flights), "--out", str(tmp_path / name)]
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    assert not out
    assert f"the picture {tmp_path / name} needs one of the suffixes " in err


def test_a_spark_runner_without_java_is_refused_before_anything_runs(
    some_flights: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(installation, "_pyspark_is_there", lambda: True)
    monkeypatch.setattr(installation, "_java_is_there", lambda: False)
    assert main(["demo", "--runner", "batch", "--data", str(some_flights)]) == 1
    assert "needs Java 17" in capsys.readouterr().err


def test_without_java_the_local_part_runs_and_the_rest_is_reported_as_skipped(
    some_flights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(installation, "_java_is_there", lambda: False)
    assert main(["demo", "--data", str(some_flights), "--out", str(tmp_path / "a.png")]) == 0
    assert "Skipped Spark batch and streaming" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [[], ["demo", "--rows", "0"], ["demo", "--rows", "x"], ["demo", "--runner", "flink"]]
)
def test_arguments_that_make_no_sense_end_with_status_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2


def test_answers_that_disagree_end_with_status_1(
    some_flights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "plain_answers", lambda _: ({}, {}))
    arguments = ["--data", str(some_flights), "--out", str(tmp_path / "a.png")]
    assert main(["demo", "--runner", "local", *arguments]) == 1


def test_the_local_demo_does_not_import_pyspark_and_help_does_not_import_matplotlib() -> None:
    code = (
        "import sys; import dataflow_model.cli, dataflow_model.demo; "
        "assert not {'pyspark', 'matplotlib'} & set(sys.modules), 'imported too much'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_labels_are_moved_apart_and_stay_in_order() -> None:
    spread = _spread([0, 1, 2, 90, 99], 10, 100)
    assert spread == sorted(spread)
    assert all(after - before >= 10 for before, after in itertools.pairwise(spread))


def test_the_package_can_be_run_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dataflow_model", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("dataflow-model 0.")
