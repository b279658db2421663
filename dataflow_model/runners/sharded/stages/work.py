"""The work of stage 0: what each task reads in a micro-batch, and how it is read."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import attrs
import numpy as np

from dataflow_model.runners.engine.sources.observing import Observations
from dataflow_model.runners.engine.sources.script_instants import STATIC_STEP
from dataflow_model.runners.sharded.feed.slices import FIRST, Slice
from dataflow_model.runners.sharded.stages.stage0 import read_script, read_slices, read_static
from dataflow_model.runners.sharded.tasks.rows import Kind, Row

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from dataflow_model.runners.engine.lanes.order import At
    from dataflow_model.runners.sharded.feed.offsets import Offset
    from dataflow_model.runners.sharded.feed.planning import Control, Feed
    from dataflow_model.runners.sharded.tasks.task import Task


@attrs.frozen
class Work:
    """The work of one task of stage 0.

    Attributes:
        control: the decisions for the micro-batch, which the leading task sends to every shard.
        leads: whether this is the leading task, which also reads static sources and scripts.
        parts: the row ranges to read.
        scripts: for each script in the micro-batch its label, its events `[first, last)` and their instants.
    """

    control: Control
    leads: bool
    parts: tuple[Slice, ...] = ()
    scripts: tuple[tuple[str, int, int, dict[int, At]], ...] = ()


def plan_work(feed: Feed, start: Offset, end: Offset) -> list[Work]:
    """Divide a micro-batch among the tasks that read it; the first one leads."""
    control = feed.control(start, end)
    if feed.scripts:
        return [Work(control, leads=True, scripts=tuple(feed.script_rows(start, end)))]
    shares = share_out(feed.slices(start, end), feed.parallelism) or [[]]
    return [Work(control, number == 0, tuple(parts)) for number, parts in enumerate(shares)]


def has_work(start: Offset, end: Offset, works: Sequence[Work], ended: Collection[str]) -> bool:
    """Return whether a micro-batch has anything to do apart from what the passage of time causes.

    Args:
        start: the offset at which it starts.
        end: the offset at which it ends.
        works: the work of its tasks.
        ended: the labels of the sources whose end has been processed before.
    """
    control = works[0].control
    return bool(
        end.listed != start.listed
        or control.begins
        or (control.last and not start.last)
        or (control.drains and not start.drains)
        or control.steps
        or control.signals
        or control.declared
        or control.finished
        or control.changes
        or not set(control.ended) <= set(ended)
        or any(work.parts for work in works)
    )


def read_work(task: Task, work: Work) -> Iterator[Row]:
    """Yield the rows of one task, packed by shard."""
    staged = task.program.staged
    if work.leads:
        yield from task.rows_for_followers(Kind.CONTROL, work.control)
        at = FIRST if work.control.steps is None else (0, STATIC_STEP)
        for read in staged.sources:
            elements = read.source.as_elements
            if elements is not None and read.label in work.control.begins:
                yield from read_static(task, read.label, work.control.wall or 0, at)
                yield from _counted(task, read.label, elements.row_count())
    for label, first, last, instants in work.scripts:
        yield from read_script(task, label, first, last, instants)
        script = staged.source(label).as_script
        assert script is not None  # noqa: S101 - the feed lists its events
        yield from _counted(task, label, script.count_elements(first, last))
    yield from read_slices(task, work.parts, work.control.wall)


def share_out(parts: Sequence[Slice], tasks: int) -> list[list[Slice]]:
    """Divide row ranges among at most `tasks` tasks; small files share a task, since starting one takes time.

    Example:
        >>> parts = [Slice("rows", name, 0, rows) for name, rows in (("a", 5), ("b", 9), ("c", 3), ("d", 2))]
        >>> [[part.origin for part in task_parts] for task_parts in share_out(parts, 2)]
        [['b'], ['a', 'c', 'd']]
    """
    loads: list[tuple[int, int, list[Slice]]] = [(0, number, []) for number in range(tasks)]
    for part in sorted(parts, key=_size, reverse=True):  # the largest first, each to the task with the least work
        load, number, task_parts = heapq.heappop(loads)
        heapq.heappush(loads, (load + _size(part), number, [*task_parts, part]))
    return [task_parts for _, _, task_parts in sorted(loads, key=_number) if task_parts]


def _counted(task: Task, source: str, count: int) -> Iterator[Row]:
    """Yield a row that reports the number of elements of a source without files."""
    none = np.empty(0, np.int64)
    yield from task.rows_for_followers(Kind.SEEN, (Observations(source, "", none), {"elements_out": count}))


def _size(part: Slice) -> int:
    return part.stop - part.start


def _number(load: tuple[int, int, list[Slice]]) -> int:
    return load[1]
