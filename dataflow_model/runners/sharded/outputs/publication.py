"""The note of the micro-batch whose publishing has started: `publishing.json`.

It is written before anything of a micro-batch is published. On Spark, which logs the commit afterwards, a micro-batch
is run again if the process dies in between, and must then publish the same output. In process, the commit comes first,
and the note shows that it was lost with the end of SQLite's log. There the note is not synced to disk, where it would
double the cost of a small micro-batch; so after a power failure it may be older or damaged, and is not required.
"""

from __future__ import annotations

import contextlib
import pathlib
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from dataflow_model.errors import StateCorruption
from dataflow_model.runners.sharded.checkpoint.durable import corrupt
from dataflow_model.runners.sharded.checkpoint.parts import read_document, write_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dataflow_model.runners.sharded.feed.slices import Slice
    from dataflow_model.runners.sharded.tasks.program import Program

_NAME: Final = "publishing.json"
DRAWS: Final = "draws"
"""The folder with the outputs of memoised functions, in a folder for each shard."""


@attrs.frozen
class Publication:
    """The micro-batch that was published last, even in part.

    Attributes:
        batch: its number; -1 before the first.
        draws: the folders of the shards that have kept outputs of memoised functions for it.
        skipped: the row ranges that it has skipped, since their files have disappeared: label, origin and first row.
    """

    batch: int = -1
    draws: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str, int], ...] = ()

    @classmethod
    def read(cls, common_part: str) -> Self | None:
        """Return the last note; `None` if there is none.

        Args:
            common_part: the part of the checkpoint that is the same for all hosts.
        """
        note = read_document(common_part, _NAME)
        return (
            None
            if note is None
            else cls(note["batch"], tuple(note["draws"]), tuple((*file,) for file in note.get("skipped", ())))
        )

    @classmethod
    def expect(cls, common_part: str, progress: Mapping[str, Any], *, is_new: bool) -> None:
        """Write the first note of a new run; otherwise raise unless there is one, and it fits the progress.

        Args:
            common_part: the part of the checkpoint that is the same for all hosts.
            progress: the progress of the run.
            is_new: whether no micro-batch has started.

        Raises:
            StateCorruption: if the note is missing or older than the progress.
        """
        note = cls.read(common_part)
        if note is None and is_new:
            cls().write(common_part)
            return
        path = repr(str(pathlib.Path(common_part, _NAME)))
        if note is None:
            raise corrupt(path, "it is missing")
        published = progress.get("batch", -1)
        if note.batch < published:
            raise corrupt(path, f"it names micro-batch {note.batch}, but number {published} was published last")

    @classmethod
    def begin(cls, common_part: str, batch: int, commit: str, skipped: Iterable[tuple[str, str, int]] = ()) -> None:
        """Note that the publishing of a micro-batch starts.

        Args:
            common_part: the part of the checkpoint that is the same for all hosts.
            batch: the number of the micro-batch.
            commit: the id of its commit.
            skipped: the row ranges that it has skipped.
        """
        folder = pathlib.Path(common_part, DRAWS)
        draws = {path.parent.name for path in folder.glob(f"*/{commit}.*")} if folder.is_dir() else ()
        cls(batch, tuple(sorted(draws)), tuple(sorted(set(skipped)))).write(common_part)

    def write(self, common_part: str) -> None:
        """Replace the note."""
        write_document(common_part, _NAME, attrs.asdict(self), indent=None)


def skips_again(program: Program, micro_batch: int, part: Slice) -> bool | None:
    """Return whether a micro-batch that is run again skipped a row range when it was published, even in part.

    It then has to decide the same, since its output would not fit what was published before.

    Args:
        program: the program.
        micro_batch: the number of the micro-batch.
        part: the row range.

    Returns:
        `None` if nothing of the micro-batch was published.
    """
    if program.planned is None or program.planned[0] != micro_batch:
        return None
    note = Publication.read(program.directory)
    if note is None or note.batch != micro_batch:
        return None
    return (part.label, part.origin, part.start) in note.skipped


def half_published(common_part: str, committed: int | None) -> int | None:
    """Return the micro-batch whose publishing has started but that is not committed; `None` if there is none.

    Args:
        common_part: the part of a checkpoint that is the same for all hosts.
        committed: the last committed micro-batch.
    """
    note = Publication.read(common_part) or Publication()
    return note.batch if note.batch > (-1 if committed is None else committed) else None


def check_committed(common_part: str, committed: int | None) -> None:
    """Raise `StateCorruption` if a micro-batch was published that is not committed, where the commit comes first.

    Args:
        common_part: the part of a checkpoint that is the same for all hosts.
        committed: the last committed micro-batch.
    """
    published = None
    with contextlib.suppress(StateCorruption):
        published = half_published(common_part, committed)
    if published is not None:
        checkpoint = f"the checkpoint {str(pathlib.Path(common_part).parent)!r}"
        raise corrupt(checkpoint, f"the commit of micro-batch {published}, which was published, is missing")
