"""What memoised functions gave in a micro-batch, durable before any of it is published.

State says what will be taken back; sinks have what was published. A micro-batch that was published, if only in part,
and is run again before Spark has noted its commit has to give the same once more. So each shard keeps what it was given
in a directory of its own in the checkpoint, `draws/<stage>-<shard>/<commit>.<start>`, and an attempt that finds that
there asks no function for what it knows.
"""

from __future__ import annotations

import pathlib
import shutil
import uuid
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from dataflow_model.errors import SinkError, SupersededRun
from dataflow_model.runners.engine.draws import Draws
from dataflow_model.runners.engine.memoising import MemoEngine
from dataflow_model.runners.sharded.checkpoint.durable import corrupt, make_folder, seal, unseal, write_file
from dataflow_model.runners.sharded.publishing import commit_id, last_published

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.runners.engine.machine import KeyedMachine
    from dataflow_model.runners.sharded.task import Task

__all__ = ["KeptDraws"]

_FOLDER: Final = "draws"
_FILE: Final = "draws.pickle"


@attrs.define
class KeptDraws:
    """What one shard's memoised functions gave in one micro-batch."""

    _place: pathlib.Path
    _engines: list[MemoEngine]
    _is_there: bool

    @classmethod
    def open(cls, task: Task, depth: int, label: int, engines: Iterable[KeyedMachine]) -> Self | None:
        """Hand the shard's functions what they gave before, and forget earlier micro-batches, which are committed.

        What an older start of the run was given counts only if it may have been published: else whoever mends a
        function, because a later one cannot take what it gives, would meet the old outputs again.

        Args:
            task: the task.
            depth: which stage, from 1.
            label: the shard's.
            engines: the shard's.

        Returns:
            what keeps the outputs; `None` where there is nothing to keep.

        Raises:
            StateCorruption: if what was kept is damaged.
        """
        memoising = [engine for engine in engines if isinstance(engine, MemoEngine)]
        program, micro_batch = task.program, task.micro_batch
        if not memoising or not program.directory:
            return None
        folder, commit = pathlib.Path(program.directory, _FOLDER, f"{depth}-{label}"), commit_id(program, micro_batch)
        paths = sorted(folder.iterdir()) if folder.exists() else []
        for path in paths:
            if path.name.removeprefix(".") < commit:
                shutil.rmtree(path, ignore_errors=True)
        place = folder / f"{commit}.{program.sequencer:020d}"
        usable = [path for path in paths if path.name.startswith(commit) and path <= place]
        published = last_published(program.directory)
        if not program.weak and (published is None or published < micro_batch):
            usable = [path for path in usable if path == place]
        before = _read(usable[-1]) if usable else {}
        for engine in memoising:
            engine.draws = Draws(before.get(engine.label, {}))
        return cls(place, memoising, place in usable)

    def keep(self) -> None:
        """Make durable what the functions gave, if one of them was asked.

        Raises:
            SupersededRun: if another attempt at the same micro-batch has been quicker: only one may go on.
            SinkError: if the checkpoint cannot be written.
        """
        given: dict[str, Draws] = {}
        for engine in self._engines:
            if engine.draws is not None:
                given[engine.label], engine.draws = engine.draws, None
        if self._is_there or not any(draws.asked for draws in given.values()):
            return  # the elements that come again are those that came before
        record = seal({label: draws.now for label, draws in given.items()})
        fresh = self._place.with_name(f".{self._place.name}.{uuid.uuid4().hex[:8]}")
        try:
            make_folder(fresh)
            write_file(fresh / _FILE, record)
            fresh.rename(self._place)  # refused if there is one that is not empty: the first stays
        except OSError as error:
            shutil.rmtree(fresh, ignore_errors=True)
            if self._place.exists():
                raise SupersededRun(
                    f"another attempt of this micro-batch has kept different outputs in {str(self._place)!r}",
                    hint="nothing is lost: a retry or a restart uses those outputs; do not enable Spark's "
                    "speculative execution",
                ) from error
            raise SinkError(
                f"{str(self._place)!r} in the checkpoint directory cannot be written: {error}",
                hint="check free space and permissions, and start the run again: it resumes where it stopped",
            ) from error


def _read(place: pathlib.Path) -> dict[str, Any]:
    path = place / _FILE
    name = f"the file of kept outputs, {str(path)!r},"
    try:
        record = path.read_bytes()
    except OSError as error:
        raise corrupt(name, f"it cannot be read: {error}") from error
    given: dict[str, Any] = unseal(record, name)
    return given
