"""Drawings of topologies: all parts and streams are in them, and nothing lies over another."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree

import dataflow_model as dm

SVG = "{http://www.w3.org/2000/svg}"


class Idle(dm.Computation):
    def process_record(self, record: dm.StreamRecord) -> None: ...


def zeitgeist() -> dm.Topology:
    topology = dm.Topology("spikes & dips")
    topology.inject("queries", dm.Create(["tea"]))
    topology.inject("queries", dm.Create(["tea"]), label="second centre")
    topology.add(Idle(), label="Counter", subscribe={"queries": str}, produces=["counts", "late"])
    topology.add(Idle(), label="Model", subscribe={"counts": None}, produces=["models"])
    topology.add(Idle(), label='"Spikes" <and> dips', subscribe={"counts": None, "models": None}, produces=["found"])
    topology.sink("found", dm.io.Collect())
    return topology


def parsed(topology: dm.Topology) -> ElementTree.Element:
    return ElementTree.fromstring(topology.draw("svg"))  # noqa: S314 - our own


def test_mermaid_text_has_a_node_for_each_part_and_an_arrow_for_each_stream() -> None:
    assert zeitgeist().draw() == (
        "flowchart LR\n"
        '  n0[("Inject.queries")]\n'
        '  n1[("second centre")]\n'
        '  n2["Counter"]\n'
        '  n3["Model"]\n'
        '  n4["#quot;Spikes#quot; #lt;and#gt; dips"]\n'
        '  n5[/"found"/]\n'
        '  n6(["not taken"])\n'
        '  n0 -- "queries" --> n2\n'
        '  n1 -- "queries" --> n2\n'
        '  n2 -- "counts" --> n3\n'
        '  n2 -- "counts" --> n4\n'
        '  n2 -- "late" --> n6\n'
        '  n3 -- "models" --> n4\n'
        '  n4 -- "found" --> n5'
    )


def test_a_picture_is_well_formed_and_contains_the_names_of_all_parts() -> None:
    picture = parsed(zeitgeist())
    texts = {text.text for text in picture.iter(f"{SVG}text")}
    parts = {"Inject.queries", "second centre", "Counter", "Model", '"Spikes" <and> dips', "found", "not taken"}
    assert texts == {"spikes & dips", *parts, "queries", "counts", "late", "models", "injector", "computation", "sink"}
    assert len([path for path in picture.iter(f"{SVG}path") if "marker-end" in path.attrib]) == 7


def test_the_boxes_of_a_picture_neither_overlap_nor_leave_it() -> None:
    picture = parsed(zeitgeist())
    whole, *boxes = picture.iter(f"{SVG}rect")
    assert whole.attrib["width"] == "100%"
    assert len(boxes) == 7
    places = [[float(box.attrib[name]) for name in ("x", "y", "width", "height")] for box in boxes]
    for x, y, width, height in places:
        assert 0 <= x <= float(picture.attrib["width"]) - width
        assert 0 <= y <= float(picture.attrib["height"]) - height
    for (x, y, width, height), (a, b, wide, high) in itertools.combinations(places, 2):
        assert x + width <= a or a + wide <= x or y + height <= b or b + high <= y


def test_a_drawing_is_the_same_each_time() -> None:
    assert zeitgeist().draw("svg") == zeitgeist().draw("svg")
