"""The first steps of a start on a checkpoint: check that its parts belong together, and compare it with the sinks.

A checkpoint that was restored from a copy is older than the output of the run. The run continues from the copy, under
new commit ids, so nothing is lost; but what the sinks received after the copy was made stays there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataflow_model.errors import LOG, CheckpointMismatch
from dataflow_model.runners.sharded.checkpoint.durable import corrupt
from dataflow_model.runners.sharded.outputs.commit_ids import commit_id, planned_in
from dataflow_model.runners.sharded.outputs.pending import fenced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflow_model.plan.logical.nodes import Read, Write
    from dataflow_model.runners.sharded.feed.offsets import Offset
    from dataflow_model.runners.sharded.tasks.program import Program


def check_progress(
    checkpoint: str, progress: Mapping[str, Any], latest: int | None, earliest: int | None = None
) -> None:
    """Raise unless the progress of a run and the host's record of its micro-batches belong together.

    Args:
        checkpoint: the checkpoint.
        progress: the progress in it.
        latest: the last micro-batch that the host has started; `None` if there is none.
        earliest: the last micro-batch that must have been published; `None` if there is none.

    Raises:
        StateCorruption: if one of them was lost, or restored from an older copy without the other.
    """
    published = progress.get("batch", -1)
    if (-1 if earliest is None else earliest) <= published <= (-1 if latest is None else latest):
        return
    number = "it contains no micro-batch" if latest is None else f"its last micro-batch is number {latest}"
    output = "nothing was published" if published < 0 else f"number {published} was published last"
    raise corrupt(
        f"the checkpoint {checkpoint!r}", f"{number}, but {output}: a part of it is missing or older than the rest"
    )


def check_ends(sources: Sequence[Read], offset: Offset, checkpoint: str) -> None:
    """Raise if a source without an end has been given one, or if one with an end has lost it after that.

    Args:
        sources: the sources of the pipeline.
        offset: how far the run has read them.
        checkpoint: the checkpoint, as the user has named it.

    Raises:
        CheckpointMismatch: for such a source, whose new rows would never be read.
    """
    for read in sources:
        if read.source.as_columns is None or read.label not in offset.begun:
            continue
        had_end = not offset.of_source(read.label).is_followed
        if read.source.is_bounded and not had_end:
            raise CheckpointMismatch(
                f"{read.label!r} had no end in the run in {checkpoint!r}, and has one now, so what it got "
                "in the meantime would not be read",
                hint="restore the source, such as follow=True; to end the run after the data that are there, use "
                "run(until='drained')",
            )
        if offset.last and had_end and not read.source.is_bounded:
            raise CheckpointMismatch(
                f"the input of the run in {checkpoint!r} is complete, so {read.label!r} cannot go on without an end",
                hint="pass a new directory as checkpoint=",
            )


def check_rows_held(sources: Sequence[Read], offset: Offset) -> None:
    """Raise `SourceError` if a source that holds its rows has others than those with which the run began.

    The slices of a source are checked where they are read; a run that has ended reads none.
    """
    for read in sources:
        source = read.source.as_columns
        if source is not None and source.holds_rows:
            for name, origin in offset.of_source(read.label).open.items():
                if origin.version is not None:
                    source.check_version(name, origin.version)


def claim_sinks(program: Program, checkpoint: str) -> None:
    """Prevent older starts of the run from writing to its sinks, and discard what they have left pending.

    A new run is rejected if it must not add its output to that of others, see `Sink.check_earlier`.
    A sink that contains commits of later micro-batches than the checkpoint is logged.

    Args:
        program: the program of this start.
        checkpoint: the checkpoint, as the user has named it.

    Raises:
        SinkError: for a new run whose output would be added to that of another one.
    """
    is_new = program.planned is None and not program.edition  # an upgraded run continues its own output
    for write in program.staged.sinks if is_new else ():
        write.sink.check_earlier(program.run_id)
    for write in program.staged.sinks:
        fenced(write.sink, program).claim()
        _compare(program, write, checkpoint)


def _compare(program: Program, write: Write, checkpoint: str) -> None:
    known = fenced(write.sink, program).commits_of(program.run_id)
    number, sequencer = (-1, 0) if program.planned is None else program.planned
    current = commit_id(program, number)
    for commit in known.pending:
        if commit != current and planned_in(program, commit) is not None:
            write.sink.abort(commit, ())
    planned = [(*(planned_in(program, commit) or (-1, 0)), commit) for commit in known.published]
    later = [commit for other, start, commit in planned if other > number and start >= sequencer]
    if later:
        LOG.warning(
            "the checkpoint %r ends with %s, but %r contains the output of later ones, up to commit %s: the checkpoint "
            "is an older copy. The run continues from it under new commit ids: what was read after the copy was made "
            "is read again, and its results are published again. Remove the output of the later commits if no row may "
            "appear twice.",
            checkpoint,
            "no micro-batch" if number < 0 else f"micro-batch {number}",
            write.label,
            max(later),
        )
