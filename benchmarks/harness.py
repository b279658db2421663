"""Run both sides of a comparison: once for the answer, then by turns for the time."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from benchmarks import beam_runs
from benchmarks.answers import agree, timings, write_sums
from benchmarks.data import Events, make_events
from benchmarks.processes import PeakMemory, processor_seconds
from benchmarks.session import open_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

    from pyspark.sql import SparkSession

__all__ = ["Benchmark", "Result", "measure"]

SIDES: Final = ("theirs", "ours")
_FEW: Final = 1_000
"""The elements of a run that only imports what a program of Beam's needs."""
_SHORT: Final = 0.3
"""Where a side takes fewer seconds than this, each side runs three times as often: one slow moment would tell most."""


@attrs.frozen
class Benchmark:
    """One comparison.

    Attributes:
        name: how it is asked for.
        what: one line for the table.
        ours: name of the function in `benchmarks.ours`; imported when it runs, so that one side can run alone.
        theirs: name of the function in `benchmarks.theirs`.
        target: what the ratio ours to theirs should not exceed.
        cores: cores and shuffle partitions.
        scale: the part of the rows that is used.
        files: how many files these are in, one a micro-batch.
        string_keys: whether keys are strings.
        parquet: whether the timed runs write Parquet; otherwise they consume the result.
        memory: whether the ratio is of peak memory rather than of time.
        function: a Python function that both sides call for each element.
        local: whether both sides run in this process, without Spark; their functions are in `benchmarks.local_ours` and
            `benchmarks.local_theirs`, and take no session.
        keys: how many keys the events have.
        arrivals: whether the events say when they arrived.
        least_share: the part of our panes that must be early, and the part that must be late.
        hot: whether our side sums by `hot_key`, the other one by `key`. Then neither answer is the other's, and both
            are compared with sums over the columns.
        needs: a module that is not installed with the others.
        peers: runners of Beam's on which the program `ours` of `benchmarks.beam_programs` runs, as on ours. Each run
            has a process of its own, and what is compared is the processor time of all processes that it starts.
            `theirs` is the fastest of those that give our answer.
    """

    name: str
    what: str
    ours: str
    theirs: str
    target: float
    cores: int = 2
    scale: float = 1.0
    files: int = 10
    string_keys: bool = False
    parquet: bool = False
    memory: bool = False
    function: Callable[[Any], Any] | None = None
    local: bool = False
    keys: int = 20_000
    arrivals: bool = False
    least_share: float = 0.0
    hot: bool = False
    needs: str | None = None
    peers: tuple[str, ...] = ()

    @property
    def missing(self) -> str | None:
        """What it needs and what is not installed, with the command that installs it."""
        if self.needs is not None and importlib.util.find_spec(self.needs) is None:
            return f"{self.needs} is not installed: pip install 'dataflow-model[bench]'"
        if self.peers and not self.others:
            return f"{self.peers[0]} is not built: python -m scripts.prism"
        return None

    @property
    def others(self) -> tuple[str, ...]:
        """The sides that ours is compared with: one, or several runners of Beam's, those that can be used here."""
        return tuple(filter(beam_runs.is_there, self.peers)) if self.peers else ("theirs",)

    def events(self, rows: int) -> Events:
        """Return the events of a run with so many rows, times its scale."""
        return make_events(
            int(rows * self.scale),
            files=self.files,
            string_keys=self.string_keys,
            keys=self.keys,
            arrivals=self.arrivals,
            hot=self.hot,
        )

    def agrees(self, events: Events, scratch: Path) -> bool:
        """Return whether the answers of both sides, in folders of their names, are right."""
        if not self.hot:
            return agree(scratch / "ours", scratch / "theirs")
        for side, key in (("ours", "hot_key"), ("theirs", "key")):
            write_sums(events.events, key, scratch / f"sums of {side}")
        return all(agree(scratch / side, scratch / f"sums of {side}") for side in SIDES)

    def side(self, name: str) -> Callable[[SparkSession | None, Events, Path | None], None]:
        """Return one side as a function of session, events and folder."""
        if self.peers:
            return lambda _, events, out: beam_runs.run(self.ours, name, events, out or Path(os.devnull))
        module = f"local_{name}" if self.local else name
        run = getattr(importlib.import_module(f"benchmarks.{module}"), getattr(self, name))
        if self.local:
            return lambda _, events, out: run(events, out)
        function = self.function
        return run if function is None else lambda spark, events, out: run(spark, events, out, function)


@attrs.frozen
class Result:
    """What was measured; the fields of `results.json`.

    `ours_s` and `theirs_s` are medians in seconds, `spread` is the wider of the two ranges over its median. `ratio` is
    ours to theirs, of the times or, where `ours_mib` and `theirs_mib` are there, of the peak memory. Fields of a side
    that did not run are `None`. `ours_once_mib` and `theirs_once_mib` count memory that processes share once; the
    ratio does not. `early` and `late` are parts of our panes, where a comparison asks for some of each. `peer` is the
    runner of Beam's that is theirs, if it is one of several; without one that gives our answer there is no ratio.
    """

    name: str
    rows: int
    ours_s: float | None
    theirs_s: float | None
    ratio: float | None
    target: float
    spread: float
    agree: bool | None
    ours_mib: float | None = None
    theirs_mib: float | None = None
    ours_once_mib: float | None = None
    theirs_once_mib: float | None = None
    early: float | None = None
    late: float | None = None
    peer: str | None = None


def measure(benchmark: Benchmark, rows: int, repeats: int, sides: tuple[str, ...] = SIDES) -> Result:
    """Run one comparison on `rows` events (times its scale).

    Each side first runs once untimed and writes Parquet: that warms the session and gives the answers to compare. Then
    the sides take turns, so that a slow moment of the machine does not fall on one of them alone.
    """
    events = benchmark.events(rows)
    if benchmark.memory or benchmark.peers:
        return _measure_alone(benchmark, events, repeats, sides)
    with _session(benchmark) as spark, tempfile.TemporaryDirectory() as scratch:
        times: dict[str, list[float]] = {side: [] for side in sides}
        for side in sides:
            benchmark.side(side)(spark, events, Path(scratch, side))
        agreed = benchmark.agrees(events, Path(scratch)) if len(sides) == len(SIDES) else None
        shares = timings(Path(scratch, "ours")) if benchmark.least_share and "ours" in sides else None
        for repeat in range(3 * repeats):
            if repeat == repeats and all(statistics.median(taken) >= _SHORT for taken in times.values()):
                break
            for side in sides:
                out = Path(scratch, f"{side}-{repeat}") if benchmark.parquet else None
                times[side].append(_timed(lambda: benchmark.side(side)(spark, events, out)))  # noqa: B023 - called at once
    result = _result(benchmark, events, times, agreed)
    if shares is None:
        return result
    return attrs.evolve(result, early=_rounded(shares.get("EARLY", 0.0)), late=_rounded(shares.get("LATE", 0.0)))


@contextlib.contextmanager
def _session(benchmark: Benchmark) -> Iterator[SparkSession | None]:
    """Open a session for a comparison that needs one."""
    if benchmark.local:
        yield None
        return
    spark = open_session(benchmark.cores)
    try:
        yield spark
    finally:
        spark.stop()


def _timed(run: Callable[[], None]) -> float:
    gc.collect()
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _result(
    benchmark: Benchmark,
    events: Events,
    times: dict[str, list[float]],
    agreed: bool | None,  # noqa: FBT001 - private
    mib: dict[str, float] | None = None,
) -> Result:
    medians = {side: statistics.median(taken) for side, taken in times.items()}
    compared = medians if mib is None else mib
    both = "ours" in compared and "theirs" in compared
    return Result(
        name=benchmark.name,
        rows=events.rows,
        ours_s=_rounded(medians.get("ours")),
        theirs_s=_rounded(medians.get("theirs")),
        ratio=_rounded(compared["ours"] / compared["theirs"]) if both else None,
        target=benchmark.target,
        spread=round(max((max(taken) - min(taken)) / medians[side] for side, taken in times.items()), 3),
        agree=agreed,
        ours_mib=_rounded((mib or {}).get("ours")),
        theirs_mib=_rounded((mib or {}).get("theirs")),
    )


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)


def _measure_alone(benchmark: Benchmark, events: Events, repeats: int, sides: tuple[str, ...]) -> Result:
    """Run each side in a process of its own, with a JVM of its own: a heap that has grown does not shrink."""
    others = benchmark.others if "theirs" in sides else ()
    names = (*others, "ours") if "ours" in sides else others
    runs: dict[str, list[tuple[float, PeakMemory]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as scratch:
        for repeat in range(repeats):
            for name in names:
                runs[name].append(_run_alone(benchmark, name, events, Path(scratch, f"{name}-{repeat}")))
        right = [
            name for name in others if "ours" in runs and agree(Path(scratch, "ours-0"), Path(scratch, f"{name}-0"))
        ]
    agreed = bool(right) if len(sides) == len(SIDES) else None

    def median(name: str) -> float:
        of_memory = [memory.mib for _, memory in runs[name]]
        return statistics.median(of_memory if benchmark.memory else [taken for taken, _ in runs[name]])

    theirs = min(right or others, key=median, default=None)
    compared = {"theirs": theirs, "ours": "ours" if "ours" in runs else None}
    measured = {side: runs[name] for side, name in compared.items() if name is not None}
    times = {side: [taken for taken, _ in of_side] for side, of_side in measured.items()}
    mib = {side: statistics.median([memory.mib for _, memory in of_side]) for side, of_side in measured.items()}
    once = {side: statistics.median([memory.once_mib for _, memory in of_side]) for side, of_side in measured.items()}
    result = _result(benchmark, events, times, agreed, mib if benchmark.memory else None)
    if benchmark.peers:
        result = attrs.evolve(result, peer=theirs, ratio=result.ratio if agreed else None)
    if not benchmark.memory:
        return result
    return attrs.evolve(result, ours_once_mib=_rounded(once.get("ours")), theirs_once_mib=_rounded(once.get("theirs")))


def _run_alone(benchmark: Benchmark, side: str, events: Events, out: Path) -> tuple[float, PeakMemory]:
    """Return the seconds and the peak memory of one cold run."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(benchmark, side, events, out, sender))
    process.start()
    sender.close()
    try:
        with PeakMemory(process.pid or os.getpid()) as memory:
            try:
                taken: float = receiver.recv()
            except EOFError:
                raise RuntimeError(f"{benchmark.name}: the process of {side} died; its error is above") from None
    finally:
        process.join()
    return taken, memory


def _child(benchmark: Benchmark, side: str, events: Events, out: Path, sender: Connection) -> None:
    run = benchmark.side(side)
    if not benchmark.peers:
        with _session(benchmark) as spark:
            sender.send(_timed(lambda: run(spark, events, out)))
        return
    run(None, attrs.evolve(benchmark, scale=1).events(_FEW), out.with_name(f"{out.name} of few"))
    before = processor_seconds(os.getpid())
    run(None, events, out)
    sender.send(processor_seconds(os.getpid()) - before)
