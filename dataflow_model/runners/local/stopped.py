"""Read the state of a stopped run in process."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import attrs

from dataflow_model.errors import StateCorruption
from dataflow_model.runners.local.lock import who_holds
from dataflow_model.runners.local.run_file import HOST, RunFile
from dataflow_model.runners.sharded.checkpoint.parts import common_part
from dataflow_model.runners.sharded.checkpoint.running import who_runs
from dataflow_model.runners.sharded.commits.progress import read_progress
from dataflow_model.runners.sharded.outputs.publication import check_committed
from dataflow_model.runners.sharded.upgrade.reading import read_shard

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Iterator

    from dataflow_model.runners.local.run_file import Commit
    from dataflow_model.runners.sharded.checkpoint.record import RunRecord
    from dataflow_model.runners.sharded.feed.offsets import Offset
    from dataflow_model.runners.sharded.upgrade.reading import ShardFound


@attrs.frozen
class StoppedLocalRun:
    """The part of a stopped run's checkpoint that belongs to LocalRunner; see `StoppedRun`.

    Args:
        checkpoint: the whole checkpoint.
    """

    checkpoint: pathlib.Path

    def who_runs(self) -> str | None:
        """Return the process that holds the lock, or has marked the run as running on another machine."""
        return who_holds(self.checkpoint / HOST) or who_runs(self._common_part)

    def last_committed(self) -> int | None:
        """Return the last committed micro-batch."""
        commit, _ = self._last()
        return None if commit is None else commit.number

    def half_published(self) -> int | None:
        """Return the last committed micro-batch, unless it is marked as published."""
        commit, is_published = self._last()
        if commit is None:
            return None
        check_committed(self._common_part, commit.number)
        if is_published:
            return None
        progress = read_progress(self._common_part)
        return None if progress.get("batch", -1) >= commit.number else commit.number

    def offset(self, batch: int) -> tuple[Offset, int]:
        """Return the offset of the sources, all of which LocalRunner reads itself."""
        commit, _ = self._last()
        assert commit is not None  # noqa: S101 - the caller knows its number
        assert commit.number == batch  # noqa: S101
        return commit.offset, 0

    def shards(self, batch: int, record: RunRecord) -> Iterator[ShardFound]:
        """Yield every shard's state."""
        file = RunFile.read_only(self._host_part)
        assert file is not None  # noqa: S101 - there is a commit
        shard_ids = range(record.shards)
        with contextlib.closing(file):
            expected = {(depth, shard) for depth in range(1, len(record.stages) + 1) for shard in shard_ids}
            missing = expected - set(file.shards())
            if missing:
                raise StateCorruption(
                    f"the state in {self._host_part!r} lacks (stage, shard) {sorted(missing)} after micro-batch "
                    f"{batch}",
                    hint="restore the checkpoint from a copy",
                )
            for depth, shard in sorted(expected):
                yield read_shard(record, shard_ids, shard, file.store(depth, shard))

    def _last(self) -> tuple[Commit | None, bool]:
        """Return the last commit, and whether it is marked as published."""
        file = RunFile.read_only(self._host_part)
        if file is None:
            return None, False
        with contextlib.closing(file):
            return file.last_commit(), file.is_published()

    @property
    def _host_part(self) -> str:
        return str(self.checkpoint / HOST)

    @property
    def _common_part(self) -> str:
        return str(common_part(self.checkpoint))
