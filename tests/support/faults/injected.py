"""Faults that a run carries within itself: tasks that fail, a shuffle in another order, damaged state, a mad clock."""

from __future__ import annotations

import json
import pathlib
import random
from typing import TYPE_CHECKING, Final

import attrs
from pyspark import TaskContext

from dataflow_model.runners.sharded.tasks.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.runners.sharded.state.log import StateStore
    from dataflow_model.runners.sharded.tasks.rows import Row

__all__ = ["DamagedState", "FailingTasks", "InjectedFailure", "JumpingClock", "marks"]

DAY: Final = 86_400_000_000


class InjectedFailure(Exception):
    """What a task fails with here."""


def marks(folder: str) -> list[str]:
    """Return what faults have left of themselves."""
    return sorted(path.name for path in pathlib.Path(folder).glob("*"))


def _mark(folder: str, name: str) -> bool:
    """Leave a mark; `False` if it is there."""
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    try:
        pathlib.Path(folder, name).open("x").close()
    except FileExistsError:
        return False
    return True


def _attempt() -> str:
    """Name the attempt of a task: micro-batch, partition, number of the attempt."""
    context = TaskContext.get()
    assert context is not None
    return f"{_micro_batch()}-{context.partitionId()}-{context.attemptNumber()}"


def _micro_batch() -> int:
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    return -1 if number is None else int(number)


@attrs.frozen
class FailingTasks(Fault):
    """Some tasks fail, and every attempt sees its shuffle in an order of its own.

    Attributes:
        folder: where each failure leaves a mark; a task that is tried again from the start does not fail there again.
        seed: decides which tasks, and which order.
        points: where they fail.
        share: of the tasks that pass a point, by the attempt, so that the next attempt may pass.
    """

    folder: str
    seed: int
    points: tuple[str, ...] = ("before_state", "after_state", "after_writing")
    share: float = 0.05

    def reach(self, point: str, micro_batch: int) -> None:
        """Fail, if this attempt is one of those that do."""
        del micro_batch
        if point not in self.points:
            return
        occasion = f"{point}-{_attempt()}"
        if random.Random(f"{self.seed} {occasion}").random() < self.share and _mark(self.folder, occasion):
            raise InjectedFailure(occasion)

    def receive(self, rows: Iterable[Row]) -> Iterable[Row]:
        """Return the rows in an order that no other attempt sees."""
        shuffled = list(rows)
        random.Random(f"{self.seed} {_attempt()} {len(marks(self.folder))}").shuffle(shuffled)
        return shuffled


@attrs.frozen
class DamagedState(Fault):
    """In one micro-batch the state store keeps something else than it was given; the next one fails.

    Attributes:
        folder: where each damaged shard leaves a mark.
        how: `"flipped"`, `"truncated"` or `"lost"` for a part of the log; `"head"` for a bit of its head.
        micro_batch: in which.
    """

    folder: str
    how: str
    micro_batch: int

    def reach(self, point: str, micro_batch: int) -> None:
        """Fail behind the damage, so that the next run has to read what was written."""
        if point == "before_state" and micro_batch == self.micro_batch + 1:
            raise InjectedFailure(f"behind the damage: {_attempt()}")

    def keep(self, store: StateStore) -> StateStore:
        """Return a store that does the damage."""
        return _Damaging(store, self) if _micro_batch() == self.micro_batch else store

    def strike(self, payload: bytes) -> bytes | None:
        """Return what is written instead; `None` for nothing."""
        _mark(self.folder, _attempt())
        middle = len(payload) // 2
        match self.how:
            case "truncated":
                return payload[:middle]
            case "lost":
                return None
            case _:
                return payload[:middle] + bytes([payload[middle] ^ 4]) + payload[middle + 1 :]


@attrs.frozen
class _Damaging:
    """A state store that damages what is put into it."""

    store: StateStore
    fault: DamagedState

    def get_head(self) -> bytes | None:
        return self.store.get_head()

    def put_head(self, head: bytes) -> None:
        damaged = self.fault.strike(head) if self.fault.how == "head" else head
        assert damaged is not None
        self.store.put_head(damaged)

    def get(self, sequence: int, part: int) -> bytes | None:
        return self.store.get(sequence, part)

    def put(self, sequence: int, part: int, payload: bytes) -> None:
        damaged = payload if self.fault.how == "head" else self.fault.strike(payload)
        if damaged is not None:
            self.store.put(sequence, part, damaged)

    def remove(self, sequence: int, part: int) -> None:
        self.store.remove(sequence, part)


@attrs.frozen
class JumpingClock(Fault):
    """At each reading the wall clock stands somewhere within a day of the truth.

    Attributes:
        readings: the file that each reading is added to, a line each.
        seed: decides where it stands.
    """

    readings: str
    seed: int

    def read_clock(self, wall: int) -> int:
        """Return where the clock stands now."""
        read = wall + random.Random(f"{self.seed} {wall}").randint(-DAY, DAY)
        with pathlib.Path(self.readings).open("a") as file:
            file.write(f"{json.dumps(read)}\n")
        return read
