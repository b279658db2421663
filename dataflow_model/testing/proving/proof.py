"""`prove`: check the laws of the model on your own pipeline, and find the smallest input that breaks one."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dataflow_model.errors import LOG, InvalidArgument, InvalidType, explain
from dataflow_model.plan.logical.runner import check_runner, unobserved
from dataflow_model.runners.local import LocalRunner
from dataflow_model.testing.proving import laws
from dataflow_model.testing.proving.arrivals import (
    Case,
    Grounds,
    all_at_once,
    cases_of,
    elements_of,
    recut,
    script_text,
)
from dataflow_model.testing.proving.drawing import Broken, require_hypothesis, smallest_broken
from dataflow_model.testing.proving.micro_batches import MicroBatches, MicroBatchRunner, Schedule, can_stream
from dataflow_model.testing.proving.proof_runs import Observed, Subject, groupings_of, nearest_groupings, reducing_early
from dataflow_model.testing.proving.runner_proof import RESTART, RUNNERS, differing_on
from dataflow_model.testing.streams import TestStream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.runner import Runner
    from dataflow_model.time import EventTime

RunT = TypeVar("RunT")

RUNS: Final = "running on every input"
DETERMINISM: Final = "determinism"
SHARDING: Final = "law 4, sharding"

_EXAMPLES: Final = 100
_REPETITIONS: Final = 20
_ROWS_SHOWN: Final = 30

_HINTS: Final = {
    RUNS: "the pipeline must accept every element, in any order",
    DETERMINISM: "no function may depend on the wall clock, on random numbers, or on anything left by another run",
    laws.BUNDLING: "no function may keep state from one element to the next, or emit output per bundle",
    laws.BATCH_IS_STREAM: "check that the combiner is associative and commutative (dm.testing.check_combine_fn), that "
    "no function keeps state between elements, and that no grouping after an accumulating one counts values twice",
    RUNNERS: "this is a bug in dataflow_model, or in a function that depends on the process it runs in",
    RESTART: "keep state only in the pipeline: what a function remembers is lost when its worker dies",
    SHARDING: "no function may remember other elements: each shard sees only the elements of its own keys",
    laws.ON_TIME: "this is a bug in dataflow_model, or in a window function whose windows end before their elements",
    laws.CONSERVATION: "check the trigger and its on_merge with dm.testing.check_trigger",
}


class LawBroken(AssertionError):
    """Raised when a pipeline breaks a law, with the smallest input found.

    Attributes:
        law: the law that is broken.
        problem: a description of the problem.
        script: the input: elements in order of arrival, watermarks and clock values.
        elements: the elements of the input, as (value, event time).
        left, right: the two sides that differ.
    """

    def __init__(self, script: TestStream, broken: Broken) -> None:
        self.law = broken.law
        self.problem = broken.problem
        self.script = script
        self.elements: list[tuple[Any, EventTime]] = elements_of(script)
        self.left, self.right = map(list, broken.sides)
        self._columns = broken.columns
        super().__init__(self._message())

    def _message(self) -> str:
        parts = [f"{self.law} does not hold: {self.problem}", "", "the smallest input found:"]
        parts += [f"    {line}" for line in script_text(self.script).splitlines()]
        for title, rows in zip(self._columns, (self.left, self.right), strict=True):
            if title:
                parts += ["", f"{title}:", *_shown(rows)]
        return explain("\n".join(parts), hint=_HINTS.get(self.law))


def prove(
    pipeline: Callable[[Any], Any], data: Any, runner: Runner | None = None, *, examples: int = _EXAMPLES
) -> None:
    """Check the laws of the model on a pipeline, and report the smallest input found that breaks one.

    Each case draws some of the data in some order of arrival, with watermarks and clock values between them, so that
    elements are early, late and dropped. At every grouping and at the end, the check verifies that

    * running the case again gives the same output, also with other bundles of the same events (law 2);
    * so does a stream of micro-batches, cut anywhere (law 2), with workers that crash and resume from their durable
      state (law 3), on any number of shards (law 4); and no early or on-time pane is late downstream (law 9);
    * every element is in one discarding pane of each of its windows, or counted as dropped and in the output of dropped
      elements (laws 5 and 11);
    * retractions retract values that were emitted (law 6), and panes are in sequence (law 7);
    * if nothing is dropped, the panes combine to the result of grouping all data at once (law 1): accumulating panes
      by their last value, discarding panes by merging their accumulators, retracting panes by subtracting retractions.

    With `late_data="duplicate_window"`, laws 1, 6 and 7 hold for each life of a window: for the time until it expires,
    and for each time that it is reopened. The lives together have every element once.

    Under merging windows, a late element may be accepted although a session that it would have joined has expired
    before. Then law 1 cannot hold: the stream has two sessions where a batch job has one. `prove` logs such an input
    as a warning to the logger `dataflow_model`, and raises nothing.

    Floats are compared with a relative tolerance of 1e-9, lists in any order, everything else with `==`. This needs the
    package hypothesis (the extra `testing`).

    Args:
        pipeline: a function from the collection of the elements to the collection to compare. Build it as for
            production, but leave out sources, sinks, and steps that filter panes by their timing.
        data: `(value, event time)` pairs, any of which arrive in any order; or a hypothesis strategy for such a pair,
            or for lists of them.
        runner: a runner whose output must equal that of `LocalRunner()` at every grouping, such as
            `LocalRunner(workers=2)` or a `SparkRunner`; the laws are checked on `LocalRunner()` first. A Spark stream
            is also killed at named points and resumed (law 3).
        examples: the number of cases to draw; they are the same each time.

    Raises:
        LawBroken: an `AssertionError` with the law, the input as a script to paste, and both sides.
        InvalidArgument: without data or examples.
        InvalidType: if `pipeline` is no function, or does not return a collection, or `runner` is no runner.
        PlanError: for a pipeline that cannot run.

    Example:
        >>> import dataflow_model as dm
        >>> from dataflow_model.testing import prove
        >>> def counts(elements):
        ...     return elements | dm.Window.into(dm.Sessions("1 minute")) | dm.Count.per_key()
        >>> prove(counts, [(("UA", "a"), 0), (("UA", "b"), 50), (("AA", "c"), 100)], examples=20)
    """
    if not callable(pipeline):
        raise InvalidType(
            f"`pipeline` must be a function of a collection, got {pipeline!r}",
            hint="write prove(lambda elements: elements | transform, data)",
        )
    if runner is not None:
        check_runner(runner)
    if type(examples) is not int or examples < 1:
        raise InvalidArgument(f"`examples` must be an int of at least 1, got {examples!r}", hint="write examples=100")
    require_hypothesis("prove")
    with unobserved():
        _prove(Subject(pipeline), data, examples, runner)


def _prove(subject: Subject, data: Any, examples: int, runner: Runner | None) -> None:
    """Look for the smallest input that breaks a law."""
    plan, _ = subject.plan(TestStream())
    grounds = Grounds.of(plan)
    cases = cases_of(data, grounds)
    local = LocalRunner(clock=0)
    splits: list[TestStream] = []
    failure = smallest_broken(cases, lambda case: _check(subject, case, local, splits), examples)
    if failure is not None:
        case, broken = failure
        raise LawBroken(case.script, _beneath(subject, case.script, local) or broken) from broken.__cause__
    if splits:
        LOG.warning("%s", _split_text(min(splits, key=lambda script: len(script.steps))))
    if runner is not None:
        failed = differing_on(runner, subject, cases)
        if failed is not None:
            raise LawBroken(*failed)


def _split_text(script: TestStream) -> str:
    """Return what to say about an input for which expiry has split a session."""
    lines = [f"    {line}" for line in script_text(script).splitlines()]
    problem = (
        "no law is broken, but law 1 does not apply to every input: a late element was accepted in its own window, and "
        "would have joined a session that had expired before, so the stream has two sessions where a batch job has "
        "one. Nothing was dropped; such elements are counted as possible_session_splits. The smallest input found:"
    )
    return "\n".join([problem, *lines])


def _check(subject: Subject, case: Case, runner: Runner, splits: list[TestStream]) -> None:
    """Check all laws on one input, starting with the cheaper ones that need no stream."""
    stream = _check_in_process(subject, case.script, case.cuts, runner, splits)
    if can_stream(subject.plan(case.script)[0]):
        check_stream(subject, case, stream)


def _check_in_process(
    subject: Subject, script: TestStream, cuts: Sequence[bool], runner: Runner, splits: list[TestStream]
) -> Observed:
    """Check the laws on one process, and return its output; scripts that split a session are added to `splits`."""
    groupings = groupings_of(reducing_early(subject.plan(script)[0]))
    stream = _observe(subject, script, runner)
    other = _running(lambda: subject.run(recut(script, cuts), runner))
    difference = _difference(stream, other, laws.BUNDLING, "the same events in other bundles")
    if difference is not None:
        raise difference
    for node in groupings:
        laws.check_pane_sequence(node, stream.panes[node.label])
        laws.check_balance(node, stream.panes[node.label])
        laws.check_conservation(node, stream)
        laws.check_lives(node, stream)
    if not stream.dropped_anything():
        try:
            _check_batch(subject, script, runner, stream)
        except Broken as broken:
            if broken.law != laws.BATCH_IS_STREAM or not stream.may_have_split_sessions():
                raise
            splits.append(script)
    return stream


def _check_batch(subject: Subject, script: TestStream, runner: Runner, stream: Observed) -> None:
    """Check law 1 on one process."""
    plan, result = subject.plan(script)
    groupings = groupings_of(reducing_early(plan))
    batch = _running(lambda: subject.run_to_the_end(all_at_once(script), runner))
    if _running(lambda: subject.reopens(script, runner)):
        for node in groupings:
            if not nearest_groupings(plan, node.input):  # the values of a reopened window are more elements downstream
                laws.check_fold(node, stream, batch, reopened=True)
        return
    for node in groupings:
        laws.check_fold(node, stream, batch)
    nearest = nearest_groupings(plan, result)
    if nearest and all(node.strategy.retracting and not laws.emptied_cells(node, stream, batch) for node in nearest):
        laws.check_net_values(stream.result, batch.result)
    at_the_end = _running(lambda: subject.run_to_the_end(script, runner))
    if not at_the_end.dropped_anything():
        laws.check_same_values(at_the_end.result, batch.result)


def check_stream(subject: Subject, case: Case, expected: Observed) -> None:
    """Check that a stream's output equals LocalRunner's at every grouping; if not, find the law that it breaks."""
    schedule = case.schedule
    runs = _Streams(schedule)
    difference = _difference(expected, _running(lambda: subject.run(case.script, runs)), RESTART, _described(schedule))
    if difference is None:
        if schedule.cuts == (1,):
            for node in groupings_of(runs.last.program.staged.plan):
                laws.check_on_time(node, runs.last.micro_batches, f"{node.label}/panes")
        return
    for law, plainer in (
        (laws.BUNDLING, Schedule(1, schedule.cuts)),
        (SHARDING, Schedule(schedule.shards, schedule.cuts)),
    ):
        other = _running(functools.partial(subject.run, case.script, MicroBatchRunner(plainer)))
        without = _difference(expected, other, law, _described(plainer))
        if without is not None:
            raise without
    raise difference


class _Streams:
    """A runner that runs plans as streams and keeps the last run."""

    def __init__(self, schedule: Schedule) -> None:
        self._runner = MicroBatchRunner(schedule)
        self.last: MicroBatches

    def run(self, plan: Plan, *, until: str | None = None) -> MicroBatches:
        """Run a plan to its end."""
        self.last = self._runner.run(plan, until=until)
        return self.last


def _described(schedule: Schedule) -> str:
    """Return the title of the column with a stream's panes."""
    number = "one shard" if schedule.shards == 1 else f"{schedule.shards} shards"
    parts = [f"on {number}", f"in micro-batches of {' and '.join(map(str, schedule.cuts))} events"]
    if schedule.restarts:
        parts.append(f"with new workers before the micro-batches {sorted(schedule.restarts)}")
    if schedule.crashes:
        parts.append(f"with a crash in the micro-batches {sorted(schedule.crashes)}")
    return ", ".join(parts)


def _observe(subject: Subject, script: TestStream, runner: Runner) -> Observed:
    """Run with probes, or without them if a trigger that reads values fails because of them."""
    try:
        return subject.run(script, runner, probed=True)
    except Exception:  # noqa: BLE001 - any error of user code; the run without probes tells whether they cause it
        return _running(lambda: subject.run(script, runner))


def _running(run: Callable[[], RunT]) -> RunT:
    try:
        return run()
    except Exception as error:
        raise Broken(f"it raises {type(error).__name__}\n  {error}", law=RUNS) from error


def _difference(stream: Observed, other: Observed, law: str, title: str) -> Broken | None:
    """Return the difference between two runs of the same events."""
    columns = ("the run", title)
    try:
        for label, panes in other.panes.items():
            laws.check_same_panes(f"the output of {label!r}", stream.panes[label], panes, columns)
        laws.check_same_panes("the output", stream.result, other.result, columns)
    except Broken as broken:
        broken.law = law
        return broken
    return None


def _beneath(subject: Subject, script: TestStream, runner: Runner) -> Broken | None:
    """Return a more basic failure, if repeating the run or changing its bundles already changes the output."""
    joined = recut(script, [True] * len(elements_of(script) + list(script.steps)))
    try:
        first = subject.run(script, runner)
        for _ in range(_REPETITIONS):
            difference = _difference(first, subject.run(script, runner), DETERMINISM, "the same run repeated")
            if difference is not None:
                return difference
        return _difference(first, subject.run(joined, runner), laws.BUNDLING, "the same events in other bundles")
    except Exception:  # noqa: BLE001 - an error of user code has already been reported
        return None


def _shown(rows: Sequence[Any]) -> list[str]:
    """Return rows as lines of a table; of many rows only the first."""
    lines = [f"    {_cells(row)}" for row in rows[:_ROWS_SHOWN]] or ["    nothing"]
    return lines if len(rows) <= _ROWS_SHOWN else [*lines, f"    … and {len(rows) - _ROWS_SHOWN} more"]


def _cells(row: Any) -> str:
    return "  ".join(map(repr, row)) if isinstance(row, tuple) else repr(row)
