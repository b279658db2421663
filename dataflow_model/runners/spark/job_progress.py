"""How far Spark is with the jobs of one run: its stages, and how many of their tasks are done.

A session in this process can be asked about the jobs of a group. Spark Connect reports progress only to the thread that
waits for a result.
"""

from __future__ import annotations

import abc
import contextlib
import threading
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.display import Board, Count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from dataflow_model.plan.logical.stages import StagedPlan


@attrs.frozen
class StageTasks:
    """The tasks of one stage of Spark's.

    Attributes:
        tasks: how many it has.
        done, running: how many of them have finished, or run now.
        failed: how many attempts have failed; Spark repeats them.
    """

    tasks: int
    done: int
    running: int = 0
    failed: int = 0


class SparkJobs(abc.ABC):
    """The jobs that one thread starts while `followed`."""

    @abc.abstractmethod
    def followed(self) -> contextlib.AbstractContextManager[None]:
        """Follow the jobs that this thread starts in the block."""

    @abc.abstractmethod
    def stages(self) -> list[StageTasks]:
        """Return the stages that have begun, in order; none where Spark says nothing."""


def jobs_of(spark: SparkSession, name: str, description: str) -> SparkJobs:
    """Return the jobs of a run.

    Args:
        spark: the session.
        name: a name that no other run has.
        description: what Spark's own pages call the jobs.
    """
    if hasattr(spark, "sparkContext"):
        return _OwnJobs(spark, name, description)
    return _RemoteJobs(spark)


class _OwnJobs(SparkJobs):
    """Jobs of a session in this process: those in a group."""

    def __init__(self, spark: SparkSession, name: str, description: str) -> None:
        self._context = spark.sparkContext
        self._tracker = self._context.statusTracker()
        self._name = name
        self._description = description

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        self._context.setJobGroup(self._name, self._description)  # for this thread alone
        yield

    def stages(self) -> list[StageTasks]:
        jobs = (self._tracker.getJobInfo(job) for job in sorted(self._tracker.getJobIdsForGroup(self._name)))
        numbers = {number for job in jobs if job is not None for number in job.stageIds}
        infos = (self._tracker.getStageInfo(number) for number in sorted(numbers))
        return [
            StageTasks(info.numTasks, info.numCompletedTasks, info.numActiveTasks, info.numFailedTasks)
            for info in infos
            if info is not None and info.numCompletedTasks + info.numActiveTasks + info.numFailedTasks  # not skipped
        ]


class _RemoteJobs(SparkJobs):
    """Jobs through Spark Connect: those whose result the thread waits for."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._thread: int | None = None
        self._stages: dict[int, StageTasks] = {}

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        self._thread = threading.get_ident()
        handler: Any = self._note  # PySpark's annotation names a Connect class, but accepts any function
        self._spark.registerProgressHandler(handler)
        try:
            yield
        finally:
            self._spark.removeProgressHandler(handler)

    def stages(self) -> list[StageTasks]:
        return [tasks for _, tasks in sorted(self._stages.items())]

    def _note(
        self,
        stages: Iterable[Any] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,  # noqa: FBT001 - as Spark calls it
    ) -> None:
        """Store Spark's latest progress, unless another thread is already waiting for it."""
        del inflight_tasks, operation_id, done
        if threading.get_ident() == self._thread:
            self._stages |= {
                stage.stage_id: StageTasks(stage.num_tasks, stage.num_completed_tasks)
                for stage in stages or ()
                if stage.num_completed_tasks or not stage.done
            }


def board_of_job(staged: StagedPlan, stages: Sequence[StageTasks], caption: str) -> Board:
    """Return a line for each stage of the plan, with how far Spark is with it.

    Example:
        >>> import dataflow_model as dm
        >>> from dataflow_model.plan.logical.stages import cut_into_stages
        >>> p = dm.Pipeline()
        >>> _ = p | "rows" >> dm.Create([("UA", 4)]) | "sums" >> dm.Sum.per_key()
        >>> board_of_job(cut_into_stages(p.plan()), [StageTasks(16, 12, 2)], "running after 3 s")
                 stage  tasks  done  running  failed
        rows         0     16    12        2
        sums         1
        running after 3 s
    """
    labels = [[node.label for node in nodes] for nodes in (staged.sources, *staged.stages)]
    if any(read.source.as_dataframe is not None for read in staged.sources):
        labels = []  # a DataFrame has stages of its own, so those that have begun are all that is known
    rows: list[list[object]] = []
    for number in range(max(len(labels), len(stages))):
        names = ", ".join(labels[number]) if number < len(labels) else ""
        tasks = stages[number] if number < len(stages) else None
        counts = [] if tasks is None else [tasks.tasks, tasks.done, tasks.running, tasks.failed]
        rows.append(
            [names, number, *(Count(count) if count else None for count in counts), *[None] * (4 - len(counts))]
        )
    parts = [stage.done / stage.tasks for stage in stages if stage.tasks]
    done = min(sum(parts) / len(rows), 1.0) if rows else None
    return Board(["", "stage", "tasks", "done", "running", "failed"], rows, caption, done)
