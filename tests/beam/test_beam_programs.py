"""Programs that ship with Beam, unmodified and as a user runs them: they write what they write on Beam's own runner."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import importlib.util
import json
from typing import TYPE_CHECKING, Final

import pytest

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

from tests.support.beam.shipped import GAME_STATS, LEADER_BOARD, SHIPPED, STREAMING_WORDCOUNT, Shipped

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # Beam's own

BEAMS: Final = "--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner"
LOCAL: Final = "--runner=dataflow_model.beam.LocalRunner"
ON_SPARK: Final = "--runner=dataflow_model.beam.SparkRunner"
NEEDS: Final = {
    "examples.dataframe.wordcount": "pandas",
    "examples.inference.sklearn_mnist_classification": "sklearn",
    "yaml.main": "jsonschema",
}


LIVE: Final = pytest.mark.parametrize(
    "host", ["bounded", "stream", pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.spark])], indirect=True
)


@pytest.fixture
def host(request: pytest.FixtureRequest) -> str:
    """Return what runs a program without an end of its input; a Spark session is there for it."""
    name = str(request.param)
    if name == "spark":
        request.getfixturevalue("spark")
    return name


def options_of(host: str, folder: Path) -> list[str]:
    """Return the options with which a program without an end of its input is run."""
    checkpoint = [] if host == "bounded" else [f"--dm_checkpoint={folder / 'checkpoint'}"]
    return [ON_SPARK if host == "spark" else LOCAL, *checkpoint]


def skip_if_incomplete(program: Shipped) -> None:
    """Skip a program that needs a file in other processes that Beam does not ship."""
    if program.lacks:
        pytest.skip(f"{program} needs {program.lacks}")


def written(program: Shipped, folder: Path, *options: str) -> list[str]:
    """Return what a program writes."""
    package = NEEDS.get(program.module)
    if package is not None and importlib.util.find_spec(package) is None:
        pytest.skip(f"{program} needs {package}")
    folder.mkdir()
    return program.run(folder, *options)


@pytest.mark.parametrize(
    "program", [pytest.param(each, marks=() if each.is_quick else pytest.mark.slow) for each in SHIPPED], ids=str
)
def test_a_program_that_ships_with_beam_writes_the_same_on_our_runner(program: Shipped, tmp_path: Path) -> None:
    ours = written(program, tmp_path / "ours", LOCAL)
    assert ours
    assert ours == written(program, tmp_path / "beams", BEAMS)


@LIVE
def test_the_leader_board_of_a_game_is_kept_while_it_is_played(host: str, tmp_path: Path) -> None:
    rows = [json.loads(row) for row in written(LEADER_BOARD, tmp_path / "ours", *options_of(host, tmp_path))]
    by_team = sorted((row["team"], row["total_score"]) for row in rows if "team" in row)
    by_user = sorted((row["user"], row["total_score"]) for row in rows if "user" in row)
    assert by_team == [("Emu", 10), ("Emu", 12), ("Fox", 3)]  # after ten events, and at the end of the hour
    assert by_user == [("user0_Emu", 10), ("user0_Emu", 12), ("user2_Fox", 3)]  # after ten events, and at the end


@pytest.mark.slow
@LIVE
def test_what_robots_score_is_left_out_of_the_scores_of_their_team(host: str, tmp_path: Path) -> None:
    rows = [json.loads(row) for row in written(GAME_STATS, tmp_path / "ours", *options_of(host, tmp_path))]
    assert [(row["team"], row["total_score"]) for row in rows if "team" in row] == [("Emu", 90)]
    assert [row["mean_duration"] for row in rows if "mean_duration" in row] == [300.0]  # each of the ten played once


@pytest.mark.slow
@LIVE
def test_the_words_of_a_topic_are_counted_in_windows(host: str, tmp_path: Path) -> None:
    lines = written(STREAMING_WORDCOUNT, tmp_path / "ours", *options_of(host, tmp_path))
    assert lines == ["be: 2", "not: 1", "or: 1", "to: 1", "to: 2"]


@pytest.mark.slow
@pytest.mark.parametrize("host", ["workers", "stream"])
@pytest.mark.parametrize("program", SHIPPED, ids=str)
def test_a_program_that_ships_with_beam_writes_the_same_in_processes_and_as_a_stream(
    host: str, program: Shipped, tmp_path: Path
) -> None:
    if host == "stream" and not program.is_one_pipeline:
        pytest.skip(f"{program} runs several pipelines, which need a checkpoint each")
    if host == "workers":
        skip_if_incomplete(program)
    option = {"workers": "--dm_workers=2", "stream": f"--dm_checkpoint={tmp_path / 'checkpoint'}"}[host]
    ours = written(program, tmp_path / "ours", LOCAL, option)
    assert ours == written(program, tmp_path / "beams", BEAMS)


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("program", SHIPPED, ids=str)
def test_a_program_that_ships_with_beam_writes_the_same_on_spark(program: Shipped, tmp_path: Path) -> None:
    skip_if_incomplete(program)
    assert written(program, tmp_path / "ours", ON_SPARK) == written(program, tmp_path / "beams", BEAMS)
