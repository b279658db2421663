"""Windows of classes of a program's own: their coder tells them apart, whatever the classes say of equality."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportIncompatibleMethodOverride=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

import apache_beam as beam
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Timestamp

from dataflow_model.beam import LocalRunner
from tests.support.beam.programs import answers

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # Beam's own


class Named(window.IntervalWindow):  # type: ignore[misc] # Beam ships no types that mypy takes
    """A window with a name, which equals the windows with other names and the same bounds."""

    def __init__(self, name: str, start: Any, end: Any) -> None:
        super().__init__(start, end)
        self.name = name


class Incomparable(window.BoundedWindow):  # type: ignore[misc]
    """A window that has no hash and equals nothing: the class of Beam's raises for both."""

    def __init__(self, name: str, start: Any, end: Any) -> None:
        super().__init__(end)
        self.name, self._start = name, Timestamp.of(start)

    @property
    def start(self) -> Any:
        """Its first instant."""
        return self._start


class NamedCoder(beam.coders.Coder):  # type: ignore[misc]
    """Encodes windows with names.

    Args:
        kind: the class of the windows.
    """

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind

    def encode(self, value: Any) -> bytes:
        """Return a window as bytes."""
        return f"{value.name} {value.start.micros} {value.end.micros}".encode()

    def decode(self, encoded: bytes) -> Any:
        """Return the window."""
        name, start, end = encoded.decode().split()
        return self._kind(name, Timestamp(micros=int(start)), Timestamp(micros=int(end)))

    def is_deterministic(self) -> bool:
        """Return whether equal windows have equal bytes."""
        return True


class ByName(window.NonMergingWindowFn):  # type: ignore[misc]
    """Assigns the window with the name of the element.

    Args:
        kind: the class of the windows.
    """

    def __init__(self, kind: type[Any]) -> None:
        self._kind = kind

    def assign(self, context: Any) -> Iterable[Any]:
        """Return the windows of an element."""
        return [self._kind(context.element[1].split()[0], 0, 10)]

    def get_window_coder(self) -> Any:
        """Return the coder of the windows."""
        return NamedCoder(self._kind)


class MergedByName(ByName):
    """Merges the windows of a name."""

    def assign(self, context: Any) -> Iterable[Any]:
        """Return the windows of an element."""
        return [self._kind(context.element[1].split()[0], context.timestamp, context.timestamp + 5)]

    def is_merging(self) -> bool:
        """Return whether windows merge."""
        return True

    def merge(self, context: Any) -> None:
        """Merge the windows of each name."""
        by_name: dict[str, list[Any]] = {}
        for each in context.windows:
            by_name.setdefault(each.name, []).append(each)
        for name, windows in by_name.items():
            if len(windows) > 1:
                whole = self._kind(name, min(each.start for each in windows), max(each.end for each in windows))
                context.merge(windows, whole)


def _grouped(fn: ByName) -> Any:
    def program(pipeline: Any) -> Any:
        pairs = pipeline | beam.Create([("k", "red 1"), ("k", "blue 1"), ("k", "red 2"), ("k", "blue 3")])
        at = pairs | beam.Map(lambda pair: window.TimestampedValue(pair, int(pair[1].split()[1])))
        placed = at | beam.WindowInto(fn)
        values = placed | beam.GroupByKey() | "values" >> beam.MapTuple(lambda _, values: f"{sorted(values)}")
        counts = placed | beam.combiners.Count.PerKey() | "counts" >> beam.Map(_with_name)
        ours = placed | "longest" >> beam.CombinePerKey(max) | "of longest" >> beam.Map(_with_name)
        return (values, counts, ours) | beam.Flatten()

    return program


def _with_name(pair: Any, of: Any = beam.DoFn.WindowParam) -> str:
    return f"{of.name}: {pair[1]}"


ANSWER = ["['blue 1', 'blue 3']", "['red 1', 'red 2']", "blue: 2", "blue: blue 3", "red: 2", "red: red 2"]


@pytest.mark.parametrize("host", ["bounded", "stream"])
@pytest.mark.parametrize("kind", [Named, Incomparable])
@pytest.mark.parametrize("fn", [ByName, MergedByName])
def test_windows_are_told_apart_by_their_coder(fn: type[ByName], kind: type[Any], host: str, tmp_path: Path) -> None:
    runner = LocalRunner() if host == "bounded" else LocalRunner(checkpoint=tmp_path / "checkpoint")
    assert answers(_grouped(fn(kind)), runner, tmp_path) == sorted(map(repr, ANSWER))
