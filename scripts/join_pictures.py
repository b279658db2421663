"""The pictures of docs/joins.md: which elements each form of join brings together, on a line of event time.

`python -m scripts.join_pictures` runs the page and draws the results of its examples into `docs/joins/`.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PAGE: Final = Path(__file__).resolve().parent.parent / "docs/joins.md"
_BLOCK: Final = re.compile(r"^```python\n(?P<code>.*?)^```$", flags=re.MULTILINE | re.DOTALL)
_MINUTE: Final = 60_000_000
_WIDTH, _LEFT, _RIGHT = 720, 110, 40
_SIZE, _FONT = f'width="{_WIDTH}" height="236"', "DejaVu Sans, Helvetica, Arial, sans-serif"
_TOP, _BOTTOM, _AXIS = 52, 148, 206
"""The lanes of the left and the right side, and the axis, in pixels."""
_RADIUS: Final = 17
_LEFT_FILL, _RIGHT_FILL, _INK, _LINK, _AREA, _GRID = "#e8f1fb", "#fdf3e1", "#1d2b3a", "#3f8a4b", "#e9f5ea", "#c9d1d9"


@attrs.frozen
class Dot:
    """An element: its event time in minutes of the day, its value, and its key if there are several."""

    minute: float
    value: Any
    key: str = ""


@attrs.frozen
class Scene:
    """What a picture shows.

    Attributes:
        lanes: the names of both sides.
        first: the first minute of the axis.
        last: the last one.
        lefts: the elements of the left side.
        rights: those of the right side.
        links: the minutes of a left element and its partner.
        areas: from which minute to which something is in reach, and on which lane; without one, on both.
    """

    lanes: tuple[str, str]
    first: int
    last: int
    lefts: Sequence[Dot]
    rights: Sequence[Dot] = ()
    links: Sequence[tuple[float, float]] = ()
    areas: Sequence[tuple[float, float, int | None]] = ()

    def x(self, minute: float) -> float:
        """Return where a minute is on the axis."""
        return _LEFT + (minute - self.first) / (self.last - self.first) * (_WIDTH - _LEFT - _RIGHT)


def drawn(scene: Scene) -> str:
    """Return the picture of a scene as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} 236" {_SIZE} font-family="{_FONT}">',
        f'<rect {_SIZE} rx="6" fill="white"/>',
        *_areas(scene),
        *_axis(scene),
    ]
    for lane, y in zip(scene.lanes, (_TOP, _BOTTOM), strict=True):
        parts.append(_text(14, y + 5, lane, 14, "start", weight="bold"))
    for left, right in scene.links:
        parts.append(
            f'<line x1="{scene.x(left):.1f}" y1="{_TOP + _RADIUS}" x2="{scene.x(right):.1f}" y2="{_BOTTOM - _RADIUS}" '
            f'stroke="{_LINK}" stroke-width="2.5"/>'
        )
    for dots, y, fill in ((scene.lefts, _TOP, _LEFT_FILL), (scene.rights, _BOTTOM, _RIGHT_FILL)):
        parts += [_dot(scene.x(dot.minute), y, dot, fill) for dot in dots]
    return "\n".join([*parts, "</svg>", ""])


def _areas(scene: Scene) -> Iterable[str]:
    for start, end, lane in scene.areas:
        x = max(scene.x(start), _LEFT)
        width = min(scene.x(end), _WIDTH - _RIGHT) - x
        top, height = (18, 172) if lane is None else ((_TOP, _BOTTOM)[lane] - 24, 48)
        yield (
            f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{height}" rx="4" fill="{_AREA}" '
            f'fill-opacity="0.75" stroke="{_LINK}" stroke-opacity="0.5"/>'
        )


def _axis(scene: Scene) -> Iterable[str]:
    yield f'<line x1="{_LEFT}" y1="{_AXIS}" x2="{_WIDTH - _RIGHT}" y2="{_AXIS}" stroke="{_INK}"/>'
    for minute in range(scene.first, scene.last + 1, 10):
        x = scene.x(minute)
        yield f'<line x1="{x:.1f}" y1="18" x2="{x:.1f}" y2="{_AXIS + 4}" stroke="{_GRID}" stroke-dasharray="2 4"/>'
        yield _text(x, _AXIS + 19, f"{minute // 60:02}:{minute % 60:02}", 12, "middle")
    yield _text(14, _AXIS + 5, "event time", 12, "start")


def _dot(x: float, y: float, dot: Dot, fill: str) -> str:
    label = str(dot.value)
    y_of_key = y - _RADIUS - 5 if y == _TOP else y + _RADIUS + 13
    half = max(_RADIUS, 4.3 * len(label) + 7)
    pill = (
        f'<rect x="{x - half:.1f}" y="{y - _RADIUS}" width="{2 * half:.1f}" height="{2 * _RADIUS}" rx="{_RADIUS}" '
        f'fill="{fill}" stroke="{_INK}"/>'
    )
    return pill + _text(x, y + 5, label, 13, "middle") + _text(x, y_of_key, dot.key, 11, "middle")


def _text(x: float, y: float, text: str, size: int, anchor: str, *, weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{_INK}">{html.escape(text)}</text>'
    )


def scenes(names: Mapping[str, Any]) -> dict[str, Scene]:
    """Return the scene of each form, from what the page has computed.

    Args:
        names: what the blocks of the page have defined.
    """
    orders, prices, ordered, paid = (_dots(names[name]) for name in ("orders", "prices", "ordered", "paid"))
    sold, payments = ("orders", "payments"), _pairs(ordered, paid, [pair for _, pair in names["after"]])
    [hour] = {int(order.minute) // 60 * 60 for order in orders}
    mean = [Dot(hour + 38, f"mean {value}") for value in {value for _, value in names["by_hour"]}]
    now = [Dot(hour + 50, f"service, now: {value}") for value in set(names["answers"])]
    ends = [*(price.minute for price in prices[1:]), hour + 60]
    return {
        "as_of": Scene(
            ("orders", "prices"),
            hour,
            hour + 60,
            orders,
            prices,
            _pairs(orders, prices, [pair for _, pair in names["priced"]]),
            [(price.minute, end, 1) for price, end in zip(prices, ends, strict=True)],
        ),
        "interval": Scene(
            sold, 770, 810, ordered, paid, payments, [(order.minute, order.minute + 15, 0) for order in ordered]
        ),
        "window": Scene(
            sold,
            770,
            810,
            ordered,
            paid,
            _pairs(ordered, paid, [pair for _, pair, _ in names["in_sessions"]]),
            [(_minute(window.start), _minute(window.end), None) for _, _, window in names["in_sessions"]],
        ),
        "side_input": Scene(
            ("orders", "prices"),
            hour,
            hour + 60,
            orders,
            [*prices, *mean],
            [(order.minute, mean[0].minute) for order in orders],
            [(hour, hour + 60, None)],
        ),
        "look_up": Scene(
            ("orders", "service"), hour, hour + 60, orders, now, [(order.minute, now[0].minute) for order in orders]
        ),
    }


def _dots(elements: Iterable[Any]) -> list[Dot]:
    pairs = [(_minute(element.event_time), *element.value) for element in elements]
    has_keys = len({key for _, key, _ in pairs}) > 1
    return [Dot(minute, value, key if has_keys else "") for minute, key, value in pairs]


def _minute(instant: int) -> float:
    return int(instant) / _MINUTE % (24 * 60)


def _pairs(lefts: Iterable[Dot], rights: Iterable[Dot], pairs: Iterable[tuple[Any, Any]]) -> list[tuple[float, float]]:
    left_of, right_of = ({dot.value: dot.minute for dot in dots} for dots in (lefts, rights))
    return [(left_of[left], right_of[right]) for left, right in pairs if left is not None and right is not None]


def pictures() -> dict[Path, str]:
    """Return the content of each picture, after the page has run."""
    names: dict[str, Any] = {"__name__": "joins"}
    for block in _BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        exec(compile(block["code"], str(PAGE), "exec", dont_inherit=True), names)  # noqa: S102 - the page's own code
    return {PAGE.with_suffix("") / f"{form}.svg": drawn(scene) for form, scene in scenes(names).items()}


def main() -> None:
    """Write the pictures."""
    for path, content in pictures().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
