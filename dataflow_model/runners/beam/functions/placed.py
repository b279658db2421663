"""Elements of a script that are in windows already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.overriding import override
from dataflow_model.plan.functions.windowed import BundleFn, InputColumns, OutputColumns
from dataflow_model.plan.logical.nodes import MAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dataflow_model.values import PaneInfo, Window


@attrs.frozen
class Placed:
    """An element with its windows and its pane.

    Attributes:
        value: the element.
        windows: its windows, which may be foreign to the window function of its collection.
        pane: its pane.
    """

    value: Any
    windows: tuple[Window, ...]
    pane: PaneInfo


class PlaceFn(BundleFn):
    """Puts each placed element into its windows; others stay where they are."""

    def title(self) -> str:
        """Return what explanations call it."""
        return "Beam's"

    @override
    def run(self, elements: InputColumns, sides: Sequence[Callable[[Window], Any]]) -> Mapping[str, OutputColumns]:
        """Return the elements of a bundle in their windows."""
        rows = zip(elements.values, elements.windows, elements.panes, strict=True)
        placed = [value if isinstance(value, Placed) else Placed(value, windows, pane) for value, windows, pane in rows]
        outputs = OutputColumns(
            [each.value for each in placed],
            list(range(len(placed))),
            elements.times,
            [each.windows for each in placed],
            [each.pane for each in placed],
        )
        return {MAIN: outputs}
