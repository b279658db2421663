"""The checkpoint directory: Spark's own part, and ours beside it."""

from __future__ import annotations

import json
import pathlib
import uuid
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import CheckpointMismatch, SinkError, explain
from dataflow_model.plan.fingerprint import differences, fingerprint

if TYPE_CHECKING:
    from dataflow_model.plan.graph import Plan

__all__ = ["Checkpoint"]

_NOT_OURS: Final = ("spark", "offsets", "commits", "metadata", "state")
"""What a checkpoint of Spark has in it; without our own part beside it, it is another query's."""


@attrs.define
class Checkpoint:
    """One run's durable place.

    Attributes:
        path: the directory; `spark/` in it is Spark's, `dataflow/` ours.
        run_id: names the run's commits.
        shards: how many shards own the state; fixed when the run begins.
    """

    path: pathlib.Path
    run_id: str = ""
    shards: int = 0

    @property
    def spark(self) -> str:
        """Spark's part."""
        return str(self.path / "spark")

    @property
    def ours(self) -> str:
        """Our part."""
        return str(self.path / "dataflow")

    @property
    def requests(self) -> pathlib.Path:
        """Where `drain` leaves its request."""
        return self.path / "dataflow" / "requests"

    @classmethod
    def open(cls, path: str, plan: Plan, shards: int) -> Checkpoint:
        """Open the checkpoint of a run that goes on, or make one for a new run.

        Raises:
            CheckpointMismatch: if another pipeline made it, or the run was drained.
            SinkError: if the directory cannot be written.
        """
        checkpoint = cls(pathlib.Path(path).absolute(), uuid.uuid4().hex[:12], shards)
        known = pathlib.Path(checkpoint.ours, "run.json")
        if not known.exists():
            if any((checkpoint.path / name).exists() for name in _NOT_OURS):
                raise CheckpointMismatch(
                    explain(
                        f"{path!r} holds a checkpoint that is not of a dataflow_model run",
                        hint="give a directory of its own as checkpoint=",
                    )
                )
            try:
                checkpoint.requests.mkdir(parents=True, exist_ok=True)
                run = {"run_id": checkpoint.run_id, "shards": shards, "fingerprint": fingerprint(plan)}
                fresh = known.with_name("_run.json")  # a run that is killed here has not begun
                fresh.write_text(json.dumps(run, indent=1))
                fresh.replace(known)
            except OSError as error:
                raise SinkError(
                    explain(
                        f"the checkpoint directory {path!r} cannot be written: {error}",
                        hint="give another as checkpoint=",
                    )
                ) from error
            return checkpoint
        try:
            run = json.loads(known.read_text())
        except (OSError, ValueError) as error:
            raise CheckpointMismatch(
                explain(
                    f"{str(known)!r} cannot be read: {error}",
                    hint="restore it from a copy, or give a new directory as checkpoint=",
                )
            ) from error
        _check(path, run, plan, drained=(checkpoint.requests / "drained").exists())
        checkpoint.run_id, checkpoint.shards = run["run_id"], run["shards"]
        return checkpoint


def _check(path: str, run: dict[str, Any], plan: Plan, *, drained: bool) -> None:
    changed = differences(run["fingerprint"], fingerprint(plan))
    if changed:
        raise CheckpointMismatch(
            explain(
                f"the checkpoint {path!r} was made by another pipeline:\n  " + "\n  ".join(changed),
                hint="give a new directory as checkpoint=, or restore the pipeline as it was",
            )
        )
    if drained:
        raise CheckpointMismatch(
            explain(
                f"the run in {path!r} was drained: its windows are closed for good",
                hint="give a new directory as checkpoint=",
            )
        )
