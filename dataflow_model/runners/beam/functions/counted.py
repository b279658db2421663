"""What the functions of Beam's programs count: in the tallies of tasks, which are committed with the output.

A task that fails or is repeated counts as often as its output does, in any process.
"""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportIncompatibleMethodOverride=false, reportArgumentType=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from apache_beam.metrics import cells
from apache_beam.metrics.execution import MetricKey, MetricResult
from apache_beam.metrics.metric import MetricResults
from apache_beam.metrics.metricbase import MetricName

from dataflow_model.metrics.collecting import current
from dataflow_model.metrics.tally import Readings, Spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dataflow_model.metrics.report import RunReport


def note(label: str, step: str, container: Any) -> None:
    """Add what a function has counted in one bundle to the tally of the task.

    Args:
        label: the label of the stage.
        step: Beam's name of the transform.
        container: Beam's container of what has been counted since the bundle began.
    """
    tally = current()
    if tally is None or not container.metrics:
        return
    readings = tally.users.setdefault(label, Readings())
    for key, cell in container.metrics.items():
        name = joined(step, key.metric_name.namespace, key.metric_name.name)
        counted = cell.get_cumulative()
        match cell:
            case cells.CounterCell():
                readings.count(name, counted)
            case cells.DistributionCell():
                spread = Spread(counted.count, counted.sum, counted.min, counted.max)
                readings.distributions.setdefault(name, Spread()).merge(spread)
            case cells.GaugeCell():
                readings.set(name, counted.value, int(counted.timestamp * 1_000_000))
            case cells.StringSetCell():
                for string in counted.string_set:
                    readings.count(f"{name}:{joined(string)}", 1)
            case _:
                pass  # tries and histograms have no bound over many bundles


def joined(*parts: str) -> str:
    """Return some texts as one, which `parted` takes apart again.

    Example:
        >>> joined("Map(note)", "__main__", "50%"), parted(joined("a:b", "%3A"))
        ('Map(note):__main__:50%25', ['a:b', '%3A'])
    """
    return ":".join(part.replace("%", "%25").replace(":", "%3A") for part in parts)


def parted(text: str) -> list[str]:
    """Return the texts that `joined` has put together."""
    return [unquote(part) for part in text.split(":")]


class RunMetrics(MetricResults):  # type: ignore[misc] # Beam ships no types that mypy takes
    """What the functions of a run have counted, in every process.

    Args:
        report: the report of the run. It has no times of gauges, so a gauge's `timestamp` is that of the report.
        tries: the bounded tries, by key, which only the process of the run knows.
    """

    def __init__(self, report: RunReport, tries: Mapping[Any, Any]) -> None:
        self._report, self._tries = report, tries

    def query(self, filter: Any = None) -> dict[str, list[Any]]:  # noqa: A002 - Beam's name
        """Return the metrics that match, by kind; what is attempted is what is committed.

        Args:
            filter: Beam's `MetricsFilter`; `None` for all.
        """
        by_kind = {
            self.COUNTERS: dict(self._counters()),
            self.DISTRIBUTIONS: dict(self._distributions()),
            self.GAUGES: dict(self._gauges()),
            self.STRINGSETS: self._string_sets(),
            self.BOUNDED_TRIES: self._tries,
        }
        return {
            kind: [MetricResult(key, value, value) for key, value in values.items() if self.matches(filter, key)]
            for kind, values in by_kind.items()
        }

    def _counters(self) -> Iterator[tuple[Any, int]]:
        for transform in self._report.transforms.values():
            for name, value in transform.user.counters.items():
                key, strings = _key(name)
                if not strings:
                    yield key, value

    def _distributions(self) -> Iterator[tuple[Any, Any]]:
        for transform in self._report.transforms.values():
            for name, value in transform.user.distributions.items():
                data = cells.DistributionData(value.sum, value.count, value.min, value.max)
                yield _key(name)[0], data.get_result()

    def _gauges(self) -> Iterator[tuple[Any, Any]]:
        at = int(self._report.at) / 1_000_000
        for transform in self._report.transforms.values():
            for name, value in transform.user.gauges.items():
                yield _key(name)[0], cells.GaugeData(value, at).get_result()

    def _string_sets(self) -> dict[Any, set[str]]:
        sets: dict[Any, set[str]] = {}
        for transform in self._report.transforms.values():
            for name in transform.user.counters:
                key, strings = _key(name)
                if strings:
                    sets.setdefault(key, set()).update(strings)
        return sets


def _key(name: str) -> tuple[Any, list[str]]:
    """Return Beam's key of a metric, and the string if it is one of a set."""
    step, namespace, own, *strings = parted(name)
    return MetricKey(step, MetricName(namespace, own)), strings
