"""The windows of side inputs, which are found once for each window of main elements."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

import apache_beam as beam
from apache_beam.transforms import sideinputs, window

from dataflow_model.beam import LocalRunner
from dataflow_model.runners.beam.functions.side_windows import SideWindows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # Beam's own


class Counted(window.FixedWindows):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Notes each assignment in a file."""

    def __init__(self, size: int, path: Path) -> None:
        super().__init__(size)
        self.path = path

    def assign(self, context: Any) -> Any:
        if context.element is None:  # a side window is asked for
            with self.path.open("a") as file:
                file.write(f"{context.timestamp}\n")
        return super().assign(context)


@pytest.mark.parametrize("view", [beam.pvalue.AsList, beam.pvalue.AsDict])
def test_the_side_window_is_found_once_for_each_window_of_main_elements(view: Any, tmp_path: Path) -> None:
    notes, shown = tmp_path / "notes", tmp_path / "shown"
    notes.touch()

    def show(pair: Any, side: Any) -> None:
        values = sorted(side.values() if isinstance(side, dict) else (value for _, value in side))
        with shown.open("a") as file:
            file.write(f"{pair} {values}\n")

    with beam.Pipeline(runner=LocalRunner()) as p:
        timed = p | beam.Create([(number, number) for number in range(40)])
        timed |= "timed" >> beam.Map(lambda pair: window.TimestampedValue(pair, pair[0]))
        side = timed | "side" >> beam.WindowInto(Counted(20, notes)) | beam.Filter(lambda pair: pair[0] % 10 == 3)
        _ = timed | "main" >> beam.WindowInto(window.FixedWindows(10)) | beam.Map(show, view(side))
    assert sorted(shown.read_text().splitlines()) == sorted(
        f"({number}, {number}) {[number // 20 * 20 + 3, number // 20 * 20 + 13]}" for number in range(40)
    )
    assert len(notes.read_text().splitlines()) == len(range(0, 40, 10))


def test_windows_that_are_equal_but_not_the_same_are_mapped_each() -> None:
    class Owned(window.IntervalWindow):  # type: ignore[misc]
        """A window of an owner, whom equality leaves out."""

        def __init__(self, owner: str) -> None:
            super().__init__(0, 10)
            self.owner = owner

    mapping = SideWindows(lambda given: given.owner)
    windows = [Owned("a"), Owned("b")]
    assert windows[0] == windows[1]
    assert [mapping(each) for each in (*windows, *windows)] == ["a", "b", "a", "b"]


def test_the_mapping_to_the_global_window_is_still_known_as_that() -> None:
    mapping = sideinputs.default_window_mapping_fn(window.GlobalWindows())
    assert SideWindows(mapping) == mapping
    assert SideWindows(mapping) != sideinputs.default_window_mapping_fn(window.FixedWindows(5))


def test_few_windows_are_remembered_at_a_time() -> None:
    asked: list[int] = []

    def mapping(given: Any) -> Any:
        asked.append(given.start.micros)
        return given

    windows = SideWindows(mapping)
    many: Iterable[Any] = [window.IntervalWindow(start, start + 1) for start in range(5_000)]
    assert all(windows(each) is each for each in many)
    assert len(windows._known) == 5_000 - 4_096
