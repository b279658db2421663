"""The hosts that run a pipeline: those in process, without Java, and those on Spark; and what each of them has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import pytest

import dataflow_model as dm
from dataflow_model.testing.proving.micro_batches import MicroBatchRunner, Schedule
from tests.support.pipelines import difference, run, streaming
from tests.support.runners.shard_threads import ThreadedRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["HOSTS", "Host", "OnHost", "on_hosts", "params_of", "runner_on"]

_SPARK = ("batch", "streaming")


@attrs.frozen
class Host:
    """A host, and what it has.

    Attributes:
        name: its name, see `runner_on`.
        has_clock: whether watermarks and the clock advance while it runs, so that elements may be late.
        has_checkpoint: whether a run that is killed can be started again where it was.
        writes: whether it prepares and publishes sinks of files and tables, and counts what passes each transform.
        is_slow: whether only `make test-all` runs it.
    """

    name: str
    has_clock: bool = True
    has_checkpoint: bool = False
    writes: bool = True
    is_slow: bool = False


HOSTS: Final = (
    Host("local"),
    Host("threads", writes=False),
    Host("workers", is_slow=True),
    Host("process", has_checkpoint=True),
    Host("shards", writes=False),
    Host("batch", has_clock=False, is_slow=True),
    Host("streaming", has_checkpoint=True, is_slow=True),
)
"""All hosts: a new one is added here, and then runs the whole suite in `tests/conformance`."""


@attrs.frozen
class OnHost:
    """A host for one test: it runs pipelines and says what they should show here.

    Attributes:
        host: the host.
        request: the request of the test, for the Spark session.
        folder: for checkpoints.
    """

    host: Host
    request: pytest.FixtureRequest
    folder: Path

    def runner(self, **options: Any) -> Any:
        """Return the runner, with the checkpoint of this test."""
        return runner_on(self.host.name, self.request, self.folder / "checkpoint", **options)

    def run(self, build: Callable[[dm.Pipeline], Any]) -> Any:
        """Run a pipeline to its end."""
        return run(self.runner(), build)

    def emits(self, build: Callable[[dm.Pipeline], Any], panes: Sequence[str], answer: Sequence[str] = ()) -> Any:
        """Run a pipeline, and assert what its sink `panes` receives.

        Args:
            build: builds it.
            panes: the panes in order: value, then which pane it is in words.
            answer: the values in any order where all data are there from the start.

        Returns:
            The result.
        """
        result = self.run(build)
        records = result.collected("panes")
        if self.host.has_clock:
            expected, actual = list(panes), [shown(record) for record in records]
        else:
            expected, actual = sorted(answer), sorted(value_text(record.value) for record in records)
        problem = difference(expected, actual)
        assert not problem, problem
        return result


def shown(record: Any) -> str:
    """Return a record as text: its value, and in words which pane it is."""
    pane = record.pane.describe(is_retraction=record.is_retraction)
    return f"{value_text(record.value)} {pane}".rstrip()


def value_text(value: Any) -> str:
    """Return a pair as key=value, and anything else as it is."""
    return f"{value[0]}={value[1]}" if isinstance(value, tuple) and len(value) == 2 else str(value)


def params_of(which: Callable[[Host], bool] = lambda _: True) -> list[Any]:
    """Return the hosts of which something holds, as the parameters of a fixture."""
    params = []
    for host in filter(which, HOSTS):
        marks = [pytest.mark.spark] * (host.name in _SPARK) + [pytest.mark.slow] * host.is_slow
        params.append(pytest.param(host, marks=marks, id=host.name))
    return params


def on_hosts(*hosts: str, slow: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Run a test once per `host`, see `runner_on`; those in `slow` only in `make test-all`."""
    marks = {host: [pytest.mark.spark] if host in _SPARK else [] for host in (*hosts, *slow)}
    params = [pytest.param(host, marks=[*marks[host], *([pytest.mark.slow] if host in slow else [])]) for host in marks]
    return pytest.mark.parametrize("host", params)


def runner_on(host: str, request: pytest.FixtureRequest, checkpoint: Path, **options: Any) -> Any:
    """Return the runner of a host: bounded here (`local`) or in several processes (`workers`), a stream in this
    `process`, or `batch` or `streaming` on Spark. `threads` are two shards of workers in threads, and `shards` two of a
    stream whose workers are replaced all the time and know only what is durable."""
    match host:
        case "threads":
            return ThreadedRunner(2)
        case "shards":
            return MicroBatchRunner(Schedule(2, cuts=(1, 4), restarts=frozenset(range(1, 100, 2))))
        case "local":
            return dm.LocalRunner(**options)
        case "workers":
            return dm.LocalRunner(workers=2, **options)
        case "process":
            return dm.LocalRunner(checkpoint=checkpoint, **options)
        case "batch":
            return dm.SparkRunner(request.getfixturevalue("spark"))
        case _:
            return streaming(request.getfixturevalue("spark"), checkpoint, **options)
