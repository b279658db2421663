"""What the pictures show is what the runs gave, and it can be read."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

import dataflow_model as dm
from dataflow_model.figures import FIGURES, Figure, Panel, draw, run
from dataflow_model.figures.labels import Rectangle, Taken, position_of
from dataflow_model.figures.scene import MINUTE, scene_of
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.text import Text

    from dataflow_model.figures import Picture

pytestmark = pytest.mark.xdist_group("pictures")  # each is drawn once

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def pictures() -> dict[str, Picture]:
    return {name: draw(name) for name in FIGURES}


def texts(axes: Axes) -> list[Text]:
    """Return the labels of panes and elements, without the axes' own."""
    return [text for text in axes.texts if text.get_text()]


@pytest.mark.parametrize("name", FIGURES)
def test_each_pane_and_each_element_has_its_label(pictures: dict[str, Picture], name: str) -> None:
    picture = pictures[name]
    for axes, panel_run in zip(picture.canvas.axes, picture.runs, strict=True):
        scene = scene_of(panel_run)
        panes = [("−" if pane.is_retraction else "") + str(pane.value) for pane in panel_run.panes]
        elements = [str(point.value) for point in scene.points]
        dropped = ["dropped"] * sum(point.dropped for point in scene.points)
        assert sorted(text.get_text() for text in texts(axes)) == sorted(panes + elements + dropped)


@pytest.mark.parametrize("name", FIGURES)
def test_labels_do_not_cover_each_other(pictures: dict[str, Picture], name: str) -> None:
    for axes in pictures[name].canvas.axes:
        boxes = [(text.get_text(), text.get_window_extent()) for text in texts(axes)]
        for (name_of_first, first), (name_of_second, second) in itertools.combinations(boxes, 2):
            across = min(first.x1, second.x1) - max(first.x0, second.x0)
            up = min(first.y1, second.y1) - max(first.y0, second.y0)
            # A pixel or two of a glyph's empty surroundings may meet.
            assert across <= 2 or up <= 5, (name_of_first, name_of_second)


@pytest.mark.parametrize("name", FIGURES)
def test_labels_are_inside_the_axes(pictures: dict[str, Picture], name: str) -> None:
    for axes in pictures[name].canvas.axes:
        plot = axes.get_window_extent()
        for text in texts(axes):
            box = text.get_window_extent()
            assert plot.x0 <= box.x0, text.get_text()
            assert plot.y0 <= box.y0, text.get_text()
            assert box.x1 <= plot.x1, text.get_text()
            assert box.y1 <= plot.y1, text.get_text()


@pytest.mark.parametrize("name", FIGURES)
def test_all_text_is_inside_the_picture(pictures: dict[str, Picture], name: str) -> None:
    canvas = pictures[name].canvas
    canvas.canvas.draw()
    width, height = canvas.canvas.get_width_height()
    legend = canvas.legends[0].get_window_extent()
    head = [text.get_window_extent() for text in canvas.texts]
    for box in [*head, legend, *(axes.get_tightbbox() for axes in canvas.axes)]:
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width
        assert box.y1 <= height
    assert min(box.y0 for box in head) > max(axes.get_tightbbox().y1 for axes in canvas.axes)
    assert legend.y1 < min(axes.get_tightbbox().y0 for axes in canvas.axes)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_picture_is_saved_in_the_format_of_its_suffix(tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"6E.{suffix}"
    draw("6E").save(target)
    begins = {"png": PNG, "svg": b"<?xml", "pdf": b"%PDF"}[suffix]
    assert target.read_bytes().startswith(begins)


@pytest.mark.parametrize(
    ("name", "dropped"), [("watermark_heuristic", [9]), ("allowed_lateness", [9]), ("discarding", []), ("6H", [])]
)
def test_the_elements_shown_as_dropped_are_those_that_the_engine_counts(name: str, dropped: list[int]) -> None:
    panel_run = run(name)[0]
    assert [point.value for point in scene_of(panel_run).points if point.dropped] == dropped
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    _ = pipeline | panel_run.figure.script | panel_run.panel.windowing | "sums" >> dm.Sum.per_key()
    result = pipeline.run(until="drained")
    result.wait_until_finish()
    assert result.metrics()["sums"].get("dropped_because_late", 0) == len(dropped)


def test_an_element_behind_the_watermark_is_shown_as_late() -> None:
    assert [point.value for point in scene_of(run("6H")[0]).points if point.late] == [9]
    assert not [point for point in scene_of(run("watermark_perfect")[0]).points if point.late]


def test_a_pane_covers_the_area_from_the_previous_panes_to_its_emission() -> None:
    bands = scene_of(run("sessions")[0]).bands
    (merged,) = (band for band in bands if band.pane.value == 36)
    earlier = {band.pane.window: band for band in bands[: bands.index(merged)]}
    assert [box.bottom for box in merged.boxes[::2]] == [band.top for band in list(earlier.values())[::2]]
    assert all(box.top == merged.top for box in merged.boxes)
    assert (merged.boxes[0].left, merged.boxes[-1].right) == (merged.left, merged.right)


def test_a_retraction_covers_no_area_of_the_picture() -> None:
    for band in scene_of(run("6J")[0]).bands:
        assert bool(band.boxes) is not band.pane.is_retraction


def test_the_path_of_the_watermark_never_goes_left_or_down() -> None:
    for name in FIGURES:
        path = scene_of(run(name)[0]).watermark
        assert all(before[0] <= after[0] and before[1] <= after[1] for before, after in itertools.pairwise(path))


def test_a_picture_of_one_window_shows_that_window_only() -> None:
    scene = scene_of(run("table_1")[0])
    assert scene.frame.right - scene.frame.left < 3 * MINUTE
    assert [point.value for point in scene.points] == [7, 3, 4, 8]


def test_a_label_is_moved_if_that_costs_less_than_what_it_would_cover() -> None:
    taken = [Taken(Rectangle(0, 0, 2, 2))]
    assert position_of((2, 2), [(0, 0, 0), (3, 0, 1)], taken).x == 3
    assert position_of((2, 2), [(0, 0, 0), (3, 0, 9)], taken).x == 0


def test_a_users_figure_may_span_hours() -> None:
    script = TestStream().processing_time("2013-03-08T08:10Z").add(3, "2013-03-08T08:05Z", key="k")
    script = script.processing_time("2013-03-08T13:10Z").add(4, "2013-03-08T09:55Z", key="k")
    panel = Panel(dm.Window.into(dm.FixedWindows("1 hour")))
    axes = draw(Figure("mine", "", "Hours", "Two of them.", script, (panel,))).canvas.axes[0]
    assert len(axes.get_xticks()) < 20
    assert len(axes.get_yticks()) < 20
    assert {"3", "4"} == {text.get_text() for text in axes.texts}


def test_a_script_without_elements_has_no_picture() -> None:
    script = TestStream().watermark("2013-03-08T08:10Z")
    panel = Panel(dm.Window.into(dm.FixedWindows("1 hour")))
    with pytest.raises(dm.DataflowError, match="has no element"):
        draw(Figure("mine", "", "Nothing", "Nothing.", script, (panel,)))
