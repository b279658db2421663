"""`dataflow-model figure`."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.cli import main
from dataflow_model.figures import FIGURES, find, run

if TYPE_CHECKING:
    from pathlib import Path

    from dataflow_model.figures import Figure

PNG = b"\x89PNG\r\n\x1a\n"


def test_a_figure_is_drawn_and_its_panes_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["figure", "6J"]) == 0
    printed = capsys.readouterr().out
    for words in ("Sessions('1 minute')", "retracting", "12:07:40", "−25", "LATE", "figure-6J.png"):
        assert words in printed
    assert len([line for line in printed.splitlines() if line.startswith("12:0")]) == len(run("6J")[0].panes)
    assert (tmp_path / "figure-6J.png").read_bytes().startswith(PNG)


def test_the_picture_is_saved_where_the_option_out_says(tmp_path: Path) -> None:
    assert main(["figure", "watermark_heuristic", "--out", str(tmp_path / "drawn.svg")]) == 0
    assert (tmp_path / "drawn.svg").is_file()


def test_without_a_name_all_figures_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figure"]) == 0
    printed = capsys.readouterr().out.split()
    assert set(FIGURES) <= set(printed)


@pytest.mark.parametrize(("name", "near"), [("6K", "6J"), ("watermrk_perfect", "watermark_perfect")])
def test_an_unknown_name_ends_with_status_2_and_similar_names(
    name: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["figure", name])
    assert stopped.value.code == 2
    printed = capsys.readouterr().err
    assert f"there is no figure {name!r}" in printed
    assert "Hint: " in printed
    assert near in printed


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("6j", "6J"),
        ("Table-1", "table_1"),
        ("figure 6B", "6B"),
        ("per-record", "per_record"),
        ("figure 14", "6J"),
        ("Fig. 9", "6E"),
        ("2-3", "classic_batch"),
        ("figure 2-10 right", "watermark_heuristic"),
        ("Figure_4-7", "sessions_retracting"),
    ],
)
def test_a_figure_is_found_by_its_name_and_by_its_number_in_the_paper_and_the_book(typed: str, name: str) -> None:
    assert find(typed).name == name


@pytest.mark.parametrize("figure", FIGURES.values(), ids=list(FIGURES))
def test_each_figure_is_found_by_its_own_name_and_number(figure: Figure) -> None:
    assert find(figure.name) is figure
    assert find(figure.number or figure.name) is figure


def test_the_number_of_a_figure_with_two_plots_is_refused_with_both_names() -> None:
    with pytest.raises(dm.InvalidArgument, match=r"did you mean 2-11 left or 2-11 right\?"):
        find("figure 2-11")


@pytest.mark.parametrize("typed", ["figure 5", "figure", "", "99"])
def test_the_error_for_an_unknown_figure_lists_all_figures(typed: str) -> None:
    with pytest.raises(dm.InvalidArgument) as error:
        find(typed)
    for name, figure in FIGURES.items():
        assert name in str(error.value)
        assert figure.number in str(error.value)


def test_a_command_may_name_a_figure_in_two_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figure", "figure", "14", "--out", str(tmp_path / "14.svg")]) == 0
    assert "Figure 14: Sessions, Retracting" in capsys.readouterr().out


def test_an_output_file_that_cannot_be_written_is_reported_with_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["figure", "6E", "--out", str(tmp_path / "no" / "6E.png")]) == 1
    assert "Hint: choose another file" in capsys.readouterr().err


def test_an_unknown_format_of_pictures_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figure", "6E", "--out", str(tmp_path / "6E.doc")]) == 1
    assert "6E.doc" in capsys.readouterr().err


def test_a_picture_without_a_suffix_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figure", "6E", "--out", str(tmp_path / "6E")]) == 1
    assert "needs a suffix" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_the_panes_are_printed_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real_find_spec = importlib.util.find_spec

    def find_spec(name: str, *rest: Any) -> Any:
        return None if name == "matplotlib" else real_find_spec(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    assert main(["figure", "6E"]) == 0
    printed = capsys.readouterr().out
    assert "12:05:39" in printed
    assert "No picture: matplotlib is not installed.\nHint: run pip install 'dataflow-model[plot]'" in printed


def test_running_a_figure_needs_neither_pyspark_nor_matplotlib() -> None:
    code = (
        "import sys; from dataflow_model import figures; figures.run('6J'); "
        "assert not {'pyspark', 'matplotlib'} & set(sys.modules), 'imported too much'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_number_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(dm.InvalidArgument, match=r"there is no figure 'figure 99'\nHint: did you mean 14 or 9\? "):
        find("figure 99")
    with pytest.raises(dm.InvalidArgument, match=r"there is no figure '1'\nHint: did you mean 6[? ]"):
        find("1")
