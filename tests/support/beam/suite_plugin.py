"""A plugin for pytest that runs Beam's own test modules on one of our runners, and notes each outcome.

`scripts/beam.py` loads it with `-p`. It reads two variables of the environment: `BEAM_HOST`, a name of `HOSTS`, and
`BEAM_OUTCOMES`, a file to which it appends a line of JSON for each test: its name, its outcome, how many pipelines it
ran on our runner, and what went wrong.
"""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from typing import TYPE_CHECKING, Any, Final

import pytest
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.test_pipeline import TestPipeline as BeamTestPipeline

from dataflow_model.beam import LocalRunner, SparkRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class _InStream(LocalRunner):
    """Runs each pipeline as a stream with a checkpoint of its own."""

    def __init__(self, *, is_drain: bool = False) -> None:
        checkpoint = pathlib.Path(tempfile.mkdtemp(), "checkpoint")
        super().__init__(checkpoint=checkpoint, is_drain=is_drain)


class _InStreamOnSpark(SparkRunner):
    """Runs each pipeline as a stream on Spark, with a checkpoint of its own."""

    def __init__(self, *, is_drain: bool = False) -> None:
        super().__init__(checkpoint=pathlib.Path(tempfile.mkdtemp(), "checkpoint"), is_drain=is_drain)


class _OnTwoWorkers(LocalRunner):
    def __init__(self, *, is_drain: bool = False) -> None:
        super().__init__(workers=2, is_drain=is_drain)


HOSTS: Final[Mapping[str, Callable[..., Any]]] = {
    "local": LocalRunner,
    "workers": _OnTwoWorkers,
    "stream": _InStream,
    "spark": SparkRunner,
    "spark-stream": _InStreamOnSpark,
    "baseline": FnApiRunner,
}
_COUNT: Final = [0]
_RAN: Final[dict[str, int]] = {}


def host() -> Any:
    """Return what makes a runner of the host: Beam's options name it as an attribute of this module."""
    return HOSTS[os.environ["BEAM_HOST"]]


def __getattr__(name: str) -> Any:
    if name == "Chosen":
        return host()
    raise AttributeError(name)


def pytest_configure() -> None:
    """Use the host wherever a test does not name another runner: half of Beam's tests ignore the option."""
    named = f"{__name__}.Chosen"
    StandardOptions.DEFAULT_RUNNER = named
    options = f"--runner={named} --temp_location={tempfile.mkdtemp()}"  # where tests of examples write
    BeamTestPipeline.pytest_test_pipeline_options = options
    kind = host()
    run = kind.run_portable_pipeline if kind is not FnApiRunner else kind.run_via_runner_api

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        _COUNT[0] += 1
        return run(self, *args, **kwargs)

    setattr(kind, run.__name__, counted)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    """Count the pipelines of a test."""
    before = _COUNT[0]
    yield
    _RAN[item.nodeid] = _COUNT[0] - before


def pytest_runtest_logreport(report: Any) -> None:
    """Note the outcome of a test."""
    if report.when != "call" and (report.when != "setup" or report.outcome == "passed"):
        return
    crash = getattr(report.longrepr, "reprcrash", None)
    reason = "" if crash is None else crash.message.partition("\n")[0]
    if isinstance(report.longrepr, tuple):  # where the test was skipped, and why
        reason = report.longrepr[2]
    name = report.nodeid.partition("::")[2].replace("::", ".")
    line = {
        "test": name,
        "module": pathlib.Path(report.location[0]).stem,
        "outcome": report.outcome,
        "ran": _RAN.get(report.nodeid, 0),
        "reason": reason,
    }
    with pathlib.Path(os.environ["BEAM_OUTCOMES"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
