"""A plugin for pytest that runs test modules of Beam's, or of a library on Beam, on one host, and notes each outcome.

`scripts/beam.py` loads it with `-p`. It reads two variables of the environment: `BEAM_HOST`, a name of `HOSTS`, and
`BEAM_OUTCOMES`, a file to which it appends a line of JSON for each test: its name, its outcome, how many pipelines it
ran on the host, and what went wrong.
"""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import pathlib
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Final

import pytest
from apache_beam.options.pipeline_options import PrismRunnerOptions, StandardOptions
from apache_beam.runners import runner as beam_runner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.job_server import StopOnExitJobServer
from apache_beam.runners.portability.prism_runner import PrismJobServer, PrismRunner
from apache_beam.testing.test_pipeline import TestPipeline as BeamTestPipeline

from dataflow_model.beam import LocalRunner, SparkRunner
from dataflow_model.plan.endpoints.features import Feature
from scripts import prism

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


class _OnPrism(PrismRunner):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Starts Prism anew for each test, so that a pipeline that ends it fails no other test."""

    def __init__(self, *, is_drain: bool = False) -> None:
        del is_drain  # Beam's tests of draining are for its runner in process
        super().__init__()

    def default_job_server(self, options: Any) -> Any:
        """Return the one of this test."""
        if not _STARTED:
            options.view_as(PrismRunnerOptions).prism_location = str(prism.built())
            _STARTED.append(StopOnExitJobServer(PrismJobServer(options)))
        return _STARTED[0]


_STARTED: Final[list[Any]] = []
"""Prism, if the test has started it."""
HOSTS: Final[Mapping[str, Callable[..., Any]]] = {
    "local": LocalRunner,
    "workers": _OnTwoWorkers,
    "stream": _InStream,
    "spark": SparkRunner,
    "spark-stream": _InStreamOnSpark,
    "baseline": FnApiRunner,
    "prism": _OnPrism,
}
_MISSING: Final[Mapping[str, str]] = {
    "a stream on Spark needs a checkpoint": "a stream, which a batch job on Spark rejects",
    f"{Feature.RESUMING.value}, which LocalRunner(workers=n) does not support": "a stream, which several workers "
    "reject",
    "Materialization in out-of-process and remote runners is not yet supported": "a list that is piped into a "
    "transform, whose results Beam reads only in the process that runs the functions",
}
"""What a host says of what it has not, in the text of a failure, and why the test is skipped."""
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
    """Use the host where a test names no runner or `DirectRunner`: half of Beam's tests ignore the option."""
    named = f"{__name__}.Chosen"
    StandardOptions.DEFAULT_RUNNER = named
    beam_runner._RUNNER_MAP["directrunner"] = named
    del sys.argv[1:]  # a pipeline without options reads them, and warns about those of pytest
    if importlib.util.find_spec("absl") is not None:  # its test cases expect that its own main function was called
        importlib.import_module("absl.flags").FLAGS.mark_as_parsed()
    options = f"--runner={named} --temp_location={tempfile.mkdtemp()}"  # where tests of examples write
    BeamTestPipeline.pytest_test_pipeline_options = options
    kind = host()
    run = kind.run_portable_pipeline if kind is not FnApiRunner else kind.run_via_runner_api

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        _COUNT[0] += 1
        return run(self, *args, **kwargs)

    setattr(kind, run.__name__, counted)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any) -> Iterator[None]:
    """Skip a test of what a host has not, as it says."""
    outcome: Any = yield
    report = outcome.get_result()
    text = str(report.longrepr) if report.failed else ""
    for message, reason in _MISSING.items():
        if message in text:
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, f"Skipped: {reason}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    """Count the pipelines of a test."""
    before = _COUNT[0]
    yield
    _RAN[item.nodeid] = _COUNT[0] - before
    while _STARTED:
        _STARTED.pop().stop()


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
