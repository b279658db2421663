"""Drawings of pipelines: every transform is in them, with its stage."""

from __future__ import annotations

import pickle
from xml.etree import ElementTree

import pytest

import dataflow_model as dm
from dataflow_model.demo import flights_file
from dataflow_model.errors import InvalidArgument
from dataflow_model.plan.rewrites.explain import explain
from dataflow_model.testing import TestStream


def departures() -> dm.Pipeline:
    p = dm.Pipeline()
    good, bad = p | "departures" >> dm.Create(["UA"]) | "parse" >> dm.Map(str.lower).with_exception_handling()
    names = p | "names" >> dm.Create([("ua", "United")])
    counts = good | dm.Count.per_element()
    _ = counts | "name" >> dm.Map(lambda pair, known: known[pair[0]], dm.AsDict(names)) | "named" >> dm.io.Collect()
    _ = bad | "bad" >> dm.io.Collect()
    return p


def test_the_drawing_shows_stages_fused_transforms_tags_and_side_inputs() -> None:
    text = departures().draw()
    assert text.startswith("flowchart LR\n")
    for words in (
        '[("departures<br/>stage 0, source")]',
        '("parse<br/>fused into stage 0")',
        "<br/>stage 1",
        '("name<br/>fused into stage 1")',
        '[/"named<br/>sink"/]',
        '-- "side input" -->',
        '-- "dead_letters" -->',
    ):
        assert words in text


def test_a_function_whose_side_input_changes_runs_in_the_stage_after_it() -> None:
    p = dm.Pipeline()
    rates = (
        p | "rates" >> TestStream.parse(["e 1@12:00:00", "w +inf"], day="2000-01-01") | "latest" >> dm.Latest.globally()
    )
    prices = p | "prices" >> dm.Create([10])
    priced = prices | "price" >> dm.Map(lambda price, rates: (price, sum(rates)), dm.AsIter(rates))
    _ = priced | "sums" >> dm.Sum.per_key() | "collected" >> dm.io.Collect()
    stages = [line.strip().partition(":")[0] for line in explain(p.plan()).splitlines()]
    assert [name for name in stages if name in {"stage 1", "stage 2", "stage 3", "price", "sums"}] == [
        *("stage 1", "stage 2", "price", "stage 3", "sums")
    ]
    text = p.draw()
    assert "price<br/>stage 2" in text
    assert "sums<br/>stage 3" in text


def test_a_combiner_that_runs_before_the_shuffle_is_drawn_as_lifted() -> None:
    p = dm.Pipeline()
    rows = p | dm.io.ReadParquet(flights_file(), event_time="scheduled_departure")
    pairs = rows | dm.WithKeys("carrier", value="flight") | dm.Window.into(dm.FixedWindows("1 hour"))
    _ = pairs | "sums" >> dm.Sum.per_key() | dm.io.Collect()
    assert "(lifted)" in explain(p.plan())
    assert '"sums<br/>stage 1, lifted<br/>' in p.draw()


def hourly() -> dm.Pipeline:
    p = dm.Pipeline()
    trigger = dm.AfterWatermark(early=dm.AfterProcessingTime("30 minutes"), late=dm.AfterCount(1))
    windowing = dm.Window.into(dm.FixedWindows("1 hour")).trigger(trigger).allowed_lateness("1 day").accumulating()
    _ = p | dm.Create([("UA", 1)]) | "hours" >> windowing | "sums" >> dm.Sum.per_key()
    return p


def test_the_box_of_a_grouping_shows_where_when_and_how() -> None:
    drawing = hourly().draw()
    assert "n1(\"hours<br/>fused into stage 0<br/>FixedWindows('1 hour')\")" in drawing
    (box,) = (line for line in drawing.splitlines() if "sums" in line)
    assert "<br/>where: FixedWindows('1 hour')<br/>when: early: every 30 minutes" in box
    assert box.endswith('<br/>late: at each element, for 1 day<br/>how: accumulating"]')
    assert max(map(len, box.split("<br/>"))) <= 50


def test_default_settings_are_not_drawn() -> None:
    p = dm.Pipeline()
    _ = p | dm.Create([("UA", 1)]) | "sums" >> dm.Sum.per_key()
    assert '["sums<br/>stage 1"]' in p.draw()


def test_a_drawing_is_a_picture_in_a_notebook_and_its_text_is_mermaid() -> None:
    drawing = hourly().draw()
    assert repr(drawing) == str(drawing) == f"{drawing}"
    assert drawing._repr_html_() == drawing.svg == hourly().draw("svg")
    assert pickle.loads(pickle.dumps(drawing)).svg == drawing.svg
    assert dm.Pipeline().draw()._repr_html_() is None


def test_the_texts_of_a_box_lie_within_it() -> None:
    root = ElementTree.fromstring(hourly().draw().svg)  # noqa: S314 - our own
    name = "{http://www.w3.org/2000/svg}"
    boxes = [
        (float(box.attrib["y"]), float(box.attrib["y"]) + float(box.attrib["height"]))
        for box in root.iter(f"{name}rect")
        if "y" in box.attrib
    ]
    texts = [text for text in root.iter(f"{name}text") if text.get("text-anchor") == "middle"]
    assert len(texts) == 14
    for text in texts:
        y = float(text.attrib["y"])
        assert any(top + 10 <= y <= bottom - 4 for top, bottom in boxes), text.text


def test_the_repr_of_an_explanation_is_its_text() -> None:
    p = hourly()
    assert repr(p.explain()) == str(p.explain()) == explain(p.plan())


def test_the_picture_holds_every_label_and_a_notebook_shows_it() -> None:
    p = departures()
    picture = p._repr_html_()
    assert picture == p.draw("svg")
    texts = {element.text for element in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")}  # noqa: S314 - our own
    assert {node.label for node in p.plan().nodes} <= texts
    assert "fused into stage 0" in texts


def test_an_empty_pipeline_is_drawn_as_empty() -> None:
    assert dm.Pipeline()._repr_html_() == "an empty pipeline"


def test_an_unknown_form_of_drawing_is_rejected() -> None:
    with pytest.raises(InvalidArgument, match="`form` must be 'mermaid' or 'svg', got 'png'"):
        dm.Pipeline().draw("png")
