"""A stream in process whose checkpoint has every kind of part, stopped in several ways, to be damaged and continued."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any, Final

import attrs

import dataflow_model as dm
from dataflow_model.runners.sharded.checkpoint.requests import request_signal
from dataflow_model.runners.sharded.tasks import faults
from tests.support.faults.damage import StoppedFolder
from tests.support.runners.local_streams import Stepped

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["ENDINGS", "SINKS", "StoppedRun", "everything", "lines_of", "put"]

ENDINGS: Final = ("stopped", "after_commit", "after_publishing", "upgraded")
"""How a run has ended: between two micro-batches, killed at a point of a micro-batch, or carried over."""
_KILLED_AT: Final = 5
SINKS: Final = ("sums", "counted", "joined")


class Counting(dm.DoFn):
    """Emits how many elements of a key there were, with each of them."""

    count = dm.CombiningStateSpec(dm.Sum())

    def process(self, pair: Any, count: dm.CombiningState[Any, Any]) -> Iterable[Any]:
        """Count the element."""
        count.add(1)
        yield pair[0], count.read()


def everything(p: dm.Pipeline, rows: Any, out: Path) -> None:
    """Build a pipeline with side inputs, state, signals, and sinks of several kinds."""
    static = p | "factors" >> dm.Create([("a", 2), ("b", 3), ("c", 5)])
    multiplied = dm.Map(lambda row, by: (row.key, row.n * by[row.key]), dm.AsDict(static))
    pairs = rows | "pairs" >> multiplied.with_output_types(tuple[str, int])
    flushed = dm.Window.into(dm.GlobalWindows()).trigger(dm.Repeatedly(dm.AfterSignal("flush"))).discarding()
    sums = pairs | "until flushed" >> flushed | "sum" >> dm.Sum.per_key()
    _ = sums | "sums" >> dm.io.Collect()
    dicts = sums | "dicts" >> dm.Map(lambda pair: {"key": pair[0], "n": pair[1]})
    _ = dicts | "files" >> dm.io.WriteJson(out)
    _ = pairs | "count" >> dm.ParDo(Counting()) | "counted" >> dm.io.Collect()
    tens = dm.Window.into(dm.FixedWindows(10))
    changing = pairs | "side windows" >> tens | "totals" >> dm.Sum.per_key()
    main = pairs | "main windows" >> tens
    _ = main | "look" >> dm.Map(lambda pair, by: (pair, by[pair[0]]), dm.AsDict(changing)) | "joined" >> dm.io.Collect()


def put(folder: Path, *numbers: int) -> None:
    """Let a file with ten rows appear for each number."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        rows = [{"at": 1_000_000 * (10 * number + n), "key": "abc"[n % 3], "n": n + number} for n in range(10)]
        fresh = folder / f".{number}"
        fresh.write_text("".join(json.dumps(row) + "\n" for row in rows))
        fresh.rename(fresh.with_name(f"{number}.json"))


def lines_of(out: Path) -> list[str]:
    """Return the lines of the files that the pipeline has written."""
    return sorted(line for path in out.glob("part-*") for line in path.read_text().splitlines())


@attrs.define
class StoppedRun(StoppedFolder):
    """A run that has ended in one of several ways, which can be started again from there any number of times.

    Args:
        folder: where everything is.
        ending: one of `ENDINGS`.
    """

    folder: Path
    ending: str

    def __attrs_post_init__(self) -> None:
        """Run some micro-batches, and keep the checkpoint and the output as they are then, and as they were before."""
        self._put(0, 1)
        self._stepped.steps(3)
        shutil.copytree(self.work, self.earlier)
        self._put(2, 3)
        if self.ending.startswith("after_"):
            self._be_killed()
        else:
            with self._stepped.opened() as stream:
                stream.step()
                request_signal(stream.checkpoint.requests, "flush")
                stream.step()
                request_signal(stream.checkpoint.requests, "flush")
        if self.ending == "upgraded":
            dm.upgrade(self.checkpoint, self.work / "next")
            shutil.rmtree(self.checkpoint)
            (self.work / "next").rename(self.checkpoint)
        shutil.copytree(self.work, self.kept, dirs_exist_ok=True)
        self._put(4)

    def finish(self) -> dict[str, Any]:
        """Go on with the run to its end, and return what it has output."""
        stepped = self._stepped
        stepped.steps()
        assert stepped.is_over()
        outcome: dict[str, Any] = {"files": lines_of(self.work / "out"), "metrics": stepped.metrics()["read"]}
        return outcome | {sink: sorted(repr(record.value) for record in stepped.collected(sink)) for sink in SINKS}

    def _build(self, p: dm.Pipeline) -> None:
        rows = p | "read" >> dm.io.ReadJson(self.folder / "rows", event_time="at", follow=True)
        everything(p, rows, self.work / "out")

    @property
    def _stepped(self) -> Stepped:
        return Stepped(self._build, self.checkpoint, rows=7, until="drained" if self.kept.exists() else None)

    def _put(self, *numbers: int) -> None:
        put(self.folder / "rows", *numbers)

    def _be_killed(self) -> None:
        """Run up to a point of a micro-batch, and keep what a process that is killed there leaves behind."""
        faults.arm(_Kept(self.work, self.kept, self.ending))
        try:
            self._stepped.steps()
        except _Killed:
            return
        finally:
            faults.disarm()
        raise AssertionError("the run was not stopped by the fault")


class _Killed(Exception):
    """What ends a run in the place of a kill."""


@attrs.frozen
class _Kept(faults.Fault):
    """Copies a folder at one point of a run, and ends the run there."""

    source: Path
    target: Path
    point: str

    def reach(self, point: str, micro_batch: int) -> None:
        if (point, micro_batch) == (self.point, _KILLED_AT):
            shutil.copytree(self.source, self.target)
            raise _Killed(point)
