"""Draw a topology as SVG: boxes in layers from left to right, and a line for each stream from a port of its own.

Source: Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System Structures" (1981): layers,
placeholders where a line passes a layer, order by the mean of the neighbours.
"""

from __future__ import annotations

import html
import itertools
from typing import TYPE_CHECKING, Final, Self

import attrs

from dataflow_model.display import PrintedText
from dataflow_model.errors import InvalidArgument
from dataflow_model.transforms.drawing.boxes import Kind, mermaid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.transforms.drawing.boxes import Box, Line

# All in pixels.
_LETTER: Final = 7.4
_SMALL_LETTER: Final = 6.4
_HEIGHT: Final = 46.0
_LINE_HEIGHT: Final = 13.0
_PORT: Final = 22.0
_GAP: Final = 30.0
_BEND: Final = 56.0
_MARGIN: Final = 24.0
_TITLE: Final = 30.0
_SWEEPS: Final = 6

_FILLS: Final = {
    Kind.INJECTOR: ("#e8f1fb", "#3b78b5"),
    Kind.COMPUTATION: ("#fdf3e1", "#b5792a"),
    Kind.FUSED: ("#fbfaf7", "#b9b2a5"),
    Kind.SINK: ("#e9f5ea", "#3f8a4b"),
    Kind.NOBODY: ("#f4f4f4", "#9a9a9a"),
}
_INKS: Final = {
    Kind.INJECTOR: "#2c5c8c",
    Kind.COMPUTATION: "#85561a",
    Kind.FUSED: "#655f54",
    Kind.SINK: "#2f6939",
    Kind.NOBODY: "#5f5f5f",
}
"""Of the small texts in a box, dark enough to be read."""


@attrs.define(eq=False)
class _Spot:
    """A box, or a point at which a line passes through a layer."""

    box: Box | None = None
    layer: int = 0
    before: list[_Spot] = attrs.field(factory=list, repr=False)
    behind: list[_Spot] = attrs.field(factory=list, repr=False)
    ports: list[str] = attrs.field(factory=list)
    port_before: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        if self.box is None:
            return 0.0
        return max(96.0, len(self.box.label) * _LETTER + 28, *(len(line) * _SMALL_LETTER + 28 for line in self.details))

    @property
    def details(self) -> list[str]:
        """The lines under the label."""
        if self.box is None:
            return []
        return (self.box.detail or ("" if self.box.kind is Kind.NOBODY else self.box.kind.value)).splitlines()

    @property
    def height(self) -> float:
        if self.box is None:
            return 8.0
        return max(_HEIGHT, _PORT * len(self.ports) + 10, _HEIGHT + _LINE_HEIGHT * (len(self.details) - 1))

    def port(self, stream: str) -> float:
        """Return the height at which a stream leaves."""
        return self.y + (self.ports.index(stream) - (len(self.ports) - 1) / 2) * _PORT


class Drawing(PrintedText):
    """A graph whose text is Mermaid, and which a notebook shows as a picture.

    Attributes:
        svg: the picture as the text of an SVG file.
    """

    svg: str

    @classmethod
    def of(cls, name: str, boxes: Sequence[Box], lines: Sequence[Line]) -> Self:
        """Return the drawing of boxes and lines, with a title."""
        drawing = cls(mermaid(boxes, lines))
        drawing.svg = svg(name, boxes, lines) if boxes else ""
        return drawing

    def _repr_html_(self) -> str | None:
        return self.svg or None


def drawn(form: str, name: str, boxes: Sequence[Box], lines: Sequence[Line]) -> str:
    """Return boxes and lines as a `Drawing`, whose text is `"mermaid"`, or as the text of an `"svg"` picture.

    Raises:
        InvalidArgument: for another form.
    """
    drawing = Drawing.of(name, boxes, lines)
    match form:
        case "mermaid":
            return drawing
        case "svg":
            return drawing.svg
        case _:
            raise InvalidArgument(
                f"`form` must be 'mermaid' or 'svg', got {form!r}",
                hint="use form='mermaid' for text, form='svg' for a picture",
            )


def svg(name: str, boxes: Sequence[Box], lines: Sequence[Line]) -> str:
    """Return boxes and lines as the text of an SVG picture with a title."""
    spots = [_Spot(box) for box in boxes]
    for line in lines:
        if line.stream not in spots[line.start].ports:
            spots[line.start].ports.append(line.stream)
    _find_layers(spots, lines)
    routes = [_route(spots[line.start], spots[line.end], line.stream) for line in lines]
    layers = _ordered(spots, routes)
    width = _arrange(layers)
    height = _TITLE + max(sum(spot.height + _GAP for spot in layer) for layer in layers) + _MARGIN
    drawn = [_box(spot) for spot in spots]
    drawn += [_line(route, line.stream) for route, line in zip(routes, lines, strict=True)]
    drawn += [_name(spot, stream) for spot in spots for stream in spot.ports if stream]
    return "\n".join([*_head(name, width, height), *drawn, "</svg>"])


# Layout ---------------------------------------------------------------------------------------------------------------


def _find_layers(spots: Sequence[_Spot], lines: Sequence[Line]) -> None:
    """Put each box into the layer after the last of the boxes that feed it; there are no cycles."""
    for _ in spots:
        for line in lines:
            spots[line.end].layer = max(spots[line.end].layer, spots[line.start].layer + 1)


def _route(start: _Spot, end: _Spot, stream: str) -> list[_Spot]:
    """Return the spots that a line passes through, including both ends."""
    route = [start, *(_Spot(layer=layer) for layer in range(start.layer + 1, end.layer)), end]
    for left, right in itertools.pairwise(route):
        left.behind.append(right)
        right.before.append(left)
        right.port_before = start.ports.index(stream)
    return route


def _ordered(spots: Sequence[_Spot], routes: Sequence[list[_Spot]]) -> list[list[_Spot]]:
    """Return the layers, each in an order that keeps neighbours together."""
    every = list(dict.fromkeys((*spots, *(spot for route in routes for spot in route))))
    layers = [
        [spot for spot in every if spot.layer == number]
        for number in range(1 + max(near_spot.layer for near_spot in every))
    ]
    for sweep in range(_SWEEPS):
        height = {spot: number / len(layer) for layer in layers for number, spot in enumerate(layer)}
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            ranks: dict[_Spot, tuple[float, int]] = {}
            for spot in layer:
                near = spot.before if sweep % 2 == 0 else spot.behind
                mean = sum(height[near_spot] for near_spot in near) / len(near) if near else height[spot]
                ranks[spot] = mean, spot.port_before
            layer.sort(key=ranks.__getitem__)
            height.update({spot: number / len(layer) for number, spot in enumerate(layer)})
    return layers


def _arrange(layers: Sequence[list[_Spot]]) -> float:
    """Set the position of each spot; return the total width."""
    tallest = max(sum(spot.height + _GAP for spot in layer) for layer in layers)
    x = _MARGIN
    for layer in layers:
        wide = max(spot.width for spot in layer)
        y = _TITLE + (tallest - sum(spot.height + _GAP for spot in layer)) / 2
        for spot in layer:
            spot.x = x + wide / 2
            spot.y = y + (spot.height + _GAP) / 2
            y += spot.height + _GAP
        names = [len(stream) * _SMALL_LETTER for spot in layer for stream in spot.ports]
        x += wide + max(names, default=0.0) + _BEND
    return x - _BEND + _MARGIN


# Drawing --------------------------------------------------------------------------------------------------------------


def _head(name: str, width: float, height: float) -> list[str]:
    return [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="Helvetica, Arial, sans-serif" role="img">'
        ),
        f"<title>{_escaped(name)}</title>",
        (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0,0 L8,4 L0,8 z" fill="#666"/></marker></defs>'
        ),
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="{_MARGIN:.0f}" y="22" font-size="14" font-weight="bold" fill="#333">{_escaped(name)}</text>',
    ]


def _box(spot: _Spot) -> str:
    assert spot.box is not None  # noqa: S101 - only lines pass layers without one
    fill, edge = _FILLS[spot.box.kind]
    left, top = spot.x - spot.width / 2, spot.y - spot.height / 2
    dash = ' stroke-dasharray="4 3"' if spot.box.kind is Kind.NOBODY else ""
    lower = spot.y + 5 - _LINE_HEIGHT * len(spot.details) / 2
    details = (
        f'<text x="{spot.x:.1f}" y="{lower + 2 + _LINE_HEIGHT * number:.1f}" font-size="10" text-anchor="middle" '
        f'fill="{_INKS[spot.box.kind]}">{_escaped(line)}</text>'
        for number, line in enumerate(spot.details, 1)
    )
    parts = [
        (
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{spot.width:.1f}" height="{spot.height:.1f}" rx="7" '
            f'fill="{fill}" stroke="{edge}" stroke-width="1.4"{dash}/>'
        ),
        (
            f'<text x="{spot.x:.1f}" y="{lower:.1f}" font-size="13" text-anchor="middle" fill="#222">'
            f"{_escaped(spot.box.label)}</text>"
        ),
        *details,
    ]
    return "".join(parts)


def _line(route: Sequence[_Spot], stream: str) -> str:
    """Draw a line that starts horizontally, under its name, and bends towards its end."""
    start, end = route[0], route[-1]
    y = start.port(stream)
    x = start.x + start.width / 2
    path = [f"M{x:.1f},{y:.1f}"]
    x += len(stream) * _SMALL_LETTER + 6
    path.append(f"L{x:.1f},{y:.1f}")
    arrivals = sorted(end.before, key=lambda spot: spot.y)
    last = end.y + (arrivals.index(route[-2]) - (len(arrivals) - 1) / 2) * min(14.0, end.height / (len(arrivals) + 1))
    for spot in route[1:]:
        to_x, to_y = (spot.x, spot.y) if spot is not end else (end.x - end.width / 2 - 2, last)
        half = (x + to_x) / 2
        path.append(f"C{half:.1f},{y:.1f} {half:.1f},{to_y:.1f} {to_x:.1f},{to_y:.1f}")
        x, y = to_x, to_y
    return f'<path d="{" ".join(path)}" fill="none" stroke="#666" stroke-width="1.3" marker-end="url(#tip)"/>'


def _name(spot: _Spot, stream: str) -> str:
    x, y = spot.x + spot.width / 2 + 6, spot.port(stream) - 5
    text = f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" font-style="italic" '
    halo = f'{text}stroke="#ffffff" stroke-width="3" fill="#ffffff">{_escaped(stream)}</text>'
    return f'{halo}{text}fill="#444">{_escaped(stream)}</text>'


def _escaped(text: str) -> str:
    # `xml.sax.saxutils.escape` does the same, but imports an HTTP client: a tenth of the package's import time.
    return html.escape(text, quote=False)
