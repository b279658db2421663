"""A figure: a script, and where, when and how its elements are summed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from dataflow_model.time import duration_text

if TYPE_CHECKING:
    from dataflow_model.testing import TestStream
    from dataflow_model.time import Duration
    from dataflow_model.transforms import WindowInto
    from dataflow_model.values import IntervalWindow


@attrs.frozen(eq=False)
class Panel:
    """One plot: a windowing over the figure's script.

    Attributes:
        windowing: where, when and how.
        title: what distinguishes it from the other panels of the figure, if there are several.
        rounds: the length of a round, if the panel is run by what the papers call a micro-batch engine.
    """

    windowing: WindowInto
    title: str = ""
    rounds: Duration | None = None

    def words(self) -> list[str]:
        """Return the answers to where, when and how in words.

        Example:
            >>> import dataflow_model as dm
            >>> panel = Panel(dm.Window.into(dm.FixedWindows("2 minutes")), rounds=dm.duration("1 minute"))
            >>> panel.words()[1:]
            ['when: at the end of each round of 1 minute', 'how: accumulating']
        """
        strategy = self.windowing.strategy
        if self.rounds is not None:
            when, how = f"at the end of each round of {duration_text(self.rounds)}", "accumulating"
        else:
            when = strategy.trigger.describe()
            how = "accumulating" if strategy.accumulates else "discarding"
            how += " and retracting" if strategy.retracting else ""
        return [f"where: {strategy.window_fn!r}", f"when: {when}", f"how: {how}"]


@attrs.frozen(eq=False, repr=False)
class Figure:
    """An example of the paper or of the book, as something to run.

    Attributes:
        name: the name by which it is looked up, such as `6J` or `discarding`.
        source: the paper or the book.
        title: its caption there, or its content in a few words.
        says: an explanation of the picture.
        script: the input.
        panels: the plots; most figures have one.
        focus: the window that the figure shows, if it shows only one.
        bounded: whether the data are bounded, so that a batch engine emits the same panes.
        number: its number in the source, such as `14` or `2-10 left`; empty if it has none.
    """

    name: str
    source: str
    title: str
    says: str
    script: TestStream
    panels: tuple[Panel, ...]
    focus: IntervalWindow | None = None
    bounded: bool = False
    number: str = ""

    def __repr__(self) -> str:
        return f"<{self.name}, {self.heading}>" if self.number else f"<{self.heading}>"

    @property
    def heading(self) -> str:
        """The heading of the figure: its number, or its name if it has none, and its title.

        Example:
            >>> from dataflow_model.figures import find
            >>> find("6J").heading
            'Figure 14: Sessions, Retracting'
        """
        return f"Figure {self.number}: {self.title}" if self.number else f"{self.name}: {self.title}"
