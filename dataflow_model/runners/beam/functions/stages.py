"""Stages as functions on the columns of a bundle."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import attrs
from apache_beam.utils.windowed_value import create

from dataflow_model.errors import DataflowError
from dataflow_model.overriding import override
from dataflow_model.plan.functions.dofn import TaggedOutput
from dataflow_model.plan.functions.resuming import AwaitsCommit
from dataflow_model.plan.functions.windowed import BundleFn, ForeignFn, InputColumns, OutputColumns, WindowedOutput
from dataflow_model.runners.beam.functions import running
from dataflow_model.runners.beam.functions.harness import Operations, StageSpec, finalized_in, key_coder
from dataflow_model.runners.beam.functions.hooks import Uncommitted
from dataflow_model.runners.beam.functions.registered import Registered
from dataflow_model.runners.beam.functions.times import (
    GLOBAL_END,
    LEAST,
    Windows,
    beam_micros,
    beam_pane,
    our_pane,
    our_time,
)
from dataflow_model.runners.engine.functions.user_code import part_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from dataflow_model.values import PaneInfo, Window

SIDE: Final = "side_"
"""What the names of the arguments for side inputs begin with; the number of the side input follows."""
_OPENED: Final = ("hosted", "states")
"""The attributes of a function that belong to the process that runs it."""
_STEP: Final = re.compile(r" \[while running '(.*)'\]\Z", re.DOTALL)
"""What Beam adds to the message of an exception of a function: the name of its transform."""
_HINT: Final = (
    "fix the function; .with_exception_handling() of a Map, FlatMap, Filter or ParDo of Beam's sends elements that "
    "fail to a separate output"
)


@attrs.frozen
class StageRun:
    """The run of which a stage is a part.

    Attributes:
        id: its id, under which a result finds what is counted in this process.
        awaits_commits: whether a bundle is committed some time after its end.
    """

    id: str
    awaits_commits: bool = False


@attrs.define
class Output:
    """An output of a stage.

    Attributes:
        tag: its tag, which is the id of the collection.
        buffer: what Beam's operations have put out.
        windows: converts its windows.
    """

    tag: str
    buffer: list[Any]
    windows: Windows


class Hosted:
    """The operations of a stage, made in the process that runs them.

    Args:
        spec: the stage.
        run: the run.
        uncommitted: keeps what is to be called when a bundle is committed; `None` if its end commits it.
        states: creates what answers for state and timers.
    """

    def __init__(
        self,
        spec: StageSpec,
        run: StageRun,
        uncommitted: Uncommitted | None,
        states: Callable[[], Any] | None = None,
    ) -> None:
        self.operations = Operations(spec, states, uncommitted)
        running.add(run.id, spec.label, self.operations)
        coder = self.operations.input_coder
        self.windows = Windows(coder.window_coder)
        self.decode_key: Callable[[bytes], Any] = key_coder(coder.wrapped_value_coder).get_impl().decode
        self.outputs = [
            Output(pcoll, buffer, Windows(self.operations.output_coders[pcoll].window_coder))
            for pcoll, buffer in self.operations.buffers.items()
        ]

    def element(self, value: Any, time: int, windows: Sequence[Window], pane: PaneInfo) -> Any:
        """Return an element as Beam's."""
        return create(value, beam_micros(time), self.windows.to_beam(windows), beam_pane(pane))


@attrs.frozen
class in_stage:  # noqa: N801 - a context manager
    """Report exceptions of Beam's functions with the name of their transform; that of the stage is its first one's.

    Attributes:
        label: the label of the stage, which is reported if the transform is not known.
    """

    label: str

    def __enter__(self) -> None:
        """Enter the context."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the context."""
        if isinstance(error, Exception) and not isinstance(error, DataflowError):
            named = _STEP.search(str(error))
            raise part_error(error, self.label if named is None else named[1], hint=_HINT) from error


class OfStage(AwaitsCommit, ForeignFn):
    """What the functions of stages have in common.

    Args:
        spec: the stage.
        run: the run.
    """

    modules = ("apache_beam", "dataflow_model.runners.beam.lowering")

    def __init__(self, spec: StageSpec, run: StageRun) -> None:
        self.registered = Registered(run.id)
        self.spec, self.of_run = spec, run
        self.uncommitted = Uncommitted() if run.awaits_commits else None
        self.hosted: Hosted | None = None

    @override
    def take_uncommitted(self) -> Callable[[], None] | None:
        return None if self.uncommitted is None else self.uncommitted.take()

    def finalized(self) -> list[str]:
        """Return the names of the functions that ask to be called when a bundle is committed."""
        return finalized_in(self.spec)

    def opened(self) -> Hosted:
        """Return the operations, which are there within a bundle."""
        assert self.hosted is not None, "the bundle has begun"  # noqa: S101
        return self.hosted

    def title(self) -> str:
        """Return what explanations call it."""
        return "Beam's"

    def teardown(self) -> None:
        """Tear down the functions of the stage."""
        if self.hosted is not None:
            self.hosted.operations.tear_down()
            self.hosted = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels to other processes: not the operations."""
        return {name: value for name, value in vars(self).items() if name not in _OPENED} | {"hosted": None}


class StageFn(OfStage, BundleFn):
    """A stage without state."""

    def run(self, elements: InputColumns, sides: Sequence[Callable[[Window], Any]]) -> Mapping[str, OutputColumns]:
        """Return the outputs of the stage for the elements of a bundle."""
        with in_stage(self.spec.label):
            if self.hosted is None:
                self.hosted = Hosted(self.spec, self.of_run, self.uncommitted)
            hosted = self.hosted
            reader = hosted.operations.sides
            reader.look_ups = dict(zip(self.spec.sides, sides, strict=True))
            hosted.operations.begin()
            ends = self._receive_all(hosted, elements)
            hosted.operations.finish()
        last = len(elements.values) - 1
        outputs = {}
        for output, ends_of_output in zip(hosted.outputs, ends, strict=True):
            rows = rows_of(ends_of_output)
            rows += [last] * (len(output.buffer) - len(rows))  # what was put out at the end of the bundle
            outputs[output.tag] = _columns(output, rows)
            output.buffer.clear()
        return outputs

    @staticmethod
    def _receive_all(hosted: Hosted, elements: InputColumns) -> list[list[int]]:
        """Process all elements; return for each output the number of outputs after each element."""
        receive, reader, to_beam = hosted.operations.receive, hosted.operations.sides, hosted.windows.to_beam
        buffers = [output.buffer for output in hosted.outputs]
        ends: list[list[int]] = [[] for _ in buffers]
        with_ends = list(zip(buffers, ends, strict=True))
        known: Any = None
        pane_of_known: Any = None
        rows = zip(elements.values, elements.times, elements.windows, elements.panes, strict=True)
        for value, time, windows, pane in rows:
            if pane is not known:
                known, pane_of_known = pane, beam_pane(pane)
            reader.window = windows[0] if windows else None
            micros = time if LEAST <= time < GLOBAL_END else beam_micros(time)
            receive(create(value, micros, to_beam(windows), pane_of_known))
            for buffer, of_buffer in with_ends:
                of_buffer.append(len(buffer))
        return ends


class BundledStageFn(StageFn):
    """A stage with a function that works at the ends of bundles, or on batches: the elements of an instant are one."""

    def finish_bundle(self) -> None:
        """Do nothing: that the class defines it is what makes an instant a bundle."""


def rows_of(ends: Sequence[int]) -> list[int]:
    """Return for each output the row of its element, given the number of outputs after each element.

    Example:
        >>> rows_of([1, 1, 3])
        [0, 2, 2]
    """
    rows: list[int] = []
    before = 0
    for row, end in enumerate(ends):
        if end == before + 1:
            rows.append(row)
        elif end != before:
            rows.extend([row] * (end - before))
        before = end
    return rows


def _columns(output: Output, rows: list[int]) -> OutputColumns:
    buffer, from_beam = output.buffer, output.windows.from_beam
    return OutputColumns(
        [element.value for element in buffer],
        rows,
        our_times([element.timestamp_micros for element in buffer]),
        [from_beam(element.windows) for element in buffer],
        [our_pane(element.pane_info) for element in buffer],
    )


def our_times(micros: list[int]) -> list[int]:
    """Return event times of Beam's as ours."""
    if micros and (min(micros) <= LEAST or max(micros) >= GLOBAL_END):
        return list(map(our_time, micros))
    return micros


def tagged(outputs: Iterable[Output]) -> list[TaggedOutput]:
    """Return what was put out as the outputs of a stateful function, and empty the buffers."""
    results = []
    for output in outputs:
        results += [
            TaggedOutput(
                output.tag,
                WindowedOutput(
                    element.value,
                    our_time(element.timestamp_micros),
                    output.windows.from_beam(element.windows),
                    our_pane(element.pane_info),
                ),
            )
            for element in output.buffer
        ]
        output.buffer.clear()
    return results


def fixed(values: list[Any]) -> Callable[[Any], list[Any]]:
    """Return a function from any window to the elements of a side input, which the engine has looked up."""
    return lambda _: values
