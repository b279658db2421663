"""Programs that ship with Beam, unmodified and as a user runs them: they write what they write on Beam's own runner."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Final

import pytest

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

from tests.support.beam.shipped import SHIPPED, Shipped

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


@pytest.mark.slow
@pytest.mark.parametrize("host", ["workers", "stream"])
@pytest.mark.parametrize("program", SHIPPED, ids=str)
def test_a_program_that_ships_with_beam_writes_the_same_in_processes_and_as_a_stream(
    host: str, program: Shipped, tmp_path: Path
) -> None:
    option = {"workers": "--dm_workers=2", "stream": f"--dm_checkpoint={tmp_path / 'checkpoint'}"}[host]
    ours = written(program, tmp_path / "ours", LOCAL, option)
    assert ours == written(program, tmp_path / "beams", BEAMS)


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("program", SHIPPED, ids=str)
def test_a_program_that_ships_with_beam_writes_the_same_on_spark(program: Shipped, tmp_path: Path) -> None:
    assert written(program, tmp_path / "ours", ON_SPARK) == written(program, tmp_path / "beams", BEAMS)
