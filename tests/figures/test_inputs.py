"""The package has points and scripts of its own; they are the data file's."""

from __future__ import annotations

import pytest

from dataflow_model.figures import example
from dataflow_model.plan.endpoints.scripts import AddStep, ClockStep, WatermarkStep
from dataflow_model.testing import TestStream
from tests.support.figures.expected import BOOK, PAPER


def test_the_points_are_those_of_the_data_file() -> None:
    assert [list(point) for point in example.BOOK_POINTS] == BOOK["points"]
    assert [list(point) for point in example.PAPER_POINTS] == PAPER["points"]
    assert BOOK["key"] == example.KEY


@pytest.mark.parametrize("name", ["BATCH", "PERFECT", "HEURISTIC"])
def test_the_scripts_are_those_of_the_data_file(name: str) -> None:
    script = TestStream.parse(BOOK["streams"][name], day=example.DAY, key=BOOK["key"])
    assert example.book_script(name).steps == script.steps


def test_the_additional_six_of_the_book_follows_the_four_directly() -> None:
    steps = list(BOOK["streams"]["HEURISTIC"])
    steps.insert(steps.index("e 4@12:04:19") + 1, "e 6@12:00:53")
    script = TestStream.parse(steps, day=example.DAY, key=BOOK["key"])
    assert example.book_script("HEURISTIC", extra_six=True).steps == script.steps


def test_the_script_of_the_paper_has_its_points_and_watermarks_in_the_order_of_the_clock() -> None:
    clock = ""
    points, watermark = [], []
    for step in example.paper_script().steps:
        match step:
            case ClockStep():
                clock = str(step.processing_time.to_datetime().time())
            case WatermarkStep() if clock < "12:10:00":
                watermark.append([clock, str(step.watermark.to_datetime().time())])
            case AddStep():
                ((_, value), at) = step.elements[0]
                points.append([value, str(at.to_datetime().time()), clock])
    assert points == PAPER["points"]
    assert watermark == PAPER["watermark"]
