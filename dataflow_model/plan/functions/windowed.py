"""Functions whose outputs have event times, windows and panes of their own, as those of another SDK's pipelines do.

They are inside the engine: users' functions emit into the windows of their input.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from dataflow_model.plan.functions.dofn import DoFn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dataflow_model.values import PaneInfo, Window


class ForeignFn:
    """A function of another SDK, which takes long to import.

    Attributes:
        modules: the names of the modules that a process imports before it forks those that run the function.
        needs_clock: whether it waits for processing time to pass, so that a run without a clock is rejected.
    """

    modules: ClassVar[tuple[str, ...]] = ()
    needs_clock = False


@attrs.frozen
class WindowedOutput:
    """An output of a stateful function with an event time, windows and a pane of its own.

    Nothing checks its event time: an output behind the watermark is late where it arrives.

    Attributes:
        value: the output.
        time: its event time, in microseconds.
        windows: its windows.
        pane: its pane.
    """

    value: Any
    time: int
    windows: tuple[Window, ...]
    pane: PaneInfo


@attrs.frozen
class InputColumns:
    """The elements of a bundle, column by column.

    Attributes:
        values: the elements.
        times: their event times, in microseconds.
        windows: the windows of each; a single one if the function has side inputs.
        panes: the pane of each.
    """

    values: Sequence[Any]
    times: Sequence[int]
    windows: Sequence[tuple[Window, ...]]
    panes: Sequence[PaneInfo]


@attrs.frozen
class OutputColumns:
    """The outputs of a function for a bundle, column by column.

    Attributes:
        values: the outputs.
        rows: for each output, the row of the element that it was made from; ascending.
        times: their event times, in microseconds; nothing checks them: see `WindowedOutput`.
        windows: the windows of each.
        panes: the pane of each.
    """

    values: Sequence[Any]
    rows: Sequence[int]
    times: Sequence[int]
    windows: Sequence[tuple[Window, ...]]
    panes: Sequence[PaneInfo]


class BundleFn(DoFn):
    """A function over the elements of a bundle, in columns, whose outputs have windows of their own.

    Which elements are a bundle is up to the runner, unless the class overrides `start_bundle` or `finish_bundle`: then
    the elements of one instant are. Neither is called, since `run` sees the whole bundle.
    """

    @abc.abstractmethod
    def run(self, elements: InputColumns, sides: Sequence[Callable[[Window], Any]]) -> Mapping[str, OutputColumns]:
        """Return the outputs by tag; a tag without outputs may be missing.

        Args:
            elements: the elements of the bundle, of which there is at least one.
            sides: for each side input, a function from the window of an element to the value.
        """
