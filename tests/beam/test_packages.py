"""Packages that a program of Beam's names in its options, in the processes that run its functions."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import textwrap
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from dataflow_model.beam import LocalRunner, SparkRunner

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # Beam's own

BACKEND = """
import pathlib
import shutil

def build_wheel(folder, settings=None, metadata=None):
    return shutil.copy(next(pathlib.Path(".").absolute().glob("*.whl")), folder).rpartition("/")[2]
"""
"""Builds a project whose wheel is there already."""
NAMES = ("by_requirements", "by_extra", "by_setup")


def wheel_of(name: str, folder: Path) -> Path:
    """Write a wheel with one module, and return its path."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", f"ANSWER = {name!r}")
        about = f"{name}-1.0.dist-info"
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    return path


def options_in(folder: Path) -> list[str]:
    """Return options that name a package each, which need no index."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{wheel_of(NAMES[0], folder)}\n")
    project = folder / "project"
    project.mkdir()
    (project / "setup.py").touch()
    wheel_of(NAMES[2], project)
    (project / "backend.py").write_text(BACKEND)
    (project / "pyproject.toml").write_text(
        textwrap.dedent("""
            [build-system]
            requires = []
            build-backend = "backend"
            backend-path = ["."]
        """)
    )
    return [
        f"--requirements_file={requirements}",
        f"--extra_package={wheel_of(NAMES[1], folder)}",
        f"--setup_file={project / 'setup.py'}",
    ]


@pytest.mark.parametrize(
    "host",
    ["workers", pytest.param("spark", marks=pytest.mark.spark), pytest.param("spark stream", marks=pytest.mark.slow)],
)
def test_packages_of_the_options_can_be_imported_where_functions_run(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def imported(name: str) -> str:
        import importlib

        return str(importlib.import_module(name).ANSWER)

    runner: Any = LocalRunner(workers=2)
    if host != "workers":
        checkpoint = tmp_path / "checkpoint" if "stream" in host else None
        runner = SparkRunner(request.getfixturevalue("spark"), checkpoint=checkpoint)
    with beam.Pipeline(runner=runner, options=PipelineOptions(options_in(tmp_path))) as pipeline:
        _ = pipeline | beam.Create(NAMES) | beam.Map(imported) | beam.io.WriteToText(str(tmp_path / "out"))
    lines = [line for path in tmp_path.glob("out-*") for line in path.read_text().splitlines()]
    assert sorted(lines) == sorted(NAMES)


def test_a_package_that_cannot_be_installed_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    options = PipelineOptions([f"--requirements_file={tmp_path / 'missing.txt'}"])
    pipeline = beam.Pipeline(runner=LocalRunner(workers=2), options=options)
    _ = pipeline | beam.Create([1]) | beam.Map(lambda _: (tmp_path / "ran").touch())
    with pytest.raises(dm.InvalidArgument, match=r"(?s)pip cannot install --requirement .*missing\.txt.*Hint"):
        pipeline.run()
    assert not (tmp_path / "ran").exists()
