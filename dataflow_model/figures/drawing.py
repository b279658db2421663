"""`draw`: run a figure and draw its panes."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidArgument, explain
from dataflow_model.figures.figure import Figure
from dataflow_model.figures.running import PanelRun, run

if TYPE_CHECKING:
    from collections.abc import Sequence

_COLOURS: Final = 192
"""Enough colours for a picture; with the full palette the file is more than twice as large."""


@attrs.frozen(eq=False, repr=False)
class Picture:
    """A drawn figure, which a notebook displays.

    Attributes:
        runs: the panels and their panes.
        canvas: matplotlib's figure.
    """

    runs: tuple[PanelRun, ...]
    canvas: Any

    def png(self) -> bytes:
        """Return the picture as a PNG file."""
        from PIL import Image  # a dependency of matplotlib

        drawn, packed = io.BytesIO(), io.BytesIO()
        self.canvas.savefig(drawn, format="png", facecolor="white")
        image = Image.open(drawn).convert("RGB")
        image.quantize(_COLOURS, dither=Image.Dither.NONE).save(packed, format="png", optimize=True)
        return packed.getvalue()

    def save(self, path: str | Path) -> None:
        """Write the picture to a file; the suffix of its name determines the format: `.png`, `.svg`, `.pdf`.

        Raises:
            InvalidArgument: for a name without a suffix.
        """
        target = Path(path)
        if not target.suffix:  # Matplotlib would write to another file, with a suffix
            raise InvalidArgument(f"the name of a picture needs a suffix, got {str(target)!r}", hint="add '.png'")
        if target.suffix.lower() == ".png":
            target.write_bytes(self.png())
        else:
            self.canvas.savefig(target, facecolor="white")

    def _repr_png_(self) -> bytes:
        return self.png()

    def __repr__(self) -> str:
        return f"<picture of {self.runs[0].figure.name}>"


def draw(figure: Figure | str | Sequence[PanelRun]) -> Picture:
    """Run a figure on `LocalRunner` and draw it: event time across, processing time up.

    Args:
        figure: a figure, its name, or the result of `run`.

    Raises:
        InvalidArgument: for an unknown name.
        ModuleNotFoundError: if matplotlib is not installed.

    Example:
        >>> picture = draw("6J")
        >>> picture.png()[1:4]
        b'PNG'
        >>> [pane.value for pane in picture.runs[0].panes if pane.is_retraction]
        [7, 10, 5, 25, 3]
    """
    runs = tuple(run(figure) if isinstance(figure, Figure | str) else figure)
    if importlib.util.find_spec("matplotlib") is None:
        raise ModuleNotFoundError(
            explain(
                "a picture needs matplotlib, which is not installed", hint="run pip install 'dataflow-model[plot]'"
            ),
            name="matplotlib",
        )
    from dataflow_model.figures.picture import paint

    return Picture(runs, paint(runs))
