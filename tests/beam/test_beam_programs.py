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


@pytest.mark.parametrize("is_stream", [False, True])
def test_the_leader_board_of_a_game_is_kept_while_it_is_played(is_stream: bool, tmp_path: Path) -> None:
    options = [f"--dm_checkpoint={tmp_path / 'checkpoint'}"] if is_stream else []
    rows = [json.loads(row) for row in written(LEADER_BOARD, tmp_path / "ours", LOCAL, *options)]
    by_team = sorted((row["team"], row["total_score"]) for row in rows if "team" in row)
    by_user = sorted((row["user"], row["total_score"]) for row in rows if "user" in row)
    assert by_team == [("Emu", 10), ("Emu", 12), ("Fox", 3)]  # after ten events, and at the end of the hour
    assert by_user == [("user0_Emu", 10), ("user0_Emu", 12), ("user2_Fox", 3)]  # after ten events, and at the end


@pytest.mark.slow
@pytest.mark.parametrize("is_stream", [False, True])
def test_what_robots_score_is_left_out_of_the_scores_of_their_team(is_stream: bool, tmp_path: Path) -> None:
    options = [f"--dm_checkpoint={tmp_path / 'checkpoint'}"] if is_stream else []
    rows = [json.loads(row) for row in written(GAME_STATS, tmp_path / "ours", LOCAL, *options)]
    assert [(row["team"], row["total_score"]) for row in rows if "team" in row] == [("Emu", 90)]
    assert [row["mean_duration"] for row in rows if "mean_duration" in row] == [300.0]  # each of the ten played once


@pytest.mark.slow
@pytest.mark.parametrize("is_stream", [False, True])
def test_the_words_of_a_topic_are_counted_in_windows(is_stream: bool, tmp_path: Path) -> None:
    options = [f"--dm_checkpoint={tmp_path / 'checkpoint'}"] if is_stream else []
    lines = written(STREAMING_WORDCOUNT, tmp_path / "ours", LOCAL, *options)
    assert lines == ["be: 2", "not: 1", "or: 1", "to: 1", "to: 2"]


@pytest.mark.slow
@pytest.mark.parametrize("host", ["workers", "stream"])
@pytest.mark.parametrize("program", SHIPPED, ids=str)
def test_a_program_that_ships_with_beam_writes_the_same_in_processes_and_as_a_stream(
    host: str, program: Shipped, tmp_path: Path
) -> None:
    if host == "stream" and not program.is_one_pipeline:
        pytest.skip(f"{program} runs several pipelines, which need a checkpoint each")
    option = {"workers": "--dm_workers=2", "stream": f"--dm_checkpoint={tmp_path / 'checkpoint'}"}[host]
    ours = written(program, tmp_path / "ours", LOCAL, option)
    assert ours == written(program, tmp_path / "beams", BEAMS)


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("program", SHIPPED, ids=str)
def test_a_program_that_ships_with_beam_writes_the_same_on_spark(program: Shipped, tmp_path: Path) -> None:
    assert written(program, tmp_path / "ours", ON_SPARK) == written(program, tmp_path / "beams", BEAMS)
