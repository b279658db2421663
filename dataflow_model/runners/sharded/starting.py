"""How a stream starts from its checkpoint, on any host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataflow_model.plan.rewrites.lifting import lifts
from dataflow_model.runners.sharded.checkpoint.durable import remove_incomplete, writing
from dataflow_model.runners.sharded.checkpoint.requests import request_until_drained
from dataflow_model.runners.sharded.checkpoint.sequencers import take_sequencer
from dataflow_model.runners.sharded.commits.columns import with_recorded_columns
from dataflow_model.runners.sharded.feed.inbox import with_inboxes
from dataflow_model.runners.sharded.tasks.bound import bound_plan
from dataflow_model.runners.sharded.tasks.program import Program
from dataflow_model.runners.sharded.upgrade.adopting import upgrade_command

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dataflow_model.plan.logical.nodes import SideInput
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.sharded.directory import Checkpoint
    from dataflow_model.values import Window


def request_end(checkpoint: Checkpoint, staged: StagedPlan, until: str | None) -> None:
    """Request that unbounded inputs end at their current position, or remove the request of an earlier start."""
    wanted = until == "drained" and any(not read.source.is_bounded for read in staged.sources)
    with writing(checkpoint.requests):
        request_until_drained(checkpoint.requests, wanted=wanted)


def stream_program(
    checkpoint: Checkpoint,
    staged: StagedPlan,
    side_values: Mapping[SideInput, Callable[[Window], Any]],
    shard_ids: Sequence[int],
    *,
    directory: str = "",
    weak: bool = False,
    max_state_memory: int | None = None,
) -> Program:
    """Return the program of a stream that starts now; it supersedes every earlier start on the checkpoint.

    Args:
        checkpoint: the checkpoint of the run.
        staged: its plan.
        side_values: the static side inputs.
        shard_ids: the ids of the shards.
        directory: the common part of the checkpoint, if the host may repeat a partly published micro-batch.
        weak: whether sinks that can publish before the micro-batch commits do so.
        max_state_memory: the bytes of memory for state by key, over all shards. With it, no grouping of a new run keeps
            its state in columns, which are always in memory.
    """
    upgrade = f"stop the run, carry its state over, and start with it:\n  {upgrade_command(str(checkpoint.path))}"
    staged = with_recorded_columns(bound_plan(staged), checkpoint.common_part, upgrade)
    staged = with_inboxes(staged, checkpoint.common_part)
    could_be_lifted = {} if max_state_memory is not None else lifts(staged, streaming=True)
    lifted, folded = checkpoint.feeding(staged, could_be_lifted)
    program = Program(
        staged,
        side_values,
        tuple(shard_ids),
        checkpoint.run_id,
        lifts=lifted,
        sequencer=take_sequencer(checkpoint.common_part),
        directory=directory,
        common=checkpoint.common_part,
        weak=weak,
        edition=checkpoint.record.edition,
        marks=checkpoint.record.marks,
        folded=folded,
        seed=checkpoint.seed,
        max_state_memory=max_state_memory,
    )
    remove_incomplete(checkpoint.common_part)  # an earlier start that is alive after all may not write any more
    return program
