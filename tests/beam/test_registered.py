"""What a program has in `__main__`, and what it registers with Beam, in the processes that run its functions."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

import apache_beam as beam

from dataflow_model.beam import LocalRunner, SparkRunner
from tests.support.beam import main_program

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = {
    "workers": ["LocalRunner", "--dm_workers=2"],
    "process": ["LocalRunner", "--dm_checkpoint={}"],
    "spark": ["SparkRunner"],
    "spark stream": ["SparkRunner", "--dm_checkpoint={}"],
}


@pytest.mark.parametrize(
    "host",
    [
        "workers",
        "process",
        *(pytest.param(host, marks=[pytest.mark.spark, pytest.mark.slow]) for host in ("spark", "spark stream")),
    ],
)
def test_classes_and_registrations_of_a_script_are_the_same_in_every_process(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if "spark" in host:
        request.getfixturevalue("java_home")
    runner, *options = [option.format(tmp_path / "checkpoint") for option in OPTIONS[host]]
    command = [sys.executable, main_program.__file__, str(tmp_path / "out"), f"--runner=dataflow_model.beam.{runner}"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line for path in tmp_path.glob("out-*") for line in path.read_text().splitlines()]
    assert sorted(lines) == main_program.EXPECTED


class Unpicklable(beam.coders.Coder):  # type: ignore[misc] # Beam ships no types that mypy takes
    lock = threading.Lock()

    def __reduce__(self) -> Any:
        raise TypeError("of this process")


def test_a_registered_coder_that_cannot_be_sent_is_an_error_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pipeline = beam.Pipeline(runner=LocalRunner(workers=2))
    _ = pipeline | beam.Create([1]) | beam.Map(lambda _: (tmp_path / "ran").touch())
    monkeypatch.setattr(beam.coders.registry, "get_custom_type_coder_tuples", lambda *_: [(int, Unpicklable())])
    with pytest.raises(dm.DataflowError, match=r"(?s)registered with Beam cannot be sent.*of this process"):
        pipeline.run().wait_until_finish()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("host", ["workers", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def test_a_coder_of_a_class_that_a_function_has_made_does_not_stop_a_pipeline_without_it(
    host: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    made = type("Made", (), {"__module__": __name__})
    monkeypatch.setattr(sys.modules[__name__], "Made", made, raising=False)
    pairs = [(made, beam.coders.BytesCoder())]
    monkeypatch.setattr(beam.coders.registry, "get_custom_type_coder_tuples", lambda *_: pairs)
    runner: Any = LocalRunner(workers=2)
    if host == "spark":
        runner = SparkRunner(request.getfixturevalue("spark"))
    with beam.Pipeline(runner=runner) as pipeline:
        _ = pipeline | beam.Create([1]) | beam.Map(lambda _: (tmp_path / "ran").touch())
    assert (tmp_path / "ran").exists()
